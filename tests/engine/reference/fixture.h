/*
 * fixture.h - one node with its inputs, run on the reference kernel: what the tests of kernels are written in.
 *
 * Threads: one-at-a-time.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "backend/reference/element_io.h"
#include "backend/reference/kernel.h"
#include "backend/reference/scratch.h"

#define FIXTURE_INPUTS 8

struct fixture {
    struct graph *g;
    uint32_t node;
    struct rt_value in[FIXTURE_INPUTS], out[FIXTURE_INPUTS];
    uint32_t in_count, out_count;
    struct scratch scratch;
    struct pen_error error;
};

void fixture_init(struct fixture *f, enum op op, uint32_t out_count);
void fixture_fini(struct fixture *f);
/* Adds the next input; items are converted to dtype. rank 0: a scalar. */
void fixture_in(struct fixture *f, enum pen_dtype dtype, const double *items, int32_t rank, const int64_t *dims);
void fixture_none(struct fixture *f); /* an omitted input */
void fixture_node(struct fixture *f); /* after the inputs, before attributes */
enum pen_status fixture_run(struct fixture *f);
double fixture_at(const struct fixture *f, uint32_t output, int64_t index);
/* Asserts shape and values of an output. */
void fixture_expect(const struct fixture *f, uint32_t output, int32_t rank, const int64_t *dims, const double *items,
                    double tolerance);

#define DIMS(...)                                                                                                      \
    (const int64_t[])                                                                                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define ITEMS(...)                                                                                                     \
    (const double[])                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

#endif
