/* Normalisations: y = (x - mean) / sqrt(variance + epsilon) * scale + bias over different groups of elements. Source: ONNX. */
#include "backend/reference/lanes.h"
#include "backend/reference/spatial.h"

#include <math.h>

#include "backend/reference/activation.h"

struct moments {
    double mean, variance;
};

/* Two passes: mean, then the mean of squared differences. */
static struct moments moments_of(const double *x, int64_t n)
{
    struct moments m = {0.0, 0.0};
    for (int64_t i = 0; i < n; i++) {
        m.mean += x[i];
    }
    m.mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        m.variance += (x[i] - m.mean) * (x[i] - m.mean);
    }
    m.variance /= (double)n;
    return m;
}

static enum pen_status channel_count(struct kernel_call *k, uint32_t from, uint32_t to, int64_t channels)
{
    for (uint32_t i = from; i <= to; i++) {
        if (kernel_has(k, i) && shape_elements(&k->in[i].shape) != channels) {
            return kernel_fail(k, PEN_ERR_SHAPE, "input %u has %lld elements for %lld channels", i,
                               (long long)shape_elements(&k->in[i].shape), (long long)channels);
        }
    }
    return PEN_OK;
}

/* Statistics of one channel over batch and positions (training mode). */
static struct moments channel_moments(const struct kernel_call *k, const struct spatial *s, int64_t channel,
                                      double *row)
{
    const struct rt_value *x = &k->in[0];
    for (int64_t n = 0; n < s->batch; n++) {
        load_f64(x->data, x->dtype, n * s->stride_batch + channel * s->stride_channel, s->stride_position, s->positions,
                 row + n * s->positions);
    }
    return moments_of(row, s->batch * s->positions);
}

/* y = x * factor + offset along one channel, factor = scale / sqrt(variance + epsilon). */
static void channel_apply(struct kernel_call *k, const struct spatial *s, int64_t channel, double factor, double offset,
                          double *row)
{
    const struct rt_value *x = &k->in[0];
    struct activation_fused act = activation_of(k->n);
    for (int64_t n = 0; n < s->batch; n++) {
        int64_t at = n * s->stride_batch + channel * s->stride_channel;
        load_f64(x->data, x->dtype, at, s->stride_position, s->positions, row);
        for (int64_t i = 0; i < s->positions; i++) {
            row[i] = row[i] * factor + offset;
        }
        activation_apply(&act, row, s->positions);
        store_f64(k->out[0].data, x->dtype, at, s->stride_position, s->positions, row);
    }
}

/* x, scale, bias, mean, variance */
static enum pen_status batch_norm_init(struct kernel_call *k, struct spatial *s)
{
    struct shape shape = k->in[0].shape;
    if (shape.rank == 1) { /* one channel */
        shape = shape_of(2, (const int64_t[]){shape.dim[0], 1});
    }
    enum pen_status status = spatial_of(k, &shape, s);
    if (status == PEN_OK) {
        status = channel_count(k, 1, 4, s->channels);
    }
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    for (uint32_t i = 1; i <= 2 && status == PEN_OK; i++) { /* running mean, running variance */
        if (kernel_wants(k, i)) {
            status = kernel_output_like(k, i, i + 2);
        }
    }
    return status;
}

enum pen_status kernel_batch_norm(struct kernel_call *k)
{
    struct spatial s;
    bool training = node_int(k->n, ATTR_training_mode, 0) != 0;
    double epsilon = (double)node_float(k->n, ATTR_epsilon, 1e-5f),
           momentum = (double)node_float(k->n, ATTR_momentum, 0.9f);
    enum pen_status status = batch_norm_init(k, &s);
    if (status != PEN_OK) {
        return status;
    }
    double *row = kernel_scratch(k, (size_t)(s.batch * s.positions) * sizeof *row);
    if (row == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for one channel");
    }
    for (int64_t c = 0; c < s.channels; c++) {
        double scale = load_one_f64(k->in[1].data, k->in[1].dtype, c),
               bias = load_one_f64(k->in[2].data, k->in[2].dtype, c);
        struct moments old = {load_one_f64(k->in[3].data, k->in[3].dtype, c),
                              load_one_f64(k->in[4].data, k->in[4].dtype, c)};
        struct moments m = training ? channel_moments(k, &s, c, row) : old;
        double factor = scale / sqrt(m.variance + epsilon);
        channel_apply(k, &s, c, factor, bias - m.mean * factor, row);
        if (kernel_wants(k, 1)) { /* running = old * momentum + new * (1 - momentum) */
            store_one_f64(k->out[1].data, k->out[1].dtype, c,
                          training ? old.mean * momentum + m.mean * (1.0 - momentum) : m.mean);
        }
        if (kernel_wants(k, 2)) {
            store_one_f64(k->out[2].data, k->out[2].dtype, c,
                          training ? old.variance * momentum + m.variance * (1.0 - momentum) : m.variance);
        }
    }
    return PEN_OK;
}

/* InstanceNormalization: statistics per image and channel. GroupNormalization: per image and group of channels, scale per channel. */
enum pen_status kernel_group_norm(struct kernel_call *k)
{
    struct spatial s;
    const struct rt_value *x = &k->in[0];
    double epsilon = (double)node_float(k->n, ATTR_epsilon, 1e-5f);
    enum pen_status status = spatial_of(k, &x->shape, &s);
    int64_t groups = k->n->op == OP_GroupNormalization ? node_int(k->n, ATTR_num_groups, 1) : s.channels;
    if (status == PEN_OK && groups != 0 && (groups < 0 || s.channels % groups != 0)) {
        status =
            kernel_fail(k, PEN_ERR_INVALID, "%lld channels in %lld groups", (long long)s.channels, (long long)groups);
    }
    if (status == PEN_OK) {
        status = channel_count(k, 1, 2, s.channels);
    }
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    if (status != PEN_OK || s.channels == 0) {
        return status;
    }
    int64_t per_group = s.channels / groups, count = per_group * s.positions;
    double *rows = kernel_scratch(k, (size_t)count * sizeof *rows); /* [channels of the group][positions] */
    if (rows == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for one group");
    }
    for (int64_t i = 0; i < s.batch * groups; i++) {
        int64_t base = i / groups * s.stride_batch + i % groups * per_group * s.stride_channel;
        for (int64_t c = 0; c < per_group; c++) {
            load_f64(x->data, x->dtype, base + c * s.stride_channel, s.stride_position, s.positions,
                     rows + c * s.positions);
        }
        struct moments m = moments_of(rows, count);
        for (int64_t c = 0; c < per_group; c++) {
            int64_t channel = i % groups * per_group + c;
            double factor = load_one_f64(k->in[1].data, k->in[1].dtype, channel) / sqrt(m.variance + epsilon);
            double bias = load_one_f64(k->in[2].data, k->in[2].dtype, channel);
            for (int64_t j = 0; j < s.positions; j++) {
                rows[c * s.positions + j] = (rows[c * s.positions + j] - m.mean) * factor + bias;
            }
            store_f64(k->out[0].data, x->dtype, base + c * s.stride_channel, s.stride_position, s.positions,
                      rows + c * s.positions);
        }
    }
    return PEN_OK;
}

/* Element of a scale or bias that broadcasts from the right against the normalised dims. */
static enum pen_status trailing_load(struct kernel_call *k, uint32_t index, const struct shape *shape, double **ret)
{
    *ret = NULL;
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    struct shape joined;
    const struct shape *own = &k->in[index].shape;
    if (!shape_broadcast(own, shape, &joined) || !shape_equal(&joined, shape)) {
        char a[96], b[96];
        return kernel_fail(k, PEN_ERR_SHAPE, "input %u of shape %s does not broadcast to %s", index,
                           shape_text(own, a, sizeof a), shape_text(shape, b, sizeof b));
    }
    return kernel_doubles(k, index, ret);
}

/* Place in a broadcast input of element `at` of shape s. */
static int64_t trailing_at(const struct shape *own, const struct shape *s, int64_t at)
{
    int64_t place = 0, stride = 1;
    for (int32_t d = s->rank - 1, e = own->rank - 1; d >= 0 && e >= 0; d--, e--) {
        place += own->dim[e] == 1 ? 0 : at % s->dim[d] * stride;
        stride *= own->dim[e];
        at /= s->dim[d];
    }
    return place;
}

static enum pen_dtype stash_of(const struct kernel_call *k)
{
    int64_t type = node_int(k->n, ATTR_stash_type, PEN_DTYPE_F32);
    return type == PEN_DTYPE_BF16 || type == PEN_DTYPE_F16 || type == PEN_DTYPE_F64 ? (enum pen_dtype)type
                                                                                    : PEN_DTYPE_F32;
}

static enum pen_status layer_outputs(struct kernel_call *k, int32_t axis)
{
    struct shape kept = k->in[0].shape;
    for (int32_t d = axis; d < kept.rank; d++) {
        kept.dim[d] = 1;
    }
    enum pen_status status = kernel_output_like(k, 0, 0);
    for (uint32_t i = 1; i <= 2 && status == PEN_OK; i++) { /* mean, 1 / standard deviation */
        if (kernel_wants(k, i)) {
            status = kernel_output(k, i, stash_of(k), &kept);
        }
    }
    return status;
}

/* LayerNormalization over [axis, rank); RMSNormalization without mean: y = x / sqrt(mean of x^2 + epsilon) * scale. */
enum pen_status kernel_layer_norm(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    bool rms = k->n->op == OP_RMSNormalization;
    double epsilon = (double)node_float(k->n, ATTR_epsilon, 1e-5f), *scale = NULL, *bias = NULL;
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), x->shape.rank, &axis);
    if (status == PEN_OK) {
        status = layer_outputs(k, axis);
    }
    if (status == PEN_OK) {
        status = trailing_load(k, 1, &x->shape, &scale);
    }
    if (status == PEN_OK) {
        status = trailing_load(k, 2, &x->shape, &bias);
    }
    if (status != PEN_OK) {
        return status;
    }
    int64_t count = dims_product(&x->shape, axis, x->shape.rank), groups = dims_product(&x->shape, 0, axis);
    double *row = kernel_scratch(k, (size_t)count * sizeof *row);
    if (row == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld elements", (long long)count);
    }
    for (int64_t g = 0; g < groups && count > 0; g++) {
        load_f64(x->data, x->dtype, g * count, 1, count, row);
        struct moments m = moments_of(row, count);
        double mean = rms ? 0.0 : m.mean;
        double inverse = 1.0 / sqrt((rms ? m.variance + m.mean * m.mean : m.variance) + epsilon);
        for (int64_t i = 0; i < count; i++) {
            row[i] = (row[i] - mean) * inverse * scale[trailing_at(&k->in[1].shape, &x->shape, g * count + i)];
            row[i] += bias != NULL ? bias[trailing_at(&k->in[2].shape, &x->shape, g * count + i)] : 0.0;
        }
        store_f64(k->out[0].data, x->dtype, g * count, 1, count, row);
        if (kernel_wants(k, 1)) {
            store_one_f64(k->out[1].data, k->out[1].dtype, g, mean);
        }
        if (kernel_wants(k, 2)) {
            store_one_f64(k->out[2].data, k->out[2].dtype, g, inverse);
        }
    }
    return PEN_OK;
}

/* LpNormalization: y = x / (sum of |x|^p)^(1/p) along an axis; a zero norm leaves zeros. */
enum pen_status kernel_lp_norm(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    int64_t p = node_int(k->n, ATTR_p, 2);
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), x->shape.rank, &axis);
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct lanes l = lanes_of(&x->shape, axis);
    double *lane = kernel_scratch(k, (size_t)l.count * sizeof *lane);
    if (lane == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for an axis of %lld", (long long)l.count);
    }
    for (int64_t i = 0; i < l.outer * l.inner; i++) {
        double norm = 0.0;
        load_f64(x->data, x->dtype, lane_first(&l, i), l.inner, l.count, lane);
        for (int64_t j = 0; j < l.count; j++) {
            norm += p == 1 ? fabs(lane[j]) : lane[j] * lane[j];
        }
        norm = p == 1 ? norm : sqrt(norm);
        for (int64_t j = 0; j < l.count; j++) {
            lane[j] = norm == 0.0 ? 0.0 : lane[j] / norm;
        }
        store_f64(k->out[0].data, x->dtype, lane_first(&l, i), l.inner, l.count, lane);
    }
    return PEN_OK;
}

/* LRN: y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta */
enum pen_status kernel_lrn(struct kernel_call *k)
{
    struct spatial s;
    const struct rt_value *x = &k->in[0];
    int64_t size = node_int(k->n, ATTR_size, 1);
    double alpha = (double)node_float(k->n, ATTR_alpha, 1e-4f), beta = (double)node_float(k->n, ATTR_beta, 0.75f);
    double bias = (double)node_float(k->n, ATTR_bias, 1.0f);
    enum pen_status status = spatial_of(k, &x->shape, &s);
    if (status == PEN_OK) {
        status = kernel_output_like(k, 0, 0);
    }
    double *lane = status == PEN_OK ? kernel_scratch(k, (size_t)s.channels * sizeof *lane) : NULL;
    if (lane == NULL || size < 1) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_INVALID, "size %lld", (long long)size);
    }
    for (int64_t i = 0; i < s.batch * s.positions; i++) {
        int64_t first = i / s.positions * s.stride_batch + i % s.positions * s.stride_position;
        load_f64(x->data, x->dtype, first, s.stride_channel, s.channels, lane);
        for (int64_t c = 0; c < s.channels; c++) {
            int64_t from = c - (size - 1) / 2 < 0 ? 0 : c - (size - 1) / 2;
            int64_t to = c + size / 2 >= s.channels ? s.channels - 1 : c + size / 2;
            double sum = 0.0;
            for (int64_t j = from; j <= to; j++) {
                sum += lane[j] * lane[j];
            }
            store_one_f64(k->out[0].data, x->dtype, first + c * s.stride_channel,
                          lane[c] / pow(bias + alpha / (double)size * sum, beta));
        }
    }
    return PEN_OK;
}

/* MeanVarianceNormalization: y = (x - mean) / (sqrt(variance) + 1e-9) over the axes (default 0, 2, 3). */
enum pen_status kernel_mvn(struct kernel_call *k)
{
    static const int64_t usual[] = {0, 2, 3};
    const struct rt_value *x = &k->in[0];
    uint32_t count = 0;
    const int64_t *axes = node_ints(k->n, ATTR_axes, &count);
    bool is_axis[PEN_MAX_RANK] = {false};
    int64_t strides[PEN_MAX_RANK], step = 1, total = shape_elements(&x->shape), group = 1;
    for (uint32_t i = 0; i < (axes != NULL ? count : 3); i++) {
        int32_t axis = 0;
        enum pen_status status = kernel_axis(k, axes != NULL ? axes[i] : usual[i], x->shape.rank, &axis);
        if (status != PEN_OK) {
            return status;
        }
        is_axis[axis] = true;
    }
    for (int32_t d = x->shape.rank - 1; d >= 0; d--) {
        strides[d] = is_axis[d] ? 0 : step;
        step *= is_axis[d] ? 1 : x->shape.dim[d];
        group *= is_axis[d] ? x->shape.dim[d] : 1;
    }
    double *v = NULL, *mean = kernel_scratch(k, (size_t)step * sizeof *mean),
           *square = kernel_scratch(k, (size_t)step * sizeof *square);
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status == PEN_OK) {
        status = kernel_doubles(k, 0, &v);
    }
    if (status != PEN_OK || mean == NULL || square == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld means", (long long)step);
    }
    for (int64_t g = 0; g < step; g++) {
        mean[g] = square[g] = 0.0;
    }
    for (int pass = 0; pass < 3; pass++) { /* mean; variance; result */
        for (int64_t i = 0; i < total; i++) {
            int64_t at[PEN_MAX_RANK], g = 0;
            spatial_index(x->shape.dim, x->shape.rank, i, at);
            for (int32_t d = 0; d < x->shape.rank; d++) {
                g += at[d] * strides[d];
            }
            if (pass == 0) {
                mean[g] += v[i] / (double)group;
            } else if (pass == 1) {
                square[g] += (v[i] - mean[g]) * (v[i] - mean[g]) / (double)group;
            } else {
                v[i] = (v[i] - mean[g]) / (sqrt(square[g]) + 1e-9);
            }
        }
    }
    store_f64(k->out[0].data, x->dtype, 0, 1, total, v);
    return PEN_OK;
}
