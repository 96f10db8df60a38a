#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qlinear.h"

/*
 * QLinearSoftmax: x, x_scale, x_zero, y_scale, y_zero. y depends on the distance of a code to the largest of its lane, of which there are 256. Lanes of many
 * elements look up a table of answers, made for the lane in single precision; answers near a tie are computed as the reference does.
 */
struct qsoftmax {
    enum pen_dtype dtype;
    size_t outer, count, inner;
};

struct softmax_job {
    const struct qsoftmax *q;
    struct qends e;
    const uint8_t *x;
    uint8_t *y;
    /*
     * exponentials[d] = exp(-d x_scale). A code times a scale, and the difference of two such, have at most 33 digits: they are exact in double, so this is
     * the exponential of the difference to the largest that the reference takes.
     */
    double exponentials[256];
    float singles[256];
    uint8_t flip; /* turns codes into numbers without a sign, of which the largest has distance 0 */
};

static bool softmax_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return qends_fit(g, n, ret_reason) && (shape_axis(node_int(n, ATTR_axis, -1), node_in(g, n, 0)->shape.rank) >= 0 ||
                                           refuse(ret_reason, "axis out of range"));
}

static uint8_t largest(const struct softmax_job *j, const uint8_t *x, size_t step)
{
    uint8_t max = 0;
    for (size_t i = 0; i < j->q->count; i++) {
        uint8_t at = x[i * step] ^ j->flip;
        max = at > max ? at : max;
    }
    return max;
}

/* In the reference's order. */
static double sum_exact(const struct softmax_job *j, const uint8_t *x, size_t step, uint8_t max)
{
    double sum = 0.0;
    for (size_t i = 0; i < j->q->count; i++) {
        sum += j->exponentials[max - (x[i * step] ^ j->flip)];
    }
    return sum;
}

/* One lane. */
static void lane_task(void *context, size_t unit)
{
    const struct softmax_job *j = context;
    const struct qsoftmax *q = j->q;
    size_t first = unit / q->inner * q->count * q->inner + unit % q->inner;
    const uint8_t *x = j->x + first;
    uint8_t *y = j->y + first;
    const uint8_t max = largest(j, x, q->inner);
    const double sum = sum_exact(j, x, q->inner, max);
    for (size_t i = 0; i < q->count; i++) {
        y[i * q->inner] = qends_byte(&j->e, j->exponentials[max - (x[i * q->inner] ^ j->flip)] / sum);
    }
}

#define LANE_LONG  64 /* elements from which on a table is made */
#define LANES_UNIT 8

/* Of distances, four sums at a time: near enough to know what is near a tie. */
static double sum_near(const double *exponentials, const uint8_t *distances, size_t count)
{
    double sums[4] = {0.0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            sums[k] += exponentials[distances[i + k]];
        }
    }
    for (; i < count; i++) {
        sums[0] += exponentials[distances[i]];
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* answers[d] of each distance; those that were marked are computed in double. */
static void answers_make(const struct softmax_job *j, double sum, const uint8_t *x, uint8_t max, uint8_t answers[256])
{
    uint8_t marks[256];
    const struct int_scaled s = {.factor = (float)(1.0 / (sum * j->e.y_scale)),
                                 .low = (float)(j->e.low - (double)j->e.y_zero),
                                 .high = (float)(j->e.high - (double)j->e.y_zero),
                                 .near_tie = 0x1p-20f,
                                 .zero = j->e.y_zero};
    if (!isa_int()->scaled(&s, j->singles, answers, marks, 256)) {
        return;
    }
    sum = sum_exact(j, x, 1, max);
    for (size_t d = 0; d < 256; d++) {
        answers[d] = marks[d] != 0 ? qends_byte(&j->e, j->exponentials[d] / sum) : answers[d];
    }
}

/* Some lanes, whose elements lie side by side. */
static void lanes_task(void *context, size_t unit)
{
    const struct softmax_job *j = context;
    const size_t count = j->q->count;
    for (size_t lane = unit * LANES_UNIT; lane < (unit + 1) * LANES_UNIT && lane < j->q->outer; lane++) {
        const uint8_t *x = j->x + lane * count;
        uint8_t answers[256], max = isa_int()->largest(x, j->flip, count), *y = j->y + lane * count;
        isa_int()->distance(x, j->flip, max, y, count);
        answers_make(j, sum_near(j->exponentials, y, count), x, max, answers);
        isa_lookup()(answers, y, y, count);
    }
}

static enum pen_status softmax_run(struct step *s, struct run *r)
{
    const struct qsoftmax *q = s->state;
    struct softmax_job j = {.q = q, .x = s->in[0], .y = s->out[0]};
    j.e = qends_of(q->dtype,
                   (const void *[]){s->in[0], s->in[1], s->in[2], s->in[3], s->n->in_count > 4 ? s->in[4] : NULL});
    j.flip = (uint8_t)((q->dtype == PEN_DTYPE_I8 ? 0x80 : 0) ^ (j.e.x_scale < 0.0 ? 0xFF : 0));
    for (int d = 0; d < 256; d++) {
        j.exponentials[d] = exp((double)-d * fabs(j.e.x_scale));
        j.singles[d] = (float)j.exponentials[d];
    }
    if (q->inner == 1 && q->count >= LANE_LONG && j.e.y_scale > 0x1p-30 && j.e.y_scale < 0x1p30) {
        parallel(r, lanes_task, &j, (q->outer + LANES_UNIT - 1) / LANES_UNIT);
    } else {
        parallel(r, lane_task, &j, q->count > 0 ? q->outer * q->inner : 0);
    }
    return PEN_OK;
}

static enum pen_status softmax_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct qsoftmax *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank);
    *q = (struct qsoftmax){.dtype = build_in(b, 0)->dtype, .outer = 1, .count = 1, .inner = 1};
    for (int32_t d = 0; d < x->rank; d++) {
        *(d < axis ? &q->outer : d == axis ? &q->count : &q->inner) *= (size_t)x->dim[d];
    }
    b->step->state = q;
    b->step->run = softmax_run;
    return shape_equal(x, &build_out(b, 0)->shape)
               ? PEN_OK
               : build_fail(b, PEN_ERR_SHAPE, "input and output do not fit each other");
}

const struct emitter emit_qsoftmax = {softmax_supports, NULL, softmax_build};
