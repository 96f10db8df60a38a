/* Pooling: one number per window and channel. Source: ONNX AveragePool, MaxPool, LpPool and their global forms. */
#include "backend/reference/activation.h"
#include "backend/reference/spatial.h"

#include <math.h>

enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP };

struct pool {
    enum pool_kind kind;
    double p;          /* of POOL_LP */
    bool include_pad;  /* of POOL_AVERAGE */
    bool column_major; /* order of the indices of MaxPool */
    struct spatial in, out;
    struct window window;
    const struct rt_value *x;
    struct rt_value *y;
    int64_t *indices; /* second output of MaxPool or NULL */
    struct activation_fused act;
};

/* The input elements under one window. */
struct window_taps {
    int64_t *offsets; /* [taps] place in one channel */
    int64_t *plain;   /* [taps] the same counted over the spatial dims, for indices */
    int64_t count;    /* inside the input */
    int64_t padded;   /* inside the input or its declared padding */
};

static void taps_find(const struct pool *p, int64_t position, struct window_taps *ret)
{
    const struct window *w = &p->window;
    int64_t at[SPATIAL_MAX], tap[SPATIAL_MAX] = {0};
    spatial_index(p->out.size, p->out.dims, position, at);
    ret->count = ret->padded = 0;
    for (int64_t t = 0; t < w->taps; t++) {
        bool inside = true, padded = true;
        int64_t offset = 0, row = 0, column = 0, step = 1;
        for (int32_t d = 0; d < p->in.dims; d++) {
            int64_t i = at[d] * w->stride[d] - w->pad_begin[d] + tap[d] * w->dilation[d];
            inside = inside && i >= 0 && i < p->in.size[d];
            padded = padded && i < p->in.size[d] + w->pad_end[d];
            offset += i * p->in.stride[d];
            row = row * p->in.size[d] + i;
            column += i * step;
            step *= p->in.size[d];
        }
        ret->padded += padded;
        if (inside) {
            ret->offsets[ret->count] = offset;
            ret->plain[ret->count++] = p->column_major ? column : row;
        }
        for (int32_t d = p->in.dims - 1; d >= 0 && ++tap[d] == w->kernel[d]; d--) {
            tap[d] = 0;
        }
    }
}

/* y = max over the window; the first of equals wins. Integers go as int64 so that all 64 bits count. */
static double pool_max(const struct pool *p, int64_t base, const struct window_taps *t, int64_t *ret_tap)
{
    double best = -(double)INFINITY;
    *ret_tap = 0;
    for (int64_t i = 0; i < t->count; i++) {
        double v = load_one_f64(p->x->data, p->x->dtype, base + t->offsets[i]);
        if (v > best || isnan(v)) {
            best = v;
            *ret_tap = i;
        }
    }
    return best;
}

static double pool_sum(const struct pool *p, int64_t base, const struct window_taps *t)
{
    double sum = 0.0;
    for (int64_t i = 0; i < t->count; i++) {
        double v = load_one_f64(p->x->data, p->x->dtype, base + t->offsets[i]);
        sum += p->kind == POOL_LP ? pow(fabs(v), p->p) : v;
    }
    return sum;
}

/* average = sum / count, Lp = (sum of |x|^p)^(1/p) */
static double pool_one(const struct pool *p, int64_t image, int64_t channel, int64_t base, const struct window_taps *t,
                       int64_t out_at)
{
    int64_t tap = 0;
    switch (p->kind) {
    case POOL_MAX: {
        double best = pool_max(p, base, t, &tap);
        if (p->indices != NULL && t->count > 0) {
            p->indices[out_at] = (image * p->in.channels + channel) * p->in.positions + t->plain[tap];
        }
        return best;
    }
    case POOL_LP:
        return pow(pool_sum(p, base, t), 1.0 / p->p);
    case POOL_AVERAGE:
    default: {
        int64_t divisor = p->include_pad ? t->padded : t->count;
        return divisor == 0 ? 0.0 : pool_sum(p, base, t) / (double)divisor;
    }
    }
}

static enum pen_status pool_loop(struct kernel_call *k, struct pool *p)
{
    struct window_taps taps;
    taps.offsets = kernel_scratch(k, (size_t)p->window.taps * sizeof *taps.offsets);
    taps.plain = kernel_scratch(k, (size_t)p->window.taps * sizeof *taps.plain);
    if (taps.offsets == NULL || taps.plain == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a window of %lld", (long long)p->window.taps);
    }
    for (int64_t position = 0; position < p->out.positions; position++) {
        enum pen_status status = kernel_cancelled(k);
        if (status != PEN_OK) {
            return status;
        }
        taps_find(p, position, &taps);
        for (int64_t image = 0; image < p->in.batch; image++) {
            for (int64_t channel = 0; channel < p->in.channels; channel++) {
                int64_t base = image * p->in.stride_batch + channel * p->in.stride_channel;
                int64_t at =
                    image * p->out.stride_batch + channel * p->out.stride_channel + position * p->out.stride_position;
                double v = pool_one(p, image, channel, base, &taps, at);
                activation_apply(&p->act, &v, 1);
                store_one_f64(p->y->data, p->y->dtype, at, v);
            }
        }
    }
    return PEN_OK;
}

static enum pen_status pool_run(struct kernel_call *k, struct pool *p)
{
    int64_t size[SPATIAL_MAX];
    bool ceil_mode = node_int(k->n, ATTR_ceil_mode, 0) != 0;
    for (int32_t d = 0; d < p->in.dims; d++) {
        size[d] = window_out(&p->window, d, p->in.size[d], ceil_mode);
    }
    spatial_make(p->in.batch, p->in.channels, p->in.dims, size, p->in.nhwc, &p->out);
    struct shape shape = spatial_shape(&p->out);
    enum pen_status status = kernel_output(k, 0, p->x->dtype, &shape);
    if (status == PEN_OK && p->kind == POOL_MAX && kernel_wants(k, 1)) {
        status = kernel_output(k, 1, PEN_DTYPE_I64, &shape);
        p->indices = status == PEN_OK ? k->out[1].data : NULL;
    }
    p->y = &k->out[0];
    p->act = activation_of(k->n);
    return status == PEN_OK ? pool_loop(k, p) : status;
}

static void kind_of(const struct node *n, struct pool *p)
{
    bool max = n->op == OP_MaxPool || n->op == OP_GlobalMaxPool;
    bool lp = n->op == OP_LpPool || n->op == OP_GlobalLpPool;
    p->kind = max ? POOL_MAX : lp ? POOL_LP : POOL_AVERAGE;
    p->p = (double)node_int(n, ATTR_p, 2);
}

enum pen_status kernel_pool(struct kernel_call *k)
{
    struct pool p = {.x = &k->in[0],
                     .include_pad = node_int(k->n, ATTR_count_include_pad, 0) != 0,
                     .column_major = node_int(k->n, ATTR_storage_order, 0) != 0};
    uint32_t count = 0;
    const int64_t *kernel = node_ints(k->n, ATTR_kernel_shape, &count);
    kind_of(k->n, &p);
    enum pen_status status = spatial_of(k, &k->in[0].shape, &p.in);
    if (status == PEN_OK && (kernel == NULL || count != (uint32_t)p.in.dims)) {
        status = kernel_fail(k, PEN_ERR_INVALID, "kernel_shape has %u items for %d dimensions", count, p.in.dims);
    }
    if (status == PEN_OK) {
        status = window_init(k, &p.in, kernel, false, &p.window);
    }
    return status == PEN_OK ? pool_run(k, &p) : status;
}

/* One window over everything. */
enum pen_status kernel_global_pool(struct kernel_call *k)
{
    struct pool p = {.x = &k->in[0]};
    kind_of(k->n, &p);
    enum pen_status status = spatial_of(k, &k->in[0].shape, &p.in);
    p.window = (struct window){.dims = p.in.dims, .taps = p.in.positions};
    for (int32_t d = 0; d < p.in.dims; d++) {
        p.window.kernel[d] = p.in.size[d];
        p.window.stride[d] = p.window.dilation[d] = 1;
    }
    return status == PEN_OK ? pool_run(k, &p) : status;
}
