#include "run/session_device.h"

#include <stdlib.h>

#include "assertion.h"

/* ---- values -------------------------------------------------------------------------------------------------------- */

struct device_value *device_value_hold(struct device_value *value)
{
    atomic_fetch_add(&value->references, 1);
    return value;
}

void device_value_drop(struct device_value *value)
{
    if (value == NULL) {
        return;
    }
    const unsigned before = atomic_fetch_sub(&value->references, 1);
    PEN_ASSERT(before > 0, "a value of a device that goes was held");
    if (before == 1) {
        value->ops->kept_free(value->kept);
        free(value);
    }
}

enum pen_status device_value_read(const struct device_value *value, void *data, struct pen_error *reterr)
{
    return value->ops->kept_read(value->kept, data, value->bytes, reterr);
}

/* ---- where it goes ------------------------------------------------------------------------------------------------- */

static bool looked_at(const struct pen_session *s)
{
    const struct run_context *c = &s->context;
    return c->compare || debug_of(c) != NULL || numerics_wanted(&c->numerics);
}

/* The only step of what runs, on a backend that keeps results; NULL: there is none. */
static struct bucket_step *step_of(const struct pen_session *s, const struct bucket *b)
{
    if (b == NULL || b->interpretive || s->model->variants != NULL || looked_at(s)) {
        return NULL;
    }
    const struct placement *p = b->program->placement;
    bool one = p->step_count == 1 && b->steps[0].exec != NULL;
    return one && p->backends[b->steps[0].placed->backend].ops->exec_keep != NULL ? &b->steps[0] : NULL;
}

static const struct backend_ops *ops_of(const struct bucket *b)
{
    return b->program->placement->backends[b->steps[0].placed->backend].ops;
}

static uint32_t place_of(const uint32_t *list, uint32_t count, uint32_t value)
{
    uint32_t i = 0;
    while (i < count && list[i] != value) {
        i++;
    }
    return i;
}

/* ---- inputs -------------------------------------------------------------------------------------------------------- */

enum pen_status session_device_inputs(struct pen_session *s, struct device_value *const *values,
                                      struct pen_error *reterr)
{
    const struct graph *g = s->model->graph;
    struct bucket *b = s->bound;
    struct bucket_step *step = step_of(s, b);
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < g->input_count; i++) {
        struct device_value *value = values[s->order[i]];
        const struct rt_value *v = &b->values[g->inputs[i]];
        const struct partition *part = step != NULL ? &step->placed->part : NULL;
        uint32_t at = part != NULL ? place_of(part->in, part->in_count, g->inputs[i]) : 0;
        if (value == NULL || v->bytes == 0) {
            continue;
        }
        PEN_ASSERT(value->bytes == v->bytes, "a value of a device that fits the shapes fits the bound buffer");
        if (part != NULL && at < part->in_count && value->ops == ops_of(b)) {
            step->in[at].kept = value->kept;
        } else {
            status = device_value_read(value, v->data, reterr);
        }
    }
    return status;
}

static void bucket_clear(struct pen_session *s, struct bucket *b)
{
    struct bucket_step *step = step_of(s, b);
    for (uint32_t i = 0; step != NULL && i < step->placed->part.in_count; i++) {
        step->in[i].kept = NULL;
    }
    for (uint32_t i = 0; step != NULL && i < step->placed->part.out_count; i++) {
        step->out[i].data = b->values[step->placed->part.out[i]].data;
    }
}

void session_device_clear(struct pen_session *s)
{
    bucket_clear(s, s->last.bucket);
    s->last = (struct chosen){.g = NULL};
}

void session_device_undo(struct pen_session *s)
{
    bucket_clear(s, s->bound);
}

/* ---- outputs ------------------------------------------------------------------------------------------------------- */

/* Computed by the run, not known before it. */
static bool computed(const struct bucket *b, uint32_t value)
{
    return b->env->facts[value].data == NULL && b->values[value].bytes > 0;
}

void session_device_want(struct pen_session *s)
{
    const struct bucket *b = s->flight_count > 0 ? s->flights[s->flight_first].ran.bucket : NULL;
    struct bucket_step *step = step_of(s, b);
    for (uint32_t i = 0; step != NULL && i < step->placed->part.out_count; i++) {
        step->out[i].data = computed(b, step->placed->part.out[i]) ? NULL : step->out[i].data;
    }
}

enum pen_status session_device_keep(struct pen_session *s, size_t index, struct device_value **ret_value,
                                    struct pen_error *reterr)
{
    const struct bucket *b = s->last.bucket;
    struct bucket_step *step = step_of(s, b);
    const struct partition *part = step != NULL ? &step->placed->part : NULL;
    *ret_value = NULL;
    uint32_t value = s->last.g->outputs[index];
    uint32_t at = part != NULL ? place_of(part->out, part->out_count, value) : 0;
    if (part == NULL || at == part->out_count || !computed(b, value)) {
        return PEN_OK;
    }
    struct device_value *v = calloc(1, sizeof *v);
    if (v == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a result");
    }
    atomic_init(&v->references, 1);
    v->ops = ops_of(b);
    v->bytes = step->out[at].bytes;
    enum pen_status status = v->ops->exec_keep(step->exec, at, &v->kept, reterr);
    if (status != PEN_OK) {
        free(v);
        return status;
    }
    *ret_value = v;
    return PEN_OK;
}
