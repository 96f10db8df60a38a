/*
 * sample.h - one operator with inputs and attributes, written as a line of text: what the cross-backend test runs and OPS.md is made from.
 *
 *     "T[2,4,9,9] T[6,4,3,3]c i64[2]=1,2 -"      inputs: T is the dtype under test; c = constant; =... constant with these values; @0:1 range; - omitted
 *     "T[5,3] forest"                            a constant of two small trees (graph/forest.h)
 *     "kernel_shape=[3,3] axis=1 alpha=0.5 mode=linear"   attributes: INTS, FLOATS, INT, FLOAT (have points), TEXT
 *
 * Values are drawn from a seeded generator, the same on every host.
 * Threads: one-at-a-time.
 */
#ifndef OPS_SAMPLE_H
#define OPS_SAMPLE_H

#include "backend/backend.h"
#include "backend/reference/kernel.h"

#define SAMPLE_VALUES_MAX 12
#define SAMPLE_BLOCKS_MAX 256

struct sample_row {
    enum op op;
    uint32_t outputs;
    const char *inputs, *attrs;
};

struct sample {
    struct rt_memory memory; /* first: its function finds the sample */
    struct graph *g;
    uint32_t node, in_count, out_count;
    uint32_t in[SAMPLE_VALUES_MAX], out[SAMPLE_VALUES_MAX];
    struct rt_value values[SAMPLE_VALUES_MAX]; /* of inputs; dtype NONE = omitted */
    struct rt_value want[SAMPLE_VALUES_MAX];   /* the reference's answers */
    void *blocks[SAMPLE_BLOCKS_MAX];
    size_t block_count;
};

/* All rows: those of samples.def, and element-wise ones for operators with the traits UNARY and BINARY. Never NULL; ends with OP_NONE. */
const struct sample_row *sample_rows(void);

/* A graph of one node for this dtype. NULL when the dtype has no sense here (a sentence in *reterr) or without memory. */
struct sample *sample_new(const struct sample_row *row, enum pen_dtype dtype, struct pen_error *reterr);
void sample_free(struct sample *s); /* NULL is fine */
/* Runs the reference's kernel; output types and shapes go into the graph. */
enum pen_status sample_reference(struct sample *s, struct pen_error *reterr);
/* Runs the node on a backend: *ret_out has the sample's memory. */
enum pen_status sample_run(struct sample *s, const struct backend_ops *ops, struct backend *backend,
                           struct rt_value *ret_out, struct pen_error *reterr);
void *sample_alloc(struct sample *s, size_t bytes); /* padded and filled with 0xA5; ends the program without memory */

#endif
