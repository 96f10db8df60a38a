#include "backend/vulkan/ops/product.h"

/* Which kernel, by shape: rules in order, the first that fits. `tiled` needs shared memory, 256 invocations and enough rows to fill a workgroup's tile. */
struct product_rule {
    size_t least_rows, least_depth, least_outs; /* of a group */
    bool tiled;                                 /* only where such kernels pay */
    enum shader shader;
    uint32_t tile; /* rows of an invocation */
};

static const struct product_rule rules[] = {
    {512, 16, 32, true, SHADER_conv_tiled, 4}, {64, 16, 32, true, SHADER_conv_tiled, 2},
    {16, 32, 32, true, SHADER_conv_tiled, 1},  {4, 0, 0, false, SHADER_conv, 4},
    {0, 0, 0, false, SHADER_conv, 1},
};

static const struct product_rule *rule_for(const struct vk_build *b, const struct vk_product *p, size_t rows)
{
    size_t depth = p->w.kernel[0] * p->w.kernel[1] * p->group_in, i = 0;
    for (;; i++) {
        const struct product_rule *r = &rules[i];
        bool fits = rows >= r->least_rows && depth >= r->least_depth && p->group_out >= r->least_outs;
        if (fits && (!r->tiled || vk_build_tiled(b))) {
            return r;
        }
    }
}

struct vk_window vk_matrix_window(size_t m, size_t k)
{
    return (struct vk_window){
        .batch = 1, .channels = k, .in = {1, m}, .out = {1, m}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
}

static bool point(const struct vk_window *w)
{
    return w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && w->begin[0] == 0 &&
           w->begin[1] == 0 && w->in[0] == w->out[0] && w->in[1] == w->out[1];
}

void vk_product(struct vk_build *b, const struct vk_product *p)
{
    const struct vk_window *w = &p->w;
    size_t rows = w->batch * w->out[0] * w->out[1], out4 = (p->group_out + 3) / 4;
    const struct product_rule *rule = rule_for(b, p, rows);
    struct vk_work *work = vk_dispatch(b, rule->shader);
    vk_bind(work, p->y, VK_WRITE);
    vk_bind(work, p->x, VK_READ);
    vk_bind(work, p->weights, VK_READ);
    vk_bind(work, p->bias != VK_CELL_NONE ? p->bias : p->weights, VK_READ);
    vk_spec_act(work, &p->act);
    vk_spec(work, p->bias != VK_CELL_NONE);
    vk_spec(work, p->group_in % 4 == 0 && w->channels % 4 == 0);
    vk_spec(work, point(w));
    vk_spec(work, rule->tile);
    const size_t words[] = {rows,
                            w->in[0],
                            w->in[1],
                            w->channels,
                            w->out[0],
                            w->out[1],
                            p->groups * p->group_out,
                            w->kernel[0],
                            w->kernel[1],
                            w->stride[0],
                            w->stride[1],
                            w->dilation[0],
                            w->dilation[1],
                            w->begin[0],
                            w->begin[1],
                            p->group_in,
                            p->group_out,
                            out4,
                            p->groups};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(work, words[i]);
    }
    if (rule->shader == SHADER_conv_tiled) {
        size_t tile = 16 * rule->tile;
        vk_groups(work, (rows + tile - 1) / tile, (out4 + 15) / 16, p->groups);
    } else {
        vk_items(work, (rows + rule->tile - 1) / rule->tile * p->groups * out4);
    }
}
