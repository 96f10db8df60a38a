#include "backend/xnnpack/filter.h"

#include <string.h>

#include "backend/xnnpack/isa.h"

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

bool filter_is_depthwise(const struct filter *f)
{
    return f->groups > 1 && f->in == 1 && f->out == f->groups;
}

size_t filter_merge(struct filter *f, size_t columns, size_t terms)
{
    const size_t out = f->out / f->groups, k = f->kernel_h * f->kernel_w * f->in;
    size_t merged = 1;
    for (size_t m = 2; m <= f->groups && m * out <= columns && m * k <= terms; m++) {
        merged = f->groups % m == 0 ? m : merged;
    }
    f->groups /= merged;
    f->in *= merged;
    return merged;
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

size_t filter_packed_bytes(const struct filter *f, enum gemm_form form)
{
    return f->groups * dense_form_bytes(form, group_k(f), f->out / f->groups);
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
    return 2 * isa_own()->gemm_nr * group_k(f);
}

/* Filters of a panel in OHWI. Those that lie in a file at any byte (graph/askew.h) are copied first: in OIHW, as such files have them, they are one piece. */
static void panel_to_ohwi(const struct filter *part, const float *w, float *ohwi)
{
    float *copy = ohwi + isa_own()->gemm_nr * group_k(part);
    if ((uintptr_t)w % sizeof *w != 0) {
        w = memcpy(copy, w, filter_floats(part) * sizeof *w);
    }
    filter_to_ohwi(part, w, ohwi);
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
            panel_to_ohwi(&part, w + (g * n + j) * f->out_step, scratch);
            dense_pack_into(to->data + j * k, scratch, 1, k, k, part.out);
        }
        dense_pack_bias(to, bias != NULL ? bias + g * n : NULL, k, n);
    }
}

enum pen_status filter_pack_form(const struct filter *f, enum gemm_form form, const float *w, const float *bias,
                                 float *scratch, uint8_t *packed)
{
    const size_t k = group_k(f), n = f->out / f->groups, step = dense_form_bytes(form, k, n);
    enum pen_status status = PEN_OK;
    filter_to_ohwi(f, w, scratch);
    for (size_t g = 0; g < f->groups && status == PEN_OK; g++) {
        const struct dense_matrix m = {.w = scratch + g * n * k,
                                       .bias = bias != NULL ? bias + g * n : NULL,
                                       .k_stride = 1,
                                       .n_stride = k,
                                       .k = k,
                                       .n = n,
                                       .alpha = 1.0f};
        status = dense_pack_form((void *)(packed + g * step), form, &m);
    }
    return status;
}

const struct dense_weights *filter_group(const struct filter *f, const uint8_t *packed, size_t group)
{
    const struct dense_weights *first = (const void *)packed;
    return (const void *)(packed + group * dense_form_bytes(first->form, group_k(f), f->out / f->groups));
}
