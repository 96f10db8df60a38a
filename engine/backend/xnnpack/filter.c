#include "backend/xnnpack/filter.h"

#include "backend/xnnpack/isa.h"

/* Floats between neighbours along each axis. */
static void steps_read(enum weight_layout layout, struct filter *f)
{
    size_t pixels = f->kernel_h * f->kernel_w;
    switch (layout) {
    case WEIGHT_OHWI:
        f->in_step = 1;
        f->w_step = f->in;
        f->h_step = f->in * f->kernel_w;
        f->out_step = f->in * pixels;
        break;
    case WEIGHT_HWIO:
    case WEIGHT_HWIM:
        f->out_step = 1;
        f->in_step = f->out;
        f->w_step = f->in * f->out;
        f->h_step = f->in * f->out * f->kernel_w;
        break;
    case WEIGHT_OIHW:
    default:
        f->w_step = 1;
        f->h_step = f->kernel_w;
        f->in_step = pixels;
        f->out_step = f->in * pixels;
        break;
    }
}

bool filter_read(const struct node *n, const struct shape *shape, struct filter *ret_filter)
{
    if (!shape_known(shape) || shape->rank < 3 || shape->rank > 4 || shape_elements(shape) <= 0) {
        return false;
    }
    enum weight_layout layout = (enum weight_layout)node_int(n, ATTR_weight_layout, WEIGHT_OIHW);
    int32_t spatial = shape->rank - 2;
    int32_t first = layout == WEIGHT_OIHW ? 2 : layout == WEIGHT_OHWI ? 1 : 0; /* of the kernel's dims */
    const int64_t *d = shape->dim;
    int64_t groups = node_int(n, ATTR_group, 1);
    int64_t out = layout == WEIGHT_OIHW || layout == WEIGHT_OHWI ? d[0] : d[spatial + 1];
    int64_t in = layout == WEIGHT_OIHW ? d[1] : layout == WEIGHT_OHWI ? d[spatial + 1] : d[spatial];
    if (layout == WEIGHT_HWIM) { /* channels, multiplier: one input channel per group */
        if (groups != d[spatial]) {
            return false;
        }
        out = d[spatial] * d[spatial + 1];
        in = 1;
    }
    if (groups < 1 || out % groups != 0) {
        return false;
    }
    struct filter f = {.groups = (size_t)groups, .out = (size_t)out, .in = (size_t)in};
    f.kernel[0] = d[first];
    f.kernel[1] = spatial == 2 ? d[first + 1] : 0;
    f.kernel_h = spatial == 2 ? (size_t)d[first] : 1;
    f.kernel_w = (size_t)d[first + spatial - 1];
    steps_read(layout, &f);
    *ret_filter = f;
    return true;
}

size_t filter_floats(const struct filter *f)
{
    return f->out * f->kernel_h * f->kernel_w * f->in;
}

void filter_to_ohwi(const struct filter *f, const float *w, float *ohwi)
{
    size_t pixels = f->kernel_h * f->kernel_w;
    if (f->w_step == 1 && f->h_step == f->kernel_w &&
        f->in_step == pixels) { /* OIHW: one transpose per output channel */
        for (size_t o = 0; o < f->out; o++) {
            isa_own()->transpose((const uint32_t *)(const void *)(w + o * f->out_step), pixels,
                                 (uint32_t *)(void *)(ohwi + o * pixels * f->in), f->in, f->in, pixels);
        }
        return;
    }
    for (size_t o = 0; o < f->out; o++) {
        for (size_t p = 0; p < pixels; p++) {
            const float *from = w + o * f->out_step + p / f->kernel_w * f->h_step + p % f->kernel_w * f->w_step;
            for (size_t i = 0; i < f->in; i++) {
                *ohwi++ = from[i * f->in_step];
            }
        }
    }
}

bool filter_is_ohwi(const struct filter *f)
{
    return f->out_step == f->kernel_h * f->kernel_w * f->in && (f->in == 1 || f->in_step == 1) &&
           (f->kernel_w == 1 || f->w_step == f->in) && (f->kernel_h == 1 || f->h_step == f->in * f->kernel_w);
}

static size_t group_k(const struct filter *f)
{
    return f->kernel_h * f->kernel_w * f->in;
}

size_t filter_packed_bytes(const struct filter *f)
{
    return f->groups * dense_weights_bytes(group_k(f), f->out / f->groups);
}

void filter_pack(const struct filter *f, const float *ohwi, const float *bias, uint8_t *packed)
{
    size_t k = group_k(f), n = f->out / f->groups;
    for (size_t g = 0; g < f->groups; g++) {
        void *to = packed + g * dense_weights_bytes(k, n);
        dense_pack(to, ohwi + g * n * k, 1, k, bias != NULL ? bias + g * n : NULL, k, n);
    }
}

size_t filter_turn_floats(const struct filter *f)
{
    return isa_own()->gemm_nr * group_k(f);
}

/* A panel's columns are turned at a time: they stay in the second cache until they are packed. */
void filter_pack_turned(const struct filter *f, const float *w, const float *bias, float *scratch, uint8_t *packed)
{
    size_t k = group_k(f), n = f->out / f->groups, nr = isa_own()->gemm_nr;
    for (size_t g = 0; g < f->groups; g++) {
        struct dense_weights *to = (void *)(packed + g * dense_weights_bytes(k, n));
        for (size_t j = 0; j < n; j += nr) {
            struct filter part = *f;
            part.groups = 1;
            part.out = n - j < nr ? n - j : nr;
            filter_to_ohwi(&part, w + (g * n + j) * f->out_step, scratch);
            dense_pack_into(to->data + j * k, scratch, 1, k, k, part.out);
        }
        dense_pack_bias(to, bias != NULL ? bias + g * n : NULL, k, n);
    }
}

const struct dense_weights *filter_group(const struct filter *f, const uint8_t *packed, size_t group)
{
    return (const void *)(packed + group * dense_weights_bytes(group_k(f), f->out / f->groups));
}
