/* Sampling at computed places: GridSample, AffineGrid; Col2Im. Source: ONNX. */
#include "backend/reference/spatial.h"

#include <math.h>
#include <string.h>

enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

struct grid {
    enum grid_mode mode;
    enum grid_padding padding;
    bool align;
    struct spatial in, out;
    const struct rt_value *x;
};

/* [-1, 1] to pixels: the corners' centres when aligned, their outer edges otherwise. */
static double pixel_of(const struct grid *g, double v, int64_t size)
{
    double n = (double)size;
    return g->align ? (v + 1.0) / 2.0 * (n - 1.0) : ((v + 1.0) * n - 1.0) / 2.0;
}

/* Mirrors p into [low, high]. */
static double reflect(double p, double low, double high)
{
    double range = high - low;
    if (range <= 0.0 || !isfinite(p)) {
        return low;
    }
    double d = fmod(fabs(p - low), 2.0 * range);
    return d > range ? low + 2.0 * range - d : low + d;
}

/*
 * The coordinate after padding; with zeros it stays outside and reads as zero. A cubic reads four pixels: each is padded by itself, so that behind a border the
 * weights are those of the place outside. Three pixels further out every one of them is the border.
 */
static double padded(const struct grid *g, double p, int64_t size)
{
    double room = g->mode == GRID_CUBIC ? 3.0 : 0.0;
    double low = g->align ? 0.0 : -0.5, high = g->align ? (double)size - 1.0 : (double)size - 0.5,
           top = (double)size - 1.0;
    switch (g->padding) {
    case GRID_BORDER:
        return p < -room ? -room : p > top + room ? top + room : p;
    case GRID_REFLECTION:
        p = p < low || p > high ? reflect(p, low, high) : p;
        return g->mode == GRID_CUBIC ? p : fmin(fmax(p, 0.0), top);
    case GRID_ZEROS:
    default:
        return p;
    }
}

/* One element; outside: zero, or the padded pixel. */
static double element_at(const struct grid *g, int64_t base, const int64_t *at)
{
    int64_t offset = base;
    for (int32_t d = 0; d < g->in.dims; d++) {
        int64_t i = at[d];
        if (i < 0 || i >= g->in.size[d]) {
            if (g->padding == GRID_ZEROS) {
                return 0.0;
            }
            double p = padded(g, (double)i, g->in.size[d]);
            i = (int64_t)fmin(fmax(p, 0.0), (double)g->in.size[d] - 1.0);
        }
        offset += i * g->in.stride[d];
    }
    return load_one_f64(g->x->data, g->x->dtype, offset);
}

static double cubic(double t) /* Keys, a = -0.75 */
{
    const double a = -0.75;
    t = fabs(t);
    return t <= 1.0  ? ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
           : t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
                     : 0.0;
}

/* Sum over the neighbours of p, weights multiplied over the dims. */
static double sample(const struct grid *g, int64_t base, const double *p)
{
    int64_t first[SPATIAL_MAX], at[SPATIAL_MAX],
        taps = g->mode == GRID_CUBIC    ? 4
               : g->mode == GRID_LINEAR ? 2
                                        : 1,
        total = 1;
    double sum = 0.0;
    for (int32_t d = 0; d < g->in.dims; d++) {
        if (!isfinite(p[d]) || fabs(p[d]) > 1e9) {
            return 0.0;
        }
        first[d] =
            g->mode == GRID_NEAREST ? (int64_t)nearbyint(p[d]) : (int64_t)floor(p[d]) - (g->mode == GRID_CUBIC ? 1 : 0);
        total *= taps;
    }
    for (int64_t t = 0; t < total; t++) {
        double weight = 1.0;
        int64_t left = t;
        for (int32_t d = g->in.dims - 1; d >= 0; d--) {
            at[d] = first[d] + left % taps;
            left /= taps;
            double distance = fabs(p[d] - (double)at[d]);
            weight *= g->mode == GRID_CUBIC ? cubic(distance) : g->mode == GRID_LINEAR ? 1.0 - distance : 1.0;
        }
        sum += weight != 0.0 ? weight * element_at(g, base, at) : 0.0;
    }
    return sum;
}

static enum pen_status grid_init(struct kernel_call *k, struct grid *g)
{
    const struct shape *s = &k->in[1].shape;
    *g = (struct grid){.mode = node_text_is(k->n, ATTR_mode, "nearest", false)   ? GRID_NEAREST
                               : node_text_is(k->n, ATTR_mode, "cubic", false)   ? GRID_CUBIC
                               : node_text_is(k->n, ATTR_mode, "bicubic", false) ? GRID_CUBIC
                                                                                 : GRID_LINEAR,
                       .padding = node_text_is(k->n, ATTR_padding_mode, "border", false)       ? GRID_BORDER
                                  : node_text_is(k->n, ATTR_padding_mode, "reflection", false) ? GRID_REFLECTION
                                                                                               : GRID_ZEROS,
                       .align = node_int(k->n, ATTR_align_corners, 0) != 0,
                       .x = &k->in[0]};
    enum pen_status status = spatial_of(k, &k->in[0].shape, &g->in);
    if (status == PEN_OK &&
        (s->rank != g->in.dims + 2 || s->dim[0] != g->in.batch || s->dim[s->rank - 1] != g->in.dims)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "the grid does not fit the data");
    }
    if (status == PEN_OK) {
        spatial_make(g->in.batch, g->in.channels, g->in.dims, s->dim + 1, false, &g->out);
    }
    return status;
}

/* Grid [batch, out..., dims], the last dim from the innermost axis outwards (x, y, z). */
enum pen_status kernel_grid_sample(struct kernel_call *k)
{
    struct grid g;
    enum pen_status status = grid_init(k, &g);
    struct shape shape = spatial_shape(&g.out);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &shape);
    }
    for (int64_t i = 0; status == PEN_OK && i < g.out.batch * g.out.positions; i++) {
        double p[SPATIAL_MAX];
        for (int32_t d = 0; d < g.in.dims; d++) {
            double v = load_one_f64(k->in[1].data, k->in[1].dtype, i * g.in.dims + (g.in.dims - 1 - d));
            p[d] = padded(&g, pixel_of(&g, v, g.in.size[d]), g.in.size[d]);
        }
        for (int64_t c = 0; c < g.in.channels; c++) {
            int64_t image = i / g.out.positions, base = image * g.in.stride_batch + c * g.in.stride_channel;
            int64_t to = image * g.out.stride_batch + c * g.out.stride_channel + i % g.out.positions;
            store_one_f64(k->out[0].data, k->in[0].dtype, to, sample(&g, base, p));
        }
    }
    return status;
}

/* theta [batch, d, d + 1], size [batch, channels, out...]: y[b, out..., :] = theta * (x, y, (z,) 1) of each output pixel. */
enum pen_status kernel_affine_grid(struct kernel_call *k)
{
    const struct rt_value *theta = &k->in[0];
    bool align = node_int(k->n, ATTR_align_corners, 0) != 0;
    int64_t size[PEN_MAX_RANK];
    size_t count = 0;
    enum pen_status status = kernel_ints(k, 1, size, PEN_MAX_RANK, &count);
    if (status == PEN_OK && (count < 4 || count > 5 || theta->shape.rank != 3 || theta->shape.dim[0] != size[0] ||
                             theta->shape.dim[1] != (int64_t)count - 2 || theta->shape.dim[2] != (int64_t)count - 1)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "theta and size do not fit");
    }
    if (status != PEN_OK) {
        return status;
    }
    int32_t dims = (int32_t)count - 2;
    struct shape out = {.rank = dims + 2};
    out.dim[0] = size[0];
    memcpy(out.dim + 1, size + 2, (size_t)dims * sizeof size[0]);
    out.dim[dims + 1] = dims;
    status = kernel_output(k, 0, theta->dtype, &out);
    int64_t positions = dims_product(&out, 1, dims + 1);
    for (int64_t i = 0; status == PEN_OK && i < size[0] * positions; i++) {
        int64_t at[SPATIAL_MAX];
        double p[4] = {0.0};
        spatial_index(size + 2, dims, i % positions, at);
        for (int32_t d = 0; d < dims; d++) { /* innermost axis first */
            double n = (double)size[2 + dims - 1 - d], v = (double)at[dims - 1 - d];
            p[d] = align ? (n > 1.0 ? v / (n - 1.0) * 2.0 - 1.0 : 0.0) : (2.0 * v + 1.0) / n - 1.0;
        }
        p[dims] = 1.0;
        for (int32_t r = 0; r < dims; r++) {
            double sum = 0.0;
            for (int32_t c = 0; c <= dims; c++) {
                int64_t from = (i / positions * dims + r) * (dims + 1) + c;
                sum += load_one_f64(theta->data, theta->dtype, from) * p[c];
            }
            store_one_f64(k->out[0].data, theta->dtype, i * dims + r, sum);
        }
    }
    return status;
}

/* The reverse of im2col: blocks [batch, channels * taps, positions] are added where they came from. */
enum pen_status kernel_col2im(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t image[SPATIAL_MAX], block[SPATIAL_MAX], blocks[SPATIAL_MAX];
    size_t dims = 0, block_dims = 0;
    struct window w;
    struct spatial out;
    enum pen_status status = kernel_ints(k, 1, image, SPATIAL_MAX, &dims);
    if (status == PEN_OK) {
        status = kernel_ints(k, 2, block, SPATIAL_MAX, &block_dims);
    }
    if (status == PEN_OK && (x->shape.rank != 3 || dims != block_dims)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "needs [batch, channels * block, positions]");
    }
    for (size_t d = 0; d < dims && status == PEN_OK; d++) {
        status = image[d] < 0 ? kernel_fail(k, PEN_ERR_SHAPE, "image of %lld", (long long)image[d]) : PEN_OK;
    }
    if (status != PEN_OK) {
        return status;
    }
    spatial_make(x->shape.dim[0], 1, (int32_t)dims, image, false, &out);
    status = window_init(k, &out, block, false, &w);
    if (status != PEN_OK) {
        return status;
    }
    int64_t positions = 1;
    for (int32_t d = 0; d < out.dims; d++) {
        blocks[d] = window_out(&w, d, image[d], false);
        positions *= blocks[d];
    }
    if (x->shape.dim[1] % w.taps != 0 || x->shape.dim[2] != positions) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld positions expected", (long long)positions);
    }
    spatial_make(x->shape.dim[0], x->shape.dim[1] / w.taps, (int32_t)dims, image, false, &out);
    struct shape shape = spatial_shape(&out);
    int64_t total = shape_elements(&shape);
    double *sum = kernel_scratch(k, (size_t)total * sizeof *sum);
    status = kernel_output(k, 0, x->dtype, &shape);
    if (status != PEN_OK || sum == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the image");
    }
    memset(sum, 0, (size_t)total * sizeof *sum);
    for (int64_t i = 0; i < shape_elements(&x->shape); i++) {
        int64_t at[SPATIAL_MAX], tap[SPATIAL_MAX], to = i / positions / w.taps * out.positions;
        bool inside = true;
        spatial_index(blocks, out.dims, i % positions, at);
        spatial_index(w.kernel, out.dims, i / positions % w.taps, tap);
        for (int32_t d = 0; d < out.dims; d++) {
            int64_t p = at[d] * w.stride[d] - w.pad_begin[d] + tap[d] * w.dilation[d];
            inside = inside && p >= 0 && p < image[d];
            to += p * out.stride[d];
        }
        if (inside) {
            sum[to] += load_one_f64(x->data, x->dtype, i);
        }
    }
    store_f64(k->out[0].data, x->dtype, 0, 1, total, sum);
    return PEN_OK;
}
