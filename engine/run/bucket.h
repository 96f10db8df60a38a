/*
 * bucket.h - everything one session keeps for one set of input shapes: inferred shapes, one arena for values between steps, an exec per step.
 *
 * Threads: one-at-a-time.
 */
#ifndef BUCKET_H
#define BUCKET_H

#include "run/program.h"
#include "backend/reference/kernel.h"

struct bucket_step {
    const struct placed *placed;
    struct exec *exec; /* NULL: the executor runs the step's nodes one by one */
    struct buffer_view *in, *out;
    uint32_t needed; /* the first later step that reads what it makes; beyond the last: none does */
    bool on_way;     /* during a run: its device computes */
};

struct bucket {
    const struct program *program;
    uint64_t used;           /* tick of the last use */
    struct shape *in_shapes; /* [input_count] the key */
    struct shape_env *env;
    struct rt_value *values; /* [value_count] planned memory, constants, folded data; the rest is set while running */
    bool *planned;           /* [value_count] data is the bucket's own: stays between runs */
    void *arena;
    size_t arena_bytes;
    uint64_t boundary_bytes;   /* of it, what inputs and outputs take */
    struct bucket_step *steps; /* [step_count of the placement]; NULL when interpretive */
    bool interpretive;         /* shapes are not resolvable even now: every node runs on its own */
    uint32_t window;           /* runs that may have begun before the first is finished: runner_begin */
    uint32_t busy;             /* runs of it on their way: it stays */
    uint64_t booked;           /* bytes of it in the session's ledger */
};

/* PEN_ERR_TOO_LARGE with allowance->taken above its limit: it needs at least so much. PEN_ERR_SHAPE and the like name the node that does not fit these shapes. */
enum pen_status bucket_new(const struct program *program, const struct shape *in_shapes, struct allowance *allowance,
                           struct bucket **ret_bucket, struct pen_error *reterr);
void bucket_free(struct bucket *b); /* NULL is fine */
bool bucket_fits(const struct bucket *b, const struct shape *in_shapes);
uint64_t bucket_bytes(
    const struct bucket *b); /* arenas, execs with device memory, folded data; after a run perhaps more than before */

#endif
