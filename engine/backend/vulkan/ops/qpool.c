#include "backend/vulkan/ops/qpool.h"

#include <math.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/quantised.h"

/* MaxPool of bytes; QLinearAveragePool, QLinearGlobalAveragePool: x, x_scale, x_zero, y_scale, y_zero. */

#define MEAN_MOST (1 << 23) /* bytes under a window: their sum surely fits 32 bits */

bool vk_qpool_takes(const struct graph *g, const struct node *n)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    return n->op == OP_MaxPool && vk_is_byte(x) && y->dtype == x->dtype &&
           (n->out_count == 1 || node_out(g, n, 1) == NULL);
}

static struct vk_work *dispatch(struct vk_build *b, const struct window *w, bool mean, const int32_t zeros[2])
{
    struct vk_work *work = vk_dispatch(b, SHADER_qpool);
    vk_bind(work, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(work, vk_in_cell(b, 0), VK_READ);
    vk_spec(work, mean);
    vk_spec(work, node_int(b->n, ATTR_count_include_pad, 0) != 0);
    vk_spec(work, vk_in(b, 0)->dtype == PEN_DTYPE_I8);
    const size_t sizes[] = {vk_elements(vk_out(b, 0)), w->in[0], w->in[1], w->channels, w->out[0], w->out[1]};
    vk_push_all(work, sizes, sizeof sizes / sizeof sizes[0]);
    vk_push_window(work, w);
    const size_t rest[] = {w->in[0] + w->end[0], w->in[1] + w->end[1]};
    vk_push_all(work, rest, sizeof rest / sizeof rest[0]);
    vk_push(work, (uint32_t)zeros[0]);
    vk_push(work, (uint32_t)zeros[1]);
    return work;
}

void vk_qpool_largest(struct vk_build *b, const struct window *w)
{
    struct vk_work *work = dispatch(b, w, false, (const int32_t[2]){0, 0});
    for (int i = 0; i < 4; i++) {
        vk_push(work, 0);
    }
    vk_items(work, vk_elements(vk_out(b, 0)));
}

/* ---- means ---- */

static bool mean_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool fits =
        vk_is_byte(x) && y->dtype == x->dtype && vk_affine_fits(g, n, 1, x->dtype) && vk_affine_fits(g, n, 3, x->dtype);
    if (!fits) {
        return vk_refuse(ret_reason, "not bytes of one type with one constant scale each");
    }
    if (n->op == OP_QLinearGlobalAveragePool) {
        return x->shape.rank >= 3 || vk_refuse(ret_reason, "no spatial dims");
    }
    return window_supports(g, n, NULL, ret_reason);
}

/* A scale as a whole number of 24 bits times a power of two. */
static uint32_t fraction_of(double scale, int *ret_exponent)
{
    double m = frexp(scale, ret_exponent);
    *ret_exponent -= 24;
    return (uint32_t)ldexp(m, 24);
}

static void mean_dispatch(struct vk_build *b, const struct window *w)
{
    const struct vk_affine x = vk_affine_of(b, 1), y = vk_affine_of(b, 3);
    const int32_t zeros[2] = {(int32_t)x.zero, (int32_t)y.zero};
    int up = 0, down = 0;
    uint32_t top = fraction_of(x.scale, &up), bottom = fraction_of(y.scale, &down);
    struct vk_work *work = dispatch(b, w, true, zeros);
    vk_push(work, top);
    vk_push(work, bottom);
    vk_push(work, (uint32_t)(up - down));
    vk_push_float(work, (float)(x.scale / y.scale));
    vk_items(work, vk_elements(vk_out(b, 0)));
}

/* One window over every image; with channels in front, each of them is an image of one channel. */
static struct window window_of_all(const struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    bool last = node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC || node_int(b->n, ATTR_channels_last, 0) != 0;
    size_t channels = last ? (size_t)x->dim[x->rank - 1] : 1, positions = 1;
    for (int32_t d = last ? 1 : 2; d < (last ? x->rank - 1 : x->rank); d++) {
        positions *= (size_t)x->dim[d];
    }
    return (struct window){.batch = vk_elements(vk_in(b, 0)) / channels / positions,
                           .channels = channels,
                           .in = {1, positions},
                           .out = {1, 1},
                           .kernel = {1, positions},
                           .stride = {1, 1},
                           .dilation = {1, 1}};
}

static void mean_build(struct vk_build *b)
{
    struct window w;
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    bool fits = true;
    if (b->n->op == OP_QLinearGlobalAveragePool) {
        w = window_of_all(b);
        fits = w.batch * w.channels == vk_elements(vk_out(b, 0));
    } else {
        fits = window_read(b->n, x, y, NULL, &w) && x->dim[x->rank - 1] == y->dim[y->rank - 1];
    }
    if (!fits) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and output do not fit the window");
    } else if (w.kernel[0] * w.kernel[1] > MEAN_MOST) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "a mean of so many bytes");
    } else {
        mean_dispatch(b, &w);
    }
}

const struct vk_op vk_op_qmean = {mean_supports, NULL, mean_build};
