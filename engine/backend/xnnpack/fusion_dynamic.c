#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/fusion.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/window.h"

/*
 * Products of dynamically quantised models: MatMulInteger of computed bytes by a constant matrix of signed bytes, Cast to floats, Mul by a scale that is
 * computed, and the Add of a constant row, if there is one. Sums become floats where they are made.
 */
struct dynamic_product {
    const struct node *product;
    struct filter f;
    uint32_t bias; /* constant row, or VALUE_NONE */
    struct act act;
};

enum { IN_BYTES, IN_ZERO, IN_SCALE };

/* ---- finding ---- */

static bool no_zero(const struct value *v)
{
    const uint8_t *bytes = v != NULL ? v->data : NULL;
    for (size_t i = 0; bytes != NULL && i < v->bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return v == NULL || bytes != NULL;
}

static bool root_read(const struct graph *g, const struct node *n, struct dynamic_product *p)
{
    const struct value *x = node_in(g, n, 0), *w = node_in(g, n, 1), *zero = node_in(g, n, 2);
    if (!dtype_is(x, PEN_DTYPE_U8) || x->data != NULL || x->shape.rank < 2 || !dtype_is(w, PEN_DTYPE_I8) ||
        w->data == NULL || w->shape.rank != 2 || !shape_known(&w->shape) || shape_elements(&w->shape) < 1 ||
        w->shape.dim[0] > QDENSE_K_MAX) {
        return false;
    }
    const size_t k = (size_t)w->shape.dim[0], n_columns = (size_t)w->shape.dim[1];
    p->product = n;
    p->bias = VALUE_NONE;
    p->f = (struct filter){.groups = 1,
                           .out = n_columns,
                           .in = k,
                           .kernel_h = 1,
                           .kernel_w = 1,
                           .out_step = 1,
                           .in_step = n_columns,
                           .kernel = {1, 1}};
    bool one = zero == NULL || (shape_known(&zero->shape) && shape_elements(&zero->shape) == 1);
    return one && no_zero(node_in(g, n, 3));
}

/* f32 with one element, or one for each column; the last dim is the columns then, and there are no more dims than the result has. */
static bool spreads(const struct value *v, size_t n, int32_t rank)
{
    if (!dtype_is(v, PEN_DTYPE_F32) || !shape_known(&v->shape) || v->shape.rank > rank) {
        return false;
    }
    const int64_t count = shape_elements(&v->shape);
    return count == 1 || (count == (int64_t)n && v->shape.dim[v->shape.rank - 1] == (int64_t)n);
}

/* The other operand of a node of two. */
static uint32_t other_of(const struct node *n, uint32_t value)
{
    return n->in_count == 2 && n->in[0] != n->in[1] ? n->in[n->in[0] == value] : VALUE_NONE;
}

static bool bias_read(const struct graph *g, const struct node *n, uint32_t value, struct dynamic_product *p)
{
    const uint32_t other = n != NULL && n->op == OP_Add ? other_of(n, value) : VALUE_NONE;
    const struct value *v = other != VALUE_NONE ? &g->values[other] : NULL;
    if (v == NULL || v->data == NULL || !dtype_is(v, PEN_DTYPE_F32) || !shape_known(&v->shape) || v->shape.rank < 1 ||
        v->shape.rank > node_out(g, n, 0)->shape.rank || shape_elements(&v->shape) != (int64_t)p->f.out ||
        v->shape.dim[v->shape.rank - 1] != (int64_t)p->f.out) {
        return false;
    }
    p->bias = other;
    p->act = act_read(n);
    return true;
}

static const struct fusion_kind dynamic_kind; /* below */

void fusion_dynamic_find(struct finder *f, const struct node *product)
{
    struct dynamic_product p = {0};
    const struct node *cast = finder_reader(f, product->out[0]);
    if (cast == NULL || cast->op != OP_Cast || !dtype_is(node_out(f->g, cast, 0), PEN_DTYPE_F32) ||
        !root_read(f->g, product, &p)) {
        return;
    }
    const struct node *mul = finder_reader(f, cast->out[0]);
    const uint32_t scale = mul != NULL && mul->op == OP_Mul ? other_of(mul, cast->out[0]) : VALUE_NONE;
    const int32_t rank = node_out(f->g, product, 0)->shape.rank;
    if (scale == VALUE_NONE || !spreads(&f->g->values[scale], p.f.out, rank)) {
        finder_alone(f, product, "its sums are not made floats by one scale, or one of each column");
        return;
    }
    p.act = act_read(mul);
    struct fusion_parts parts = {.members = {product, cast, mul},
                                 .member_count = 3,
                                 .in = {product->in[0], product->in_count > 2 ? product->in[2] : VALUE_NONE, scale},
                                 .in_count = 3};
    const struct node *add = finder_reader(f, mul->out[0]);
    const bool free_limits = p.act.fn == UNARY_NONE && !(p.act.min > -INFINITY) && !(p.act.max < INFINITY);
    if (free_limits && bias_read(f->g, add, mul->out[0], &p)) {
        parts.members[parts.member_count++] = add;
    }
    struct fusion *fusion = finder_fuse(f, &dynamic_kind, &parts, sizeof p);
    if (fusion != NULL) {
        memcpy(fusion->detail, &p, sizeof p);
    }
}

/* ---- packing ---- */

/* Weights, scales of 1, then the bias. */
static enum pen_status dynamic_pack(const struct graph *g, const struct fusion *f, enum pen_precision precision,
                                    void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    static const float one = 1.0f;
    const struct dynamic_product *p = f->detail;
    const size_t bias_at = qdense_packed_bytes(&p->f), bytes = bias_at + (p->f.out * sizeof(float) + 63) / 64 * 64;
    uint8_t *to = packed_alloc(bytes);
    (void)precision; /* of floats */
    if (to == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s",
                             p->product->name);
    }
    const struct qparams q = {.x_dtype = PEN_DTYPE_U8,
                              .w_dtype = PEN_DTYPE_I8,
                              .y_dtype = PEN_DTYPE_F32,
                              .w = node_in(g, p->product, 1)->data,
                              .w_scale = &one,
                              .w_scales = 1,
                              .x_zero_later = true};
    qdense_pack(&p->f, &q, to);
    memset(to + bias_at, 0, bytes - bias_at);
    if (p->bias != VALUE_NONE) {
        memcpy(to + bias_at, g->values[p->bias].data, p->f.out * sizeof(float));
    }
    *ret_packed = to;
    *ret_bytes = bytes;
    return PEN_OK;
}

/* ---- running ---- */

struct dynamic_step {
    const struct dynamic_product *p;
    const uint8_t *packed;
    struct qdense dense;
    struct act act; /* behind the limits */
    bool each;      /* a scale of each column */
    size_t count;
};

static enum pen_status dynamic_run(struct step *s, struct run *r)
{
    static const float one = 1.0f;
    const struct dynamic_step *q = s->state;
    struct qdense dense = q->dense;
    struct qweights w = qdense_group(&q->p->f, q->packed, 0);
    const int32_t zero = qdense_zero(s->in[IN_ZERO], PEN_DTYPE_U8);
    const struct qfloats floats = {.x_scale = q->each ? &one : s->in[IN_SCALE],
                                   .x_zero = &zero,
                                   .bias = (const float *)(const void *)(q->packed + qdense_packed_bytes(&q->p->f)),
                                   .min = q->act.min,
                                   .max = q->act.max};
    w.scale = q->each ? s->in[IN_SCALE] : w.scale;
    dense.floats = &floats;
    qdense_run(&dense, &w, s->in[IN_BYTES], s->out[0], s->scratch, r);
    act_run(&q->act, s->out[0], q->count, r);
    return PEN_OK;
}

static enum pen_status dynamic_build(struct build *b)
{
    const struct dynamic_product *p = b->fusion->detail;
    const struct shape *x = &build_in(b, IN_BYTES)->shape, *y = &build_out(b, 0)->shape;
    const uint8_t zero = 0;
    struct dynamic_step *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const size_t rows = (size_t)shape_elements(x) / p->f.in;
    const int64_t scales = shape_elements(&build_in(b, IN_SCALE)->shape);
    if (x->dim[x->rank - 1] != (int64_t)p->f.in || shape_elements(y) != (int64_t)(rows * p->f.out) ||
        (scales != 1 && scales != (int64_t)p->f.out)) {
        return build_fail(b, PEN_ERR_SHAPE, "input, weights, scale and output do not fit each other");
    }
    *q = (struct dynamic_step){
        .p = p, .packed = b->packed, .act = p->act, .each = scales != 1, .count = (size_t)shape_elements(y)};
    const struct dense_image image = dense_image_of_rows(rows, p->f.in, p->f.in);
    const struct qparams params = {
        .x_dtype = PEN_DTYPE_U8, .w_dtype = PEN_DTYPE_I8, .y_dtype = PEN_DTYPE_F32, .x_zero = &zero};
    qdense_init(&q->dense, &image, &p->f, build_threads(b));
    qdense_zeros(&q->dense, &params);
    b->step->scratch_bytes = qdense_scratch_bytes(&q->dense, build_threads(b));
    b->step->state = q;
    b->step->run = dynamic_run;
    return PEN_OK;
}

static const struct fusion_kind dynamic_kind = {.kernel = "own gemm of bytes that gives floats",
                                                .why = "sums of bytes become floats where they are made",
                                                .pack = dynamic_pack,
                                                .build = dynamic_build,
                                                .copies = COPIES_FIRST};
