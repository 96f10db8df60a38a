#include "backend/row_rounding.h"

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/* RowRounding. A unit is a part of one row; the range of a row is that of all its parts. */
struct rounding {
    size_t row, parts, units;
    bool symmetric;
};

struct part_range {
    float min, max;
};

struct rounding_job {
    const struct rounding *q;
    const float *x;
    float *y;
    struct part_range *ranges;
};

static bool rounding_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    int32_t rank = node_in(g, n, 0)->shape.rank;
    if (!dtype_is(node_in(g, n, 0), PEN_DTYPE_F32)) {
        return refuse(ret_reason, "only f32");
    }
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), rank) >= 0) || refuse(ret_reason, "axis out of range");
}

/* The elements of a unit, from the first on. */
static size_t unit_span(const struct rounding *q, size_t unit, size_t *ret_first)
{
    size_t part = unit % q->parts, left = q->row - part * CHUNK;
    *ret_first = unit / q->parts * q->row + part * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

static void range_task(void *context, size_t unit)
{
    const struct rounding_job *j = context;
    size_t first, count = unit_span(j->q, unit, &first);
    struct part_range r;
    isa_own()->range(j->x + first, count, &r.min, &r.max);
    j->ranges[unit] = r;
}

static void round_task(void *context, size_t unit)
{
    const struct rounding_job *j = context;
    size_t first, count = unit_span(j->q, unit, &first);
    const struct part_range *parts = &j->ranges[unit / j->q->parts * j->q->parts];
    struct part_range all = {0.0f, 0.0f};
    for (size_t i = 0; i < j->q->parts; i++) {
        all.min = parts[i].min < all.min ? parts[i].min : all.min;
        all.max = parts[i].max > all.max ? parts[i].max : all.max;
    }
    struct row_steps s = row_steps_of(all.min, all.max, j->q->symmetric);
    isa_own()->steps(&s, j->x + first, j->y + first, count);
}

static enum pen_status rounding_run(struct step *s, struct run *r)
{
    const struct rounding *q = s->state;
    struct rounding_job j = {.q = q, .x = s->in[0], .y = s->out[0], .ranges = s->scratch};
    parallel(r, range_task, &j, q->units);
    parallel(r, round_task, &j, q->units);
    return PEN_OK;
}

static enum pen_status rounding_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct rounding *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->row = 1;
    for (int32_t d = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank); d < x->rank; d++) {
        q->row *= (size_t)x->dim[d];
    }
    q->symmetric = node_int(b->n, ATTR_symmetric, 0) != 0;
    q->parts = (q->row + CHUNK - 1) / CHUNK;
    q->units = q->row == 0 ? 0 : (size_t)shape_elements(x) / q->row * q->parts;
    b->step->scratch_bytes = (q->units + 1) * sizeof(struct part_range);
    b->step->state = q;
    b->step->run = rounding_run;
    return PEN_OK;
}

const struct emitter emit_row_rounding = {rounding_supports, NULL, rounding_build};
