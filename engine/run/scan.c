#include "run/runner.h"

#include <string.h>

#include "run/collect.h"
#include "run/turns.h"

/* One Scan: in = states..., scanned..., captures; body in = states..., one slice of each scanned..., captures; out = states..., stacked scans. */
struct scan {
    struct runner *body;
    struct kernel_call *k;
    uint32_t states, scanned, outputs;
    int64_t turns;
    struct rt_value *in, *out;
    struct collect *collects;
    struct turns memory;
};

static int64_t list_item(const struct kernel_call *k, enum attr_key key, uint32_t index, int64_t def)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(k->n, key, &count);
    return index < count ? items[index] : def;
}

static enum pen_status turns_find(struct scan *s)
{
    s->turns = -1;
    for (uint32_t i = 0; i < s->scanned; i++) {
        const struct rt_value *v = &s->k->in[s->states + i];
        int32_t axis = shape_axis(list_item(s->k, ATTR_scan_input_axes, i, 0), v->shape.rank);
        if (v->kind != VALUE_TENSOR || axis < 0 || element_bytes(v->dtype) == 0) {
            return kernel_fail(s->k, PEN_ERR_INVALID, "scan input %u has no such axis", i);
        }
        if (s->turns >= 0 && s->turns != v->shape.dim[axis]) {
            return kernel_fail(s->k, PEN_ERR_SHAPE, "its scan inputs have unlike lengths");
        }
        s->turns = v->shape.dim[axis];
    }
    return PEN_OK;
}

static enum pen_status scan_init(struct scan *s, struct runner *body, struct kernel_call *k)
{
    const struct graph *g = body->program->g;
    s->body = body;
    s->k = k;
    s->states = (uint32_t)node_int(k->n, ATTR_carried, 0);
    s->scanned = (uint32_t)node_int(k->n, ATTR_num_scan_inputs, 0);
    if (g->input_count != k->n->in_count || s->states + s->scanned > k->n->in_count || s->scanned == 0 ||
        g->output_count < s->states || k->n->out_count > g->output_count) {
        return kernel_fail(k, PEN_ERR_CORRUPT, "its body does not fit its inputs and outputs");
    }
    s->outputs = g->output_count - s->states;
    s->in = kernel_scratch(k, g->input_count * sizeof *s->in);
    s->out = kernel_scratch(k, (g->output_count + 1) * sizeof *s->out);
    s->collects = kernel_scratch(k, ((size_t)s->outputs + 1) * sizeof *s->collects);
    if (s->in == NULL || s->out == NULL || s->collects == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
    }
    memset(s->collects, 0, ((size_t)s->outputs + 1) * sizeof *s->collects);
    memcpy(s->in, k->in, g->input_count * sizeof *s->in);
    return turns_find(s);
}

/* Slice `at` along `axis`, the axis dropped. */
static enum pen_status slice_make(struct scan *s, uint32_t index, int64_t at, struct rt_value *ret)
{
    const struct rt_value *v = &s->k->in[s->states + index];
    int32_t axis = shape_axis(list_item(s->k, ATTR_scan_input_axes, index, 0), v->shape.rank);
    struct shape shape = {.rank = v->shape.rank - 1};
    size_t outer = 1;
    size_t inner = element_bytes(v->dtype);
    for (int32_t d = 0; d < v->shape.rank; d++) {
        outer *= d < axis ? (size_t)v->shape.dim[d] : 1;
        inner *= d > axis ? (size_t)v->shape.dim[d] : 1;
        if (d != axis) {
            shape.dim[d < axis ? d : d - 1] = v->shape.dim[d];
        }
    }
    *ret = (struct rt_value){.dtype = v->dtype, .shape = shape, .bytes = outer * inner};
    ret->data = kernel_scratch(s->k, ret->bytes);
    if (ret->data == NULL) {
        return kernel_fail(s->k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
    }
    for (size_t o = 0; o < outer; o++) {
        memcpy((char *)ret->data + o * inner, (const char *)v->data + (o * (size_t)s->turns + (size_t)at) * inner,
               inner);
    }
    return PEN_OK;
}

static enum pen_status scan_turn(struct scan *s, int64_t turn)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < s->scanned; i++) {
        bool reverse = list_item(s->k, ATTR_scan_input_directions, i, 0) != 0;
        status = slice_make(s, i, reverse ? s->turns - 1 - turn : turn, &s->in[s->states + i]);
    }
    if (status == PEN_OK) {
        status = runner_call(s->body, s->in, s->out);
    }
    for (uint32_t i = 0; status == PEN_OK && i < s->states + s->outputs; i++) {
        turns_see(&s->memory, &s->out[i]);
    }
    struct kernel_call keep = *s->k, items = *s->k;
    keep.memory = turns_keep(&s->memory);
    items.memory = turns_items(&s->memory);
    for (uint32_t i = 0; status == PEN_OK && i < s->states; i++) {
        status = value_copy(&keep, &s->out[i], &s->in[i]);
    }
    for (uint32_t i = 0; status == PEN_OK && i < s->outputs; i++) {
        status = collect_add(&s->collects[i], &items, &s->out[s->states + i]);
    }
    return status;
}

static enum pen_status scan_give(struct scan *s, uint32_t o)
{
    const struct graph *g = s->body->program->g;
    if (o >= s->states) {
        uint32_t i = o - s->states;
        return collect_stack(&s->collects[i], s->k, o, (int32_t)list_item(s->k, ATTR_scan_output_axes, i, 0),
                             list_item(s->k, ATTR_scan_output_directions, i, 0) != 0, &g->values[g->outputs[o]]);
    }
    enum pen_status status = kernel_output(s->k, o, s->in[o].dtype, &s->in[o].shape);
    if (status == PEN_OK && s->in[o].bytes > 0) {
        memcpy(s->k->out[o].data, s->in[o].data, s->in[o].bytes);
    }
    return status;
}

enum pen_status scan_run(struct runner *body, struct kernel_call *k)
{
    struct scan s = {0};
    enum pen_status status = scan_init(&s, body, k);
    turns_init(&s.memory, &body->context->arena, &body->context->turns);
    for (int64_t turn = 0; status == PEN_OK && turn < s.turns; turn++) {
        status = turns_next(&s.memory, k);
        status = status == PEN_OK ? scan_turn(&s, turn) : status;
    }
    for (uint32_t o = 0; status == PEN_OK && o < k->n->out_count; o++) {
        status = k->wanted[o] ? scan_give(&s, o) : PEN_OK;
    }
    turns_fini(&s.memory);
    return status;
}
