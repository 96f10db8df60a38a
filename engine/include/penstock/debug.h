/*
 * penstock/debug.h - debug mode: what each operator of the last run did, what is wrong with its numbers, and how far it is from the reference.
 *
 * An engine that debugs (pen_engine_options.debug) lets every value leave its partition: nothing is fused across nodes, each node runs on the reference, too,
 * and times are taken node by node. Answers are those of the same kernels; runs are many times slower.
 * Threads: as the session.
 */
#ifndef PENSTOCK_DEBUG_H
#define PENSTOCK_DEBUG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

enum pen_compared {
    PEN_COMPARED_NOT,    /* `note` says why */
    PEN_COMPARED_WITHIN, /* the tolerance of one operator in the precision (engine/README.md) */
    PEN_COMPARED_BEYOND
};

struct pen_debug_row {
    const char *node, *op, *backend;
    const char *kernel; /* "own gemm over patches, avx512f" */
    const char *shapes; /* "1x224x224x3, 32x3x3x3 -> 1x112x112x32" */
    uint64_t bytes;     /* of inputs and outputs */
    uint64_t ns;        /* 0 = the backend has no time of its own for it (a view, a node joined with another) */
    /* Elements of its floating outputs. beyond_f16: finite, above 65504 in size. */
    uint64_t nan, infinite, beyond_f16;
    const char *output; /* the first output with such an element, NULL = none; NaN and infinity before beyond_f16 */
    int64_t index;      /* the first such element of it */
    double value;
    enum pen_compared compared;
    const char *note;         /* why it was not compared; "" otherwise */
    double largest;           /* largest |difference| from the reference, which had the same inputs */
    const char *deviating;    /* BEYOND: the output; NULL otherwise */
    int64_t deviating_index;  /* its first element beyond the tolerance */
    double got, expected;     /* there */
    uint64_t deviating_count; /* elements of it beyond */
};

struct pen_session;
/* Of the last run, also of one that failed on its way, in the order of execution; subgraphs as often as they ran. At most 20,000: *ret_lost came after them.
 * Borrowed until the next run. None where the engine does not debug. */
const struct pen_debug_row *pen_session_debug_rows(const struct pen_session *session, size_t *ret_count,
                                                   uint64_t *ret_lost);
/*
 * The same for people: a line per row, and behind them the first NaN or infinity, the first value beyond f16 and the first deviation, by name. Writes at most
 * `bytes` with the NUL (rows are left out, and said to be, before the sentences are); gives the bytes without it.
 */
size_t pen_session_debug_text(const struct pen_session *session, char *text, size_t bytes);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
