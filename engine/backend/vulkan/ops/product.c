#include "backend/vulkan/ops/product.h"

struct window vk_matrix_window(size_t m, size_t k)
{
    return (struct window){
        .batch = 1, .channels = k, .in = {1, m}, .out = {1, m}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
}

/* Where the first kernel's sums go, and what it is started with. */
struct launch {
    enum shader shader;
    struct vk_choice choice;
    size_t rows, out4;
    uint32_t to;
};

static struct vk_product_shape shape_of_product(const struct vk_product *p)
{
    const struct window *w = &p->w;
    return (struct vk_product_shape){.kind = window_point(w) && p->groups == 1 ? VK_PRODUCT_MATRIX : VK_PRODUCT_WINDOW,
                                     .rows = w->batch * w->out[0] * w->out[1],
                                     .outs = p->group_out,
                                     .depth = w->kernel[0] * w->kernel[1] * p->group_in,
                                     .groups = p->groups};
}

static void words_push(struct vk_work *work, const struct vk_product *p, const struct launch *l)
{
    const struct window *w = &p->w;
    const size_t sizes[] = {l->rows, w->in[0], w->in[1], w->channels, w->out[0], w->out[1], p->groups * p->group_out};
    vk_push_all(work, sizes, sizeof sizes / sizeof sizes[0]);
    vk_push_window(work, w);
    const size_t rest[] = {p->group_in, p->group_out, l->out4, p->groups, l->choice.splits};
    vk_push_all(work, rest, sizeof rest / sizeof rest[0]);
}

static struct vk_work *product_dispatch(struct vk_build *b, const struct vk_product *p, const struct launch *l)
{
    struct vk_work *work = vk_dispatch(b, l->shader);
    vk_bind(work, l->to, VK_WRITE);
    vk_bind(work, p->x, VK_READ);
    vk_bind(work, p->weights, VK_READ);
    vk_bind(work, p->bias != VK_CELL_NONE ? p->bias : p->weights, VK_READ);
    vk_bind(work, p->adds != VK_RESIDUAL_NONE ? p->residual : p->x, VK_READ);
    vk_spec_act(work, &p->act);
    vk_spec(work, p->bias != VK_CELL_NONE);
    vk_spec(work, p->group_in % 4 == 0 && p->w.channels % 4 == 0 && l->choice.family != VK_FAMILY_CM2);
    vk_spec(work, window_point(&p->w));
    vk_spec(work, l->choice.tile);
    vk_spec(work, vk_cell_wide(b, p->weights) | (uint32_t)vk_cell_wide(b, p->bias) << 1 | (uint32_t)p->adds |
                      (uint32_t)vk_cell_bf16(b, p->weights) << 4);
    words_push(work, p, l);
    return work;
}

static void simple(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    l->shader = SHADER_conv;
    vk_items(product_dispatch(b, p, l), (l->rows + l->choice.tile - 1) / l->choice.tile * p->groups * l->out4);
}

static void tiled(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    size_t tile = 16 * l->choice.tile;
    l->shader = l->choice.splits > 1 ? SHADER_conv_split : SHADER_conv_tiled;
    vk_groups(product_dispatch(b, p, l), (l->rows + tile - 1) / tile, (l->out4 + 15) / 16,
              p->groups * l->choice.splits);
}

/* Room for the sums of the pieces. */
static bool sums_make(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    size_t floats = 4 * p->groups * l->out4;
    if (__builtin_mul_overflow(floats, l->rows, &floats) || floats > SIZE_MAX / 4 / l->choice.splits) {
        vk_build_fail(b, PEN_ERR_TOO_LARGE, "a temporary is too large");
        return false;
    }
    l->to = vk_temp_f32(b, floats * l->choice.splits);
    return true;
}

static void sums_add(struct vk_build *b, const struct vk_product *p, const struct launch *l)
{
    struct vk_work *work = vk_dispatch(b, SHADER_split_sum);
    vk_bind(work, p->y, VK_WRITE);
    vk_bind(work, l->to, VK_READ);
    vk_bind(work, p->bias != VK_CELL_NONE ? p->bias : p->weights, VK_READ);
    vk_bind(work, p->adds != VK_RESIDUAL_NONE ? p->residual : l->to, VK_READ);
    vk_spec_act(work, &p->act);
    vk_spec(work, p->bias != VK_CELL_NONE);
    vk_spec(work, vk_cell_wide(b, p->bias));
    vk_spec(work, (uint32_t)p->adds);
    const size_t words[] = {l->rows, p->groups, p->group_out, l->out4, l->choice.splits};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(work, words[i]);
    }
    vk_items(work, l->rows * p->groups * l->out4);
}

static void split(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    if (sums_make(b, p, l)) {
        tiled(b, p, l);
        sums_add(b, p, l);
    }
}

#define GEMV_INVOCATIONS 128 /* INVOCATIONS of conv_gemv.comp */

static void gemv(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    size_t lanes = 1;
    while (lanes < 8 && lanes < l->out4) {
        lanes *= 2;
    }
    l->shader = SHADER_conv_gemv;
    l->choice.tile = l->rows < 4 ? (uint32_t)l->rows : l->out4 > 1 ? 4 : 1;
    struct vk_work *work = product_dispatch(b, p, l);
    vk_spec(work, (uint32_t)lanes);
    vk_groups(work, (l->out4 + lanes - 1) / lanes, (l->rows + l->choice.tile - 1) / l->choice.tile, p->groups);
}

void vk_cooperative_start(struct vk_work *work, const struct vk_matrix_size *m, const struct vk_choice *c, bool plain,
                          bool batch, size_t rows, size_t out4, size_t groups)
{
    const uint32_t subgroup = m->rows != 0 ? m->subgroup : VK_LOCAL / 2, side = m->rows != 0 ? 0 : 16;
    const uint32_t specs[] = {subgroup,
                              c->down * (c->outs / c->width) * subgroup,
                              m->rows + side,
                              m->outs + side,
                              m->depth + side,
                              c->tile,
                              c->outs,
                              c->stages,
                              c->width,
                              plain,
                              c->depth,
                              c->down,
                              c->swizzle,
                              c->splits > 1,
                              batch};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        vk_spec(work, specs[i]);
    }
    vk_groups(work, (rows + c->tile - 1) / c->tile, (out4 + c->outs / 4 - 1) / (c->outs / 4), groups * c->splits);
}

static enum shader workgroup_shader(const struct vk_build *b)
{
    static const enum shader shaders[] = {[VK_COOPMAT2_NONE] = SHADER_conv_cm2_scalar,
                                          [VK_COOPMAT2_STAGED] = SHADER_conv_cm2_staged,
                                          [VK_COOPMAT2_TENSOR] = SHADER_conv_cm2};
    return shaders[vk_build_coopmat2(b)];
}

/* As cooperative_start, of conv_cm2.glsl. */
static void workgroup_start(struct vk_work *work, const struct vk_choice *c, bool batch, size_t rows, size_t out4,
                            size_t groups)
{
    const uint32_t specs[] = {c->invocations, c->tile, c->outs, c->depth, c->swizzle, c->splits > 1, batch};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        vk_spec(work, specs[i]);
    }
    vk_groups(work, (rows + c->tile - 1) / c->tile, (4 * out4 + c->outs - 1) / c->outs, groups * c->splits);
}

/* The dispatch has pushed its words and given its constants up to those of product.glsl. */
static void cooperative_start(struct vk_build *b, struct vk_work *work, const struct vk_choice *c, bool plain,
                              bool batch, size_t rows, size_t out4, size_t groups)
{
    const struct vk_matrix_size m = vk_build_matrices(b);
    vk_cooperative_start(work, &m, c, plain, batch, rows, out4, groups);
}

static enum shader cooperative_shader(const struct vk_build *b, bool codes)
{
    const bool matrices = vk_build_matrices(b).rows != 0;
    if (vk_build_bf16(b)) {
        return matrices ? SHADER_conv_cm_bf16 : SHADER_conv_cm_bf16_scalar;
    }
    return codes ? (matrices ? SHADER_nbits_cm : SHADER_nbits_cm_scalar)
                 : (matrices ? SHADER_conv_cm : SHADER_conv_cm_scalar);
}

/* Behind the buffers and constants of every kernel of family `cm`. */
static void codes_add(struct vk_work *work, const struct vk_codes *c)
{
    const bool zeros = c->zeros != VK_CELL_NONE;
    vk_bind(work, c->scales, VK_READ);
    vk_bind(work, zeros ? c->zeros : c->scales, VK_READ);
    vk_spec(work, c->coding.bits);
    vk_spec(work, c->coding.block);
    vk_spec(work, zeros);
}

static void cooperative(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    const bool pieces = l->choice.splits > 1;
    const bool plain = window_point(&p->w) && p->group_in % l->choice.depth == 0 && p->w.channels % 8 == 0 &&
                       (l->out4 % 2 == 0 || p->codes != NULL);
    l->shader = cooperative_shader(b, p->codes != NULL);
    if (pieces && !sums_make(b, p, l)) {
        return;
    }
    struct vk_work *work = product_dispatch(b, p, l);
    cooperative_start(b, work, &l->choice, plain, false, l->rows, l->out4, p->groups);
    if (p->codes != NULL) {
        codes_add(work, p->codes);
    }
    if (pieces) {
        sums_add(b, p, l);
    }
}

static void workgroup(struct vk_build *b, const struct vk_product *p, struct launch *l)
{
    const bool pieces = l->choice.splits > 1;
    l->shader = workgroup_shader(b);
    if (pieces && !sums_make(b, p, l)) {
        return;
    }
    workgroup_start(product_dispatch(b, p, l), &l->choice, false, l->rows, l->out4, 1);
    if (pieces) {
        sums_add(b, p, l);
    }
}

void vk_product_batch(struct vk_build *b, const struct vk_batch *p, const struct vk_choice *c)
{
    const struct vk_product one = {.w = vk_matrix_window(p->rows, p->depth),
                                   .groups = 1,
                                   .group_in = p->depth,
                                   .group_out = p->outs,
                                   .x = p->x,
                                   .weights = p->w,
                                   .bias = p->end->bias,
                                   .act = p->end->act,
                                   .adds = p->end->adds,
                                   .residual = p->end->residual};
    const bool whole = c->family == VK_FAMILY_CM2; /* matrices of a workgroup */
    const struct launch l = {.shader = whole ? workgroup_shader(b) : cooperative_shader(b, false),
                             .choice = *c,
                             .rows = p->rows,
                             .out4 = (p->outs + 3) / 4,
                             .to = p->end->y};
    struct vk_work *work = product_dispatch(b, &one, &l);
    for (size_t i = 0; i < 4; i++) {
        vk_push(work, p->dim[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        vk_push(work, p->x_step[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        vk_push(work, p->w_step[i]);
    }
    if (whole) {
        workgroup_start(work, c, true, p->rows, l.out4, p->count);
        return;
    }
    const bool plain = p->depth % c->depth == 0 && p->outs % 8 == 0;
    cooperative_start(b, work, c, plain, true, p->rows, l.out4, p->count);
}

void vk_product_codes(struct vk_build *b, const struct vk_product *p, const struct vk_choice *c)
{
    struct launch l = {
        .choice = *c, .rows = p->w.batch * p->w.out[0] * p->w.out[1], .out4 = (p->group_out + 3) / 4, .to = p->y};
    cooperative(b, p, &l);
}

void vk_product(struct vk_build *b, const struct vk_product *p)
{
    static void (*const families[VK_FAMILY_COUNT])(struct vk_build *, const struct vk_product *, struct launch *) = {
        [VK_FAMILY_SIMPLE] = simple, [VK_FAMILY_TILED] = tiled,    [VK_FAMILY_GEMV] = gemv,
        [VK_FAMILY_SPLIT] = split,   [VK_FAMILY_CM] = cooperative, [VK_FAMILY_CM2] = workgroup};
    const struct vk_product_shape shape = shape_of_product(p);
    const bool whole = vk_build_bf16(b) ? !vk_cell_bf16(b, p->weights) : vk_cell_wide(b, p->weights);
    struct launch l = {.choice = vk_build_choose(b, &shape, &p->w, whole, p->conv),
                       .rows = shape.rows,
                       .out4 = (p->group_out + 3) / 4,
                       .to = p->y};
    for (uint32_t i = vk_build_repeats(b); i > 0; i--) {
        struct launch again = l;
        families[l.choice.family](b, p, &again);
    }
}
