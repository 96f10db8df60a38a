#include <string.h>

#include "backend/xnnpack/emitters.h"

/* Same bytes under another shape: shares memory with its input where it can, else copies. Any dtype of whole bytes. */
struct view {
    size_t bytes;
};

static bool view_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    if (x == NULL || y == NULL || pen_dtype_bits(x->dtype) < 8 ||
        pen_dtype_bits(x->dtype) != pen_dtype_bits(y->dtype)) {
        return refuse(ret_reason, "not a type of whole bytes");
    }
    if (n->op == OP_Dropout) {
        return (n->out_count == 1 && n->in_count <= 2) || refuse(ret_reason, "Dropout with a mask or in training");
    }
    return true;
}

struct view_job {
    const uint8_t *x;
    uint8_t *y;
    size_t bytes;
};

#define VIEW_CHUNK (CHUNK * 4)

static void view_task(void *context, size_t unit)
{
    const struct view_job *j = context;
    size_t from = unit * VIEW_CHUNK;
    memcpy(j->y + from, j->x + from, j->bytes - from < VIEW_CHUNK ? j->bytes - from : VIEW_CHUNK);
}

static enum pen_status view_run(struct step *s, struct run *r)
{
    const struct view *v = s->state;
    struct view_job j = {s->in[0], s->out[0], v->bytes};
    if (j.x != j.y) {
        parallel(r, view_task, &j, (v->bytes + VIEW_CHUNK - 1) / VIEW_CHUNK);
    }
    return PEN_OK;
}

static enum pen_status view_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *y = build_out(b, 0);
    struct view *v = build_alloc(b, sizeof *v);
    size_t bytes = 0;
    if (v == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (shape_bytes(&x->shape, x->dtype, 0, &v->bytes) != PEN_OK ||
        shape_bytes(&y->shape, y->dtype, 0, &bytes) != PEN_OK || bytes != v->bytes) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
    }
    b->view = true;
    b->step->state = v;
    b->step->run = view_run;
    return PEN_OK;
}

const struct emitter emit_view = {view_supports, NULL, view_build};
