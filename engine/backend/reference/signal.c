/* Fourier transforms and windows. Source: ONNX DFT (opset 20), STFT, HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix. */
#include "backend/reference/lanes.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* out[f] = sum over t of in[t] * e^(-+ 2 pi i f t / n), complex as pairs; divided by n when inverse. The angle's index wraps exactly. */
static void dft_plain(const double *in, double *out, int64_t n, int64_t bins, bool inverse)
{
    for (int64_t f = 0; f < bins; f++) {
        double re = 0.0, im = 0.0;
        for (int64_t t = 0; t < n; t++) {
            double angle = (inverse ? 2.0 : -2.0) * PI * (double)((uint64_t)f * (uint64_t)t % (uint64_t)n) / (double)n;
            double c = cos(angle), s = sin(angle);
            re += in[2 * t] * c - in[2 * t + 1] * s;
            im += in[2 * t] * s + in[2 * t + 1] * c;
        }
        out[2 * f] = inverse ? re / (double)n : re;
        out[2 * f + 1] = inverse ? im / (double)n : im;
    }
}

struct dft {
    int32_t axis;
    int64_t length; /* of the transform: input cut or padded with zeros */
    bool inverse, onesided, real;
    int64_t bins;      /* output length along the axis */
    int64_t out_parts; /* 2, or 1 when an inverse one-sided transform gives reals */
};

/* input [..., 1 or 2], dft_length, axis */
static enum pen_status dft_init(struct kernel_call *k, struct dft *p)
{
    const struct shape *s = &k->in[0].shape;
    int64_t axis = -2, length = 0;
    size_t count = 0;
    *p = (struct dft){.inverse = node_int(k->n, ATTR_inverse, 0) != 0,
                      .onesided = node_int(k->n, ATTR_onesided, 0) != 0};
    if (s->rank < 2 || (s->dim[s->rank - 1] != 1 && s->dim[s->rank - 1] != 2)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the last dimension must be 1 (real) or 2 (complex)");
    }
    enum pen_status status = kernel_ints(k, 2, &axis, 1, &count);
    axis = count == 0 ? -2 : axis;
    if (status == PEN_OK) {
        status = kernel_axis(k, axis, s->rank, &p->axis);
    }
    if (status == PEN_OK && p->axis == s->rank - 1) {
        status = kernel_fail(k, PEN_ERR_INVALID, "the axis must not be the last");
    }
    if (status == PEN_OK) {
        status = kernel_ints(k, 1, &length, 1, &count);
    }
    if (status != PEN_OK) {
        return status;
    }
    p->real = s->dim[s->rank - 1] == 1;
    int64_t have = s->dim[p->axis];
    p->length = count == 1 ? length : p->inverse && p->onesided ? 2 * (have - 1) : have;
    if (p->length < 1 || p->length > INT32_MAX) {
        return kernel_fail(k, PEN_ERR_INVALID, "a transform of length %lld", (long long)p->length);
    }
    p->out_parts = p->inverse && p->onesided ? 1 : 2;
    p->bins = p->onesided && !p->inverse ? p->length / 2 + 1 : p->length;
    return PEN_OK;
}

/* One lane of pairs from the input; a one-sided spectrum is completed by conjugate symmetry. */
static void lane_read(const struct rt_value *x, const struct dft *p, const struct lanes *l, int64_t outer,
                      int64_t inner, double *lane)
{
    int64_t parts = p->real ? 1 : 2;
    memset(lane, 0, (size_t)p->length * 2 * sizeof *lane);
    for (int64_t t = 0; t < l->count && t < p->length; t++) {
        int64_t at = ((outer * l->count + t) * l->inner + inner * parts);
        lane[2 * t] = load_one_f64(x->data, x->dtype, at);
        lane[2 * t + 1] = p->real ? 0.0 : load_one_f64(x->data, x->dtype, at + 1);
    }
    for (int64_t t = p->length / 2 + 1; p->inverse && p->onesided && t < p->length; t++) {
        lane[2 * t] = lane[2 * (p->length - t)];
        lane[2 * t + 1] = -lane[2 * (p->length - t) + 1];
    }
}

enum pen_status kernel_dft(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct dft p;
    enum pen_status status = dft_init(k, &p);
    if (status != PEN_OK) {
        return status;
    }
    struct shape out = x->shape;
    out.dim[p.axis] = p.bins;
    out.dim[out.rank - 1] = p.out_parts;
    struct lanes l = lanes_of(&x->shape, p.axis); /* inner counts the parts too */
    int64_t inner = l.inner / (p.real ? 1 : 2);
    double *lane = kernel_scratch(k, (size_t)p.length * 2 * sizeof *lane),
           *bins = kernel_scratch(k, (size_t)p.length * 2 * sizeof *bins);
    status = kernel_output(k, 0, x->dtype, &out);
    if (status != PEN_OK || lane == NULL || bins == NULL) {
        return status != PEN_OK ? status
                                : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld bins", (long long)p.length);
    }
    for (int64_t i = 0; i < l.outer * inner; i++) {
        int64_t o = i / inner, j = i % inner;
        lane_read(x, &p, &l, o, j, lane);
        dft_plain(lane, bins, p.length, p.bins, p.inverse);
        for (int64_t f = 0; f < p.bins; f++) {
            store_f64(k->out[0].data, x->dtype, ((o * p.bins + f) * inner + j) * p.out_parts, 1, p.out_parts,
                      bins + 2 * f);
        }
        status = kernel_cancelled(k);
        if (status != PEN_OK) {
            return status;
        }
    }
    return PEN_OK;
}

struct stft {
    int64_t batch, samples, step, frame, bins, frames;
    bool real;
};

/* signal [batch, samples, 1 or 2], step, window, frame length */
static enum pen_status stft_init(struct kernel_call *k, struct stft *p)
{
    const struct shape *s = &k->in[0].shape;
    size_t count = 0, frames = 0;
    int64_t window = kernel_has(k, 2) ? shape_elements(&k->in[2].shape) : 0;
    *p = (struct stft){0};
    enum pen_status status = kernel_ints(k, 1, &p->step, 1, &count);
    if (status == PEN_OK) {
        status = kernel_ints(k, 3, &p->frame, 1, &frames);
    }
    p->frame = frames == 1 ? p->frame : window;
    if (status == PEN_OK && (s->rank < 2 || s->rank > 3 || count != 1 || p->step < 1 || p->frame < 1 ||
                             p->frame > s->dim[1] || (window > 0 && window != p->frame))) {
        status = kernel_fail(k, PEN_ERR_INVALID, "frames of %lld every %lld samples", (long long)p->frame,
                             (long long)p->step);
    }
    if (status != PEN_OK) {
        return status;
    }
    p->batch = s->dim[0];
    p->samples = s->dim[1];
    p->real = s->rank == 2 || s->dim[2] == 1;
    p->bins = node_int(k->n, ATTR_onesided, 1) != 0 ? p->frame / 2 + 1 : p->frame;
    p->frames = 1 + (p->samples - p->frame) / p->step;
    return PEN_OK;
}

enum pen_status kernel_stft(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    struct stft p;
    enum pen_status status = stft_init(k, &p);
    if (status != PEN_OK) {
        return status;
    }
    struct shape out = shape_of(4, (const int64_t[]){p.batch, p.frames, p.bins, 2});
    double *lane = kernel_scratch(k, (size_t)p.frame * 2 * sizeof *lane),
           *bins = kernel_scratch(k, (size_t)p.frame * 2 * sizeof *bins);
    status = kernel_output(k, 0, x->dtype, &out);
    if (status != PEN_OK || lane == NULL || bins == NULL) {
        return status != PEN_OK ? status
                                : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld bins", (long long)p.frame);
    }
    for (int64_t i = 0; i < p.batch * p.frames; i++) {
        int64_t first = i / p.frames * p.samples + i % p.frames * p.step;
        for (int64_t t = 0; t < p.frame; t++) {
            double w = kernel_has(k, 2) ? load_one_f64(k->in[2].data, k->in[2].dtype, t) : 1.0;
            lane[2 * t] = w * load_one_f64(x->data, x->dtype, p.real ? first + t : 2 * (first + t));
            lane[2 * t + 1] = p.real ? 0.0 : w * load_one_f64(x->data, x->dtype, 2 * (first + t) + 1);
        }
        dft_plain(lane, bins, p.frame, p.bins, false);
        store_f64(k->out[0].data, x->dtype, i * p.bins * 2, 1, p.bins * 2, bins);
    }
    return PEN_OK;
}

/* Periodic windows divide by n, symmetric ones by n - 1. */
enum pen_status kernel_window(struct kernel_call *k)
{
    int64_t size = 0;
    size_t count = 0;
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_output_datatype, PEN_DTYPE_F32);
    enum pen_status status = kernel_ints(k, 0, &size, 1, &count);
    if (status == PEN_OK && (count != 1 || size < 0)) {
        status = kernel_fail(k, PEN_ERR_INVALID, "a window of %lld", (long long)size);
    }
    struct shape out = shape_of(1, &size);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, dtype, &out);
    }
    double n = (double)(node_int(k->n, ATTR_periodic, 1) != 0 ? size : size - 1);
    for (int64_t i = 0; status == PEN_OK && i < size; i++) {
        double angle = n == 0.0 ? 0.0 : 2.0 * PI * (double)i / n, v = 0.0;
        switch (k->n->op) {
        case OP_BlackmanWindow:
            v = 0.42 - 0.5 * cos(angle) + 0.08 * cos(2.0 * angle);
            break;
        case OP_HammingWindow: /* 25/46 and 21/46 */
            v = 25.0 / 46.0 - 21.0 / 46.0 * cos(angle);
            break;
        default:
            v = 0.5 - 0.5 * cos(angle);
            break;
        }
        store_one_f64(k->out[0].data, dtype, i, v);
    }
    return status;
}

static double mel_of(double hertz)
{
    return 2595.0 * log10(1.0 + hertz / 700.0);
}

static double hertz_of(double mel)
{
    return 700.0 * (pow(10.0, mel / 2595.0) - 1.0);
}

/* Triangular filters, equally spaced on the mel scale; rows are the spectrum's bins. */
enum pen_status kernel_mel(struct kernel_call *k)
{
    int64_t bands = i64_from_f64(kernel_scalar(k, 0, 0.0)), length = i64_from_f64(kernel_scalar(k, 1, 0.0));
    double rate = kernel_scalar(k, 2, 1.0), low = mel_of(kernel_scalar(k, 3, 0.0)),
           high = mel_of(kernel_scalar(k, 4, 0.0));
    enum pen_dtype dtype = (enum pen_dtype)node_int(k->n, ATTR_output_datatype, PEN_DTYPE_F32);
    if (bands < 1 || length < 1 || bands > INT32_MAX || length > INT32_MAX || !(rate > 0.0)) {
        return kernel_fail(k, PEN_ERR_INVALID, "%lld bands of %lld bins", (long long)bands, (long long)length);
    }
    int64_t rows = length / 2 + 1;
    struct shape out = shape_of(2, (const int64_t[]){rows, bands});
    enum pen_status status = kernel_output(k, 0, dtype, &out);
    for (int64_t j = 0; status == PEN_OK && j < bands; j++) {
        int64_t edge[3]; /* lower, centre, upper bin */
        for (int64_t e = 0; e < 3; e++) {
            double mel = low + (double)(j + e) * (high - low) / (double)(bands + 2);
            edge[e] = i64_from_f64(floor((double)(length + 1) * hertz_of(mel) / rate));
        }
        for (int64_t i = 0; i < rows; i++) {
            double v = 0.0;
            if (edge[1] == edge[0] && i == edge[1]) {
                v = 1.0;
            } else if (i >= edge[0] && i <= edge[1] && edge[1] > edge[0]) {
                v = (double)(i - edge[0]) / (double)(edge[1] - edge[0]);
            } else if (i > edge[1] && i < edge[2]) {
                v = (double)(edge[2] - i) / (double)(edge[2] - edge[1]);
            }
            store_one_f64(k->out[0].data, dtype, i * bands + j, v);
        }
    }
    return status;
}
