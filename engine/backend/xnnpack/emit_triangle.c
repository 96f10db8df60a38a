#include <string.h>

#include "backend/xnnpack/emitters.h"

/* Trilu: the upper (column >= row + k) or lower (column <= row + k) triangle of each matrix, zeros elsewhere. Any type of whole bytes; k is read on every run. */
struct triangle {
    size_t matrices, rows, columns, size;
    bool upper;
};

struct triangle_job {
    const struct triangle *q;
    int64_t diagonal;
    const uint8_t *x;
    uint8_t *y;
};

static bool triangle_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *k = node_in(g, n, 1);
    bool fits =
        x != NULL && pen_dtype_bits(x->dtype) >= 8 && x->shape.rank >= 2 && (k == NULL || k->dtype == PEN_DTYPE_I64);
    return fits || refuse(ret_reason, "not a matrix of a type of whole bytes");
}

static void matrix_task(void *context, size_t unit)
{
    const struct triangle_job *j = context;
    const struct triangle *q = j->q;
    int64_t columns = (int64_t)q->columns;
    for (size_t r = 0; r < q->rows; r++) {
        size_t at = (unit * q->rows + r) * q->columns * q->size;
        int64_t edge = (int64_t)r + j->diagonal + (q->upper ? 0 : 1); /* first kept, or first dropped */
        size_t cut = (size_t)(edge < 0 ? 0 : edge > columns ? columns : edge) * q->size, row = q->columns * q->size;
        size_t from = q->upper ? cut : 0, to = q->upper ? row : cut;
        memset(j->y + at, 0, from);
        memcpy(j->y + at + from, j->x + at + from, to - from);
        memset(j->y + at + to, 0, row - to);
    }
}

static enum pen_status triangle_run(struct step *s, struct run *r)
{
    const struct triangle *q = s->state;
    const int64_t *k = s->n->in_count > 1 ? s->in[1] : NULL;
    int64_t most = (int64_t)(q->rows + q->columns);
    struct triangle_job j = {.q = q, .diagonal = k != NULL ? *k : 0, .x = s->in[0], .y = s->out[0]};
    j.diagonal = j.diagonal > most ? most : j.diagonal < -most ? -most : j.diagonal;
    parallel(r, matrix_task, &j, q->matrices);
    return PEN_OK;
}

static enum pen_status triangle_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    const struct fact *k = build_in(b, 1);
    struct triangle *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->rows = (size_t)x->dim[x->rank - 2];
    q->columns = (size_t)x->dim[x->rank - 1];
    q->matrices = (size_t)shape_elements(x) / (q->rows * q->columns);
    q->size = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    q->upper = node_int(b->n, ATTR_upper, 1) != 0;
    if (k != NULL && shape_elements(&k->shape) != 1) {
        return build_fail(b, PEN_ERR_SHAPE, "k is not one number");
    }
    b->step->state = q;
    b->step->run = triangle_run;
    return PEN_OK;
}

const struct emitter emit_triangle = {triangle_supports, NULL, triangle_build};
