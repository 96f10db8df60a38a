/*
 * assertion.h - invariants of our own code, written in words where the state changes:
 *
 * PEN_ASSERT(condition, "the invariant"). It is on in every build, with or without NDEBUG: a program whose state is
 * wrong prints the sentence and ends, and its supervisor starts it again. An expensive check is a PEN_ASSERT_SLOW,
 * which is on only where PENSTOCK_CHECKS is defined (builds with sanitizers, for fuzzing, for debugging). Bad input is
 * never an assertion: it is a status with a text.
 * Threads: any.
 */
#ifndef ASSERTION_H
#define ASSERTION_H

/* Writes file, line, condition and sentence in one line to stderr, or passes them to the function that
   assertion_teller_set set; then aborts. */
_Noreturn void assertion_failed(const char *file, int line, const char *condition, const char *sentence);

/* Sets the function that writes the line in the log's form (log_setup). Call it before there are other threads;
   NULL: a plain line on stderr. */
void assertion_teller_set(void (*tell)(const char *file, int line, const char *condition, const char *sentence));

#define PEN_ASSERT(condition, sentence)                                                                                \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0))                                                                         \
            assertion_failed(__FILE__, __LINE__, #condition, sentence);                                                \
    } while (0)

#ifdef PENSTOCK_CHECKS
#define PEN_ASSERT_SLOW(condition, sentence) PEN_ASSERT(condition, sentence)
#else
#define PEN_ASSERT_SLOW(condition, sentence)                                                                           \
    do {                                                                                                               \
        if (0) /* compiled, so that the functions in it count as used, but never run */                                \
            (void)(condition);                                                                                         \
    } while (0)
#endif

#endif
