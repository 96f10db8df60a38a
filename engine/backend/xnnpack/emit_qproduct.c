#include <stdlib.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/qdepthwise.h"
#include "backend/xnnpack/qstream.h"
#include "backend/xnnpack/window.h"

/*
 * QLinearConv, ConvInteger (NHWC), QLinearMatMul, QGemm, MatMulInteger (one matrix on the right) on u8 and i8: integer products from end to end, and a loop over
 * channels for depthwise convolutions.
 */
enum slot {
    SLOT_X = 0,
    SLOT_W,
    SLOT_X_SCALE,
    SLOT_X_ZERO,
    SLOT_W_SCALE,
    SLOT_W_ZERO,
    SLOT_Y_SCALE,
    SLOT_Y_ZERO,
    SLOT_BIAS,
    SLOT_COUNT
};
#define NO_SLOT 99u /* past every input */

struct qproduct {
    size_t
        batch; /* matrices of the result, where there are several on the right; else 1, whose rows are those of all */
    int32_t
        outer; /* leading dims of the result; how many matrices further each of them leads, 0 where it is broadcast: */
    size_t dims[PEN_MAX_RANK], x_steps[PEN_MAX_RANK], w_steps[PEN_MAX_RANK];
    struct filter f;
    struct window w;
    struct qdense dense;
    struct qstream stream;
    struct qparams params;
    bool depthwise, repack;
    bool rezero; /* the zero point of x is computed: what it adds is worked out in each run, weights are packed once */
    double *add;
    int32_t *add32;
    uint8_t *packed;
};

static const uint32_t *slots_of(enum op op)
{
    static const uint32_t conv[SLOT_COUNT] = {0, 3, 1, 2, 4, 5, 6, 7, 8},
                          matmul[SLOT_COUNT] = {0, 3, 1, 2, 4, 5, 6, 7, NO_SLOT},
                          gemm[SLOT_COUNT] = {0, 3, 1, 2, 4, 5, 7, 8, 6},
                          integer[SLOT_COUNT] = {0, 1, NO_SLOT, 2, NO_SLOT, 3, NO_SLOT, NO_SLOT, NO_SLOT};
    return op == OP_QLinearConv ? conv : op == OP_QLinearMatMul ? matmul : op == OP_QGemm ? gemm : integer;
}

static bool is_conv(enum op op)
{
    return op == OP_QLinearConv || op == OP_ConvInteger;
}

static bool is_byte(const struct value *v)
{
    return dtype_is(v, PEN_DTYPE_U8) || dtype_is(v, PEN_DTYPE_I8);
}

/* A matrix is the filter of a 1 x 1 convolution; of several, each is like the others. */
static bool product_filter(const struct node *n, const struct shape *w, struct filter *f)
{
    if (is_conv(n->op)) {
        return filter_read(n, w, f) && f->kernel_h * f->kernel_w * f->in <= QDENSE_K_MAX;
    }
    int32_t last = w->rank - 1;
    if (w->rank < 2 || w->dim[last - 1] < 1 || w->dim[last] < 1 || w->dim[last - 1] > QDENSE_K_MAX) {
        return false;
    }
    *f = (struct filter){.groups = 1,
                         .out = (size_t)w->dim[last],
                         .in = (size_t)w->dim[last - 1],
                         .kernel_h = 1,
                         .kernel_w = 1,
                         .out_step = 1,
                         .in_step = (size_t)w->dim[last]};
    return true;
}

/* Leading dim d of the result, as an operand has it. */
static int64_t leading_of(const struct shape *s, int32_t outer, int32_t d)
{
    const int32_t own = s->rank - 2;
    return d < outer - own ? 1 : s->dim[d - (outer - own)];
}

/* How many matrices one step along each leading dim leads further. */
static void steps_of(const struct shape *s, int32_t outer, size_t *ret)
{
    size_t step = 1;
    for (int32_t d = outer - 1; d >= 0; d--) {
        const int64_t dim = leading_of(s, outer, d);
        ret[d] = dim == 1 ? 0 : step;
        step *= (size_t)dim;
    }
}

/* Several matrices on the right, each broadcast as NumPy does. False when they do not fit the left ones. */
static bool matrices_place(struct qproduct *q, const struct shape *x, const struct shape *w)
{
    const size_t several = (size_t)shape_elements(w) / (q->f.in * q->f.out);
    q->batch = 1;
    q->outer = several == 1 ? 0 : x->rank > w->rank ? x->rank - 2 : w->rank - 2;
    for (int32_t d = 0; d < q->outer; d++) {
        const int64_t left = leading_of(x, q->outer, d), right = leading_of(w, q->outer, d);
        if (left < 1 || right < 1 || (left != right && left != 1 && right != 1)) {
            return false;
        }
        q->dims[d] = (size_t)(left > right ? left : right);
        q->batch *= q->dims[d];
    }
    steps_of(x, q->outer, q->x_steps);
    steps_of(w, q->outer, q->w_steps);
    return true;
}

/* One number, or one for each output channel where that is allowed. */
static bool is_vector(const struct value *v, enum pen_dtype dtype, size_t most)
{
    int64_t count = v == NULL || !shape_known(&v->shape) ? -1 : shape_elements(&v->shape);
    return dtype_is(v, dtype) && (count == 1 || (count == (int64_t)most && v->shape.rank == 1));
}

static bool params_fit(const struct graph *g, const struct node *n, const struct filter *f)
{
    const uint32_t *s = slots_of(n->op);
    const struct value *x = node_in(g, n, s[SLOT_X]), *w = node_in(g, n, s[SLOT_W]), *y = node_out(g, n, 0);
    const struct value *x_zero = node_in(g, n, s[SLOT_X_ZERO]), *w_zero = node_in(g, n, s[SLOT_W_ZERO]),
                       *bias = node_in(g, n, s[SLOT_BIAS]);
    bool zeros =
        (x_zero == NULL || is_vector(x_zero, x->dtype, 1)) && (w_zero == NULL || is_vector(w_zero, w->dtype, f->out));
    if (s[SLOT_Y_SCALE] == NO_SLOT) {
        return zeros && dtype_is(y, PEN_DTYPE_I32);
    }
    return zeros && is_byte(y) && is_vector(node_in(g, n, s[SLOT_Y_ZERO]), y->dtype, 1) &&
           is_vector(node_in(g, n, s[SLOT_X_SCALE]), PEN_DTYPE_F32, 1) &&
           is_vector(node_in(g, n, s[SLOT_W_SCALE]), PEN_DTYPE_F32, f->out) &&
           is_vector(node_in(g, n, s[SLOT_Y_SCALE]), PEN_DTYPE_F32, 1) &&
           (bias == NULL || (dtype_is(bias, PEN_DTYPE_I32) && shape_known(&bias->shape) &&
                             shape_elements(&bias->shape) == (int64_t)f->out));
}

static bool product_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const uint32_t *s = slots_of(n->op);
    const struct value *x = node_in(g, n, s[SLOT_X]), *w = node_in(g, n, s[SLOT_W]);
    struct filter f;
    if (!is_byte(x) || !is_byte(w)) {
        return refuse(ret_reason, "not a product of bytes");
    }
    if (n->op == OP_QGemm && (node_int(n, ATTR_transA, 0) != 0 || node_int(n, ATTR_transB, 0) != 0 ||
                              node_float(n, ATTR_alpha, 1.0f) != 1.0f || node_in(g, n, 7) == NULL)) {
        return refuse(ret_reason, "turned matrices, a factor, or sums that stay floats");
    }
    if (is_conv(n->op) && !window_supports(g, n, w, ret_reason)) {
        return false;
    }
    if (!product_filter(n, &w->shape, &f) || x->shape.rank < 2) {
        return refuse(ret_reason, "weights that do not fit, or very long sums");
    }
    return params_fit(g, n, &f) || refuse(ret_reason, "scales or zero points of another type or count");
}

/* ---- packing ---- */

/* One group is left to the product, whatever its width. */
static bool is_depthwise(const struct filter *f)
{
    return filter_is_depthwise(f) && qdepthwise_fits(f);
}

static size_t groups_merge(struct filter *f)
{
    return is_depthwise(f) ? 1 : qdense_merge(f);
}

#define KIND_BYTES 64 /* before packed depthwise weights: which of the two forms they have */

static size_t packed_bytes(const struct filter *f, const struct qparams *p)
{
    if (!is_depthwise(f)) {
        return qdense_packed_bytes(f);
    }
    size_t plain = qdepthwise_packed_bytes(f), stream = qstream_fits(f, p->y_dtype) ? qstream_packed_bytes(f) : 0;
    return KIND_BYTES + (plain > stream ? plain : stream);
}

static void pack_into(const struct filter *f, const struct qparams *p, uint8_t *to)
{
    if (!is_depthwise(f)) {
        qdense_pack(f, p, to);
        return;
    }
    to[0] = qstream_fits(f, p->y_dtype) && qstream_pack(f, p, to + KIND_BYTES);
    if (to[0] == 0) {
        qdepthwise_pack(f, p, to + KIND_BYTES);
    }
}

#define INPUTS_MAX 9

/* Pointers by input of the node. */
static void params_point(struct qparams *p, enum op op, const void *const *in)
{
    const uint32_t *s = slots_of(op);
    const void *at[SLOT_COUNT];
    for (int i = 0; i < SLOT_COUNT; i++) {
        at[i] = s[i] < INPUTS_MAX ? in[s[i]] : NULL;
    }
    p->w = at[SLOT_W];
    p->x_scale = at[SLOT_X_SCALE];
    p->x_zero = at[SLOT_X_ZERO];
    p->w_scale = at[SLOT_W_SCALE];
    p->w_zero = at[SLOT_W_ZERO];
    p->y_scale = at[SLOT_Y_SCALE];
    p->y_zero = at[SLOT_Y_ZERO];
    p->bias = at[SLOT_BIAS];
}

/* Types and counts; the graph knows them. */
static struct qparams params_of(const struct graph *g, const struct node *n)
{
    const uint32_t *s = slots_of(n->op);
    const struct value *scale = node_in(g, n, s[SLOT_W_SCALE]), *zero = node_in(g, n, s[SLOT_W_ZERO]);
    return (struct qparams){.x_dtype = node_in(g, n, s[SLOT_X])->dtype,
                            .w_dtype = node_in(g, n, s[SLOT_W])->dtype,
                            .y_dtype = node_out(g, n, 0)->dtype,
                            .w_scales = scale != NULL ? (size_t)shape_elements(&scale->shape) : 0,
                            .w_zeros = zero != NULL ? (size_t)shape_elements(&zero->shape) : 0};
}

/* Sums of bytes whose zero point of x alone is computed, as behind DynamicQuantizeLinear. */
static bool zero_is_later(const struct graph *g, const struct node *n, const struct filter *f)
{
    const struct value *zero = node_in(g, n, slots_of(n->op)[SLOT_X_ZERO]);
    return (n->op == OP_MatMulInteger || n->op == OP_ConvInteger) && zero != NULL && zero->data == NULL &&
           f->groups == 1;
}

/* False when something beside x, and its zero point where that may come later, is computed. */
static bool params_constant(const struct graph *g, const struct node *n, const struct filter *f, struct qparams *p)
{
    const void *in[INPUTS_MAX] = {0};
    *p = params_of(g, n);
    p->x_zero_later = zero_is_later(g, n, f);
    for (uint32_t i = 0; i < n->in_count && i < INPUTS_MAX; i++) {
        const struct value *v = node_in(g, n, i);
        bool later = p->x_zero_later && i == slots_of(n->op)[SLOT_X_ZERO];
        if (i > 0 && v != NULL && v->data == NULL && !later) {
            return false;
        }
        in[i] = v != NULL ? v->data : NULL;
    }
    params_point(p, n->op, in);
    return true;
}

static enum pen_status product_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                    struct pen_error *reterr)
{
    struct filter f;
    struct qparams p;
    const struct shape *w = &node_in(g, n, slots_of(n->op)[SLOT_W])->shape;
    bool several = !is_conv(n->op) && w->rank > 2;
    if (several || !product_filter(n, w, &f) || !params_constant(g, n, &f, &p)) {
        return PEN_OK;
    }
    p.merged = groups_merge(&f);
    uint8_t *packed = packed_alloc(packed_bytes(&f, &p));
    if (packed == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
    }
    pack_into(&f, &p, packed);
    *ret_packed = packed;
    *ret_bytes = packed_bytes(&f, &p);
    return PEN_OK;
}

/* ---- running ---- */

/* Where matrix i of the result reads. */
static size_t matrix_at(const struct qproduct *q, const size_t *steps, size_t i)
{
    size_t at = 0;
    for (int32_t d = q->outer - 1; d >= 0; d--) {
        at += i % q->dims[d] * steps[d];
        i /= q->dims[d];
    }
    return at;
}

/* One matrix after the other; each is packed when its turn comes, unless it is the one before. */
static void matrices_run(struct step *s, struct qproduct *q, struct run *r)
{
    size_t size = q->params.y_dtype == PEN_DTYPE_I32 ? 4 : 1, rows = q->dense.m, last = SIZE_MAX;
    const uint8_t *w = q->params.w;
    for (size_t i = 0; i < q->batch; i++) {
        const size_t right = matrix_at(q, q->w_steps, i);
        q->params.w = w + right * q->f.in * q->f.out;
        if (right != last) {
            pack_into(&q->f, &q->params, q->packed);
        }
        last = right;
        qdense_zeros(&q->dense, &q->params);
        struct qweights one = qdense_group(&q->f, q->packed, 0);
        qdense_run(&q->dense, &one, (const uint8_t *)s->in[0] + matrix_at(q, q->x_steps, i) * rows * q->f.in,
                   (uint8_t *)s->out[0] + i * rows * q->f.out * size, s->scratch, r);
    }
}

static enum pen_status product_run(struct step *s, struct run *r)
{
    struct qproduct *q = s->state;
    const void *in[INPUTS_MAX] = {0};
    for (uint32_t i = 0; i < s->n->in_count && i < INPUTS_MAX; i++) {
        in[i] = s->in[i];
    }
    params_point(&q->params, s->n->op, in);
    if (q->batch > 1) {
        matrices_run(s, q, r);
        return PEN_OK;
    }
    if (q->repack) {
        pack_into(&q->f, &q->params, q->packed);
    }
    if (q->depthwise) {
        const uint8_t *packed = q->packed + KIND_BYTES;
        if (q->packed[0] != 0) {
            qstream_run(&q->stream, &q->params, packed, s->in[0], s->out[0], s->scratch, r);
        } else {
            qdepthwise_run(&q->w, &q->params, packed, s->in[0], s->out[0], r);
        }
        return PEN_OK;
    }
    qdense_zeros(&q->dense, &q->params);
    if (q->rezero) {
        struct qweights w = qdense_group(&q->f, q->packed, 0);
        qdense_addends(&w, &q->f, &q->params, q->add, q->add32);
        qdense_run(&q->dense, &w, s->in[0], s->out[0], s->scratch, r);
    } else {
        qdense_run_groups(&q->dense, &q->f, q->packed, s->in[0], s->out[0], s->scratch, r);
    }
    return PEN_OK;
}

static bool image_of(const struct build *b, struct qproduct *q, struct dense_image *ret)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    if (y->dim[y->rank - 1] != (int64_t)q->f.out) {
        return false;
    }
    if (!is_conv(b->n->op)) {
        size_t rows = (size_t)shape_elements(y) / q->f.out / q->batch;
        *ret = dense_image_of_rows(rows, q->f.in, q->f.in);
        const bool fits =
            q->batch > 1 ? x->dim[x->rank - 2] == (int64_t)rows : shape_elements(x) == (int64_t)(rows * q->f.in);
        return x->dim[x->rank - 1] == (int64_t)q->f.in && fits &&
               shape_elements(y) == (int64_t)(q->batch * rows * q->f.out);
    }
    if (!window_read_exact(b->n, x, y, q->f.kernel, &q->w) || q->w.channels != q->f.in * q->f.groups) {
        return false;
    }
    *ret = dense_image_of_window(&q->w, q->f.in);
    return true;
}

static enum pen_status product_build(struct build *b)
{
    struct qproduct *q = build_alloc(b, sizeof *q);
    struct dense_image image;
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct fact *w = build_in(b, slots_of(b->n->op)[SLOT_W]);
    q->batch = 1;
    bool fits = product_filter(b->n, &w->shape, &q->f) &&
                (is_conv(b->n->op) || matrices_place(q, &build_in(b, 0)->shape, &w->shape));
    const size_t merged = fits ? groups_merge(&q->f) : 1;
    if (!fits || !image_of(b, q, &image)) {
        return build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
    }
    q->params = params_of(b->g, b->n);
    q->params.merged = merged;
    q->depthwise = is_depthwise(&q->f);
    q->packed = (uint8_t *)(uintptr_t)b->packed; /* read only unless repack */
    if (b->packed == NULL) {
        uint8_t *memory = build_alloc(b, packed_bytes(&q->f, &q->params) + 64);
        if (memory == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory to pack weights");
        }
        q->repack = true;
        q->packed = memory + (64 - (uintptr_t)memory % 64) % 64;
    }
    q->rezero = !q->repack && zero_is_later(b->g, b->n, &q->f);
    if (q->rezero) {
        q->add = build_alloc(b, qdense_columns(&q->f) * (sizeof *q->add + sizeof *q->add32));
        if (q->add == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
        }
        q->add32 = (int32_t *)(void *)(q->add + qdense_columns(&q->f));
    }
    if (q->depthwise && qstream_fits(&q->f, q->params.y_dtype)) {
        if (!qstream_init(&q->stream, &q->w, build_threads(b))) {
            return build_fail(b, PEN_ERR_TOO_LARGE, "rows of the image are too long");
        }
        b->step->scratch_bytes = qstream_scratch_bytes(&q->stream, build_threads(b));
    } else if (!q->depthwise) {
        qdense_init(&q->dense, &image, &q->f, build_threads(b));
        b->step->scratch_bytes = qdense_scratch_bytes(&q->dense, build_threads(b));
    }
    b->step->state = q;
    b->step->run = product_run;
    b->step->kernel = !q->depthwise ? "own gemm of bytes"
                      : qstream_fits(&q->f, q->params.y_dtype) && q->packed != NULL && !q->repack && q->packed[0] != 0
                          ? "own depthwise of bytes, streamed"
                          : "own depthwise of bytes";
    b->step->why = q->depthwise ? "each channel has its own window"
                   : q->repack  ? "products of bytes summed in 32 bits; weights packed each run: they are computed"
                                : "products of bytes summed in 32 bits; weights packed at the load";
    return PEN_OK;
}

const struct emitter emit_qproduct = {product_supports, product_pack, product_build};
