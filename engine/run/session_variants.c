#include <string.h>

#include "assertion.h"
#include "run/internal.h"

void session_variants_fini(struct pen_session *s)
{
    for (uint32_t i = 0; i < SESSION_VARIANTS; i++) {
        runner_free(s->variants[i].runner);
        variant_release(s->variants[i].variant);
        s->variants[i] = (struct session_variant){0};
    }
}

/* The session's runner of a variant, in the place of the one that has not been used for longest. Takes over the reference. */
static enum pen_status runner_of(struct pen_session *s, struct variant *variant, struct runner **ret_runner,
                                 struct pen_error *reterr)
{
    struct session_variant *slot = &s->variants[0];
    for (uint32_t i = 0; i < SESSION_VARIANTS; i++) {
        if (s->variants[i].variant == variant) {
            variant_release(variant);
            s->variants[i].used = ++s->variant_tick;
            *ret_runner = s->variants[i].runner;
            return PEN_OK;
        }
        slot = s->variants[i].used < slot->used ? &s->variants[i] : slot;
    }
    struct runner *runner = NULL;
    if (runner_new(variant_program(variant), &s->context, &runner) != PEN_OK) {
        variant_release(variant);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a session");
    }
    PEN_ASSERT((slot->runner != NULL) == (slot->variant != NULL),
               "a session's runner of a variant comes and goes with it");
    runner_free(slot->runner);
    variant_release(slot->variant);
    *slot = (struct session_variant){.variant = variant, .runner = runner, .used = ++s->variant_tick};
    *ret_runner = runner;
    return PEN_OK;
}

static enum pen_status values_set(const struct graph *g, struct bucket *b, const struct rt_value *in,
                                  struct pen_error *reterr)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        struct rt_value *v = &b->values[g->inputs[i]];
        if (!b->planned[g->inputs[i]]) {
            *v = in[i];
        } else if (in[i].dtype != v->dtype) {
            return pen_error_set(reterr, PEN_ERR_DTYPE, "input '%s' must be %s, got %s", g->values[g->inputs[i]].name,
                                 pen_dtype_name(v->dtype), pen_dtype_name(in[i].dtype));
        } else if (v->bytes > 0 && v->data != in[i].data) {
            PEN_ASSERT(in[i].bytes >= v->bytes, "an input has the bytes of its bucket's shapes");
            memcpy(v->data, in[i].data, v->bytes);
        }
    }
    return PEN_OK;
}

enum pen_status session_choose(struct pen_session *s, const struct rt_value *in, struct chosen *ret_chosen,
                               struct pen_error *reterr)
{
    struct chosen c = {.g = s->model->graph, .runner = s->runner};
    struct variant *variant = NULL;
    enum pen_status status = PEN_OK;
    if (s->model->variants != NULL) {
        status = variant_take(s->model->variants, in, &variant, reterr);
    }
    if (status == PEN_OK && variant != NULL) {
        c.g = variant_graph(variant);
        status = runner_of(s, variant, &c.runner, reterr);
    }
    uint64_t before = s->context.prepared_count;
    if (status == PEN_OK) {
        status = runner_bucket(c.runner, s->shapes, &c.bucket, reterr);
    }
    if (s->context.prepared_count != before && variant != NULL) {
        variant_weigh(variant);
    }
    if (status == PEN_OK) {
        status = values_set(c.g, c.bucket, in, reterr);
    }
    *ret_chosen = c;
    return status;
}
