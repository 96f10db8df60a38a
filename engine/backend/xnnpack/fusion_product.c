#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/each.h"
#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/*
 * y = act(x w + bias), or act(x w + bias + sum): MatMul or Gemm by a constant matrix, the addition of a constant row, Gelu or an activation of the graph,
 * or the addition of another value (a residual connection). All that follows the product works on results that are still in the cache.
 */
struct product_fusion {
    const struct node *root;
    uint32_t bias; /* constant row, or VALUE_NONE */
    float alpha, beta;
    bool turned; /* w is [n, k] */
    size_t k, n;
    struct act act;
    bool sums; /* input 1 is added */
};

enum { IN_X, IN_SUM };

/* ---- finding ---- */

static bool is_matrix(const struct value *v)
{
    return v != NULL && v->data != NULL && v->dtype == PEN_DTYPE_F32 && v->shape.rank == 2 && shape_known(&v->shape) &&
           shape_elements(&v->shape) > 0;
}

/* A constant with one element for each of n columns, and no more dims than the result has. */
static bool is_row(const struct graph *g, uint32_t value, size_t n, int32_t rank)
{
    const struct value *v = value == VALUE_NONE ? NULL : &g->values[value];
    return v != NULL && v->data != NULL && v->dtype == PEN_DTYPE_F32 && shape_known(&v->shape) && v->shape.rank >= 1 &&
           v->shape.rank <= rank && shape_elements(&v->shape) == (int64_t)n &&
           v->shape.dim[v->shape.rank - 1] == (int64_t)n;
}

static bool root_read(const struct finder *f, const struct node *n, struct product_fusion *p)
{
    const struct value *x = node_in(f->g, n, 0), *w = node_in(f->g, n, 1);
    const bool gemm = n->op == OP_Gemm;
    const uint32_t c = gemm && n->in_count > 2 ? n->in[2] : VALUE_NONE;
    p->root = n;
    p->turned = gemm && node_int(n, ATTR_transB, 0) != 0;
    if (!all_f32(f->g, n) || x == NULL || x->data != NULL || x->shape.rank < 2 || !is_matrix(w)) {
        return false;
    }
    p->k = (size_t)w->shape.dim[p->turned];
    p->n = (size_t)w->shape.dim[!p->turned];
    p->alpha = gemm ? node_float(n, ATTR_alpha, 1.0f) : 1.0f;
    p->beta = gemm ? node_float(n, ATTR_beta, 1.0f) : 1.0f;
    p->bias = c;
    p->act = act_read(n);
    return !gemm || (node_int(n, ATTR_transA, 0) == 0 && (c == VALUE_NONE || is_row(f->g, c, p->n, 2)));
}

static bool act_none(const struct act *a)
{
    return a->fn == UNARY_NONE && !(a->min > -INFINITY) && !(a->max < INFINITY);
}

static bool bias_take(const struct finder *f, const struct node *n, struct product_fusion *p, int32_t rank)
{
    for (uint32_t i = 0; n->op == OP_Add && n->in_count == 2 && i < 2 && p->bias == VALUE_NONE; i++) {
        if (is_row(f->g, n->in[i], p->n, rank)) {
            p->bias = n->in[i];
            p->act = act_read(n);
            return true;
        }
    }
    return false;
}

static bool gelu_take(const struct node *n, struct product_fusion *p)
{
    if (n->op != OP_Gelu || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE) {
        return false;
    }
    p->act.fn = node_text_is(n, ATTR_approximate, "tanh", false) ? UNARY_GELU_TANH : UNARY_GELU;
    return true;
}

/* Something that is computed and not wider than the result; gives it. */
static bool sum_take(const struct finder *f, const struct node *n, uint32_t x, struct product_fusion *p,
                     uint32_t *ret_other)
{
    if (n->op != OP_Add || n->in_count != 2 || n->in[0] == n->in[1] || p->sums) {
        return false;
    }
    *ret_other = n->in[n->in[0] == x];
    const struct value *v = &f->g->values[*ret_other];
    p->act = act_read(n);
    p->sums = true;
    return v->dtype == PEN_DTYPE_F32 && v->data == NULL;
}

static const struct fusion_kind product_kind; /* below */

void fusion_product_find(struct finder *f, const struct node *product)
{
    struct product_fusion p = {0};
    struct fusion_parts parts = {.members = {product}, .member_count = 1, .in = {product->in[0]}, .in_count = 1};
    if (!root_read(f, product, &p)) {
        return;
    }
    const struct value *y = node_out(f->g, product, 0);
    uint32_t at = product->out[0];
    for (const struct node *n = finder_reader(f, at); n != NULL && act_none(&p.act); n = finder_reader(f, at)) {
        struct product_fusion with = p;
        uint32_t other = VALUE_NONE;
        if (!all_f32(f->g, n) || (!(!p.sums && bias_take(f, n, &with, y->shape.rank)) &&
                                  !(!p.sums && gelu_take(n, &with)) && !sum_take(f, n, at, &with, &other))) {
            break;
        }
        if (other != VALUE_NONE) {
            parts.in[parts.in_count++] = other;
        }
        p = with;
        parts.members[parts.member_count++] = n;
        at = n->out[0];
    }
    struct fusion *fusion = finder_fuse(f, &product_kind, &parts, sizeof p);
    if (fusion != NULL) {
        memcpy(fusion->detail, &p, sizeof p);
    }
}

/* ---- packing ---- */

/* Weights of a 16-bit model stay at two bytes, with the same results; bf16 rounds all others, too. */
static enum gemm_form form_of(const float *w, const struct product_fusion *p, enum pen_precision precision)
{
    if (precision == PEN_PRECISION_BF16) {
        return dense_form_bf16();
    }
    return p->alpha == 1.0f ? dense_form_exact(w, p->k * p->n) : GEMM_F32;
}

static enum pen_status product_pack(const struct graph *g, const struct fusion *f, enum pen_precision precision,
                                    void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    const struct product_fusion *p = f->detail;
    const struct value *w = node_in(g, p->root, 1);
    const float *given = p->bias != VALUE_NONE ? g->values[p->bias].data : NULL;
    const bool gemm = p->root->op == OP_Gemm;
    const enum gemm_form form = form_of(w->data, p, precision);
    const size_t bytes = dense_form_bytes(form, p->k, p->n);
    float *bias = given != NULL ? malloc(p->n * sizeof *bias) : NULL;
    struct dense_weights *to = packed_alloc(bytes);
    if (to == NULL || (given != NULL && bias == NULL)) {
        free(to);
        free(bias);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", p->root->name);
    }
    const bool scaled = gemm && p->root->in_count > 2 && p->root->in[2] == p->bias; /* beta is of Gemm's own bias */
    for (size_t i = 0; bias != NULL && i < p->n; i++) {
        bias[i] = scaled ? p->beta * given[i] : given[i];
    }
    const struct dense_matrix matrix = {.w = w->data,
                                        .bias = bias,
                                        .k_stride = p->turned ? 1 : p->n,
                                        .n_stride = p->turned ? p->k : 1,
                                        .k = p->k,
                                        .n = p->n,
                                        .alpha = p->alpha};
    enum pen_status status = dense_pack_form(to, form, &matrix);
    free(bias);
    if (status != PEN_OK) {
        free(to);
        return pen_error_set(reterr, status, "xnnpack: no memory to pack the weights of node %s", p->root->name);
    }
    *ret_packed = to;
    *ret_bytes = bytes;
    return PEN_OK;
}

/* ---- running ---- */

struct product_step {
    struct dense d;
    const struct dense_weights *w;
    bool sums;        /* input 1 is as large as the result */
    bool spreads;     /* input 1, or the product, broadcasts: added in a pass of its own */
    struct each each; /* of that */
    struct act act;   /* behind it */
    size_t product_at, count;
};

struct spread_job {
    const float *a, *b;
    float *y;
};

static void spread_piece(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct spread_job *j = context;
    isa_own()->binary(BINARY_ADD, in[0], step[0], in[1], step[1], j->y + out, n);
}

static enum pen_status product_run(struct step *s, struct run *r)
{
    const struct product_step *q = s->state;
    float *apart = (float *)(void *)((uint8_t *)s->scratch + q->product_at);
    struct dense_item item = {.x = s->in[IN_X],
                              .panels = q->w->data,
                              .bias = dense_bias(q->w),
                              .sum = q->sums ? s->in[IN_SUM] : NULL,
                              .y = q->spreads ? apart : s->out[0]};
    dense_run(&q->d, &item, 1, s->scratch, r);
    if (q->spreads) {
        struct spread_job j = {apart, s->in[IN_SUM], s->out[0]};
        each_pieces(&q->each, (const void *[]){j.a, j.b}, sizeof(float), spread_piece, &j, r);
        act_all(&q->act, s->out[0], q->count, r);
    }
    return PEN_OK;
}

/* The sum where shapes differ: x w + bias apart, then an addition that broadcasts. */
static bool spread_init(struct build *b, struct product_step *q, const struct shape *product)
{
    const struct shape *in[2] = {product, &build_in(b, IN_SUM)->shape};
    q->spreads = true;
    q->act = q->d.act;
    q->act.min = q->d.min;
    q->act.max = q->d.max;
    q->d.act = (struct act){0};
    q->d.min = -INFINITY;
    q->d.max = INFINITY;
    q->product_at = (b->step->scratch_bytes + 127) / 64 * 64;
    b->step->scratch_bytes = q->product_at + q->d.m * q->d.n * sizeof(float);
    return each_init(&q->each, &build_out(b, 0)->shape, in, 2);
}

static const char *kernel_of(const struct dense *d)
{
    static const char *const names[] = {[GEMM_F32] = "own gemm with what follows it",
                                        [GEMM_F16] = "own gemm with what follows it, weights of f16",
                                        [GEMM_BF16] = "own gemm with what follows it, weights of bf16",
                                        [GEMM_PAIRS] = "own gemm with what follows it, bf16 by AVX512-BF16"};
    return d->tiles ? "own gemm with what follows it, bf16 in AMX tiles" : names[d->form];
}

static enum pen_status product_build(struct build *b)
{
    const struct product_fusion *p = b->fusion->detail;
    const struct shape *x = &build_in(b, IN_X)->shape, *y = &build_out(b, 0)->shape;
    struct product_step *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    struct shape product = *x;
    if (x->rank < 2 || (size_t)x->dim[x->rank - 1] != p->k) {
        return build_fail(b, PEN_ERR_SHAPE, "the inner dims differ");
    }
    product.dim[x->rank - 1] = (int64_t)p->n;
    dense_init_matrix(&q->d, (size_t)shape_elements(x) / p->k, p->k, p->n, p->k, build_threads(b));
    q->w = b->packed;
    dense_form_set(&q->d, q->w->form, build_threads(b));
    b->step->kernel = kernel_of(&q->d);
    q->d.act = p->act;
    q->d.min = p->act.min;
    q->d.max = p->act.max;
    q->count = (size_t)shape_elements(y);
    b->step->scratch_bytes = dense_scratch_bytes(&q->d, build_threads(b));
    bool fits = shape_equal(&product, y);
    if (p->sums && (!fits || !shape_equal(&build_in(b, IN_SUM)->shape, y))) {
        fits = spread_init(b, q, &product);
    }
    q->sums = p->sums && !q->spreads;
    if (!fits) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another shape");
    }
    b->step->state = q;
    b->step->run = product_run;
    return PEN_OK;
}

static const struct fusion_kind product_kind = {.why = "its weights are constant: packed at the load",
                                                .pack = product_pack,
                                                .build = product_build,
                                                .copies = COPIES_FIRST,
                                                .takes_askew = true};
