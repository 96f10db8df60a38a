#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/forms.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/* Element-wise with one data input, f32. */
struct unary {
    struct unary_form form;
    size_t count;
    struct act act;
};

struct unary_job {
    const struct unary *u;
    const float *x;
    float *y;
    float a, b;
};

static bool unary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (node_in(g, n, 0) != NULL && unary_int_takes(node_in(g, n, 0)->dtype, n->op) && node_int(n, ATTR_act, 0) == 0) {
        return true;
    }
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    return unary_form_of(n).fn != UNARY_NONE || refuse(ret_reason, "no such function");
}

static void unary_task(void *context, size_t unit)
{
    const struct unary_job *j = context;
    size_t from = unit * CHUNK;
    size_t n = j->u->count - from < CHUNK ? j->u->count - from : CHUNK;
    isa_own()->unary(j->u->form.fn, j->x + from, j->y + from, n, j->a, j->b);
}

static enum pen_status unary_run(struct step *s, struct run *r)
{
    const struct unary *u = s->state;
    struct unary_job j = {u, s->in[0], s->out[0], u->form.a, u->form.b};
    if (u->form.limits) {
        j.a = s->n->in_count > 1 && s->in[1] != NULL ? *(const float *)s->in[1] : -INFINITY;
        j.b = s->n->in_count > 2 && s->in[2] != NULL ? *(const float *)s->in[2] : INFINITY;
    }
    parallel(r, unary_task, &j, (u->count + CHUNK - 1) / CHUNK);
    act_all(&u->act, s->out[0], u->count, r);
    return PEN_OK;
}

static enum pen_status unary_build(struct build *b)
{
    if (unary_int_takes(build_in(b, 0)->dtype, b->n->op)) {
        return unary_int_build(b);
    }
    struct unary *u = build_alloc(b, sizeof *u);
    if (u == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    u->form = unary_form_of(b->n);
    u->count = (size_t)shape_elements(&build_out(b, 0)->shape);
    u->act = act_read(b->n);
    for (uint32_t i = 1; i < b->n->in_count; i++) {
        if (build_in(b, i) != NULL && shape_elements(&build_in(b, i)->shape) != 1) {
            return build_fail(b, PEN_ERR_SHAPE, "a limit is not one number");
        }
    }
    if (shape_elements(&build_in(b, 0)->shape) != (int64_t)u->count) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
    }
    b->inplace = 1;
    b->step->state = u;
    b->step->run = unary_run;
    return PEN_OK;
}

const struct emitter emit_unary = {unary_supports, NULL, unary_build};
