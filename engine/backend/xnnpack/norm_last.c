#include "backend/xnnpack/norm_last.h"

#include <math.h>
#include <string.h>

struct norm_last {
    size_t batch, positions, channels;
    double epsilon;
};

struct last_job {
    const struct norm_last *q;
    const float *x, *scale, *bias;
    double *scratch; /* [batch, 2, channels] */
    float *y;
};

/* to [channels] += (x - mean)^power over all positions; mean NULL: zeros. */
static void sums_add(const struct norm_last *q, const float *x, const double *mean, double *to)
{
    memset(to, 0, q->channels * sizeof *to);
    for (size_t p = 0; p < q->positions; p++) {
        const float *row = x + p * q->channels;
        for (size_t c = 0; c < q->channels; c++) {
            double d = mean != NULL ? (double)row[c] - mean[c] : (double)row[c];
            to[c] += mean != NULL ? d * d : d;
        }
    }
    for (size_t c = 0; c < q->channels; c++) {
        to[c] /= (double)q->positions;
    }
}

static void last_task(void *context, size_t b)
{
    const struct last_job *j = context;
    const struct norm_last *q = j->q;
    size_t first = b * q->positions * q->channels;
    double *mean = j->scratch + b * 2 * q->channels, *gain = mean + q->channels;
    sums_add(q, j->x + first, NULL, mean);
    sums_add(q, j->x + first, mean, gain);
    for (size_t c = 0; c < q->channels; c++) {
        gain[c] = (double)j->scale[c] / sqrt(gain[c] + q->epsilon);
    }
    for (size_t i = 0; i < q->positions * q->channels; i++) {
        size_t c = i % q->channels;
        j->y[first + i] = (float)(((double)j->x[first + i] - mean[c]) * gain[c] + (double)j->bias[c]);
    }
}

static enum pen_status last_run(struct step *s, struct run *r)
{
    const struct norm_last *q = s->state;
    struct last_job j = {
        .q = q, .x = s->in[0], .scale = s->in[1], .bias = s->in[2], .scratch = s->scratch, .y = s->out[0]};
    parallel(r, last_task, &j, q->batch);
    return PEN_OK;
}

enum pen_status norm_last_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct norm_last *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->batch = (size_t)x->dim[0];
    q->channels = (size_t)x->dim[x->rank - 1];
    q->positions = 1;
    for (int32_t d = 1; d < x->rank - 1; d++) {
        q->positions *= (size_t)x->dim[d];
    }
    if (!shape_equal(x, &build_out(b, 0)->shape) || shape_elements(x) == 0 ||
        shape_elements(&build_in(b, 1)->shape) != (int64_t)q->channels ||
        shape_elements(&build_in(b, 2)->shape) != (int64_t)q->channels) {
        return build_fail(b, PEN_ERR_SHAPE, "scale, bias or result have other sizes than the channels");
    }
    q->epsilon = (double)node_float(b->n, ATTR_epsilon, 1e-5f);
    b->step->scratch_bytes = q->batch * 2 * q->channels * sizeof(double);
    b->step->state = q;
    b->step->run = last_run;
    return PEN_OK;
}
