#include "backend/reference/conv_core.h"

#include <string.h>

#define CONV_POSITIONS                                                                                                 \
    64 /* output positions gathered at a time: with 1152 taps the panel is 576 KiB, in the second-level cache */
#define CONV_TILE 4 /* output channels x positions summed in registers */

struct columns {
    double *panel;    /* [CONV_POSITIONS / CONV_TILE][in / groups * taps][CONV_TILE] */
    int64_t *offsets; /* [taps][CONV_POSITIONS] place in one channel of the input, -1 = padding */
    int64_t rows;     /* in / groups * taps */
};

/* Input coordinate along d under tap t of output coordinate o, or -1 in the padding. */
static int64_t tap_source(const struct conv_problem *p, int32_t d, int64_t o, int64_t t)
{
    const struct window *w = &p->window;
    int64_t i = 0;
    if (p->transposed) { /* o = i * stride - pad + t * dilation */
        int64_t scaled = o + w->pad_begin[d] - t * w->dilation[d];
        if (scaled < 0 || scaled % w->stride[d] != 0) {
            return -1;
        }
        i = scaled / w->stride[d];
    } else {
        i = o * w->stride[d] - w->pad_begin[d] + t * w->dilation[d];
    }
    return i >= 0 && i < p->in.size[d] ? i : -1;
}

static void offsets_fill(const struct conv_problem *p, struct columns *c, int64_t first, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        int64_t at[SPATIAL_MAX], tap[SPATIAL_MAX] = {0};
        spatial_index(p->out.size, p->out.dims, first + j, at);
        for (int64_t t = 0; t < p->window.taps; t++) {
            int64_t offset = 0;
            for (int32_t d = 0; d < p->in.dims && offset >= 0; d++) {
                int64_t i = tap_source(p, d, at[d], tap[d]);
                offset = i < 0 ? -1 : offset + i * p->in.stride[d];
            }
            c->offsets[t * CONV_POSITIONS + j] = offset;
            for (int32_t d = p->in.dims - 1; d >= 0 && ++tap[d] == p->window.kernel[d]; d--) {
                tap[d] = 0;
            }
        }
    }
}

/* panel[j / 4][row][j % 4] = x[offset of (row, j)] - x_zero, zero in the padding. Columns beyond count are zero. */
static void panel_fill(const struct conv_problem *p, struct columns *c, int64_t image, int64_t group, int64_t count)
{
    int64_t channels = p->in.channels / p->groups;
    const float *f32 = p->x->dtype == PEN_DTYPE_F32 ? p->x->data : NULL;
    for (int64_t ch = 0; ch < channels; ch++) {
        int64_t base = image * p->in.stride_batch + (group * channels + ch) * p->in.stride_channel;
        for (int64_t t = 0; t < p->window.taps; t++) {
            const int64_t *offsets = c->offsets + t * CONV_POSITIONS;
            double *row = c->panel + (ch * p->window.taps + t) * CONV_TILE;
            for (int64_t j = 0; j < CONV_POSITIONS; j++) {
                double v = 0.0;
                if (j < count && offsets[j] >= 0) {
                    int64_t at = base + offsets[j];
                    v = (f32 != NULL ? (double)f32[at] : load_one_f64(p->x->data, p->x->dtype, at)) - p->x_zero;
                }
                row[j / CONV_TILE * c->rows * CONV_TILE + j % CONV_TILE] = v;
            }
        }
    }
}

/* sums[o][j] = sum over rows r of w[o][r] * tile[r][j] for 4 channels and 4 positions. */
static void tile_sum(const double *w0, const double *w1, const double *w2, const double *w3, const double *tile,
                     int64_t rows, double sums[CONV_TILE][CONV_TILE])
{
    double s0[CONV_TILE] = {0}, s1[CONV_TILE] = {0}, s2[CONV_TILE] = {0}, s3[CONV_TILE] = {0};
    for (int64_t r = 0; r < rows; r++) {
        for (int j = 0; j < CONV_TILE; j++) {
            double x = tile[r * CONV_TILE + j];
            s0[j] += w0[r] * x;
            s1[j] += w1[r] * x;
            s2[j] += w2[r] * x;
            s3[j] += w3[r] * x;
        }
    }
    memcpy(sums[0], s0, sizeof s0);
    memcpy(sums[1], s1, sizeof s1);
    memcpy(sums[2], s2, sizeof s2);
    memcpy(sums[3], s3, sizeof s3);
}

/* All output channels of one group for the positions in the panel. */
static void panel_emit(const struct conv_problem *p, const struct columns *c, int64_t image, int64_t group,
                       int64_t first, int64_t count, conv_emit emit, void *context)
{
    int64_t outs = p->out.channels / p->groups;
    double rows[CONV_TILE][CONV_POSITIONS];
    for (int64_t o = 0; o < outs; o += CONV_TILE) {
        const double *w[CONV_TILE];
        for (int i = 0; i < CONV_TILE; i++) { /* beyond the last channel: the last one again, not emitted */
            int64_t channel = group * outs + (o + i < outs ? o + i : outs - 1);
            w[i] = p->weights + channel * c->rows;
        }
        for (int64_t j = 0; j < count; j += CONV_TILE) {
            double sums[CONV_TILE][CONV_TILE];
            tile_sum(w[0], w[1], w[2], w[3], c->panel + j * c->rows, c->rows, sums);
            for (int i = 0; i < CONV_TILE; i++) {
                memcpy(&rows[i][j], sums[i], sizeof sums[i]);
            }
        }
        for (int i = 0; i < CONV_TILE && o + i < outs; i++) {
            emit(context, image, group * outs + o + i, first, count, rows[i]);
        }
    }
}

enum pen_status conv_run(struct kernel_call *k, const struct conv_problem *p, conv_emit emit, void *context)
{
    struct columns c = {.rows = p->in.channels / p->groups * p->window.taps};
    c.panel = kernel_scratch(k, (size_t)c.rows * CONV_POSITIONS * sizeof *c.panel);
    c.offsets = kernel_scratch(k, (size_t)p->window.taps * CONV_POSITIONS * sizeof *c.offsets);
    if (c.panel == NULL || c.offsets == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the columns of %lld inputs", (long long)c.rows);
    }
    for (int64_t first = 0; first < p->out.positions && p->out.channels > 0; first += CONV_POSITIONS) {
        int64_t left = p->out.positions - first;
        int64_t count = left < CONV_POSITIONS ? left : CONV_POSITIONS;
        enum pen_status status = kernel_cancelled(k);
        if (status != PEN_OK) {
            return status;
        }
        offsets_fill(p, &c, first, count);
        for (int64_t image = 0; image < p->in.batch; image++) {
            for (int64_t group = 0; group < p->groups; group++) {
                panel_fill(p, &c, image, group, count);
                panel_emit(p, &c, image, group, first, count, emit, context);
            }
        }
    }
    return PEN_OK;
}

/* Strides of weights in elements: output channel, input channel within the group, taps. */
struct weight_strides {
    int64_t out, in, tap;
};

static struct weight_strides weight_strides_of(enum weight_layout layout, const struct conv_weights *w, int64_t taps)
{
    switch (layout) {
    case WEIGHT_OHWI:
        return (struct weight_strides){taps * w->in, 1, w->in};
    case WEIGHT_HWIO:
        return (struct weight_strides){1, w->out, w->in * w->out};
    case WEIGHT_HWIM: /* kh kw channels multiplier: output channel = channel * multiplier + m */
        return (struct weight_strides){1, 0, w->out};
    case WEIGHT_OIHW:
    default:
        return (struct weight_strides){w->in * taps, taps, 1};
    }
}

enum pen_status conv_weights_sizes(struct kernel_call *k, const struct shape *w, struct conv_weights *ret)
{
    enum weight_layout layout = (enum weight_layout)node_int(k->n, ATTR_weight_layout, WEIGHT_OIHW);
    int32_t r = w->rank;
    int32_t from = layout == WEIGHT_OIHW ? 2 : layout == WEIGHT_OHWI ? 1 : 0;
    if (r < 2) {
        return kernel_fail(k, PEN_ERR_SHAPE, "weights have rank %d", r);
    }
    *ret = (struct conv_weights){0};
    switch (layout) {
    case WEIGHT_OHWI:
        ret->out = w->dim[0];
        ret->in = w->dim[r - 1];
        break;
    case WEIGHT_HWIO:
        ret->out = w->dim[r - 1];
        ret->in = w->dim[r - 2];
        break;
    case WEIGHT_HWIM:
        ret->out = w->dim[r - 1] * w->dim[r - 2];
        ret->in = 1;
        break;
    case WEIGHT_OIHW:
    default:
        ret->out = w->dim[0];
        ret->in = w->dim[1];
        break;
    }
    memcpy(ret->kernel, w->dim + from, (size_t)(r - 2) * sizeof w->dim[0]);
    return PEN_OK;
}

enum pen_status conv_weights_load(struct kernel_call *k, const struct rt_value *w, const struct rt_value *zero,
                                  struct conv_weights *ret)
{
    int64_t total = shape_elements(&w->shape);
    int64_t zeros = zero == NULL ? 0 : shape_elements(&zero->shape);
    int64_t taps = ret->out * ret->in == 0 ? 0 : total / (ret->out * ret->in);
    struct weight_strides s =
        weight_strides_of((enum weight_layout)node_int(k->n, ATTR_weight_layout, WEIGHT_OIHW), ret, taps);
    ret->rows = kernel_scratch(k, (size_t)total * sizeof *ret->rows);
    if (ret->rows == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld weights in double", (long long)total);
    }
    if (zeros > 1 && zeros != ret->out) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld weight zero points for %lld channels", (long long)zeros,
                           (long long)ret->out);
    }
    for (int64_t o = 0; o < ret->out; o++) {
        double z = zeros == 0 ? 0.0 : load_one_f64(zero->data, zero->dtype, zeros > 1 ? o : 0);
        for (int64_t i = 0; i < ret->in; i++) {
            double *row = ret->rows + (o * ret->in + i) * taps;
            load_f64(w->data, w->dtype, o * s.out + i * s.in, s.tap, taps, row);
            for (int64_t t = 0; t < taps && zeros > 0; t++) {
                row[t] -= z;
            }
        }
    }
    return PEN_OK;
}
