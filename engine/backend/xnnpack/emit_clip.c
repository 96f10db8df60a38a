#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* Clip of bytes: what a fused activation leaves of a quantised result. Floats are emit_unary's. */
struct clip_job {
    const uint8_t *x;
    uint8_t *y, low, high, flip; /* limits as unsigned bytes order them */
    size_t count;
};

struct clip {
    size_t count;
    uint8_t flip;
};

static bool is_byte(const struct value *v)
{
    return dtype_is(v, PEN_DTYPE_U8) || dtype_is(v, PEN_DTYPE_I8);
}

static bool clip_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!is_byte(x)) {
        return emit_unary.supports(g, n, ret_reason);
    }
    for (uint32_t i = 1; i < 3; i++) {
        const struct value *limit = node_in(g, n, i);
        if (limit != NULL && limit->dtype != x->dtype) {
            return refuse(ret_reason, "limits of another type");
        }
    }
    return node_int(n, ATTR_act, ACT_NONE) == ACT_NONE || refuse(ret_reason, "an activation behind bytes");
}

static void clip_task(void *context, size_t unit)
{
    const struct clip_job *j = context;
    size_t from = unit * CHUNK, n = j->count - from < CHUNK ? j->count - from : CHUNK;
    isa_int()->clamp(j->x + from, j->low, j->high, j->flip, j->y + from, n);
}

static enum pen_status clip_run(struct step *s, struct run *r)
{
    const struct clip *q = s->state;
    struct clip_job j = {.x = s->in[0], .y = s->out[0], .high = 255, .flip = q->flip, .count = q->count};
    if (s->n->in_count > 1 && s->in[1] != NULL) {
        j.low = *(const uint8_t *)s->in[1] ^ q->flip;
    }
    if (s->n->in_count > 2 && s->in[2] != NULL) {
        j.high = *(const uint8_t *)s->in[2] ^ q->flip;
    }
    parallel(r, clip_task, &j, (q->count + CHUNK - 1) / CHUNK);
    return PEN_OK;
}

static enum pen_status clip_build(struct build *b)
{
    if (build_in(b, 0)->dtype == PEN_DTYPE_F32) {
        return emit_unary.build(b);
    }
    struct clip *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    for (uint32_t i = 1; i < b->n->in_count; i++) {
        if (build_in(b, i) != NULL && shape_elements(&build_in(b, i)->shape) != 1) {
            return build_fail(b, PEN_ERR_SHAPE, "a limit is not one number");
        }
    }
    *q = (struct clip){.count = (size_t)shape_elements(&build_out(b, 0)->shape),
                       .flip = build_in(b, 0)->dtype == PEN_DTYPE_I8 ? 0x80 : 0};
    if (!shape_equal(&build_in(b, 0)->shape, &build_out(b, 0)->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
    }
    b->inplace = 1;
    b->step->state = q;
    b->step->run = clip_run;
    return PEN_OK;
}

const struct emitter emit_clip = {clip_supports, NULL, clip_build};
