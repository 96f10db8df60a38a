#include "backend/reference/kernels.h"
#include "backend/reference/noise.h"

#include <string.h>

#include "graph/needs.h"
#include "graph/rules.h"

static struct fact fact_of(const struct rt_value *v)
{
    struct fact f = {.kind = v->kind, .dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
    if (v->kind != VALUE_TENSOR) {
        f.shape = shape_unknown();
        f.data = NULL;
        f.bytes = 0;
    }
    return f;
}

static enum pen_status shapes_agree(struct kernel_call *k, const struct fact *facts)
{
    for (uint32_t i = 0; i < k->n->out_count; i++) {
        struct shape known = facts[i].shape;
        const struct rt_value *out = &k->out[i];
        if (!kernel_wants(k, i) || out->kind != VALUE_TENSOR || out->dtype == PEN_DTYPE_NONE || !shape_known(&known)) {
            continue;
        }
        if (!shape_equal(&known, &out->shape) || (facts[i].dtype != PEN_DTYPE_NONE && facts[i].dtype != out->dtype)) {
            char a[96], b[96];
            return kernel_fail(k, PEN_ERR_INTERNAL, "output %u was inferred as %s %s but is %s %s", i,
                               pen_dtype_name(facts[i].dtype), shape_text(&known, a, sizeof a),
                               pen_dtype_name(out->dtype), shape_text(&out->shape, b, sizeof b));
        }
    }
    return PEN_OK;
}

enum pen_status kernel_run_node(struct kernel_call *k)
{
    kernel_fn fn = kernel_find(k->n->op);
    needs_note("reference", k->n->op, k->n->in_count > 0 ? k->in[0].dtype : PEN_DTYPE_NONE);
    uint32_t count = k->n->in_count + k->n->out_count;
    struct fact *facts = kernel_scratch(k, ((size_t)count + 1) * sizeof *facts);
    const char *reason = NULL;
    if (fn == NULL || !kernel_supports(k->g, k->n, &reason)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "%s", reason != NULL ? reason : "no kernel in this build");
    }
    if (facts == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for shapes");
    }
    memset(facts, 0, (size_t)count * sizeof *facts);
    for (uint32_t i = 0; i < k->n->in_count; i++) {
        facts[i] = fact_of(&k->in[i]);
    }
    for (uint32_t i = k->n->in_count; i < count; i++) {
        facts[i].shape = shape_unknown();
    }
    struct infer c = {.g = k->g, .n = k->n, .in = facts, .out = facts + k->n->in_count};
    enum pen_status status = infer_rule_of(k->n->op)(&c, k->error);
    if (status == PEN_OK) {
        status = fn(k);
    }
    if (status == PEN_OK && kernel_noise != NULL) {
        noise_add(k);
    }
    return status == PEN_OK ? shapes_agree(k, c.out) : status;
}
