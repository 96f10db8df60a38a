#include "backend/vulkan/ops/winograd.h"

#include "backend/vulkan/ops/product.h"

#define PLACES 16u
/* Floats of a temporary: batches of more run in pieces, one after the other. */
#define FLOATS_MOST ((size_t)1 << 24)

static bool all_one(const struct node *n, enum attr_key key)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] != 1) {
            return false;
        }
    }
    return true;
}

bool vk_winograd_takes(const struct vk_pack *p, const struct filter *f)
{
    return vk_pack_winograd(p) && f->groups == 1 && f->kernel_h == 3 && f->kernel_w == 3 &&
           node_in(p->g, p->n, 0)->shape.rank == 4 && all_one(p->n, ATTR_strides) && all_one(p->n, ATTR_dilations);
}

/* G g G^T, in double. */
static void transform(const double g[3][3], double ret_u[4][4])
{
    double half[4][3];
    for (int j = 0; j < 3; j++) {
        double plus = (g[0][j] + g[2][j]) / 2.0, middle = g[1][j] / 2.0;
        half[0][j] = g[0][j];
        half[1][j] = plus + middle;
        half[2][j] = plus - middle;
        half[3][j] = g[2][j];
    }
    for (int i = 0; i < 4; i++) {
        double plus = (half[i][0] + half[i][2]) / 2.0, middle = half[i][1] / 2.0;
        ret_u[i][0] = half[i][0];
        ret_u[i][1] = plus + middle;
        ret_u[i][2] = plus - middle;
        ret_u[i][3] = half[i][2];
    }
}

enum pen_status vk_winograd_pack(struct vk_pack *p, const struct filter *f, const float *weights)
{
    size_t width = (f->out + 3) / 4 * 4;
    float *packed = vk_pack_floats(p, VK_WINOGRAD_SLOT, PLACES * f->in * width);
    if (packed == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (size_t at = 0; at < f->in * f->out; at++) {
        size_t c = at / f->out, o = at % f->out;
        const float *from = weights + o * f->out_step + c * f->in_step;
        double g[3][3], u[4][4];
        for (size_t i = 0; i < 9; i++) {
            g[i / 3][i % 3] = (double)from[i / 3 * f->h_step + i % 3 * f->w_step];
        }
        transform((const double(*)[3])g, u);
        for (size_t i = 0; i < PLACES; i++) {
            packed[(i * f->in + c) * width + o] = (float)u[i / 4][i % 4];
        }
    }
    return PEN_OK;
}

/* Images first .. first + images - 1. */
struct piece {
    const struct window *w;
    size_t first, images, tiles_h, tiles_w, outs;
    uint32_t v, m; /* cells */
};

static size_t tiles_of(const struct piece *p)
{
    return p->images * p->tiles_h * p->tiles_w;
}

static void words_push(struct vk_work *work, const size_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        vk_push(work, words[i]);
    }
}

static void input_transform(struct vk_build *b, const struct piece *p)
{
    const struct window *w = p->w;
    struct vk_work *work = vk_dispatch(b, SHADER_winograd_in);
    vk_bind(work, p->v, VK_WRITE);
    vk_bind(work, vk_in_cell(b, 0), VK_READ);
    const size_t words[] = {tiles_of(p), p->first,   w->in[0],    w->in[1],   w->channels,
                            p->tiles_h,  p->tiles_w, w->begin[0], w->begin[1]};
    words_push(work, words, sizeof words / sizeof words[0]);
    vk_items(work, tiles_of(p) * w->channels);
}

static void products(struct vk_build *b, const struct piece *p, uint32_t weights)
{
    const struct vk_product product = {.w = vk_matrix_window(tiles_of(p), PLACES * p->w->channels),
                                       .groups = PLACES,
                                       .group_in = p->w->channels,
                                       .group_out = p->outs,
                                       .x = p->v,
                                       .y = p->m,
                                       .weights = weights,
                                       .bias = VK_CELL_NONE};
    vk_product(b, &product);
}

static void output_transform(struct vk_build *b, const struct piece *p, uint32_t weights, uint32_t bias)
{
    struct vk_act act = vk_act_read(b->n);
    struct vk_work *work = vk_dispatch(b, SHADER_winograd_out);
    vk_bind(work, vk_out_cell(b, 0), p->first > 0 ? VK_READ_WRITE : VK_WRITE);
    vk_bind(work, p->m, VK_READ);
    vk_bind(work, bias != VK_CELL_NONE ? bias : weights, VK_READ);
    vk_spec_act(work, &act);
    vk_spec(work, bias != VK_CELL_NONE);
    const size_t words[] = {tiles_of(p), p->first, p->w->out[0], p->w->out[1], p->outs, p->tiles_h, p->tiles_w};
    words_push(work, words, sizeof words / sizeof words[0]);
    vk_items(work, tiles_of(p) * p->outs);
}

void vk_winograd_build(struct vk_build *b, const struct window *w, const struct filter *f, uint32_t weights,
                       uint32_t bias)
{
    struct piece p = {.w = w, .tiles_h = (w->out[0] + 1) / 2, .tiles_w = (w->out[1] + 1) / 2, .outs = f->out};
    size_t wider = w->channels > f->out ? w->channels : f->out, image = 0;
    if (__builtin_mul_overflow(p.tiles_h * p.tiles_w, PLACES * wider, &image)) {
        vk_build_fail(b, PEN_ERR_TOO_LARGE, "a temporary is too large");
        return;
    }
    size_t most = image > 0 && image < FLOATS_MOST ? FLOATS_MOST / image : 1;
    most = most < w->batch ? most : w->batch;
    p.images = most;
    p.v = vk_temp_f32(b, tiles_of(&p) * PLACES * w->channels);
    p.m = vk_temp_f32(b, tiles_of(&p) * PLACES * f->out);
    for (; p.first < w->batch; p.first += most) {
        p.images = most < w->batch - p.first ? most : w->batch - p.first;
        input_transform(b, &p);
        products(b, &p, weights);
        output_transform(b, &p, weights, bias);
    }
    vk_build_winograd(b);
}
