/*
 * sample_text.h - the parts of a line in Prometheus' text.
 *
 * Threads: any (no state).
 */
#ifndef TEST_SAMPLE_TEXT_H
#define TEST_SAMPLE_TEXT_H

#include <stddef.h>

size_t sample_name_of(const char *line); /* bytes of the name at the line's start */
/* Behind {name="value",...}; the same place where there are no labels; NULL: they have another form. */
const char *sample_behind_labels(const char *at);

#endif
