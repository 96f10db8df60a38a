#include "backend/vulkan/ops/qproduct.h"

#include <math.h>
#include <string.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"

/*
 * QLinearConv, ConvInteger (NHWC), QLinearMatMul, QGemm, MatMulInteger on u8 and i8 with constant weights: products of bytes, packed once, summed in 32 bits.
 * qproduct.glsl has the arithmetic.
 */
enum { PACK_WEIGHTS, PACK_PARAMS };
enum { OUT_BYTES, OUT_SUMS, OUT_EXACT }; /* OUT of qproduct.glsl */

#define PARAM_FOURS(exact) ((exact) ? 7u : 4u) /* of four outputs */

static uint32_t out_kind(enum op op)
{
    return vk_qsums(op) ? OUT_SUMS : op == OP_QGemm ? OUT_EXACT : OUT_BYTES;
}

/* A matrix is the filter of a 1 x 1 convolution. */
static bool filter_of(const struct node *n, const struct shape *w, struct filter *f)
{
    if (vk_qconvolves(n->op)) {
        return filter_read(n, w, f);
    }
    if (w->rank != 2 || w->dim[0] < 1 || w->dim[1] < 1) {
        return false;
    }
    *f = (struct filter){.groups = 1,
                         .out = (size_t)w->dim[1],
                         .in = (size_t)w->dim[0],
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .out_step = 1,
                         .in_step = (size_t)w->dim[1]};
    return true;
}

/* ---- supports ---- */

/* A constant of one number, or of one for each output. */
static bool is_vector(const struct value *v, enum pen_dtype dtype, size_t outs)
{
    int64_t count = vk_dtype_is(v, dtype) && v->data != NULL ? shape_elements(&v->shape) : -1;
    return count == 1 || (count == (int64_t)outs && v->shape.rank == 1);
}

/* Sums of products stay within 32 bits. */
static bool sums_fit(const struct filter *f)
{
    return f->kernel_h * f->kernel_w * f->in < VK_SUM_MOST / (255 * 255);
}

static bool params_fit(const struct graph *g, const struct node *n, const struct vk_qslots *s, const struct filter *f)
{
    const struct value *x = node_in(g, n, s->x), *w = node_in(g, n, s->w), *y = node_out(g, n, 0);
    const struct value *x_zero = node_in(g, n, s->x_zero), *w_zero = node_in(g, n, s->w_zero),
                       *bias = node_in(g, n, s->bias);
    if ((w_zero != NULL && !is_vector(w_zero, w->dtype, f->out)) ||
        (bias != NULL && (!vk_dtype_is(bias, PEN_DTYPE_I32) || bias->data == NULL ||
                          shape_elements(&bias->shape) != (int64_t)f->out))) {
        return false;
    }
    if (vk_qsums(n->op)) { /* the zero point of x may be computed, as behind DynamicQuantizeLinear */
        bool later = vk_dtype_is(x_zero, x->dtype) && shape_elements(&x_zero->shape) == 1;
        return vk_dtype_is(y, PEN_DTYPE_I32) && (x_zero == NULL || later);
    }
    return vk_is_byte(y) && vk_affine_fits(g, n, s->x_scale, x->dtype) && vk_affine_fits(g, n, s->y_scale, y->dtype) &&
           is_vector(node_in(g, n, s->w_scale), PEN_DTYPE_F32, f->out);
}

static bool gemm_is_plain(const struct graph *g, const struct node *n)
{
    return node_int(n, ATTR_transA, 0) == 0 && node_int(n, ATTR_transB, 0) == 0 &&
           node_float(n, ATTR_alpha, 1.0f) == 1.0f && node_in(g, n, 7) != NULL && node_in(g, n, 0)->shape.rank == 2;
}

static bool is_several(const struct graph *g, const struct node *n)
{
    const struct value *w = node_in(g, n, vk_qslots_of(n->op).w);
    return !vk_qconvolves(n->op) && n->op != OP_QGemm && (w->data == NULL || w->shape.rank != 2);
}

static bool supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct vk_qslots s = vk_qslots_of(n->op);
    const struct value *x = node_in(g, n, s.x), *w = node_in(g, n, s.w);
    struct filter f;
    if (!vk_is_byte(x) || !vk_is_byte(w)) {
        return vk_refuse(ret_reason, "not a product of bytes");
    }
    if (is_several(g, n)) {
        return vk_qmatmul_supports(g, n, ret_reason);
    }
    if (w->data == NULL || (n->op == OP_QGemm && !gemm_is_plain(g, n))) {
        return vk_refuse(ret_reason, "weights that are computed, turned matrices, a factor, or sums that stay floats");
    }
    if (vk_qconvolves(n->op) && !window_supports(g, n, w, ret_reason)) {
        return false;
    }
    if (!filter_of(n, &w->shape, &f) || x->shape.rank < 1) {
        return vk_refuse(ret_reason, "weights do not fit the groups");
    }
    if (!params_fit(g, n, &s, &f)) {
        return vk_refuse(ret_reason, "scales or zero points that are computed, or of another type or count");
    }
    return sums_fit(&f) || vk_refuse(ret_reason, "sums beyond 32 bits");
}

/* ---- packing ---- */

/* Constants of a node as they are read while packing. */
struct constants {
    const struct value *x, *w, *x_zero, *w_zero, *bias, *x_scale, *w_scale, *y_scale;
};

static struct constants constants_of(const struct vk_pack *p)
{
    const struct vk_qslots s = vk_qslots_of(p->n->op);
    return (struct constants){.x = node_in(p->g, p->n, s.x),
                              .w = node_in(p->g, p->n, s.w),
                              .x_zero = node_in(p->g, p->n, s.x_zero),
                              .w_zero = node_in(p->g, p->n, s.w_zero),
                              .bias = node_in(p->g, p->n, s.bias),
                              .x_scale = node_in(p->g, p->n, s.x_scale),
                              .w_scale = node_in(p->g, p->n, s.w_scale),
                              .y_scale = node_in(p->g, p->n, s.y_scale)};
}

/* What a byte of this type loses to be a signed one. */
static int32_t shift_of(const struct value *v)
{
    return v->dtype == PEN_DTYPE_U8 ? 128 : 0;
}

/* Of output o, as a signed byte. */
static int32_t w_zero_of(const struct constants *c, size_t o)
{
    size_t at = c->w_zero != NULL && shape_elements(&c->w_zero->shape) > 1 ? o : 0;
    return (c->w_zero != NULL ? vk_byte_at(c->w_zero->data, c->w->dtype, at) : 0) - shift_of(c->w);
}

/* How outputs, channels and groups lie in the packed form: a depthwise filter packs its channels as the outputs of one group. */
struct lay {
    size_t groups, outs, out4, in4, taps; /* outs: of a group; 4: in fours */
    bool depthwise;
};

static struct lay lay_of(const struct filter *f)
{
    bool depthwise = vk_filter_depthwise(f);
    size_t groups = depthwise ? 1 : f->groups, outs = f->out / groups;
    return (struct lay){groups, outs, (outs + 3) / 4, (f->in + 3) / 4, f->kernel_h * f->kernel_w, depthwise};
}

/* Byte of the packed form for output o of group g, channel c, tap t. */
static size_t place_of(const struct lay *l, size_t g, size_t o, size_t c, size_t t)
{
    if (l->depthwise) {
        return t * 4 * l->out4 + o;
    }
    return (((g * l->taps + t) * l->in4 + c / 4) * 4 * l->out4 + o) * 4 + c % 4;
}

static size_t packed_bytes(const struct lay *l)
{
    return l->groups * l->taps * 4 * l->out4 * (l->depthwise ? 1 : 4 * l->in4);
}

/* Gives the sum of the weights of an output, as signed bytes. */
static int32_t output_pack(const struct filter *f, const struct lay *l, const struct value *w, size_t g, size_t o,
                           uint8_t *packed)
{
    int32_t sum = 0;
    for (size_t t = 0; t < l->taps; t++) {
        for (size_t c = 0; c < f->in; c++) {
            size_t at = (g * l->outs + o) * f->out_step + c * f->in_step + t / f->kernel_w * f->h_step +
                        t % f->kernel_w * f->w_step;
            int32_t v = vk_byte_at(w->data, w->dtype, at) - shift_of(w);
            packed[place_of(l, g, o, c, t)] = (uint8_t)v;
            sum += v;
        }
    }
    return sum;
}

static double scale_at(const struct value *v, size_t o)
{
    return (double)((const float *)v->data)[shape_elements(&v->shape) > 1 ? o : 0];
}

/* OUT_EXACT: x_scale w_scale as a whole number of 48 bits; y_scale as one of 24; what is left is a power of two. */
static void exact_params(const struct constants *c, size_t o, uint32_t *at)
{
    int down = 0, up = 0;
    (void)frexp(scale_at(c->y_scale, 0), &down);
    double m = frexp(scale_at(c->x_scale, 0) * scale_at(c->w_scale, o), &up);
    uint64_t factor = (uint64_t)ldexp(m, 48);
    at[16] = (uint32_t)factor;
    at[20] = (uint32_t)(factor >> 32);
    at[24] = (uint32_t)(up - 48 - (down - 24));
}

static float scale_of(const struct constants *c, size_t o, bool exact)
{
    double x = scale_at(c->x_scale, 0), w = scale_at(c->w_scale, o), y = scale_at(c->y_scale, 0);
    return exact ? (float)(x * w / y) : (float)x * (float)w / (float)y;
}

/* Words of output o of a group, four outputs side by side. `all`: the sum of its weights; `terms`: how many they are. */
static void params_write(const struct vk_pack *p, const struct constants *c, size_t out, int32_t all, size_t terms,
                         uint32_t *at)
{
    const bool exact = out_kind(p->n->op) == OUT_EXACT;
    at[0] = c->bias != NULL ? (uint32_t)((const int32_t *)c->bias->data)[out] : 0;
    at[4] = (uint32_t)(all - (int32_t)terms * w_zero_of(c, out));
    at[12] = (uint32_t)w_zero_of(c, out);
    if (!vk_qsums(p->n->op)) {
        float scale = scale_of(c, out, exact);
        memcpy(&at[8], &scale, sizeof scale);
    }
    if (exact) {
        exact_params(c, out, at);
    }
}

static enum pen_status pack(struct vk_pack *p)
{
    struct filter f;
    const struct constants c = constants_of(p);
    if (is_several(p->g, p->n) || !filter_of(p->n, &c.w->shape, &f)) {
        return PEN_OK;
    }
    const struct lay l = lay_of(&f);
    const size_t fours = PARAM_FOURS(out_kind(p->n->op) == OUT_EXACT);
    uint8_t *packed = vk_pack_bytes(p, PACK_WEIGHTS, packed_bytes(&l));
    uint32_t *params = vk_pack_bytes(p, PACK_PARAMS, l.groups * l.out4 * fours * 4 * sizeof *params);
    if (packed == NULL || params == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < l.groups * l.outs; i++) {
        size_t g = i / l.outs, o = i % l.outs;
        int32_t all = output_pack(&f, &l, c.w, g, o, packed);
        params_write(p, &c, i, all, l.taps * f.in, params + (g * l.out4 + o / 4) * fours * 4 + o % 4);
    }
    return PEN_OK;
}

/* ---- dispatches ---- */

struct launch {
    struct window w;
    struct filter f;
    struct lay l;
    struct vk_choice choice;
    uint32_t x, y; /* cells: with the depth in pieces their sums lie between */
    uint32_t zero; /* the cell of a zero point that is computed; NONE */
    int32_t x_zero;
    bool w_zeros, dot;
};

static bool w_zeros_any(const struct vk_build *b, const struct vk_qslots *s)
{
    const struct fact *zero = vk_in(b, s->w_zero);
    int32_t shift = vk_in(b, s->w)->dtype == PEN_DTYPE_U8 ? 128 : 0;
    bool any = zero == NULL && shift != 0;
    for (size_t i = 0; zero != NULL && i < vk_elements(zero); i++) {
        any = any || vk_byte_at(zero->data, zero->dtype, i) != shift;
    }
    return any;
}

static void zeros_read(struct vk_build *b, const struct vk_qslots *s, struct launch *l)
{
    const struct fact *zero = vk_in(b, s->x_zero);
    int32_t shift = vk_in(b, s->x)->dtype == PEN_DTYPE_U8 ? 128 : 0;
    bool later = zero != NULL && zero->data == NULL;
    l->zero = later ? vk_in_cell(b, s->x_zero) : VK_CELL_NONE;
    l->x_zero = (zero != NULL && !later ? vk_byte_at(zero->data, zero->dtype, 0) : 0) - shift;
    l->w_zeros = w_zeros_any(b, s);
}

static void specs_add(struct vk_build *b, struct vk_work *work, const struct launch *l, const struct vk_qslots *s)
{
    const struct window *w = &l->w;
    const uint32_t out = out_kind(b->n->op);
    size_t channels = l->l.depthwise ? w->channels : l->f.in;
    vk_spec(work, vk_in(b, s->x)->dtype == PEN_DTYPE_U8 ? 0x80808080u : 0);
    vk_spec(work, l->zero != VK_CELL_NONE);
    vk_spec(work, l->w_zeros);
    vk_spec(work, channels % 4 == 0 && w->channels % 4 == 0);
    vk_spec(work, window_point(w));
    vk_spec(work, l->choice.tile);
    vk_spec(work, out);
    vk_spec(work, vk_out(b, 0)->dtype == PEN_DTYPE_I8);
    vk_spec(work, l->l.outs % 4 == 0);
}

static void words_push(struct vk_build *b, struct vk_work *work, const struct launch *l, const struct vk_qslots *s)
{
    const struct window *w = &l->w;
    const size_t elements = vk_elements(vk_in(b, s->x));
    int32_t y_zero = vk_qsums(b->n->op) ? 0 : (int32_t)vk_affine_of(b, s->y_scale).zero;
    int down = 0;
    uint32_t bottom = out_kind(b->n->op) == OUT_EXACT
                          ? (uint32_t)ldexp(frexp((double)*(const float *)vk_in(b, s->y_scale)->data, &down), 24)
                          : 0;
    const size_t sizes[] = {
        w->batch * w->out[0] * w->out[1], w->in[0], w->in[1], w->channels, w->out[0], w->out[1], l->f.out};
    vk_push_all(work, sizes, sizeof sizes / sizeof sizes[0]);
    vk_push_window(work, w);
    const size_t rest[] = {l->f.in,          l->l.outs,          l->l.in4, l->l.out4,
                           l->l.groups,      (elements - 1) / 4, bottom,   (uint32_t)l->x_zero,
                           (uint32_t)y_zero, l->choice.splits};
    vk_push_all(work, rest, sizeof rest / sizeof rest[0]);
}

static struct vk_work *dispatch(struct vk_build *b, enum shader shader, const struct launch *l,
                                const struct vk_qslots *s)
{
    struct vk_work *work = vk_dispatch(b, shader);
    vk_bind(work, l->y, VK_WRITE);
    vk_bind(work, l->x, VK_READ);
    vk_bind(work, vk_packed_cell(b, PACK_WEIGHTS), VK_READ);
    vk_bind(work, vk_packed_cell(b, PACK_PARAMS), VK_READ);
    vk_bind(work, l->zero != VK_CELL_NONE ? l->zero : l->x, VK_READ);
    specs_add(b, work, l, s);
    words_push(b, work, l, s);
    return work;
}

/* Room for the sums of the pieces, of 32 bits. */
static uint32_t sums_make(struct vk_build *b, const struct launch *l, size_t rows)
{
    size_t sums = 4 * l->l.groups * l->l.out4;
    if (__builtin_mul_overflow(sums, rows, &sums) || sums > SIZE_MAX / 4 / l->choice.splits) {
        vk_build_fail(b, PEN_ERR_TOO_LARGE, "a temporary is too large");
        return VK_CELL_NONE;
    }
    return vk_temp_f32(b, sums * l->choice.splits);
}

/* Zero points of weights are in the sums already. */
static void sums_add(struct vk_build *b, const struct launch *pieces, const struct vk_qslots *s, size_t rows)
{
    struct launch l = *pieces;
    l.x = pieces->y;
    l.y = vk_out_cell(b, 0);
    l.w_zeros = false;
    vk_items(dispatch(b, SHADER_qsplit_sum, &l, s), rows * l.l.groups * l.l.out4);
}

/* By cooperative matrices, or plain loops in their place. */
static void matrices_start(struct vk_build *b, const struct launch *l, const struct vk_qslots *s, size_t rows)
{
    const struct vk_matrix_size m = vk_build_byte_matrices(b);
    const bool sixteens = l->f.in % 16 == 0 && l->w.channels % 16 == 0;
    struct vk_work *work = dispatch(b, m.rows != 0 ? SHADER_qconv_cm : SHADER_qconv_cm_scalar, l, s);
    vk_cooperative_start(work, &m, &l->choice, sixteens, false, rows, l->l.out4, l->l.groups);
}

static void matrices(struct vk_build *b, const struct launch *l, const struct vk_qslots *s, size_t rows)
{
    struct launch pieces = *l;
    if (l->choice.splits < 2) {
        matrices_start(b, l, s, rows);
        return;
    }
    pieces.y = sums_make(b, l, rows);
    if (pieces.y != VK_CELL_NONE) {
        matrices_start(b, &pieces, s, rows);
        sums_add(b, &pieces, s, rows);
    }
}

/* As the float product of this shape would be run. */
static void product(struct vk_build *b, const struct launch *l, const struct vk_qslots *s)
{
    size_t rows = l->w.batch * l->w.out[0] * l->w.out[1], tile = l->choice.tile, lanes = 1;
    if (l->choice.family == VK_FAMILY_TILED) {
        vk_groups(dispatch(b, l->dot ? SHADER_qconv_tiled_dot : SHADER_qconv_tiled, l, s),
                  (rows + 16 * tile - 1) / (16 * tile), (l->l.out4 + 15) / 16, l->l.groups);
        return;
    }
    if (l->choice.family == VK_FAMILY_CM) {
        matrices(b, l, s, rows);
        return;
    }
    if (l->choice.family != VK_FAMILY_GEMV) {
        vk_items(dispatch(b, l->dot ? SHADER_qconv_dot : SHADER_qconv, l, s),
                 (rows + tile - 1) / tile * l->l.groups * l->l.out4);
        return;
    }
    while (lanes < 8 && lanes < l->l.out4) {
        lanes *= 2;
    }
    struct vk_work *work = dispatch(b, l->dot ? SHADER_qconv_gemv_dot : SHADER_qconv_gemv, l, s);
    vk_spec(work, (uint32_t)lanes);
    vk_groups(work, (l->l.out4 + lanes - 1) / lanes, (rows + tile - 1) / tile, l->l.groups);
}

/* Rows of a matrix, or the windows of a convolution. */
static bool window_of(const struct vk_build *b, const struct vk_qslots *s, struct launch *l)
{
    const struct shape *x = &vk_in(b, s->x)->shape, *y = &vk_out(b, 0)->shape;
    if (vk_qconvolves(b->n->op)) {
        return window_read(b->n, x, y, l->f.kernel, &l->w) && window_exact(&l->w) &&
               l->w.channels == l->f.in * l->f.groups && y->dim[y->rank - 1] == (int64_t)l->f.out;
    }
    size_t rows = vk_elements(vk_in(b, s->x)) / l->f.in;
    l->w = vk_matrix_window(rows, l->f.in);
    return x->dim[x->rank - 1] == (int64_t)l->f.in && vk_elements(vk_out(b, 0)) == rows * l->f.out;
}

static void build(struct vk_build *b)
{
    const struct vk_qslots s = vk_qslots_of(b->n->op);
    struct launch l = {0};
    if (vk_packed_cell(b, PACK_WEIGHTS) == VK_CELL_NONE) {
        vk_qmatmul_build(b);
        return;
    }
    if (!filter_of(b->n, &vk_in(b, s.w)->shape, &l.f) || !window_of(b, &s, &l)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
        return;
    }
    l.l = lay_of(&l.f);
    zeros_read(b, &s, &l);
    l.x = vk_in_cell(b, s.x);
    l.y = vk_out_cell(b, 0);
    if (l.l.depthwise) {
        vk_items(dispatch(b, SHADER_qdepthwise, &l, &s), l.w.batch * l.w.out[0] * l.w.out[1] * l.l.out4);
        return;
    }
    const struct vk_product_shape shape = {.kind = window_point(&l.w) && l.f.groups == 1 ? VK_PRODUCT_BYTES
                                                                                         : VK_PRODUCT_BYTE_WINDOWS,
                                           .rows = l.w.batch * l.w.out[0] * l.w.out[1],
                                           .outs = l.l.outs,
                                           .depth = l.l.taps * l.f.in,
                                           .groups = l.f.groups};
    l.choice = vk_build_choose_bytes(b, &shape, &l.w, &l.dot);
    for (uint32_t i = vk_build_repeats(b); i > 0; i--) {
        product(b, &l, &s);
    }
}

const struct vk_op vk_op_qproduct = {supports, pack, build};
