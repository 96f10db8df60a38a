/* Spatial operators give the same numbers in both layouts, convolutions with every layout of weights. */
#include <criterion/criterion.h>
#include <math.h>

#include "fixture.h"

#define MAX_ITEMS 4096

/* Repeatable values in [-1, 1). */
static void fill(double *items, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        items[i] = (double)(float)((double)(seed >> 40) * 0x1p-23 - 1.0);
    }
}

/* [n, c, h, w] to [n, h, w, c] */
static void to_nhwc(const double *x, const int64_t *d, double *ret)
{
    for (int64_t i = 0; i < d[0] * d[1] * d[2] * d[3]; i++) {
        int64_t w = i % d[3], h = i / d[3] % d[2], c = i / (d[3] * d[2]) % d[1], n = i / (d[3] * d[2] * d[1]);
        ret[((n * d[2] + h) * d[3] + w) * d[1] + c] = x[i];
    }
}

/* Place of weight (o, i, h, w) of dims [O, I, H, W] in a layout. */
static int64_t weight_at(enum weight_layout layout, const int64_t *d, int64_t o, int64_t i, int64_t h, int64_t w)
{
    switch (layout) {
    case WEIGHT_OHWI:
        return ((o * d[2] + h) * d[3] + w) * d[1] + i;
    case WEIGHT_HWIO:
        return ((h * d[3] + w) * d[1] + i) * d[0] + o;
    case WEIGHT_HWIM:
        return (h * d[3] + w) * d[0] + o;
    case WEIGHT_OIHW:
    default:
        return ((o * d[1] + i) * d[2] + h) * d[3] + w;
    }
}

struct conv_case {
    int64_t x[4], w[4]; /* NCHW, OIHW */
    int64_t group, stride, pad;
    enum activation act;
};

static void conv_attrs(struct fixture *f, const struct conv_case *c, bool nhwc, enum weight_layout layout)
{
    graph_attr_int(f->g, f->node, ATTR_group, c->group);
    graph_attr_ints(f->g, f->node, ATTR_strides, DIMS(c->stride, c->stride), 2);
    graph_attr_ints(f->g, f->node, ATTR_pads, DIMS(c->pad, c->pad, c->pad, c->pad), 4);
    graph_attr_int(f->g, f->node, ATTR_layout, nhwc ? LAYOUT_NHWC : LAYOUT_NCHW);
    graph_attr_int(f->g, f->node, ATTR_weight_layout, layout);
    graph_attr_int(f->g, f->node, ATTR_act, c->act);
}

/* Runs the case; the result comes back as NCHW values of dims `out`. */
static void conv_run_case(const struct conv_case *c, bool nhwc, enum weight_layout layout, double *ret, int64_t *out)
{
    static double x[MAX_ITEMS], t[MAX_ITEMS], w[MAX_ITEMS], p[MAX_ITEMS], bias[64];
    struct fixture f;
    int64_t wd[4] = {c->w[0], c->w[1], c->w[2], c->w[3]};
    fixture_init(&f, OP_Conv, 1);
    fill(x, c->x[0] * c->x[1] * c->x[2] * c->x[3], 1);
    fill(w, c->w[0] * c->w[1] * c->w[2] * c->w[3], 2);
    fill(bias, c->w[0], 3);
    to_nhwc(x, c->x, t);
    for (int64_t i = 0; i < c->w[0] * c->w[1] * c->w[2] * c->w[3]; i++) {
        p[weight_at(layout, c->w, i / (c->w[1] * c->w[2] * c->w[3]), i / (c->w[2] * c->w[3]) % c->w[1],
                    i / c->w[3] % c->w[2], i % c->w[3])] = w[i];
    }
    const int64_t shapes[4][4] = {{wd[0], wd[1], wd[2], wd[3]},
                                  {wd[0], wd[2], wd[3], wd[1]},
                                  {wd[2], wd[3], wd[1], wd[0]},
                                  {wd[2], wd[3], c->x[1], wd[0] / c->x[1]}};
    fixture_in(&f, PEN_DTYPE_F32, nhwc ? t : x, 4, nhwc ? DIMS(c->x[0], c->x[2], c->x[3], c->x[1]) : c->x);
    fixture_in(&f, PEN_DTYPE_F32, p, 4, shapes[layout]);
    fixture_in(&f, PEN_DTYPE_F32, bias, 1, DIMS(c->w[0]));
    fixture_node(&f);
    conv_attrs(&f, c, nhwc, layout);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    const int64_t *d = f.out[0].shape.dim;
    for (int i = 0; i < 4; i++) {
        out[i] = nhwc ? d[i == 0 ? 0 : i == 1 ? 3 : i - 1] : d[i];
    }
    for (int64_t i = 0; i < shape_elements(&f.out[0].shape); i++) {
        int64_t q = i % out[3], r = i / out[3] % out[2], ch = i / (out[3] * out[2]) % out[1],
                n = i / (out[3] * out[2] * out[1]);
        ret[i] = fixture_at(&f, 0, nhwc ? ((n * out[2] + r) * out[3] + q) * out[1] + ch : i);
    }
    fixture_fini(&f);
}

/* The definition, term by term. */
static double conv_expected(const struct conv_case *c, int64_t n, int64_t o, int64_t y, int64_t x)
{
    static double in[MAX_ITEMS], w[MAX_ITEMS], bias[64];
    fill(in, c->x[0] * c->x[1] * c->x[2] * c->x[3], 1);
    fill(w, c->w[0] * c->w[1] * c->w[2] * c->w[3], 2);
    fill(bias, c->w[0], 3);
    double sum = bias[o];
    for (int64_t i = 0; i < c->w[1]; i++) {
        for (int64_t h = 0; h < c->w[2]; h++) {
            for (int64_t v = 0; v < c->w[3]; v++) {
                int64_t iy = y * c->stride - c->pad + h, ix = x * c->stride - c->pad + v,
                        ch = o / (c->w[0] / c->group) * c->w[1] + i;
                if (iy >= 0 && iy < c->x[2] && ix >= 0 && ix < c->x[3]) {
                    sum += in[((n * c->x[1] + ch) * c->x[2] + iy) * c->x[3] + ix] *
                           w[weight_at(WEIGHT_OIHW, c->w, o, i, h, v)];
                }
            }
        }
    }
    return c->act == ACT_HARDSWISH ? sum * fmin(fmax(sum + 3.0, 0.0), 6.0) / 6.0 : sum;
}

static void conv_check(const struct conv_case *c, bool depthwise)
{
    static double y[MAX_ITEMS];
    int64_t out[4];
    for (int nhwc = 0; nhwc < 2; nhwc++) {
        for (int layout = WEIGHT_OIHW; layout <= (depthwise ? WEIGHT_HWIM : WEIGHT_HWIO); layout++) {
            conv_run_case(c, nhwc != 0, (enum weight_layout)layout, y, out);
            for (int64_t i = 0; i < out[0] * out[1] * out[2] * out[3]; i++) {
                double want = conv_expected(c, i / (out[3] * out[2] * out[1]), i / (out[3] * out[2]) % out[1],
                                            i / out[3] % out[2], i % out[3]);
                cr_assert(fabs(y[i] - want) < 1e-5, "layout %d, weights %d, element %lld: %g, expected %g", nhwc,
                          layout, (long long)i, y[i], want);
            }
        }
    }
}

Test(layouts, a_plain_convolution)
{
    conv_check(&(struct conv_case){{2, 3, 7, 6}, {5, 3, 3, 3}, 1, 2, 1, ACT_NONE}, false);
}

Test(layouts, a_grouped_convolution_with_an_activation)
{
    conv_check(&(struct conv_case){{1, 4, 9, 9}, {6, 2, 3, 3}, 2, 1, 0, ACT_HARDSWISH}, false);
}

Test(layouts, a_depthwise_convolution_with_a_multiplier)
{
    conv_check(&(struct conv_case){{1, 4, 8, 5}, {8, 1, 3, 3}, 4, 1, 1, ACT_NONE}, true);
}

Test(layouts, a_residual_is_added_before_the_activation)
{
    struct fixture f;
    fixture_init(&f, OP_Conv, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, -2), 4, DIMS(1, 1, 1, 2));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(3), 4, DIMS(1, 1, 1, 1));
    fixture_none(&f);
    fixture_node(&f);
    f.in[3] = f.in[0]; /* a fusion appends the fourth input */
    f.g->nodes[f.node].in = graph_alloc(f.g, 4 * sizeof(uint32_t));
    cr_assert_not_null(f.g->nodes[f.node].in);
    f.g->nodes[f.node].in_count = 4;
    graph_attr_int(f.g, f.node, ATTR_act, ACT_CLAMP);
    graph_attr_float(f.g, f.node, ATTR_act_min, 0.0f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 4, DIMS(1, 1, 1, 2), ITEMS(4, 0), 0.0); /* 3 + 1; max(-6 - 2, 0) */
    fixture_fini(&f);
}

/* One operator over the same data in both layouts. */
static void same_in_both(enum op op, void (*attrs)(struct fixture *f))
{
    static double x[MAX_ITEMS], t[MAX_ITEMS];
    const int64_t d[4] = {2, 4, 6, 8};
    struct fixture a, b;
    fill(x, d[0] * d[1] * d[2] * d[3], 7);
    to_nhwc(x, d, t);
    fixture_init(&a, op, 1);
    fixture_init(&b, op, 1);
    fixture_in(&a, PEN_DTYPE_F32, x, 4, d);
    fixture_in(&b, PEN_DTYPE_F32, t, 4, DIMS(d[0], d[2], d[3], d[1]));
    fixture_node(&a);
    fixture_node(&b);
    attrs(&a);
    attrs(&b);
    graph_attr_int(b.g, b.node, ATTR_layout, LAYOUT_NHWC);
    cr_assert_eq(fixture_run(&a), PEN_OK, "%s", a.error.text);
    cr_assert_eq(fixture_run(&b), PEN_OK, "%s", b.error.text);
    const int64_t *o = a.out[0].shape.dim;
    cr_assert_eq(b.out[0].shape.dim[3], o[1]);
    for (int64_t i = 0; i < shape_elements(&a.out[0].shape); i++) {
        int64_t w = i % o[3], h = i / o[3] % o[2], c = i / (o[3] * o[2]) % o[1], n = i / (o[3] * o[2] * o[1]);
        cr_assert_eq(fixture_at(&a, 0, i), fixture_at(&b, 0, ((n * o[2] + h) * o[3] + w) * o[1] + c), "element %lld",
                     (long long)i);
    }
    fixture_fini(&a);
    fixture_fini(&b);
}

static void pool_attrs(struct fixture *f)
{
    graph_attr_ints(f->g, f->node, ATTR_kernel_shape, DIMS(3, 2), 2);
    graph_attr_ints(f->g, f->node, ATTR_strides, DIMS(2, 2), 2);
    graph_attr_ints(f->g, f->node, ATTR_pads, DIMS(1, 0, 1, 1), 4);
}

static void no_attrs(struct fixture *f)
{
    (void)f;
}

static void block_attrs(struct fixture *f)
{
    graph_attr_int(f->g, f->node, ATTR_blocksize, 2);
}

static void size_attrs(struct fixture *f)
{
    graph_attr_int(f->g, f->node, ATTR_size, 3);
}

Test(layouts, pools_and_blocks)
{
    same_in_both(OP_MaxPool, pool_attrs);
    same_in_both(OP_AveragePool, pool_attrs);
    same_in_both(OP_LpPool, pool_attrs);
    same_in_both(OP_GlobalAveragePool, no_attrs);
    same_in_both(OP_GlobalMaxPool, no_attrs);
    same_in_both(OP_DepthToSpace, block_attrs);
    same_in_both(OP_SpaceToDepth, block_attrs);
    same_in_both(OP_LRN, size_attrs);
}
