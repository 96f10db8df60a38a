#include <math.h>
#include <string.h>

#include "backend/resize.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/*
 * Resize, any rank, axis by axis: each changed axis has a table of neighbours and weights per output position, made once per shape. y[outer, i, inner] = sum of
 * w * x[outer, neighbour, inner]. Axes that shrink most go first. Nearest, linear, cubic; antialiasing widens the table.
 */
struct axis {
    size_t outer, in, out, inner;
    size_t taps;
    int32_t *at;   /* [out, taps], clamped */
    float *weight; /* [out, taps] */
};

struct resize {
    struct axis axes[PEN_MAX_RANK];
    uint32_t count;
    size_t half[2], elements; /* scratch of the steps between; elements of the output */
    size_t size;              /* bytes of an element: 4, or any of nearest */
    bool rows;                /* the last pass writes rows of the last dim */
};

enum mode { NEAREST, LINEAR, CUBIC };

static enum mode mode_of(const struct node *n)
{
    return node_text_is(n, ATTR_mode, "linear", false)  ? LINEAR
           : node_text_is(n, ATTR_mode, "cubic", false) ? CUBIC
                                                        : NEAREST;
}

static bool resize_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (node_int(n, ATTR_fixed_point, 0) != 0) {
        return emit_qresize.supports(g, n, ret_reason);
    }
    const struct value *x = node_in(g, n, 0), *scales = node_in(g, n, 2), *sizes = node_in(g, n, 3);
    unsigned bits = pen_dtype_bits(x->dtype);
    if (!dtype_is(x, PEN_DTYPE_F32) && (mode_of(n) != NEAREST || bits < 8 || bits > 64)) {
        return refuse(ret_reason, "only f32, or the nearest element");
    }
    if (node_text_is(n, ATTR_coordinate_transformation_mode, "tf_crop_and_resize", false) ||
        !node_text_is(n, ATTR_keep_aspect_ratio_policy, "stretch", true)) {
        return refuse(ret_reason, "crops or aspect policies");
    }
    bool by_scale = dtype_is(scales, PEN_DTYPE_F32) && shape_elements(&scales->shape) > 0;
    bool by_size = dtype_is(sizes, PEN_DTYPE_I64) && shape_elements(&sizes->shape) > 0;
    return by_scale || by_size || refuse(ret_reason, "scales and sizes of other types, or of unknown number");
}

/* Weights of the neighbours of one position, normalised. */
static void weigh(const struct node *n, struct axis *a, size_t i, double x, double stretch)
{
    double coefficient = (double)node_float(n, ATTR_cubic_coeff_a, -0.75f), sum = 0.0;
    bool exclude = node_int(n, ATTR_exclude_outside, 0) != 0, is_cubic = mode_of(n) == CUBIC;
    double first = floor(x) - (double)(a->taps / 2) + 1.0;
    for (size_t k = 0; k < a->taps; k++) {
        double at = first + (double)k, distance = (at - x) * stretch;
        double w = is_cubic ? resize_cubic(distance, coefficient) : fmax(0.0, 1.0 - fabs(distance));
        bool outside = at < 0.0 || at >= (double)a->in;
        sum += exclude && outside ? 0.0 : w;
    }
    for (size_t k = 0; k < a->taps; k++) {
        double at = first + (double)k, distance = (at - x) * stretch;
        double w = is_cubic ? resize_cubic(distance, coefficient) : fmax(0.0, 1.0 - fabs(distance));
        bool outside = at < 0.0 || at >= (double)a->in;
        a->weight[i * a->taps + k] = (exclude && outside) || sum == 0.0 ? 0.0f : (float)(w / sum);
        a->at[i * a->taps + k] = (int32_t)(at < 0.0 ? 0.0 : at >= (double)a->in ? (double)a->in - 1.0 : at);
    }
}

static bool table_make(struct build *b, struct axis *a, double scale)
{
    enum mode mode = mode_of(b->n);
    double stretch = node_int(b->n, ATTR_antialias, 0) != 0 && mode != NEAREST && scale < 1.0 ? scale : 1.0;
    double reach = (mode == CUBIC ? 2.0 : 1.0) / stretch;
    if (!(scale > 0.0) || reach > 4096.0 || a->in > INT32_MAX) {
        return false;
    }
    a->taps = mode == NEAREST ? 1 : 2 * (size_t)ceil(reach);
    a->at = build_alloc(b, a->out * a->taps * sizeof *a->at);
    a->weight = build_alloc(b, a->out * a->taps * sizeof *a->weight);
    if (a->at == NULL || a->weight == NULL) {
        return false;
    }
    for (size_t i = 0; i < a->out; i++) {
        double x = resize_source(b->n, (double)a->in, (double)a->out, scale, (double)i);
        if (mode == NEAREST) {
            double at = resize_nearest(b->n, x);
            a->at[i] = (int32_t)(at < 0.0 ? 0.0 : at >= (double)a->in ? (double)a->in - 1.0 : at);
            a->weight[i] = 1.0f;
        } else {
            weigh(b->n, a, i, x, stretch);
        }
    }
    return true;
}

struct axis_job {
    const struct axis *a;
    const float *x;
    float *y;
    size_t size;
    size_t y_row; /* elements between output positions; inner where they lie one after the other */
};

/* Nearest: elements are copied, whatever they are. */
static void copy_task(void *context, size_t unit)
{
    const struct axis_job *j = context;
    const struct axis *a = j->a;
    size_t bytes = a->inner * j->size, row = a->in * bytes;
    const uint8_t *x = (const uint8_t *)(const void *)j->x + unit * row;
    uint8_t *y = (uint8_t *)(void *)j->y + unit * a->out * j->y_row * j->size;
    for (size_t i = 0; i < a->out; i++) {
        memcpy(y + i * j->y_row * j->size, x + (size_t)a->at[i] * bytes, bytes);
    }
}

/* One output position of one outer index: inner floats; or, when the axis is the last, a whole row of positions. */
static void axis_task(void *context, size_t unit)
{
    const struct axis_job *j = context;
    const struct axis *a = j->a;
    const struct own *own = isa_own();
    if (a->inner == 1) {
        const float *x = j->x + unit * a->in;
        float *y = j->y + unit * a->out;
        for (size_t i = 0; i < a->out; i++) {
            float sum = 0.0f;
            for (size_t k = 0; k < a->taps; k++) {
                sum += a->weight[i * a->taps + k] * x[a->at[i * a->taps + k]];
            }
            y[i] = a->taps == 1 ? x[a->at[i]] : sum;
        }
        return;
    }
    size_t o = unit / a->out, i = unit % a->out;
    const float *x = j->x + o * a->in * a->inner;
    float *y = j->y + unit * j->y_row;
    for (size_t k = 0; k < a->taps; k++) {
        const float *from = x + (size_t)a->at[i * a->taps + k] * a->inner;
        float w = a->weight[i * a->taps + k];
        if (k == 0) {
            own->affine(from, y, a->inner, 0.0f, w, NULL, NULL);
        } else if (w != 0.0f) {
            own->axpy(y, from, a->inner, w);
        }
    }
}

static enum pen_status resize_run(struct step *s, struct run *r)
{
    const struct resize *q = s->state;
    const float *x = s->in[0];
    for (uint32_t i = 0; i < q->count; i++) {
        const struct axis *a = &q->axes[i];
        float *y = i + 1 == q->count ? s->out[0] : (float *)(void *)((uint8_t *)s->scratch + q->half[i % 2]);
        struct axis_job j = {a, x, y, q->size, i + 1 == q->count && q->rows ? s->out_row : a->inner};
        bool nearest = mode_of(s->n) == NEAREST;
        parallel(r, nearest ? copy_task : axis_task, &j, nearest || a->inner == 1 ? a->outer : a->outer * a->out);
        x = y;
    }
    return PEN_OK;
}

/* What names the factors: the sizes where they are given, else the scales. */
static const struct fact *factors_of(const struct build *b)
{
    const struct fact *sizes = build_in(b, 3);
    return sizes != NULL && shape_elements(&sizes->shape) > 0 ? sizes : build_in(b, 2);
}

/* The factor of one axis of x as given by scales or sizes; false when they do not name it: it keeps its size. */
static bool factor_of(const struct build *b, int32_t d, int64_t in, double *ret_scale)
{
    const struct fact *from = factors_of(b);
    bool by_size = from == build_in(b, 3);
    uint32_t count = 0;
    const int64_t *axes = node_ints(b->n, ATTR_axes, &count);
    int64_t at = d;
    for (uint32_t i = 0; axes != NULL && i < count; i++) {
        if (shape_axis(axes[i], build_in(b, 0)->shape.rank) == d) {
            at = -1 - (int64_t)i;
        }
    }
    if (axes != NULL && at >= 0) {
        return false;
    }
    at = axes != NULL ? -1 - at : at;
    if (at >= shape_elements(&from->shape)) {
        return false;
    }
    *ret_scale = by_size ? (double)build_out(b, 0)->shape.dim[d] / (double)in : (double)((const float *)from->data)[at];
    return true;
}

/* The last pass writes rows of the last dim, which may be further apart than they are long. */
static bool rows_last(const struct resize *q, const struct shape *x, const struct shape *y)
{
    const struct axis *a = &q->axes[q->count - 1];
    const int32_t last = x->rank - 1;
    return last > 0 && x->dim[last] == y->dim[last] && a->inner == (size_t)y->dim[last] && a->inner > 1 && q->size == 4;
}

static enum pen_status resize_build(struct build *b)
{
    if (node_int(b->n, ATTR_fixed_point, 0) != 0) {
        return emit_qresize.build(b);
    }
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct resize *q = build_alloc(b, sizeof *q);
    if (q == NULL || x->rank != y->rank) {
        return build_fail(b, q == NULL ? PEN_ERR_NO_MEMORY : PEN_ERR_SHAPE,
                          "input and output differ in rank, or no memory");
    }
    if (factors_of(b) == NULL || factors_of(b)->data == NULL) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "scales or sizes that neither constants nor shapes give");
    }
    struct shape now = *x;
    size_t most = 0;
    q->size = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    for (int32_t d = 0; d < x->rank; d++) {
        double scale = 1.0;
        bool named = factor_of(b, d, x->dim[d], &scale);
        if (x->dim[d] == y->dim[d] && (!named || scale == 1.0)) {
            continue;
        }
        struct axis *a = &q->axes[q->count++];
        *a = (struct axis){.outer = 1, .in = (size_t)x->dim[d], .out = (size_t)y->dim[d], .inner = 1};
        for (int32_t k = 0; k < x->rank; k++) {
            *(k < d ? &a->outer : &a->inner) *= k == d ? 1 : (size_t)now.dim[k];
        }
        now.dim[d] = y->dim[d];
        most = (size_t)shape_elements(&now) > most ? (size_t)shape_elements(&now) : most;
        if (!named || !table_make(b, a, scale)) {
            return build_fail(b, PEN_ERR_UNSUPPORTED, "this scale, or no memory for its table");
        }
    }
    b->step->state = q;
    b->step->run = resize_run;
    b->rows_out = q->rows = q->count > 0 && rows_last(q, x, y);
    if (q->count == 0) {
        return emit_view.build(b);
    }
    q->half[1] = (most * q->size + 127) / 64 * 64;
    b->step->scratch_bytes = q->count > 1 ? 2 * q->half[1] : 0;
    return PEN_OK;
}

const struct emitter emit_resize = {resize_supports, NULL, resize_build};
