#include "import/build/scan.h"

#include <string.h>

#include "graph/internal.h"

static uint32_t body_input(struct tf_scan *s, const char *name, enum pen_dtype dtype)
{
    struct shape shape = shape_unknown();
    return build_input(&s->inner, name, strlen(name), dtype, &shape);
}

bool tf_scan_begin(struct tf_scan *s, struct build *b, uint32_t x, uint32_t mask, const uint32_t *start,
                   uint32_t states)
{
    *s = (struct tf_scan){.outer = b, .state_count = states, .data = x, .data_mask = mask, .mask = VALUE_NONE};
    if (b->status == PEN_OK && graph_new_child(b->g, &s->body) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    if (b->status != PEN_OK)
        return false;
    s->inner =
        (struct build){.g = s->body, .missing = b->missing, .reterr = b->reterr, .name = b->name, .origin = b->origin};
    for (uint32_t i = 0; i < states; i++) {
        s->start[i] = start[i];
        s->states[i] = body_input(s, i == 0 ? "state" : "cell", PEN_DTYPE_F32);
    }
    s->x = body_input(s, "step", PEN_DTYPE_F32);
    if (mask != VALUE_NONE)
        s->mask = body_input(s, "counts", PEN_DTYPE_BOOL);
    return true;
}

/* A step that does not count leaves the state as it was: mask [batch] against states [..., batch, units]. */
static uint32_t kept(struct tf_scan *s, uint32_t next, uint32_t before)
{
    if (s->mask == VALUE_NONE)
        return next;
    return build_3(&s->inner, OP_Where, build_unsqueeze(&s->inner, s->mask, 1), next, before);
}

uint32_t tf_scan_end(struct tf_scan *s, const uint32_t *next)
{
    struct build *b = s->outer, *inner = &s->inner;
    uint32_t out[3], in[4], n = s->state_count, count = n;
    for (uint32_t i = 0; i <= n && inner->status == PEN_OK; i++) {
        uint32_t value = build_1(inner, OP_Identity, i < n ? kept(s, next[i], s->states[i]) : s->body->outputs[0]);
        if (inner->status == PEN_OK && graph_output_add(s->body, value) != PEN_OK)
            build_stop(inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
    build_fini(inner);
    if (b->status == PEN_OK)
        b->status = inner->status;
    memcpy(in, s->start, n * sizeof *in);
    in[count++] = s->data;
    if (s->data_mask != VALUE_NONE)
        in[count++] = s->data_mask;
    build_many(b, OP_Scan, in, count, out, n + 1);
    build_graph(b, ATTR_body, s->body);
    build_int(b, ATTR_carried, n);
    build_int(b, ATTR_num_scan_inputs, count - n);
    for (uint32_t i = 0; i < n; i++)
        s->states[i] = out[i];
    return b->status == PEN_OK ? out[n] : VALUE_NONE;
}

uint32_t tf_scan_constant(struct tf_scan *s, uint32_t value)
{
    const struct value *v = build_value(s->outer, value);
    if (v && v->data)
        return build_const(&s->inner, v->dtype, &v->shape, v->data, v->bytes, false);
    if (v)
        build_stop(&s->inner, PEN_ERR_UNSUPPORTED, "its weights must be constant");
    return VALUE_NONE;
}
