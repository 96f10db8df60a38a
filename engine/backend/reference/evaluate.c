#include "backend/reference/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "backend/reference/kernel.h"
#include "graph/evaluator.h"

/* Kernels see the first member. */
struct evaluation_memory {
    struct rt_memory base;
    struct evaluation *e;
};

static void *memory_take(struct rt_memory *m, size_t bytes)
{
    struct evaluation_memory *memory = (struct evaluation_memory *)(void *)m;
    return memory->e->alloc(memory->e, bytes);
}

struct value_lists {
    struct rt_value *in, *out;
    bool *wanted;
};

static bool lists_make(const struct evaluation *e, struct value_lists *l)
{
    size_t count = (size_t)e->n->in_count + e->n->out_count + 1;
    l->in = calloc(count, sizeof *l->in);
    l->wanted = calloc(count, sizeof *l->wanted);
    l->out = l->in ? l->in + e->n->in_count : NULL;
    for (uint32_t k = 0; l->in && l->wanted && k < e->n->in_count; k++) {
        const struct fact *f = &e->in[k];
        void *data;
        memcpy(&data, &f->data, sizeof data); /* kernels do not write to inputs */
        if (e->n->in[k] != VALUE_NONE)
            l->in[k] = (struct rt_value){.dtype = f->dtype, .shape = f->shape, .data = data, .bytes = f->bytes};
    }
    for (uint32_t k = 0; l->in && l->wanted && k < e->n->out_count; k++)
        l->wanted[k] = e->n->out[k] != VALUE_NONE;
    return l->in && l->wanted;
}

static void results_give(const struct value_lists *l, struct evaluation *e)
{
    for (uint32_t k = 0; k < e->n->out_count; k++) {
        const struct rt_value *v = &l->out[k];
        if (l->wanted[k] && v->kind == VALUE_TENSOR)
            e->out[k] = (struct fact){.dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
    }
}

static enum pen_status evaluate(struct evaluation *e)
{
    struct evaluation_memory memory = {.base = {memory_take}, .e = e};
    struct value_lists l = {0};
    struct pen_error ignored = {0};
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (lists_make(e, &l)) {
        struct kernel_call k = {.g = e->g,
                                .n = e->n,
                                .in = l.in,
                                .out = l.out,
                                .wanted = l.wanted,
                                .memory = &memory.base,
                                .error = &ignored};
        status = kernel_run_node(&k);
    }
    if (status == PEN_OK)
        results_give(&l, e);
    free(l.in);
    free(l.wanted);
    return status;
}

static bool has(enum op op)
{
    return kernel_find(op) != NULL;
}

void reference_evaluator_register(void)
{
    static const struct evaluator table = {.has = has, .supports = kernel_supports, .run = evaluate};
    evaluator_register(&table);
}
