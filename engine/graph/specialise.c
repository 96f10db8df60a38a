#include "graph/specialise.h"

#include <stdlib.h>

#include "graph/annotate.h"
#include "graph/pass_internal.h"

/* Per value: */
enum {
    SMALL = 1,  /* known, or computed from small graph inputs alone */
    WANTED = 2, /* a shape follows from its contents */
    AFTER = 4   /* depends on an input that decides */
};

static bool is_small_input(const struct value *v)
{
    int64_t elements = shape_elements(&v->shape);
    bool number = v->kind == VALUE_TENSOR && v->dtype != PEN_DTYPE_STRING && v->dtype != PEN_DTYPE_NONE;
    bool fits = elements >= 0 ? elements <= SPECIALISE_ELEMENTS : v->shape.rank <= 1;
    bool real = v->dtype == PEN_DTYPE_F32 || v->dtype == PEN_DTYPE_F64 || v->dtype == PEN_DTYPE_F16 ||
                v->dtype == PEN_DTYPE_BF16;
    return number && fits && (!real || (v->shape.rank >= 0 && v->shape.rank <= 1));
}

/* An output of a rank that is not known before the shapes of inputs are. */
static bool rank_open(const struct graph *g, const struct node *n)
{
    for (uint32_t k = 0; k < n->out_count; k++) {
        const struct value *v = node_out(g, n, k);
        if (v && v->kind == VALUE_TENSOR && v->shape.rank < 0)
            return true;
    }
    return false;
}

bool specialise_possible(const struct graph *g)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (is_small_input(&g->values[g->inputs[i]]))
            return true;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const enum op op = g->nodes[i].op;
        if (!g->nodes[i].dead && (op == OP_If || op == OP_Loop || rank_open(g, &g->nodes[i])))
            return true;
    }
    return false;
}

static bool can_fold(const struct node *n)
{
    return !(op_def(n->op)->traits & (OP_RANDOM | OP_STATEFUL | OP_CONTROL | OP_SEQUENCE));
}

/* Forward: what small inputs alone decide. */
static void mark_small(const struct graph *g, const struct shape_env *env, uint8_t *marks)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (is_small_input(&g->values[g->inputs[i]]))
            marks[g->inputs[i]] |= SMALL;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        bool small = !n->dead && can_fold(n);
        for (uint32_t k = 0; small && k < n->in_count; k++)
            small = n->in[k] == VALUE_NONE || env->facts[n->in[k]].data || (marks[n->in[k]] & SMALL);
        for (uint32_t k = 0; small && k < n->out_count; k++) {
            if (n->out[k] != VALUE_NONE)
                marks[n->out[k]] |= SMALL;
        }
    }
}

/* Backward: what a rule asked for, and what that is computed from. */
static void mark_wanted(const struct graph *g, const struct shape_env *env, uint8_t *marks)
{
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (env->facts[v].asked && (marks[v] & SMALL))
            marks[v] |= WANTED;
    }
    for (uint32_t i = g->node_count; i-- > 0;) {
        const struct node *n = &g->nodes[i];
        bool wanted = false;
        for (uint32_t k = 0; !n->dead && k < n->out_count; k++)
            wanted = wanted || (n->out[k] != VALUE_NONE && (marks[n->out[k]] & WANTED));
        for (uint32_t k = 0; wanted && k < n->in_count; k++) {
            if (n->in[k] != VALUE_NONE && !env->facts[n->in[k]].data)
                marks[n->in[k]] |= WANTED;
        }
    }
}

/* An If, the turns of a Loop, or an output's rank, that these shapes settle. */
static bool settled_by_shapes(const struct graph *g, const struct shape_env *env, const struct node *n)
{
    if (n->op == OP_If)
        return !g->values[n->in[0]].data && env->facts[n->in[0]].data;
    if (n->op == OP_Loop)
        return unroll_turns(g, n, env->facts) > 0;
    for (uint32_t k = 0; k < n->out_count; k++) {
        const struct value *v = node_out(g, n, k);
        if (v && v->kind == VALUE_TENSOR && v->shape.rank < 0 && env->facts[n->out[k]].shape.rank >= 0)
            return true;
    }
    return false;
}

/* Their outputs count as after: the nodes behind them wait. */
static bool mark_settled(const struct graph *g, const struct shape_env *env, uint8_t *marks, bool *ret_node)
{
    bool any = false;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const struct value *v = &g->values[g->inputs[i]];
        if (v->kind == VALUE_TENSOR && v->shape.rank < 0 && v->dtype != PEN_DTYPE_STRING) {
            marks[g->inputs[i]] |= AFTER;
            any = true;
        }
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        if (n->dead || !settled_by_shapes(g, env, n))
            continue;
        any = true;
        ret_node[i] = true;
        for (uint32_t k = 0; k < n->out_count; k++) {
            if (n->out[k] != VALUE_NONE)
                marks[n->out[k]] |= AFTER;
        }
    }
    return any;
}

static bool output_unknown(const struct shape_env *env, const struct node *n)
{
    for (uint32_t k = 0; k < n->out_count; k++) {
        const struct fact *f = n->out[k] == VALUE_NONE ? NULL : &env->facts[n->out[k]];
        if (f && f->kind == VALUE_TENSOR && !shape_known(&f->shape))
            return true;
    }
    return false;
}

/* Nodes after the inputs that decide; false when the shapes of all of them are known anyhow. */
static bool mark_after(const struct graph *g, const struct shape_env *env, uint8_t *marks, bool *ret_node)
{
    bool unknown = false;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        bool after = false;
        for (uint32_t k = 0; !n->dead && k < n->in_count; k++)
            after = after || (n->in[k] != VALUE_NONE && (marks[n->in[k]] & AFTER));
        for (uint32_t k = 0; after && k < n->out_count; k++) {
            if (n->out[k] != VALUE_NONE)
                marks[n->out[k]] |= AFTER;
        }
        ret_node[i] = ret_node[i] || after;
        unknown = unknown || (after && output_unknown(env, n));
    }
    return unknown;
}

enum pen_status specialise_find(const struct graph *g, const struct shape_env *env, struct specialise *ret_found)
{
    struct specialise s = {.input = calloc((size_t)g->input_count + 1, sizeof *s.input),
                           .node = calloc((size_t)g->node_count + 1, sizeof *s.node)};
    uint8_t *marks = calloc((size_t)g->value_count + 1, sizeof *marks);
    if (!s.input || !s.node || !marks) {
        specialise_fini(&s);
        free(marks);
        return PEN_ERR_NO_MEMORY;
    }
    mark_small(g, env, marks);
    mark_wanted(g, env, marks);
    for (uint32_t i = 0; i < g->input_count; i++) {
        s.input[i] = (marks[g->inputs[i]] & (SMALL | WANTED)) == (SMALL | WANTED);
        s.count += s.input[i];
        if (s.input[i])
            marks[g->inputs[i]] |= AFTER;
    }
    s.shapes = mark_settled(g, env, marks, s.node);
    if (!mark_after(g, env, marks, s.node) && !s.shapes)
        s.count = 0;
    free(marks);
    *ret_found = s;
    return PEN_OK;
}

void specialise_fini(struct specialise *s)
{
    free(s->input);
    free(s->node);
    *s = (struct specialise){0};
}

enum pen_status specialise_apply(struct graph *g, const struct specialise *found, const struct shape *shapes,
                                 const void *const *data)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->input_count && status == PEN_OK; i++) {
        uint32_t constant;
        size_t bytes;
        struct value *v = &g->values[g->inputs[i]];
        if (!found->input[i]) {
            v->shape = found->shapes && v->kind == VALUE_TENSOR ? shapes[i] : v->shape;
            continue;
        }
        status = shape_bytes(&shapes[i], v->dtype, g->limits.tensor_bytes, &bytes);
        if (status == PEN_OK)
            status = graph_constant(g, NULL, v->dtype, &shapes[i], data[i], bytes, true, &constant);
        if (status == PEN_OK)
            status = graph_replace(g, g->inputs[i], constant);
    }
    return status == PEN_OK && found->shapes ? graph_annotate(g, NULL) : status;
}
