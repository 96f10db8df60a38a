#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/each.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"

/*
 * QLinearAdd, QLinearMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. The reference computes in double. Single precision gives the same bytes
 * but near a tie between two of them. Where all parameters are constants, packing tries all 65,536 pairs of bytes once: mostly single precision is right for
 * every pair, perhaps with a factor that is one step off, and nothing is looked at again. Otherwise a run marks what is near a tie and computes it in double.
 */
struct affine {
    double scale;
    int32_t zero;
    uint8_t flip;
};

struct pair_step {
    struct each each;
    bool adds, fixed_point;
    enum pen_dtype dtype;
    const struct int_quick *quick; /* right for all pairs of bytes; NULL = not known to be */
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

static void quick_piece(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct pair_job *j = context;
    isa_int()->quick(j->q->quick, in[0], step[0], in[1], step[1], j->y + out, n);
}

/* zero NULL = 0 */
static struct affine affine_of(const float *scale, const void *zero, enum pen_dtype dtype)
{
    bool flip = dtype == PEN_DTYPE_I8;
    return (struct affine){(double)*scale, qdense_zero(zero, dtype) + (flip ? 128 : 0), flip ? 0x80 : 0};
}

/* in: by input of the node; NULL = omitted */
static void params_read(struct pair_job *j, const void *const in[8])
{
    const enum pen_dtype dtype = j->q->dtype;
    bool is_signed = dtype == PEN_DTYPE_I8;
    j->ap = affine_of(in[1], in[2], dtype);
    j->bp = affine_of(in[4], in[5], dtype);
    j->yp = affine_of(in[6], in[7], dtype);
    j->yp.zero -= is_signed ? 128 : 0;
    j->low = is_signed ? -128.0 : 0.0;
    j->high = j->low + 255.0;
}

static bool fixed_read(struct pair_job *j)
{
    return j->q->fixed_point && fixed_of(&j->ap, &j->bp, &j->yp, j->q->dtype == PEN_DTYPE_I8, &j->fixed);
}

static enum pen_status pair_run(struct step *s, struct run *r)
{
    const struct pair_step *q = s->state;
    struct pair_job j = {.q = q, .a = s->in[0], .b = s->in[3], .y = s->out[0]};
    const void *in[8] = {0};
    for (uint32_t i = 0; i < s->n->in_count && i < 8; i++) {
        in[i] = s->in[i];
    }
    params_read(&j, in);
    bool fixed = fixed_read(&j);
    if (!fixed && q->quick == NULL) {
        fast_of(&j);
    }
    each_piece_fn piece = fixed ? fixed_piece : q->quick != NULL ? quick_piece : pair_piece;
    each_pieces(&q->each, (const void *[]){j.a, j.b}, 1, piece, &j, r);
    return PEN_OK;
}

/* ---- packing ---- */

/* Factors in single precision, `up` steps away from the nearest. */
static float nudged(double factor, int up)
{
    float f = (float)factor;
    return up == 0 ? f : nextafterf(f, up > 0 ? INFINITY : -INFINITY);
}

static struct int_quick quick_of(const struct pair_job *j, int up_a, int up_b)
{
    double y = j->yp.scale, a = j->ap.scale / y, b = j->bp.scale / y;
    int32_t bias = j->q->dtype == PEN_DTYPE_I8 ? 128 : 0; /* zero points of flipped bytes have it */
    int32_t za = j->ap.zero - bias, zb = j->bp.zero - bias;
    bool adds = j->q->adds;
    return (struct int_quick){.adds = adds,
                              .is_signed = bias != 0,
                              .zero = {(float)za, (float)zb},
                              .factor = {adds ? nudged(a, up_a) : nudged(a * j->bp.scale, up_a), nudged(b, up_b)},
                              .offset = (float)(-(double)za * a - (double)zb * b),
                              .low = (float)(j->low - (double)j->yp.zero),
                              .high = (float)(j->high - (double)j->yp.zero),
                              .y_zero = j->yp.zero};
}

/* Whether all pairs have the bytes of the exact form. */
static bool quick_holds(const struct pair_job *j, const struct int_quick *quick)
{
    uint8_t all[256], same[256], want[256], have[256], rows[256];
    struct pair_job exact = *j;
    exact.y = want;
    for (int i = 0; i < 256; i++) {
        all[i] = (uint8_t)i;
    }
    for (int a = 0; a < 256; a++) {
        pair_piece(&exact, 0, (const void *[]){&all[a], all}, (size_t[]){0, 1}, sizeof want);
        memset(same, a, sizeof same);
        isa_int()->quick(quick, &all[a], 0, all, 1, have, sizeof have);
        isa_int()->quick(quick, same, 1, all, 1, rows, sizeof rows); /* another loop than for one number */
        if (memcmp(want, have, sizeof want) != 0 || memcmp(want, rows, sizeof want) != 0) {
            return false;
        }
    }
    return true;
}

/* Tries the nearest factors, then their neighbours. */
static bool quick_find(const struct pair_job *j, struct int_quick *ret)
{
    static const int8_t tries[][2] = {{0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, -1}, {-1, 1}};
    for (size_t i = 0; i < (j->q->adds ? 7 : 3) && j->fast.near_tie > 0.0f; i++) {
        *ret = quick_of(j, tries[i][0], tries[i][1]);
        if (quick_holds(j, ret)) {
            return true;
        }
    }
    return false;
}

static enum pen_status pair_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    struct pair_step q = {.adds = n->op == OP_QLinearAdd, .dtype = node_in(g, n, 0)->dtype};
    struct pair_job j = {.q = &q};
    struct int_quick quick;
    const void *in[8] = {0};
    for (uint32_t i = 0; i < 8; i++) {
        const struct value *v = node_in(g, n, i);
        if (i != 0 && i != 3 && v != NULL && v->data == NULL) {
            return PEN_OK;
        }
        in[i] = v != NULL ? v->data : NULL;
    }
    q.fixed_point = q.adds && node_int(n, ATTR_fixed_point, 0) != 0;
    params_read(&j, in);
    fast_of(&j);
    if (fixed_read(&j) || !quick_find(&j, &quick)) {
        return PEN_OK;
    }
    struct int_quick *packed = packed_alloc(sizeof *packed);
    if (packed == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the factors of node %s", n->name);
    }
    *packed = quick;
    *ret_packed = packed;
    *ret_bytes = sizeof *packed;
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
    q->quick = b->packed;
    b->step->state = q;
    b->step->run = pair_run;
    b->step->kernel = q->fixed_point ? "own sums of bytes, fixed point" : "own pairs of bytes";
    b->step->why = q->quick != NULL ? "all pairs of bytes were tried in single precision at the load"
                   : q->fixed_point ? "TFLite's rule"
                                    : "what is near a tie is computed in double";
    return PEN_OK;
}

const struct emitter emit_qpair = {pair_supports, pair_pack, pair_build};
