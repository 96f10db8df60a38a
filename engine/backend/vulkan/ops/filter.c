#include "backend/vulkan/ops/filter.h"

bool vk_filter_depthwise(const struct filter *f)
{
    return f->in == 1 && f->groups > 1 && f->groups == f->out;
}

/* A depthwise filter packs its groups as the outputs of one. */
static size_t groups_of(const struct filter *f)
{
    return vk_filter_depthwise(f) ? 1 : f->groups;
}

static size_t width_of(const struct filter *f)
{
    return (f->out / groups_of(f) + 3) / 4 * 4;
}

size_t vk_filter_packed(const struct filter *f)
{
    return groups_of(f) * f->kernel_h * f->kernel_w * f->in * width_of(f);
}

void vk_filter_pack(const struct filter *f, const float *weights, float scale, float *packed)
{
    size_t groups = groups_of(f), outs = f->out / groups, width = width_of(f);
    for (size_t g = 0; g < groups; g++) {
        for (size_t k = 0; k < f->kernel_h * f->kernel_w * f->in; k++) {
            size_t c = k % f->in, tap = k / f->in;
            const float *from = weights + g * outs * f->out_step + c * f->in_step + tap / f->kernel_w * f->h_step +
                                tap % f->kernel_w * f->w_step;
            for (size_t o = 0; o < outs; o++) {
                packed[o] = scale * from[o * f->out_step];
            }
            packed += width;
        }
    }
}

uint32_t vk_filter_repack(struct vk_build *b, const struct filter *f, uint32_t weights, float scale)
{
    uint32_t cell = vk_temp_cell(b, vk_filter_packed(f));
    struct vk_work *w = vk_dispatch(b, SHADER_repack);
    vk_bind(w, cell, VK_WRITE);
    vk_bind(w, weights, VK_READ);
    const size_t words[] = {vk_filter_packed(f), width_of(f), f->out / groups_of(f), f->kernel_h,
                            f->kernel_w,         f->in,       f->out_step,           f->in_step,
                            f->h_step,           f->w_step};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    vk_push_float(w, scale);
    vk_items(w, vk_filter_packed(f));
    return cell;
}
