/* Random numbers, drawn one after the other as reference draws them: the numbers of a seed are the same on both. */
#include "backend/reference/random.h"
#include "backend/xnnpack/emitters.h"

static bool random_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return dtype_is(node_out(g, n, 0), PEN_DTYPE_F32) || refuse(ret_reason, "only f32");
}

static enum pen_status random_run(struct step *s, struct run *r)
{
    (void)r;
    random_fill(s->n, s->out[0], PEN_DTYPE_F32, *(const int64_t *)s->state);
    return PEN_OK;
}

static enum pen_status random_build(struct build *b)
{
    int64_t *count = build_alloc(b, sizeof *count);
    if (count == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *count = shape_elements(&build_out(b, 0)->shape);
    b->step->state = count;
    b->step->run = random_run;
    return PEN_OK;
}

const struct emitter emit_random = {random_supports, NULL, random_build};

static bool draw_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool fits = dtype_is(x, PEN_DTYPE_F32) && x->shape.rank == 2 && node_int(n, ATTR_sample_size, 1) >= 0 &&
                (dtype_is(y, PEN_DTYPE_I32) || dtype_is(y, PEN_DTYPE_I64));
    return fits || refuse(ret_reason, "only from rows of f32");
}

static enum pen_status draw_run(struct step *s, struct run *r)
{
    struct random_rows rows = *(const struct random_rows *)s->state;
    (void)r;
    rows.x = s->in[0];
    rows.y = s->out[0];
    random_draw(s->n, &rows, s->scratch);
    return PEN_OK;
}

static enum pen_status draw_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *y = build_out(b, 0);
    struct random_rows *rows = build_alloc(b, sizeof *rows);
    if (rows == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (x->shape.dim[1] < 1) {
        return build_fail(b, PEN_ERR_SHAPE, "needs rows of probabilities");
    }
    *rows = (struct random_rows){.count = x->shape.dim[0],
                                 .classes = x->shape.dim[1],
                                 .draws = node_int(b->n, ATTR_sample_size, 1),
                                 .x_dtype = x->dtype,
                                 .y_dtype = y->dtype};
    b->step->scratch_bytes = (size_t)rows->classes * sizeof(double);
    b->step->state = rows;
    b->step->run = draw_run;
    return PEN_OK;
}

const struct emitter emit_draw = {draw_supports, NULL, draw_build};
