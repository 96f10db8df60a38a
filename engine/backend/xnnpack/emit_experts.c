#include "backend/experts.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* MoE: what the reference computes, rows over the threads. */
struct experts_step {
    struct experts e;
    const float *x, *router;
    float *y, *scratch;
};

static bool experts_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        bool needed = i < 3 || i == 4;
        if (v == NULL ? needed : v->dtype != PEN_DTYPE_F32) {
            return refuse(ret_reason, "only f32");
        }
    }
    return n->in_count > 4 || refuse(ret_reason, "no second layer");
}

static void experts_task(void *context, size_t row)
{
    const struct experts_step *s = context;
    const struct experts *e = &s->e;
    experts_row(e, s->x + row * e->hidden, s->router + row * e->count, s->scratch + row * experts_scratch(e),
                s->y + row * e->hidden);
}

static enum pen_status experts_run(struct step *s, struct run *r)
{
    struct experts_step *q = s->state;
    const float *in[8];
    for (uint32_t i = 0; i < 8; i++) {
        in[i] = i < s->n->in_count ? s->in[i] : NULL;
    }
    q->x = in[0];
    q->router = in[1];
    q->e.w1 = in[2];
    q->e.b1 = in[3];
    q->e.w2 = in[4];
    q->e.b2 = in[5];
    q->e.w3 = in[6];
    q->e.b3 = in[7];
    q->y = s->out[0];
    q->scratch = s->scratch;
    parallel(r, experts_task, q, q->e.rows);
    return PEN_OK;
}

static enum pen_status experts_build(struct build *b)
{
    struct experts_step *q = build_alloc(b, sizeof *q);
    const struct shape *shapes[8];
    const char *reason = "";
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    for (uint32_t i = 0; i < 8; i++) {
        const struct fact *f = build_in(b, i);
        shapes[i] = f != NULL ? &f->shape : NULL;
    }
    if (!experts_of(b->n, shapes, &q->e, &reason)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, reason);
    }
    q->e.dot = isa_own()->dot;
    b->step->scratch_bytes = q->e.rows * experts_scratch(&q->e) * sizeof(float);
    b->step->state = q;
    b->step->run = experts_run;
    return PEN_OK;
}

const struct emitter emit_experts = {experts_supports, NULL, experts_build};
