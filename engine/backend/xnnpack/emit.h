/*
 * emit.h - how an operator becomes a step: one emitter per family says what it takes, packs weights once per model and builds a step per shape.
 *
 * The life of a node: supports (pure) -> pack (plan_new; shared by every exec) -> build (exec_new: shapes are concrete) -> bind (pointers changed) -> run.
 * Threads: pack and build one-at-a-time; steps of one exec one-at-a-time.
 */
#ifndef XNNPACK_EMIT_H
#define XNNPACK_EMIT_H

#include <stddef.h>

#include "backend/backend.h"
#include "backend/xnnpack/team.h"

/* What a step sees while it runs. */
struct run {
    struct team *team; /* NULL = one thread */
    struct pen_error *error;
};

struct rivals;

/* One prepared operator, perhaps with element-wise ones behind it (join.h). Pointers are resolved before bind and run. */
struct step {
    const struct node *n;
    void **in;  /* [in_count]; NULL = omitted; then what the nodes behind it read besides */
    void **out; /* [out_count]; NULL = nobody wants it (such an output has scratch memory all the same) */
    size_t *
        in_row; /* [in_count] elements from one row (of the last dim) to the next; more than its length only where build allowed it */
    size_t out_row; /* of output 0 */
    void *state;    /* the emitter's, from build_alloc */
    void *scratch;  /* scratch_bytes shared by all steps of the exec, 64-byte aligned */
    size_t scratch_bytes;
    uint32_t index; /* of the node in its partition */
    const char *kernel,
        *why;              /* what runs it, and why that; NULL = the family's one loop. Constant texts, set by build */
    uint64_t ns;           /* of the last run, when it is profiled */
    struct rivals *rivals; /* kernels among which choose.h chooses; NULL = one */
    enum pen_status (*bind)(struct step *s, struct run *r); /* NULL = nothing to do when pointers change */
    enum pen_status (*run)(struct step *s, struct run *r);
    void (*fini)(struct step *s); /* frees what build_alloc did not give; NULL = nothing */
};

/* Where an input lies in the output that it becomes a part of, or an output in the input that it is a part of. */
struct memory_part {
    size_t offset; /* bytes */
    bool rows;     /* a piece of each row of the whole, which is the last dim; false: one piece of memory */
};

struct chain;
struct fusion;

/* A node while its exec is made. */
struct build {
    const struct graph *g;
    const struct shape_env *env;
    const struct node *n;
    const void *packed; /* what pack gave */
    const struct chain *
        chain; /* element-wise nodes that the step runs, too: its operands are the inputs behind the node's own; NULL = none */
    const struct fusion *fusion; /* whose node n is; NULL: n is the graph's own */
    struct exec *exec;
    struct step *step;
    bool view; /* set by build: output 0 is the bytes of input 0; run copies them when they cannot share memory */
    uint32_t inplace; /* set by build: bit i: output 0 may overwrite input i */
    bool exclusive;   /* set by build: only when no other input lies in that memory */
    uint32_t rows_in; /* set by build: bit i: the rows of input i may be further apart than they are long */
    bool rows_out;    /* set by build: those of output 0 may */
    const struct memory_part *
        parts; /* set by build: all inputs are parts of output 0; or, with in_parts, all outputs of input 0. NULL = none are */
    bool in_parts;
    struct pen_error *reterr;
};

const struct fact *build_in(const struct build *b, uint32_t index);  /* NULL when omitted */
const struct fact *build_out(const struct build *b, uint32_t index); /* NULL when omitted */
void *build_alloc(struct build *b, size_t bytes); /* zeroed, lives as long as the exec; NULL without memory */
uint32_t build_threads(const struct build *b);    /* that a run may use */
const struct backend_config *build_config(const struct build *b);
bool build_tiles(const struct build *b); /* 3 x 3 convolutions may run as products over turned tiles */
enum pen_status build_fail(struct build *b, enum pen_status status, const char *what);

struct emitter {
    /* Only asked for nodes whose inputs and outputs are tensors of known rank and dtype. */
    bool (*supports)(const struct graph *g, const struct node *n, const char **ret_reason);
    /* May be NULL. Gives *ret_packed (freed with free()), NULL when there is nothing to share. */
    enum pen_status (*pack)(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                            struct pen_error *reterr);
    enum pen_status (*build)(struct build *b);
};

const struct emitter *emitter_find(enum op op); /* NULL when this backend has none */
/* Whether a node's step runs element-wise nodes behind it, whose operands are as large as its result or one number. Such a step's build finds them in b->chain. */
struct joiner {
    bool (*joins)(const struct graph *g, const struct node *n);
};
const struct joiner *emitter_joiner(enum op op); /* NULL: never */
/* The one for an engine of precision bf16: its pack rounds constant weights. */
const struct emitter *emitter_find_for(enum op op, enum pen_precision precision);
/* Bit i: what the emitter's pack gave holds all of the constant input i, so that neither build nor run reads it: its memory goes back after load. */
uint32_t emitter_copied(enum op op);

/* Memory for what pack gives: 64-byte aligned, in large pages where it is large; free() it. NULL without memory. */
void *packed_alloc(size_t bytes);

/* ---- for supports ---- */
bool refuse(const char **ret_reason, const char *reason);                      /* false */
bool all_f32(const struct graph *g, const struct node *n);                     /* every input and output given */
bool in_constant(const struct graph *g, const struct node *n, uint32_t index); /* present and with data */
bool dims_known(const struct value *v, int32_t from, int32_t to);              /* dims [from, to) of a known rank */
bool dtype_is(const struct value *v, enum pen_dtype dtype);                    /* false when NULL */

/* ---- parallel loops: fixed units of work, so that results do not depend on the number of threads ---- */
void parallel(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units);
/* For loops that are short beside a time slice: team_run_short(). */
void parallel_short(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units);
/* Either, for products with so many multiplications in all. */
void parallel_macs(struct run *r, void (*task)(void *context, size_t unit), void *context, size_t units, size_t macs);
#define CHUNK 16384 /* elements of one unit of an element-wise loop: 64 KiB of floats, in L2 beside its output */

#endif
