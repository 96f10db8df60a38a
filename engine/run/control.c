#include "run/runner.h"

#include <string.h>

#include "run/collect.h"
#include "run/turns.h"

static bool flag_read(const struct rt_value *v, bool when_omitted)
{
    return v->dtype == PEN_DTYPE_NONE || v->data == NULL ? when_omitted : *(const unsigned char *)v->data != 0;
}

/* Gives a subgraph's result as output `index`: into planned memory, else borrowed (its owner does not run again before it is used). */
static enum pen_status output_give(struct kernel_call *k, uint32_t index, const struct rt_value *value)
{
    if (!k->wanted[index]) {
        return PEN_OK;
    }
    if (k->out[index].data == NULL || value->kind != VALUE_TENSOR) {
        return value_copy(k, value, &k->out[index]);
    }
    enum pen_status status = kernel_output(k, index, value->dtype, &value->shape);
    if (status == PEN_OK && value->bytes > 0) {
        memcpy(k->out[index].data, value->data, value->bytes);
    }
    return status;
}

static struct runner *child_of(struct runner *r, uint32_t node, enum attr_key key)
{
    int index = program_child_find(r->program, node, key);
    return index < 0 ? NULL : r->children[index];
}

/* If: in = cond, captures of then_branch, captures of else_branch. */
static enum pen_status run_if(struct runner *r, uint32_t node, struct kernel_call *k)
{
    bool yes = flag_read(&k->in[0], false);
    const struct runner *first = child_of(r, node, ATTR_then_branch);
    struct runner *branch = child_of(r, node, yes ? ATTR_then_branch : ATTR_else_branch);
    uint32_t skip = 1 + (yes || first == NULL ? 0 : first->program->g->input_count);
    const struct rt_value *in = k->in + skip;
    if (branch == NULL || branch->program->g->output_count < k->n->out_count ||
        skip + branch->program->g->input_count > k->n->in_count) {
        return kernel_fail(k, PEN_ERR_CORRUPT, "its branches do not fit its inputs and outputs");
    }
    struct rt_value *out = kernel_scratch(k, (branch->program->g->output_count + 1) * sizeof *out);
    if (out == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
    }
    enum pen_status status = runner_call(branch, in, out);
    for (uint32_t o = 0; status == PEN_OK && o < k->n->out_count; o++) {
        status = output_give(k, o, &out[o]);
    }
    return status;
}

struct loop {
    struct runner *body;
    struct kernel_call *k;
    uint32_t carried, scans;
    struct rt_value *in;  /* [body inputs]: turn, cond, carried..., captures */
    struct rt_value *out; /* [body outputs]: cond, carried..., scanned... */
    struct collect *collects;
    struct turns turns;
    int64_t turn;
    bool cond;
};

static enum pen_status loop_init(struct loop *l, struct runner *body, struct kernel_call *k)
{
    const struct graph *g = body->program->g;
    l->body = body;
    l->k = k;
    l->carried = (uint32_t)node_int(k->n, ATTR_carried, 0);
    if (g->input_count != k->n->in_count || g->output_count < 1 + l->carried || k->n->in_count < 2 + l->carried ||
        k->n->out_count > g->output_count - 1) {
        return kernel_fail(k, PEN_ERR_CORRUPT, "its body does not fit its inputs and outputs");
    }
    l->scans = g->output_count - 1 - l->carried;
    l->in = kernel_scratch(k, g->input_count * sizeof *l->in);
    l->out = kernel_scratch(k, g->output_count * sizeof *l->out);
    l->collects = kernel_scratch(k, ((size_t)l->scans + 1) * sizeof *l->collects);
    if (l->in == NULL || l->out == NULL || l->collects == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
    }
    memset(l->collects, 0, ((size_t)l->scans + 1) * sizeof *l->collects);
    memcpy(l->in, k->in, g->input_count * sizeof *l->in);
    l->cond = flag_read(&k->in[1], true);
    return PEN_OK;
}

static enum pen_status loop_turn(struct loop *l)
{
    unsigned char flag = 1;
    l->in[0] =
        (struct rt_value){.dtype = PEN_DTYPE_I64, .shape = shape_scalar(), .data = &l->turn, .bytes = sizeof l->turn};
    l->in[1] = (struct rt_value){.dtype = PEN_DTYPE_BOOL, .shape = shape_scalar(), .data = &flag, .bytes = 1};
    enum pen_status status = runner_call(l->body, l->in, l->out);
    if (status != PEN_OK) {
        return status;
    }
    l->cond = flag_read(&l->out[0], true);
    for (uint32_t i = 0; i < l->carried + l->scans; i++) {
        turns_see(&l->turns, &l->out[1 + i]);
    }
    struct kernel_call keep = *l->k, items = *l->k;
    keep.memory = turns_keep(&l->turns);
    items.memory = turns_items(&l->turns);
    for (uint32_t i = 0; status == PEN_OK && i < l->carried; i++) {
        status = value_copy(&keep, &l->out[1 + i], &l->in[2 + i]);
    }
    for (uint32_t i = 0; status == PEN_OK && i < l->scans; i++) {
        status = collect_add(&l->collects[i], &items, &l->out[1 + l->carried + i]);
    }
    return status;
}

/* Loop: in = trip count, cond, carried..., captures; out = carried..., stacked scans. */
static enum pen_status run_loop(struct runner *r, uint32_t node, struct kernel_call *k)
{
    struct loop l = {0};
    struct runner *body = child_of(r, node, ATTR_body);
    enum pen_status status = body != NULL ? loop_init(&l, body, k) : kernel_fail(k, PEN_ERR_CORRUPT, "it has no body");
    int64_t trips = INT64_MAX;
    if (status == PEN_OK && k->in[0].dtype != PEN_DTYPE_NONE && k->in[0].data != NULL) {
        memcpy(&trips, k->in[0].data, sizeof trips);
    }
    turns_init(&l.turns, &r->context->arena, &r->context->turns);
    for (l.turn = 0; status == PEN_OK && l.cond && l.turn < trips; l.turn++) {
        status = turns_next(&l.turns, k);
        status = status == PEN_OK ? loop_turn(&l) : status;
    }
    for (uint32_t o = 0; status == PEN_OK && o < k->n->out_count; o++) {
        if (!k->wanted[o]) {
            continue;
        }
        const struct graph *g = body->program->g;
        status = o < l.carried
                     ? output_give(k, o, &l.in[2 + o])
                     : collect_stack(&l.collects[o - l.carried], k, o, 0, false, &g->values[g->outputs[1 + o]]);
    }
    turns_fini(&l.turns);
    return status;
}

enum pen_status control_run(struct runner *r, uint32_t node, struct kernel_call *k)
{
    switch (k->n->op) {
    case OP_If:
        return run_if(r, node, k);
    case OP_Loop:
        return run_loop(r, node, k);
    case OP_Scan: {
        struct runner *body = child_of(r, node, ATTR_body);
        return body != NULL ? scan_run(body, k) : kernel_fail(k, PEN_ERR_CORRUPT, "it has no body");
    }
    default:
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "this control-flow operator is not supported");
    }
}
