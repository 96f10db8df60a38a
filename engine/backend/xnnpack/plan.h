/*
 * plan.h - the backend's three objects: backend (thread pools), plan (packed weights of a partition), exec (steps and memory for one shape bucket).
 *
 * Own kernels pack weights once per plan and share them; XNNPACK's operators own their packed weights and are not re-entrant, so each exec has its own.
 * Threads: as backend.h says.
 */
#ifndef XNNPACK_PLAN_H
#define XNNPACK_PLAN_H

#include <pthread.h>

#include "backend/xnnpack/emit.h"
#include "backend/xnnpack/fusion.h"

#define POOLS_MAX 64

struct backend {
    struct backend_config config;
    bool joins, tiles; /* its options of these names */
    uint64_t measure_ns;
    pthread_mutex_t lock; /* guards the two below */
    struct team *idle[POOLS_MAX];
    uint32_t idle_count;
};

struct packed_node {
    uint32_t node;
    void *data; /* NULL = nothing shared */
};

struct plan {
    struct backend *backend;
    const struct graph *g;
    struct partition part;      /* own copy; lists are one allocation with the plan */
    struct packed_node *packed; /* [part.node_count] */
    struct fusion_plan fusions;
    uint64_t bytes;
};

/* plan.c */
enum pen_status xnn_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                             struct plan **ret_plan, struct pen_error *reterr);
void xnn_plan_free(struct plan *plan);
uint64_t xnn_plan_bytes(const struct plan *plan);
uint64_t xnn_plan_copied(const struct plan *plan, uint32_t index);

/* exec.c */
enum pen_status xnn_exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                             struct pen_error *reterr);
void xnn_exec_free(struct exec *exec);
uint64_t xnn_exec_bytes(const struct exec *exec);
enum pen_status xnn_exec_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                const struct cancel *cancel, struct pen_error *reterr);
enum pen_status xnn_exec_wait(struct exec *exec, struct pen_error *reterr);
void xnn_exec_times(const struct exec *exec, void (*say)(void *context, uint32_t index, uint64_t ns), void *context);

void xnn_exec_kernels(const struct exec *exec,
                      void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context);

/* counted.c: what XNNPACK allocates and frees on this thread is added to *bytes; NULL = to nobody's. The allocator that does so, for xnn_initialize. */
struct xnn_allocator;
void xnn_charge(int64_t *bytes);
const struct xnn_allocator *xnn_counted(void);

/* pools.c: a slot that runs takes a team of threads and puts it back, so that there are as many as slots that run at once, however many buckets they have. */
enum pen_status pool_take(
    struct backend *b, struct team **ret_team); /* NULL when the backend has one thread, or the caller is to be alone */
void pool_put(struct backend *b, struct team *team);

/* selftest.c: a convolution, a matrix product and a soft-max against plain C. *ret_error = largest |difference|. */
enum pen_status selftest_f32(double *ret_error, struct pen_error *reterr);
/* Products of bf16 by the processor's instruction, where it has it and `most` allows it. */
enum pen_status selftest_bf16(enum pen_isa most, double *ret_error, struct pen_error *reterr);
enum pen_status selftest_int8(struct pen_error *reterr); /* after isa_claim: of the kernels in use */

#endif
