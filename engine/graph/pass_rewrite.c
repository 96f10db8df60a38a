#include <stdlib.h>
#include <string.h>

#include "graph/pass_internal.h"

enum pen_status rewrite_init(struct rewrite *r, struct graph *g, bool fold_all, struct pen_error *reterr)
{
    *r = (struct rewrite){.g = g, .value_count = g->value_count};
    enum pen_status status = graph_compact(g);
    if (status == PEN_OK)
        status = shape_env_new(g, NULL, NULL, fold_all, &r->env, reterr);
    if (status != PEN_OK)
        return status;
    r->is_output = calloc((size_t)g->value_count + 1, sizeof *r->is_output);
    status = r->is_output ? uses_init(&r->uses, g) : PEN_ERR_NO_MEMORY;
    if (status != PEN_OK) {
        rewrite_fini(r);
        return pen_error_set(reterr, status, "no memory to rewrite the graph");
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        r->is_output[g->outputs[i]] = true;
    return PEN_OK;
}

void rewrite_fini(struct rewrite *r)
{
    shape_env_free(r->env);
    free(r->is_output);
    uses_fini(&r->uses);
    r->env = NULL;
    r->is_output = NULL;
}

bool rewrite_failed(struct rewrite *r, enum pen_status status)
{
    if (r->status == PEN_OK)
        r->status = status;
    return false;
}

bool rewrite_is_output(const struct rewrite *r, uint32_t value)
{
    return value < r->value_count && r->is_output[value];
}

const struct fact *rewrite_fact(const struct rewrite *r, uint32_t value)
{
    static const struct fact unknown = {.shape = {.rank = SHAPE_RANK_UNKNOWN}};
    return value < r->value_count ? &r->env->facts[value] : &unknown;
}

struct node *rewrite_maker(const struct rewrite *r, uint32_t value)
{
    uint32_t p = value == VALUE_NONE ? NODE_NONE : r->g->values[value].producer;
    return p == NODE_NONE || r->g->nodes[p].dead ? NULL : &r->g->nodes[p];
}

struct node *rewrite_only_maker(const struct rewrite *r, uint32_t value, enum op op)
{
    struct node *n = rewrite_maker(r, value);
    return n && n->op == op && uses_count(&r->uses, value) == 1 && !rewrite_is_output(r, value) ? n : NULL;
}

const float *rewrite_floats(const struct rewrite *r, uint32_t value, int64_t count)
{
    if (value == VALUE_NONE)
        return NULL;
    const struct value *v = &r->g->values[value];
    bool fits = v->data && v->dtype == PEN_DTYPE_F32 && (count == 0 || shape_elements(&v->shape) == count);
    return fits ? v->data : NULL;
}

bool rewrite_scalar(const struct rewrite *r, uint32_t value, float *ret)
{
    const float *item = rewrite_floats(r, value, 1);
    if (item)
        *ret = *item;
    return item != NULL;
}

bool rewrite_bypass(struct rewrite *r, uint32_t node, uint32_t in)
{
    struct graph *g = r->g;
    uint32_t out = g->nodes[node].out[0];
    enum pen_status status;
    if (!rewrite_is_output(r, out)) {
        status = uses_replace(&r->uses, out, in);
        uses_kill(&r->uses, node);
        return status == PEN_OK || rewrite_failed(r, status);
    }
    /* The output keeps its id: the maker of `in` writes it directly, when nothing outside knows `in`. */
    uint32_t maker = g->values[in].producer;
    if (maker == NODE_NONE || rewrite_is_output(r, in) || in >= r->value_count)
        return false;
    uint32_t index = g->values[in].producer_output;
    uses_kill(&r->uses, node);
    graph_move_output(g, maker, index, out);
    status = uses_replace(&r->uses, in, out);
    return status == PEN_OK || rewrite_failed(r, status);
}

void rewrite_absorb(struct rewrite *r, uint32_t node, uint32_t last)
{
    uint32_t out = r->g->nodes[last].out[0];
    uses_kill(&r->uses, last);
    graph_move_output(r->g, node, 0, out);
}

uint32_t rewrite_node(struct rewrite *r, enum op op, const char *name, const uint32_t *in, uint32_t in_count)
{
    uint32_t value = VALUE_NONE, node = NODE_NONE;
    if (r->status == PEN_OK)
        r->status = graph_value(r->g, NULL, &value);
    if (r->status == PEN_OK)
        r->status = graph_node(r->g, op, name, in, in_count, &value, 1, &node);
    if (r->status == PEN_OK)
        r->status = uses_add(&r->uses, node);
    return r->status == PEN_OK ? value : VALUE_NONE;
}
