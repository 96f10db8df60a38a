/*
 * pattern.h - regular expressions as models have them (Perl's, as RE2 reads them) in the form that regcomp takes.
 *
 * Threads: any.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include "graph/graph.h"

/* Perl-like to POSIX extended: \d, classes inside brackets, (?:...). whole: the text as a whole must match. False for what has no such form, or no room. */
bool pattern_translate(const struct string_view *pattern, bool whole, char *to, size_t room);

#endif
