#include "graph/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/arena.h"
#include "graph/evaluator.h"
#include "graph/infer_fold.h"
#include "graph/infer_util.h"
#include "graph/needs.h"
#include "graph/rules.h"

/* What one walk over the graph keeps. */
struct walk {
    struct shape_env *env;
    const struct graph *g;
    bool fold_all;
    const bool *small_only; /* NULL, or nodes whose results are folded only when small */
    struct fact *in, *out;  /* of the node at hand */
    uint32_t in_room, out_room;
    struct pen_error *reterr;
};

/* ---- where facts come from ------------------------------------------------------------------------------------------ */

static void facts_start(struct shape_env *env, const struct graph *g)
{
    for (uint32_t i = env->values; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        struct fact *f = &env->facts[i];
        f->shape = shape_unknown();
        if (v->data) {
            *f = (struct fact){
                .kind = v->kind, .dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
        }
    }
}

/* A concrete shape against what the model declares. */
static enum pen_status check_input(const struct graph *g, uint32_t input, const struct shape *given,
                                   struct pen_error *reterr)
{
    const struct value *v = &g->values[g->inputs[input]];
    bool fits = v->shape.rank < 0 || given->rank < 0 || v->shape.rank == given->rank;
    for (int32_t i = 0; fits && i < given->rank && i < v->shape.rank; i++)
        fits = v->shape.dim[i] < 0 || given->dim[i] < 0 || v->shape.dim[i] == given->dim[i];
    if (fits)
        return PEN_OK;
    char have[96], want[96];
    return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' has shape %s, the model takes %s", v->name,
                         shape_text(given, have, sizeof have), shape_text(&v->shape, want, sizeof want));
}

static enum pen_status inputs_start(struct shape_env *env, const struct graph *g, const struct shape *shapes,
                                    const void *const *data, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->input_count && status == PEN_OK; i++) {
        const struct value *v = &g->values[g->inputs[i]];
        struct fact *f = &env->facts[g->inputs[i]];
        f->kind = v->kind;
        f->dtype = v->dtype;
        f->shape = shapes && v->kind == VALUE_TENSOR ? shapes[i] : v->shape;
        if (shapes && v->kind == VALUE_TENSOR)
            status = check_input(g, i, &shapes[i], reterr);
        if (status == PEN_OK && data && data[i] && shape_bytes(&f->shape, f->dtype, 0, &f->bytes) == PEN_OK)
            f->data = data[i];
    }
    return status;
}

/* ---- one node ----------------------------------------------------------------------------------------------------------- */

static enum pen_status rooms(struct walk *w, const struct node *n)
{
    if (n->in_count > w->in_room) {
        struct fact *bigger = realloc(w->in, n->in_count * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        w->in = bigger;
        w->in_room = n->in_count;
    }
    if (n->out_count > w->out_room) {
        struct fact *bigger = realloc(w->out, n->out_count * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        w->out = bigger;
        w->out_room = n->out_count;
    }
    return PEN_OK;
}

static void gather_facts(struct walk *w, const struct node *n)
{
    for (uint32_t k = 0; k < n->in_count; k++) {
        w->in[k] = (struct fact){.shape = shape_unknown()};
        if (n->in[k] != VALUE_NONE)
            w->in[k] = w->env->facts[n->in[k]];
    }
    for (uint32_t k = 0; k < n->out_count; k++)
        w->out[k] = (struct fact){.shape = shape_unknown()};
}

/* No single tensor may exceed the budget: what follows multiplies these numbers without looking. */
static enum pen_status check_output(const struct walk *w, const struct infer *c, uint32_t k)
{
    const struct fact *f = &c->out[k];
    size_t bytes;
    if (f->kind != VALUE_TENSOR || !shape_known(&f->shape))
        return PEN_OK;
    enum pen_dtype dtype = f->dtype != PEN_DTYPE_NONE ? f->dtype : PEN_DTYPE_U8;
    if (shape_bytes(&f->shape, dtype, w->g->limits.tensor_bytes, &bytes) == PEN_OK)
        return PEN_OK;
    char text[96];
    return pen_error_set(w->reterr, PEN_ERR_TOO_LARGE,
                         "node %s (%s): output %u of shape %s exceeds the budget of %llu bytes for one tensor",
                         c->n->name, c->n->origin, k, shape_text(&f->shape, text, sizeof text),
                         (unsigned long long)w->g->limits.tensor_bytes);
}

static enum pen_status infer_node(struct walk *w, const struct node *n)
{
    enum pen_status status = rooms(w, n);
    if (status != PEN_OK)
        return pen_error_set(w->reterr, status, "no memory to infer shapes");
    gather_facts(w, n);
    needs_note_node(w->g, n);
    uint32_t asked = 0;
    struct infer c = {.g = w->g, .n = n, .in = w->in, .out = w->out, .asked = &asked};
    status = infer_rule_of(n->op)(&c, w->reterr);
    for (uint32_t k = 0; asked != 0 && k < n->in_count; k++, asked >>= 1) {
        if (asked & 1u)
            w->env->facts[n->in[k]].asked = true;
    }
    for (uint32_t k = 0; k < n->out_count && status == PEN_OK; k++)
        status = check_output(w, &c, k);
    if (status != PEN_OK)
        return status;
    fold_node(w->env, &c, w->fold_all || (w->small_only && !w->small_only[n - w->g->nodes]));
    for (uint32_t k = 0; k < n->out_count; k++) {
        if (n->out[k] != VALUE_NONE)
            w->env->facts[n->out[k]] = w->out[k];
    }
    return PEN_OK;
}

static enum pen_status walk_nodes(struct walk *w)
{
    enum pen_status status = PEN_OK;
    PEN_ASSERT(w->env->nodes <= w->g->node_count && w->env->values <= w->g->value_count,
               "nothing is inferred that the graph does not have");
    for (uint32_t i = w->env->nodes; i < w->g->node_count && status == PEN_OK; i++) {
        if (!w->g->nodes[i].dead)
            status = infer_node(w, &w->g->nodes[i]);
    }
    w->env->values = w->g->value_count;
    w->env->nodes = w->g->node_count;
    free(w->in);
    free(w->out);
    return status;
}

/* ---- environments --------------------------------------------------------------------------------------------------------- */

static enum pen_status env_new(struct walk *w, const struct shape *input_shapes, const void *const *input_data,
                               struct shape_env **ret_env, struct pen_error *reterr)
{
    const struct graph *g = w->g;
    struct shape_env *env = calloc(1, sizeof *env);
    if (env) {
        env->g = g;
        env->facts = calloc((size_t)g->value_count + 1, sizeof *env->facts);
        env->arena = arena_new(g->limits.folded_bytes + FOLD_SMALL_BYTES + (UINT64_C(1) << 20));
    }
    if (!env || !env->facts || !env->arena) {
        shape_env_free(env);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to infer shapes");
    }
    facts_start(env, g);
    w->env = env;
    w->reterr = reterr;
    enum pen_status status = inputs_start(env, g, input_shapes, input_data, reterr);
    if (status == PEN_OK)
        status = walk_nodes(w);
    if (status != PEN_OK) {
        shape_env_free(env);
        return status;
    }
    *ret_env = env;
    return PEN_OK;
}

enum pen_status shape_env_extend(struct shape_env *env, struct pen_error *reterr)
{
    const struct graph *g = env->g;
    uint32_t from = env->values;
    struct fact *bigger = realloc(env->facts, ((size_t)g->value_count + 1) * sizeof *bigger);
    if (!bigger)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to infer shapes");
    env->facts = bigger;
    memset(bigger + from, 0, ((size_t)g->value_count + 1 - from) * sizeof *bigger);
    facts_start(env, g);
    for (uint32_t i = 0; i < g->input_count; i++) { /* inputs may be added while nodes are */
        const struct value *v = &g->values[g->inputs[i]];
        if (g->inputs[i] >= from)
            bigger[g->inputs[i]] = (struct fact){.kind = v->kind, .dtype = v->dtype, .shape = v->shape};
    }
    struct walk w = {.env = env, .g = g, .reterr = reterr};
    return walk_nodes(&w);
}

enum pen_status shape_env_new(const struct graph *g, const struct shape *input_shapes, const void *const *input_data,
                              bool fold_all, struct shape_env **ret_env, struct pen_error *reterr)
{
    struct walk w = {.g = g, .fold_all = fold_all};
    return env_new(&w, input_shapes, input_data, ret_env, reterr);
}

enum pen_status shape_env_new_bucket(const struct graph *g, const struct shape *input_shapes, const bool *small_only,
                                     struct shape_env **ret_env, struct pen_error *reterr)
{
    struct walk w = {.g = g, .small_only = small_only};
    return env_new(&w, input_shapes, NULL, ret_env, reterr);
}

void shape_env_free(struct shape_env *env)
{
    if (!env)
        return;
    arena_free(env->arena);
    free(env->facts);
    free(env);
}

bool shape_env_folded(const struct shape_env *env, const struct node *n)
{
    for (uint32_t k = 0; k < n->out_count; k++) {
        if (n->out[k] != VALUE_NONE && (env->facts[n->out[k]].kind != VALUE_TENSOR || !env->facts[n->out[k]].data))
            return false;
    }
    return true;
}

bool shape_env_unfolded(const struct shape_env *env, char *text, size_t bytes)
{
    if (env->unfolded_nodes == 0)
        return false;
    snprintf(text, bytes, "%u node%s with known inputs %s not folded, the first is %s: %s", env->unfolded_nodes,
             env->unfolded_nodes == 1 ? "" : "s", env->unfolded_nodes == 1 ? "is" : "are", op_def(env->unfolded)->name,
             evaluator_get() ? "this build has no kernel for it" : "no kernels are registered to fold with");
    return true;
}
