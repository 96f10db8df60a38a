#include <math.h>

#include "backend/xnnpack/emitters.h"

/*
 * GridSample: x [batch, channels, in...], grid [batch, out..., dims] with the innermost axis first, y [batch, channels, out...]; 1 to 3 spatial dims.
 * The places and weights of an output position are found once and used for every channel.
 */
#define DIMS_MAX 3
#define TAPS_MAX 64 /* 4 neighbours along each of 3 dims */

enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

struct grid {
    enum grid_mode mode;
    enum grid_padding padding;
    bool align;
    int32_t dims;
    size_t batch, channels, in_size, out_size;
    int64_t in[DIMS_MAX];
};

struct grid_job {
    const struct grid *q;
    const float *x, *grid;
    float *y;
};

struct taps {
    size_t count;
    size_t at[TAPS_MAX];
    float weight[TAPS_MAX];
};

static bool grid_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    int32_t rank = node_in(g, n, 0)->shape.rank;
    return (all_f32(g, n) && rank >= 3 && rank <= 2 + DIMS_MAX && node_in(g, n, 1)->shape.rank == rank) ||
           refuse(ret_reason, "only f32 of 1 to 3 spatial dims");
}

/* Mirrors p into [low, high]. */
static double mirrored(double p, double low, double high)
{
    double range = high - low;
    if (range <= 0.0) {
        return low;
    }
    double d = fmod(fabs(p - low), 2.0 * range);
    return d > range ? low + 2.0 * range - d : low + d;
}

/* The coordinate after padding; with zeros it stays where it is. A cubic pads each of its four pixels by itself: it may lie three pixels behind a border. */
static double padded(const struct grid *q, double p, int64_t size)
{
    double room = q->mode == GRID_CUBIC ? 3.0 : 0.0;
    double top = (double)size - 1.0, low = q->align ? 0.0 : -0.5, high = q->align ? top : top + 0.5;
    if (q->padding == GRID_BORDER) {
        return p < -room ? -room : p > top + room ? top + room : p;
    }
    if (q->padding == GRID_REFLECTION) {
        p = p < low || p > high ? mirrored(p, low, high) : p;
        return q->mode == GRID_CUBIC ? p : p < 0.0 ? 0.0 : p > top ? top : p;
    }
    return p;
}

static double cubic_weight(double t) /* Keys, a = -0.75 */
{
    const double a = -0.75;
    t = fabs(t);
    return t <= 1.0  ? ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
           : t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
                     : 0.0;
}

/* Neighbours of p along one axis: positions (-1 = reads as zero) and weights. */
static int axis_taps(const struct grid *q, double p, int64_t size, int64_t *at, double *weight)
{
    int count = q->mode == GRID_CUBIC ? 4 : q->mode == GRID_LINEAR ? 2 : 1;
    int64_t first =
        q->mode == GRID_NEAREST ? (int64_t)nearbyint(p) : (int64_t)floor(p) - (q->mode == GRID_CUBIC ? 1 : 0);
    for (int i = 0; i < count; i++) {
        int64_t here = first + i;
        double distance = fabs(p - (double)here);
        weight[i] = q->mode == GRID_CUBIC ? cubic_weight(distance) : q->mode == GRID_LINEAR ? 1.0 - distance : 1.0;
        if (here < 0 || here >= size) {
            double inside = padded(q, (double)here, size);
            inside = inside < 0.0 ? 0.0 : inside > (double)size - 1.0 ? (double)size - 1.0 : inside;
            here = q->padding == GRID_ZEROS ? -1 : (int64_t)inside;
        }
        at[i] = here;
    }
    return count;
}

/* All neighbours of one output position: products over the axes. */
static void taps_find(const struct grid *q, const float *place, struct taps *t)
{
    int64_t at[4];
    double weight[4];
    t->count = 1;
    t->at[0] = 0;
    t->weight[0] = 1.0f;
    for (int32_t d = 0; d < q->dims; d++) {
        double v = (double)place[q->dims - 1 - d], n = (double)q->in[d];
        double p = padded(q, q->align ? (v + 1.0) / 2.0 * (n - 1.0) : ((v + 1.0) * n - 1.0) / 2.0, q->in[d]);
        if (!(fabs(p) <= 1e9)) { /* also NaN */
            t->count = 0;
            return;
        }
        int count = axis_taps(q, p, q->in[d], at, weight);
        struct taps old = *t;
        t->count = 0;
        for (size_t k = 0; k < old.count; k++) {
            for (int i = 0; i < count; i++) {
                if (at[i] >= 0 && weight[i] != 0.0) {
                    t->at[t->count] = old.at[k] * (size_t)q->in[d] + (size_t)at[i];
                    t->weight[t->count++] = old.weight[k] * (float)weight[i];
                }
            }
        }
    }
}

#define POSITIONS 64 /* of one unit */

static void grid_task(void *context, size_t unit)
{
    const struct grid_job *j = context;
    const struct grid *q = j->q;
    size_t units = (q->out_size + POSITIONS - 1) / POSITIONS, b = unit / units, from = unit % units * POSITIONS;
    size_t to = q->out_size - from < POSITIONS ? q->out_size : from + POSITIONS;
    struct taps t;
    for (size_t i = from; i < to; i++) {
        taps_find(q, j->grid + (b * q->out_size + i) * (size_t)q->dims, &t);
        for (size_t c = 0; c < q->channels; c++) {
            const float *x = j->x + (b * q->channels + c) * q->in_size;
            float sum = 0.0f;
            for (size_t k = 0; k < t.count; k++) {
                sum += t.weight[k] * x[t.at[k]];
            }
            j->y[(b * q->channels + c) * q->out_size + i] = sum;
        }
    }
}

static enum pen_status grid_run(struct step *s, struct run *r)
{
    const struct grid *q = s->state;
    struct grid_job j = {q, s->in[0], s->in[1], s->out[0]};
    parallel(r, grid_task, &j, q->batch * ((q->out_size + POSITIONS - 1) / POSITIONS));
    return PEN_OK;
}

static enum pen_status grid_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *grid = &build_in(b, 1)->shape, *y = &build_out(b, 0)->shape;
    struct grid *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->dims = x->rank - 2;
    q->mode = node_text_is(b->n, ATTR_mode, "nearest", false) ? GRID_NEAREST
              : node_text_is(b->n, ATTR_mode, "cubic", false) || node_text_is(b->n, ATTR_mode, "bicubic", false)
                  ? GRID_CUBIC
                  : GRID_LINEAR;
    q->padding = node_text_is(b->n, ATTR_padding_mode, "border", false)       ? GRID_BORDER
                 : node_text_is(b->n, ATTR_padding_mode, "reflection", false) ? GRID_REFLECTION
                                                                              : GRID_ZEROS;
    q->align = node_int(b->n, ATTR_align_corners, 0) != 0;
    q->batch = (size_t)x->dim[0];
    q->channels = (size_t)x->dim[1];
    q->in_size = q->out_size = 1;
    bool fits = grid->dim[0] == x->dim[0] && grid->dim[grid->rank - 1] == q->dims && y->rank == x->rank &&
                y->dim[0] == x->dim[0] && y->dim[1] == x->dim[1];
    for (int32_t d = 0; d < q->dims; d++) {
        q->in[d] = x->dim[2 + d];
        q->in_size *= (size_t)q->in[d];
        q->out_size *= (size_t)grid->dim[1 + d];
        fits = fits && y->dim[2 + d] == grid->dim[1 + d] && q->in[d] > 0;
    }
    b->step->state = q;
    b->step->run = grid_run;
    return fits ? PEN_OK : build_fail(b, PEN_ERR_UNSUPPORTED, "the grid does not fit the data");
}

const struct emitter emit_grid = {grid_supports, NULL, grid_build};
