#include <math.h>
#include <string.h>

#include "backend/xnnpack/each.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/quant_any.h"

/* QuantizeLinear to bytes, DequantizeLinear from bytes and i32: one scale, or one for each position of an axis. x is [outer, axis, inner]. */
struct quant_step {
    size_t outer, axis, inner;
    bool to_bytes;
    enum pen_dtype dtype; /* of the quantised side */
};

struct quant_job {
    const struct quant_step *q;
    const uint8_t *x;
    uint8_t *y;
    const float *scale;
    const uint8_t *zero; /* NULL = 0 */
    size_t chunks;       /* of one (outer, axis) row */
};

/* Bytes with one scale, or one for each position of an axis; quant_any.c has the rest. */
static bool quant_plain(const struct graph *g, const struct node *n)
{
    const struct value *x = node_in(g, n, 0), *scale = node_in(g, n, 1), *zero = node_in(g, n, 2),
                       *y = node_out(g, n, 0);
    bool to = n->op == OP_QuantizeLinear;
    const struct value *real = to ? x : y, *code = to ? y : x;
    bool byte = dtype_is(code, PEN_DTYPE_U8) || dtype_is(code, PEN_DTYPE_I8);
    if (!dtype_is(real, PEN_DTYPE_F32) || !dtype_is(scale, PEN_DTYPE_F32) ||
        !(byte || (!to && dtype_is(code, PEN_DTYPE_I32))) || (zero != NULL && zero->dtype != code->dtype)) {
        return false;
    }
    if (node_int(n, ATTR_block_size, 0) != 0 || !shape_known(&scale->shape) ||
        (zero != NULL &&
         (!shape_known(&zero->shape) || shape_elements(&zero->shape) != shape_elements(&scale->shape)))) {
        return false;
    }
    int32_t axis = shape_axis(node_int(n, ATTR_axis, 1), x->shape.rank);
    return shape_elements(&scale->shape) == 1 ||
           (scale->shape.rank == 1 && x->shape.rank > 1 && axis >= 0 && x->shape.dim[axis] == scale->shape.dim[0]);
}

static bool quant_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return quant_plain(g, n) || quant_any_supports(g, n, ret_reason);
}

static void wide_dequantise(const int32_t *x, int32_t zero, float scale, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)(((double)x[i] - (double)zero) * (double)scale);
    }
}

static void quant_task(void *context, size_t unit)
{
    const struct quant_job *j = context;
    const struct quant_step *q = j->q;
    size_t row = unit / j->chunks, from = unit % j->chunks * CHUNK, at = row % q->axis, first = row * q->inner + from;
    size_t n = q->inner - from < CHUNK ? q->inner - from : CHUNK;
    bool wide = q->dtype == PEN_DTYPE_I32;
    int32_t zero = wide              ? (j->zero != NULL ? ((const int32_t *)(const void *)j->zero)[at] : 0)
                   : j->zero == NULL ? 0
                                     : qdense_zero(j->zero + at, q->dtype);
    if (q->to_bytes) {
        struct requantise l = qdense_limits(q->dtype, zero);
        isa_int()->quantise((const float *)(const void *)j->x + first, j->scale[at], l.low, l.high, zero, j->y + first,
                            n);
    } else if (wide) {
        wide_dequantise((const int32_t *)(const void *)j->x + first, zero, j->scale[at], (float *)(void *)j->y + first,
                        n);
    } else {
        bool flip = q->dtype == PEN_DTYPE_I8;
        isa_int()->dequantise(j->x + first, flip ? 0x80 : 0, zero + (flip ? 128 : 0), j->scale[at],
                              (float *)(void *)j->y + first, n);
    }
}

static enum pen_status quant_run(struct step *s, struct run *r)
{
    const struct quant_step *q = s->state;
    struct quant_job j = {.q = q,
                          .x = s->in[0],
                          .y = s->out[0],
                          .scale = s->in[1],
                          .zero = s->n->in_count > 2 ? s->in[2] : NULL,
                          .chunks = (q->inner + CHUNK - 1) / CHUNK};
    parallel(r, quant_task, &j, q->outer * q->axis * j.chunks);
    return PEN_OK;
}

static enum pen_status quant_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *scale = &build_in(b, 1)->shape;
    if (!quant_plain(b->g, b->n)) {
        return quant_any_build(b);
    }
    struct quant_step *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *q = (struct quant_step){.outer = 1, .axis = 1, .inner = (size_t)shape_elements(x)};
    q->to_bytes = b->n->op == OP_QuantizeLinear;
    q->dtype = q->to_bytes ? build_out(b, 0)->dtype : build_in(b, 0)->dtype;
    if (shape_elements(scale) != 1) {
        int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 1), x->rank);
        q->inner = 1;
        for (int32_t d = 0; d < x->rank; d++) {
            *(d < axis ? &q->outer : d > axis ? &q->inner : &q->axis) *= (size_t)x->dim[d];
        }
        if (q->axis != (size_t)shape_elements(scale)) {
            return build_fail(b, PEN_ERR_SHAPE, "as many scales as the axis has positions are needed");
        }
    }
    b->step->state = q;
    b->step->run = quant_run;
    return PEN_OK;
}

const struct emitter emit_quant = {quant_supports, NULL, quant_build};

/* ---- QLinearAdd, QLinearMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero ---- */

struct affine {
    double scale;
    int32_t zero;
    uint8_t flip;
};

struct pair_step {
    struct each each;
    bool adds, fixed_point;
    enum pen_dtype dtype;
};

struct pair_job {
    const struct pair_step *q;
    const uint8_t *a, *b; /* one byte an element */
    uint8_t *y;
    struct affine ap, bp, yp;
    double low, high;
    struct fixed_add fixed;
    struct int_pair fast; /* near_tie 0: never */
};

static bool is_scalar(const struct value *v, enum pen_dtype dtype)
{
    return dtype_is(v, dtype) && shape_known(&v->shape) && shape_elements(&v->shape) == 1;
}

static bool zero_fits(const struct value *v, enum pen_dtype dtype)
{
    return v == NULL || is_scalar(v, dtype);
}

static bool pair_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *a = node_in(g, n, 0), *b = node_in(g, n, 3), *y = node_out(g, n, 0);
    bool ok = (dtype_is(a, PEN_DTYPE_U8) || dtype_is(a, PEN_DTYPE_I8)) && dtype_is(b, a->dtype) && y->dtype == a->dtype;
    ok = ok && is_scalar(node_in(g, n, 1), PEN_DTYPE_F32) && is_scalar(node_in(g, n, 4), PEN_DTYPE_F32) &&
         is_scalar(node_in(g, n, 6), PEN_DTYPE_F32);
    ok = ok && zero_fits(node_in(g, n, 2), a->dtype) && zero_fits(node_in(g, n, 5), a->dtype) &&
         zero_fits(node_in(g, n, 7), a->dtype);
    return ok || refuse(ret_reason, "not bytes of one type with one scale each");
}

static double real_of(uint8_t x, const struct affine *p)
{
    return (double)((int32_t)(uint8_t)(x ^ p->flip) - p->zero) * p->scale;
}

/* In double, operation by operation as the reference has it: ties fall the same way. */
static uint8_t pair_exact(const struct pair_job *j, uint8_t a, uint8_t b)
{
    double p = real_of(a, &j->ap), q = real_of(b, &j->bp);
    double v = nearbyint((j->q->adds ? p + q : p * q) / j->yp.scale) + (double)j->yp.zero;
    v = v >= j->low ? v : j->low;
    return (uint8_t)(int32_t)(v > j->high ? j->high : v);
}

#define PAIR_BLOCK 256 /* elements whose marks are looked at together */

static void pair_piece(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct pair_job *j = context;
    const uint8_t *a = in[0], *b = in[1];
    uint8_t *y = j->y + out, marks[PAIR_BLOCK];
    bool fast = j->fast.near_tie > 0.0f;
    memset(marks, 1, sizeof marks);
    for (size_t at = 0; at < n; at += PAIR_BLOCK) {
        size_t count = n - at < PAIR_BLOCK ? n - at : PAIR_BLOCK;
        if (fast &&
            !isa_int()->pair(&j->fast, a + at * step[0], step[0], b + at * step[1], step[1], y + at, marks, count)) {
            continue;
        }
        for (const uint8_t *mark = memchr(marks, 1, count); mark != NULL;) {
            size_t i = (size_t)(mark - marks);
            y[at + i] = pair_exact(j, a[(at + i) * step[0]], b[(at + i) * step[1]]);
            mark = memchr(mark + 1, 1, count - i - 1);
        }
    }
}

/*
 * The form in single precision. Factors and products are rounded, each by at most 2^-24 of itself. A product counts up to 256, beyond which it is limited
 * either way; of a sum the parts may be larger than what is left. Four times the error is the distance from a tie within which double decides; scales for
 * which that is most of the way are left to double.
 */
static void fast_of(struct pair_job *j)
{
    double y = j->yp.scale, f[2] = {j->ap.scale / y, j->bp.scale / y};
    bool adds = j->q->adds;
    f[0] *= adds ? 1.0 : j->bp.scale;
    double widest = adds ? 255.0 * (fabs(f[0]) + fabs(f[1])) : 0.0, near_tie = ldexp(widest + 256.0, -21);
    bool usual = near_tie < 0.1 && fabs(f[0]) >= 0x1p-100 && fabs(f[0]) <= 0x1p100 && (!adds || fabs(f[1]) >= 0x1p-100);
    j->fast = (struct int_pair){.adds = adds,
                                .flip = j->ap.flip,
                                .zero = {j->ap.zero, j->bp.zero},
                                .y_zero = j->yp.zero,
                                .factor = {(float)f[0], adds ? (float)f[1] : 0.0f},
                                .low = (float)(j->low - (double)j->yp.zero),
                                .high = (float)(j->high - (double)j->yp.zero),
                                .near_tie = usual ? (float)near_tie : 0.0f};
}

/*
 * TFLite's sums: multipliers of 21 bits for the larger factor, rounding half up. The parts stay below 2^30, so a shift past 30 leaves nothing but the zero
 * point. False for scales that have no such form (reference then computes in double, too).
 */
static bool fixed_of(const struct affine *a, const struct affine *b, const struct affine *y, bool is_signed,
                     struct fixed_add *ret)
{
    float factor[2] = {(float)a->scale / (float)y->scale, (float)b->scale / (float)y->scale};
    float largest = fmaxf(fabsf(factor[0]), fabsf(factor[1]));
    int shift = largest > 0.0f && isfinite(largest) ? 20 - ilogbf(largest) : 0;
    if (shift < 1 || shift > 40) {
        return false;
    }
    *ret = (struct fixed_add){
        .zero = y->zero, .low = is_signed ? -128 : 0, .high = is_signed ? 127 : 255, .flip = a->flip, .shift = shift};
    if (shift > 30) {
        ret->shift = 1;
        return true;
    }
    for (int i = 0; i < 2; i++) {
        ret->m[i] = (int32_t)lrintf(ldexpf(factor[i], shift));
    }
    int64_t bias = (INT64_C(1) << (shift - 1)) - (int64_t)ret->m[0] * a->zero - (int64_t)ret->m[1] * b->zero;
    ret->bias = (int32_t)(uint32_t)bias; /* wraps as the parts do */
    return true;
}

static void fixed_piece(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct pair_job *j = context;
    isa_int()->fixed_add(&j->fixed, in[0], step[0], in[1], step[1], j->y + out, n);
}

static struct affine affine_of(const struct step *s, uint32_t at, enum pen_dtype dtype)
{
    const void *zero = at + 1 < s->n->in_count ? s->in[at + 1] : NULL;
    bool flip = dtype == PEN_DTYPE_I8;
    return (struct affine){(double)*(const float *)s->in[at], qdense_zero(zero, dtype) + (flip ? 128 : 0),
                           flip ? 0x80 : 0};
}

static enum pen_status pair_run(struct step *s, struct run *r)
{
    const struct pair_step *q = s->state;
    bool is_signed = q->dtype == PEN_DTYPE_I8;
    struct pair_job j = {.q = q, .a = s->in[0], .b = s->in[3], .y = s->out[0]};
    j.ap = affine_of(s, 1, q->dtype);
    j.bp = affine_of(s, 4, q->dtype);
    j.yp = affine_of(s, 6, q->dtype);
    j.yp.zero -= is_signed ? 128 : 0;
    j.low = is_signed ? -128.0 : 0.0;
    j.high = j.low + 255.0;
    bool fixed = q->fixed_point && fixed_of(&j.ap, &j.bp, &j.yp, is_signed, &j.fixed);
    if (!fixed) {
        fast_of(&j);
    }
    each_pieces(&q->each, (const void *[]){j.a, j.b}, 1, fixed ? fixed_piece : pair_piece, &j, r);
    return PEN_OK;
}

static enum pen_status pair_build(struct build *b)
{
    struct pair_step *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct shape *in[2] = {&build_in(b, 0)->shape, &build_in(b, 3)->shape};
    if (!each_init(&q->each, &build_out(b, 0)->shape, in, 2)) {
        return build_fail(b, PEN_ERR_SHAPE, "inputs do not broadcast to the output");
    }
    q->adds = b->n->op == OP_QLinearAdd;
    q->fixed_point = q->adds && node_int(b->n, ATTR_fixed_point, 0) != 0;
    q->dtype = build_in(b, 0)->dtype;
    b->step->state = q;
    b->step->run = pair_run;
    return PEN_OK;
}

const struct emitter emit_qpair = {pair_supports, NULL, pair_build};
