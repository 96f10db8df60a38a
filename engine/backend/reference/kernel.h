/*
 * kernel.h - one plain C kernel per operator: the truth every other backend is compared with. Accumulates in double (or int64), reads top to bottom.
 *
 * The same kernels fold constants during inference (evaluate.h), run nodes whose shapes depend on data in the executor, and are the `reference` backend.
 * Threads: any; a call touches only its kernel_call.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "graph/graph.h"
#include "graph/infer.h"

struct cancel;

/* A run-time value. Tensors: dtype, shape, data. Sequences and optionals: items. Strings: data is struct string_view[]. */
struct rt_value {
    enum value_kind kind;
    enum pen_dtype dtype; /* NONE = omitted input, or an empty optional */
    struct shape shape;   /* always known for tensors */
    void *data;
    size_t bytes;
    struct rt_value *items; /* SEQUENCE: item_count tensors; OPTIONAL: 0 or 1 */
    uint32_t item_count;
};

/* Where run-time allocations of one run come from: capped, freed as a whole (or the caller's planned memory). */
struct rt_memory {
    void *(*alloc)(struct rt_memory *m, size_t bytes); /* 64-byte aligned, padded; NULL when the cap is reached */
};

struct kernel_call {
    const struct graph *g;
    const struct node *n;
    const struct rt_value *in; /* [n->in_count] */
    struct rt_value *out;      /* [n->out_count]; an output not wanted has wanted[i] false */
    const bool *wanted;
    struct rt_memory *memory;    /* outputs without memory of their own, and scratch */
    const struct cancel *cancel; /* long kernels look now and then; may be NULL */
    struct pen_error *error;     /* may be NULL */
};

/*
 * Declares output `index`: uses the planned buffer when out[index].data is set (PEN_ERR_INTERNAL when the shape or dtype differs from the plan), else allocates.
 * Sub-byte types are packed as in dtype.h.
 */
enum pen_status kernel_output(struct kernel_call *k, uint32_t index, enum pen_dtype dtype, const struct shape *shape);
void *kernel_scratch(struct kernel_call *k, size_t bytes);
enum pen_status kernel_fail(struct kernel_call *k, enum pen_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef enum pen_status (*kernel_fn)(struct kernel_call *k);

/* kernel_table.c, generated from op.def and the -DPENSTOCK_KERNELS list: NULL when the operator has no kernel in this build. */
kernel_fn kernel_find(enum op op);
/* False with a phrase when this kernel does not take the node's dtypes or attributes (as far as known). */
bool kernel_supports(const struct graph *g, const struct node *n, const char **ret_reason);

/* Infers the node's outputs from actual inputs, then runs its kernel: for folding and for the executor. Fills k->out. */
enum pen_status kernel_run_node(struct kernel_call *k);

#endif
