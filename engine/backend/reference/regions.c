/* Windows at computed places: RoiAlign, MaxRoiPool, MaxUnpool, DeformConv. Source: ONNX. */
#include "backend/reference/conv_core.h"

#include <math.h>
#include <string.h>

/* The four neighbours of a point and their weights; outside by more than a pixel: nothing. */
struct corners {
    int64_t at[4];
    double w[4];
};

static struct corners corners_of(double y, double x, int64_t height, int64_t width)
{
    struct corners c = {{0}, {0.0}};
    if (!(y >= -1.0 && y <= (double)height && x >= -1.0 && x <= (double)width)) {
        return c;
    }
    y = fmax(y, 0.0);
    x = fmax(x, 0.0);
    int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1, x1 = x0 + 1;
    if (y0 >= height - 1) {
        y0 = y1 = height - 1;
        y = (double)y0;
    }
    if (x0 >= width - 1) {
        x0 = x1 = width - 1;
        x = (double)x0;
    }
    double fy = y - (double)y0, fx = x - (double)x0;
    c = (struct corners){{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
                         {(1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx}};
    return c;
}

struct roi {
    double y, x, bin_height, bin_width;
    int64_t image, samples_y, samples_x;
};

/* One bin of one channel: the average of its samples, or the largest weighted corner. */
static double roi_bin(const struct rt_value *v, int64_t base, const struct shape *s, const struct roi *r, int64_t by,
                      int64_t bx, bool max)
{
    double sum = 0.0, best = -(double)INFINITY;
    for (int64_t i = 0; i < r->samples_y * r->samples_x; i++) {
        double y = r->y + ((double)by + ((double)(i / r->samples_x) + 0.5) / (double)r->samples_y) * r->bin_height;
        double x = r->x + ((double)bx + ((double)(i % r->samples_x) + 0.5) / (double)r->samples_x) * r->bin_width;
        struct corners c = corners_of(y, x, s->dim[2], s->dim[3]);
        for (int j = 0; j < 4; j++) {
            double part = c.w[j] * load_one_f64(v->data, v->dtype, base + c.at[j]);
            sum += part;
            best = part > best ? part : best;
        }
    }
    return max ? best : sum / (double)(r->samples_y * r->samples_x);
}

static struct roi roi_read(const struct kernel_call *k, int64_t index, int64_t rows, int64_t columns)
{
    double v[4], scale = (double)node_float(k->n, ATTR_spatial_scale, 1.0f);
    bool shifted = node_text_is(k->n, ATTR_coordinate_transformation_mode, "half_pixel", true);
    int64_t samples = node_int(k->n, ATTR_sampling_ratio, 0);
    load_f64(k->in[1].data, k->in[1].dtype, index * 4, 1, 4, v); /* x1 y1 x2 y2 */
    double shift = shifted ? 0.5 : 0.0, width = (v[2] - v[0]) * scale, height = (v[3] - v[1]) * scale;
    if (!shifted) {
        width = fmax(width, 1.0);
        height = fmax(height, 1.0);
    }
    struct roi r = {.y = v[1] * scale - shift,
                    .x = v[0] * scale - shift,
                    .bin_height = height / (double)rows,
                    .bin_width = width / (double)columns};
    r.image = load_one_i64(k->in[2].data, k->in[2].dtype, index);
    r.samples_y = samples > 0 ? samples : i64_from_f64(fmin(fmax(ceil(r.bin_height), 1.0), 1e4));
    r.samples_x = samples > 0 ? samples : i64_from_f64(fmin(fmax(ceil(r.bin_width), 1.0), 1e4));
    return r;
}

enum pen_status kernel_roi_align(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape;
    int64_t rows = node_int(k->n, ATTR_output_height, 1), columns = node_int(k->n, ATTR_output_width, 1);
    bool max = node_text_is(k->n, ATTR_mode, "max", false);
    int64_t count = k->in[1].shape.rank == 2 ? k->in[1].shape.dim[0] : -1;
    if (s->rank != 4 || count < 0 || k->in[1].shape.dim[1] != 4 || shape_elements(&k->in[2].shape) != count ||
        rows < 1 || columns < 1 || s->dim[2] < 1 || s->dim[3] < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "regions do not fit the image");
    }
    struct shape out = shape_of(4, (const int64_t[]){count, s->dim[1], rows, columns});
    enum pen_status status = kernel_output(k, 0, k->in[0].dtype, &out);
    for (int64_t i = 0; i < count && status == PEN_OK; i++) {
        struct roi r = roi_read(k, i, rows, columns);
        if (r.image < 0 || r.image >= s->dim[0]) {
            return kernel_fail(k, PEN_ERR_INVALID, "region %lld is of image %lld", (long long)i, (long long)r.image);
        }
        for (int64_t j = 0; j < s->dim[1] * rows * columns; j++) {
            int64_t channel = j / (rows * columns), base = (r.image * s->dim[1] + channel) * s->dim[2] * s->dim[3];
            double v = roi_bin(&k->in[0], base, s, &r, j / columns % rows, j % columns, max);
            store_one_f64(k->out[0].data, k->in[0].dtype, i * s->dim[1] * rows * columns + j, v);
        }
        status = kernel_cancelled(k);
    }
    return status;
}

/* First and last pixel of bin i: the region is cut into `bins` parts that cover it. */
static void bin_range(int64_t i, int64_t bins, int64_t start, int64_t length, int64_t size, int64_t *ret_from,
                      int64_t *ret_to)
{
    double bin = (double)length / (double)bins;
    int64_t from = (int64_t)floor((double)i * bin) + start, to = (int64_t)ceil((double)(i + 1) * bin) + start;
    *ret_from = from < 0 ? 0 : from > size ? size : from;
    *ret_to = to < 0 ? 0 : to > size ? size : to;
}

/* Regions [count, 5]: image, x1, y1, x2, y2; the largest pixel of each bin, 0 for an empty one. */
enum pen_status kernel_max_roi_pool(struct kernel_call *k)
{
    const struct shape *s = &k->in[0].shape, *rs = &k->in[1].shape;
    uint32_t have = 0;
    const int64_t *pooled = node_ints(k->n, ATTR_pooled_shape, &have);
    double scale = (double)node_float(k->n, ATTR_spatial_scale, 1.0f);
    if (s->rank != 4 || rs->rank != 2 || rs->dim[1] != 5 || have != 2 || pooled[0] < 1 || pooled[1] < 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "regions do not fit the image");
    }
    struct shape out = shape_of(4, (const int64_t[]){rs->dim[0], s->dim[1], pooled[0], pooled[1]});
    enum pen_status status = kernel_output(k, 0, k->in[0].dtype, &out);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&out); i++) {
        int64_t region = i / (s->dim[1] * pooled[0] * pooled[1]), channel = i / (pooled[0] * pooled[1]) % s->dim[1],
                from[2], to[2];
        double v[5], best = -(double)INFINITY;
        load_f64(k->in[1].data, k->in[1].dtype, region * 5, 1, 5, v);
        for (int j = 1; j < 5; j++) {
            v[j] = fmin(fmax(round(v[j] * scale), -1e9), 1e9);
        }
        if (!(v[0] >= 0.0 && v[0] < (double)s->dim[0])) {
            return kernel_fail(k, PEN_ERR_INVALID, "a region of image %g", v[0]);
        }
        int64_t height = (int64_t)fmax(v[4] - v[2] + 1.0, 1.0), width = (int64_t)fmax(v[3] - v[1] + 1.0, 1.0);
        bin_range(i / pooled[1] % pooled[0], pooled[0], (int64_t)v[2], height, s->dim[2], &from[0], &to[0]);
        bin_range(i % pooled[1], pooled[1], (int64_t)v[1], width, s->dim[3], &from[1], &to[1]);
        int64_t base = ((int64_t)v[0] * s->dim[1] + channel) * s->dim[2] * s->dim[3];
        for (int64_t y = from[0]; y < to[0]; y++) {
            for (int64_t x = from[1]; x < to[1]; x++) {
                best = fmax(best, load_one_f64(k->in[0].data, k->in[0].dtype, base + y * s->dim[3] + x));
            }
        }
        store_one_f64(k->out[0].data, k->in[0].dtype, i, isinf(best) ? 0.0 : best);
    }
    return status;
}

/* The reverse of MaxPool: indices count elements of the inferred output; a larger output_shape keeps the coordinates. */
enum pen_status kernel_max_unpool(struct kernel_call *k)
{
    struct spatial in;
    struct window w;
    uint32_t count = 0;
    const int64_t *kernel = node_ints(k->n, ATTR_kernel_shape, &count);
    struct shape full, out = {.rank = 0};
    size_t given = 0;
    enum pen_status status = spatial_of(k, &k->in[0].shape, &in);
    if (status == PEN_OK &&
        (kernel == NULL || count != (uint32_t)in.dims || !shape_equal(&k->in[0].shape, &k->in[1].shape))) {
        status = kernel_fail(k, PEN_ERR_INVALID, "kernel_shape or indices do not fit the data");
    }
    if (status == PEN_OK) {
        status = window_init(k, &in, kernel, false, &w);
    }
    if (status == PEN_OK) {
        status = kernel_ints(k, 2, out.dim, PEN_MAX_RANK, &given);
    }
    if (status != PEN_OK) {
        return status;
    }
    full = k->in[0].shape;
    for (int32_t d = 0; d < in.dims; d++) {
        full.dim[d + 2] = (in.size[d] - 1) * w.stride[d] + w.kernel[d] - w.pad_begin[d] - w.pad_end[d];
    }
    out.rank = (int32_t)given;
    out = given == 0 ? full : out;
    for (int32_t d = 0; d < full.rank; d++) {
        if (out.rank != full.rank || full.dim[d] < 0 || out.dim[d] < full.dim[d]) {
            return kernel_fail(k, PEN_ERR_SHAPE, "output_shape is smaller than the inferred shape");
        }
    }
    status = kernel_output(k, 0, k->in[0].dtype, &out);
    if (status != PEN_OK) {
        return status;
    }
    memset(k->out[0].data, 0, k->out[0].bytes);
    for (int64_t i = 0; i < shape_elements(&k->in[0].shape); i++) {
        int64_t index = load_one_i64(k->in[1].data, k->in[1].dtype, i), at[PEN_MAX_RANK], to = 0;
        if (index < 0 || index >= shape_elements(&full)) {
            return kernel_fail(k, PEN_ERR_INVALID, "index %lld of %lld", (long long)index,
                               (long long)shape_elements(&full));
        }
        spatial_index(full.dim, full.rank, index, at);
        for (int32_t d = 0; d < full.rank; d++) {
            to = to * out.dim[d] + at[d];
        }
        store_one_f64(k->out[0].data, k->in[0].dtype, to, load_one_f64(k->in[0].data, k->in[0].dtype, i));
    }
    return PEN_OK;
}

struct deform {
    struct spatial in, out;
    struct window window;
    struct conv_weights weights;
    int64_t groups, offset_groups;
    const double *offset, *bias,
        *mask; /* [n, offset groups * taps * dims, out...], [out channels], [n, offset groups * taps, out...] */
};

/* Linear interpolation between the 2^dims neighbours; zero outside. */
static double interpolate(const struct rt_value *x, const struct spatial *s, int64_t base, const double *p)
{
    double sum = 0.0;
    for (int32_t corner = 0; corner < 1 << s->dims; corner++) {
        double w = 1.0;
        int64_t at = base;
        for (int32_t d = 0; d < s->dims && w != 0.0; d++) {
            double low = floor(p[d]), f = p[d] - low, i = low + (double)(corner >> d & 1);
            w *= (corner >> d & 1) != 0 ? f : 1.0 - f;
            w = i >= 0.0 && i < (double)s->size[d] ? w : 0.0;
            at += w != 0.0 ? (int64_t)i * s->stride[d] : 0;
        }
        sum += w != 0.0 ? w * load_one_f64(x->data, x->dtype, at) : 0.0;
    }
    return sum;
}

/* One output: sum over inputs of the group and taps of w * mask * x(p * stride - pad + tap * dilation + offset). */
static double deform_one(const struct kernel_call *k, const struct deform *f, int64_t image, int64_t channel,
                         int64_t position)
{
    int64_t outs = f->out.channels / f->groups, ins = f->in.channels / f->groups, dims = f->in.dims,
            taps = f->window.taps;
    double sum = f->bias != NULL ? f->bias[channel] : 0.0;
    int64_t at[SPATIAL_MAX], tap[SPATIAL_MAX];
    spatial_index(f->out.size, f->out.dims, position, at);
    for (int64_t i = 0; i < ins * taps; i++) {
        int64_t c = channel / outs * ins + i / taps, t = i % taps, og = c / (f->in.channels / f->offset_groups);
        int64_t row = (image * f->offset_groups + og) * taps + t;
        double p[SPATIAL_MAX];
        spatial_index(f->window.kernel, f->in.dims, t, tap);
        for (int32_t d = 0; d < dims; d++) {
            double o = f->offset[(row * dims + d) * f->out.positions + position];
            p[d] = (double)(at[d] * f->window.stride[d] - f->window.pad_begin[d] + tap[d] * f->window.dilation[d]) + o;
        }
        double m = f->mask != NULL ? f->mask[row * f->out.positions + position] : 1.0;
        sum += f->weights.rows[channel * ins * taps + i] * m *
               interpolate(&k->in[0], &f->in, image * f->in.stride_batch + c * f->in.stride_channel, p);
    }
    return sum;
}

static enum pen_status deform_load(struct kernel_call *k, uint32_t index, int64_t want, const double **ret)
{
    double *items = NULL;
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    if (shape_elements(&k->in[index].shape) != want) {
        return kernel_fail(k, PEN_ERR_SHAPE, "input %u does not fit", index);
    }
    enum pen_status status = kernel_doubles(k, index, &items);
    *ret = items;
    return status;
}

/* x, weights, offset, bias, mask */
static enum pen_status deform_init(struct kernel_call *k, struct deform *f)
{
    int64_t size[SPATIAL_MAX];
    *f =
        (struct deform){.groups = node_int(k->n, ATTR_group, 1), .offset_groups = node_int(k->n, ATTR_offset_group, 1)};
    enum pen_status status = spatial_of(k, &k->in[0].shape, &f->in);
    if (status == PEN_OK) {
        status = conv_weights_sizes(k, &k->in[1].shape, &f->weights);
    }
    if (status == PEN_OK && (k->in[1].shape.rank != k->in[0].shape.rank || f->groups < 1 || f->offset_groups < 1 ||
                             f->in.channels % f->groups != 0 || f->in.channels % f->offset_groups != 0 ||
                             f->weights.out % f->groups != 0 || f->weights.in * f->groups != f->in.channels)) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "weights do not fit the data");
    }
    if (status == PEN_OK) {
        status = window_init(k, &f->in, f->weights.kernel, false, &f->window);
    }
    if (status == PEN_OK) {
        status = conv_weights_load(k, &k->in[1], NULL, &f->weights);
    }
    if (status != PEN_OK) {
        return status;
    }
    for (int32_t d = 0; d < f->in.dims; d++) {
        size[d] = window_out(&f->window, d, f->in.size[d], false);
    }
    spatial_make(f->in.batch, f->weights.out, f->in.dims, size, false, &f->out);
    int64_t rows = f->in.batch * f->offset_groups * f->window.taps * f->out.positions;
    status = deform_load(k, 2, rows * f->in.dims, &f->offset);
    if (status == PEN_OK) {
        status = deform_load(k, 3, f->weights.out, &f->bias);
    }
    return status == PEN_OK ? deform_load(k, 4, rows, &f->mask) : status;
}

enum pen_status kernel_deform_conv(struct kernel_call *k)
{
    struct deform f;
    enum pen_status status = deform_init(k, &f);
    struct shape shape = spatial_shape(&f.out);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &shape);
    }
    for (int64_t i = 0; status == PEN_OK && i < f.out.batch * f.out.channels * f.out.positions; i++) {
        int64_t position = i % f.out.positions, channel = i / f.out.positions % f.out.channels;
        double v = deform_one(k, &f, i / (f.out.positions * f.out.channels), channel, position);
        store_one_f64(k->out[0].data, k->in[0].dtype, i, v);
    }
    return status;
}
