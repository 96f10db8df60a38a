#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/rounded.h"

/* RowRounding by itself; products behind it take its steps as bytes (fusion_hybrid.c). */
struct rounding_job {
    const struct rounded_rows *q;
    const float *x;
    float *y;
    const struct part_range *ranges;
};

static bool rounding_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    int32_t rank = node_in(g, n, 0)->shape.rank;
    if (!dtype_is(node_in(g, n, 0), PEN_DTYPE_F32)) {
        return refuse(ret_reason, "only f32");
    }
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), rank) >= 0) || refuse(ret_reason, "axis out of range");
}

static void round_task(void *context, size_t unit)
{
    const struct rounding_job *j = context;
    size_t first, count = rounded_span(j->q, unit, &first);
    struct row_steps s = rounded_steps(j->q, j->ranges, unit / j->q->parts);
    isa_own()->steps(&s, j->x + first, j->y + first, count);
}

static enum pen_status rounding_run(struct step *s, struct run *r)
{
    const struct rounded_rows *q = s->state;
    struct rounding_job j = {.q = q, .x = s->in[0], .y = s->out[0], .ranges = s->scratch};
    rounded_ranges(q, s->in[0], s->scratch, r);
    parallel(r, round_task, &j, q->units);
    return PEN_OK;
}

static enum pen_status rounding_build(struct build *b)
{
    struct rounded_rows *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *q = rounded_of(b->n, &build_in(b, 0)->shape);
    b->step->scratch_bytes = (q->units + 1) * sizeof(struct part_range);
    b->step->state = q;
    b->step->run = rounding_run;
    return PEN_OK;
}

const struct emitter emit_row_rounding = {rounding_supports, NULL, rounding_build};
