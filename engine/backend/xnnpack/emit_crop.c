#include <string.h>

#include "backend/xnnpack/box.h"
#include "backend/xnnpack/emitters.h"

/* CenterCropPad: the middle of x, or x in the middle of zeros, along each axis; of an odd difference the larger half is at the end. */
struct crop {
    struct box box;
    ptrdiff_t x_at, y_at; /* bytes */
    size_t bytes;
    bool empty, pads;
};

static bool crop_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    return (x != NULL && pen_dtype_bits(x->dtype) >= 8) || refuse(ret_reason, "not a type of whole bytes");
}

static enum pen_status crop_run(struct step *s, struct run *r)
{
    const struct crop *q = s->state;
    if (q->pads) {
        memset(s->out[0], 0, q->bytes);
    }
    if (!q->empty) {
        box_copy(&q->box, (const uint8_t *)s->in[0] + q->x_at, (uint8_t *)s->out[0] + q->y_at, r);
    }
    return PEN_OK;
}

static enum pen_status crop_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *y = build_out(b, 0);
    struct crop *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    ptrdiff_t x_run = 1, y_run = 1;
    q->box = (struct box){.rank = x->shape.rank, .size = pen_dtype_bits(x->dtype) / 8};
    for (int32_t d = x->shape.rank - 1; d >= 0; d--) {
        int64_t in = x->shape.dim[d], out = y->shape.dim[d];
        q->box.dim[d] = (size_t)(in < out ? in : out);
        q->box.x_step[d] = x_run;
        q->box.y_step[d] = y_run;
        q->x_at += in > out ? (ptrdiff_t)((in - out) / 2) * x_run : 0;
        q->y_at += out > in ? (ptrdiff_t)((out - in) / 2) * y_run : 0;
        q->pads = q->pads || out > in;
        q->empty = q->empty || in == 0;
        x_run *= (ptrdiff_t)in;
        y_run *= (ptrdiff_t)out;
    }
    q->x_at *= (ptrdiff_t)q->box.size;
    q->y_at *= (ptrdiff_t)q->box.size;
    q->bytes = (size_t)y_run * q->box.size;
    box_finish(&q->box);
    b->step->state = q;
    b->step->run = crop_run;
    return x->shape.rank == y->shape.rank ? PEN_OK : build_fail(b, PEN_ERR_SHAPE, "input and output differ in rank");
}

const struct emitter emit_crop = {crop_supports, NULL, crop_build};
