/*
 * words.h - words for sentences that programs print: plurals, articles, and the known word nearest to a mistyped one.
 *
 * Threads: any.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

/* The noun behind a number: "1 job", "0 jobs", "2 jobs". Returns one of its arguments. */
const char *words_plural(uint64_t count, const char *one, const char *many);

/* The article before a noun, by its first letter: "an input", "a model". */
const char *words_article(const char *noun);

/* The text, or "-" when it is empty, for places that must not be empty. */
const char *words_or_dash(const char *text);

#define NEAREST_BYTES_MAX 64u /* longer words get no suggestion */

/* Looks for the known word that is nearest to the one that was written. All words are borrowed. */
struct nearest {
    const char *word; /* as written; not NUL-terminated */
    size_t bytes;
    const char *found; /* the nearest so far; NULL: none is near */
    unsigned limit;    /* a better word must need fewer edits than this */
};

/* Inserting, dropping or changing a letter, or swapping two neighbours, is one edit. Fewer than half of the letters
   may differ; in short words one or two. */
void nearest_begin(struct nearest *nearest, const char *word, size_t bytes);

/* As nearest_begin, with at most `edits` edits. */
void nearest_begin_strict(struct nearest *nearest, const char *word, size_t bytes, unsigned edits);

/* Offers a known word. Among equally near words the first one stays. */
void nearest_offer(struct nearest *nearest, const char *known);

/* As nearest_offer; a beginning of the known word counts as one edit ("quar" for "quarantine"). */
void nearest_offer_begun(struct nearest *nearest, const char *known);

#endif
