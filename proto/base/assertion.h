/*
 * assertion.h - invariants of our own code, said in words where the state changes: PEN_ASSERT(condition, "the invariant").
 *
 * It is on in every build, NDEBUG or not: a program whose state is wrong ends with its sentence, and its supervisor starts it again, rather than going on
 * wrong. What is dear to check is PEN_ASSERT_SLOW: on where PENSTOCK_CHECKS is defined (builds with sanitizers, for fuzzing, for debugging). Bad input is
 * never an assertion: it is a status with a text.
 * Threads: any.
 */
#ifndef ASSERTION_H
#define ASSERTION_H

/* Writes where, condition and sentence, in one line, to stderr or to whom assertion_teller_set names, and aborts. */
_Noreturn void assertion_failed(const char *file, int line, const char *condition, const char *sentence);

/* Who writes the line in the log's form (log_setup). Set before there are other threads; NULL: a plain line on stderr. */
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
        if (0) /* compiled, so that what it calls is of use; never run */                                              \
            (void)(condition);                                                                                         \
    } while (0)
#endif

#endif
