#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/quant_any.h"

/* QuantizeLinear to codes of 8 and 16 bits, DequantizeLinear from those and i32: one scale, or one for each position of an axis. x is [outer, axis, inner]. */
struct quant_step {
    size_t outer, axis, inner;
    bool to_codes;
    enum pen_dtype dtype; /* of the quantised side */
};

struct quant_job {
    const struct quant_step *q;
    const uint8_t *x;
    uint8_t *y;
    const float *scale;
    const void *zero; /* NULL = 0 */
    size_t chunks;    /* of one (outer, axis) row */
};

static bool is_short(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U16 || dtype == PEN_DTYPE_I16;
}

/* Such codes with one scale, or one for each position of an axis; quant_any.c has the rest. */
static bool quant_plain(const struct graph *g, const struct node *n)
{
    const struct value *x = node_in(g, n, 0), *scale = node_in(g, n, 1), *zero = node_in(g, n, 2),
                       *y = node_out(g, n, 0);
    bool to = n->op == OP_QuantizeLinear;
    const struct value *real = to ? x : y, *code = to ? y : x;
    bool narrow = dtype_is(code, PEN_DTYPE_U8) || dtype_is(code, PEN_DTYPE_I8) || is_short(code->dtype);
    if (!dtype_is(real, PEN_DTYPE_F32) || !dtype_is(scale, PEN_DTYPE_F32) ||
        !(narrow || (!to && dtype_is(code, PEN_DTYPE_I32))) || (zero != NULL && zero->dtype != code->dtype)) {
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

static int32_t zero_at(const struct quant_job *j, size_t at)
{
    switch (j->zero == NULL ? PEN_DTYPE_NONE : j->q->dtype) {
    case PEN_DTYPE_NONE:
        return 0;
    case PEN_DTYPE_I32:
        return ((const int32_t *)j->zero)[at];
    case PEN_DTYPE_I16:
        return ((const int16_t *)j->zero)[at];
    case PEN_DTYPE_U16:
        return ((const uint16_t *)j->zero)[at];
    default:
        return qdense_zero((const uint8_t *)j->zero + at, j->q->dtype);
    }
}

static void codes_run(const struct quant_job *j, const float *x, size_t first, float scale, int32_t zero, size_t n)
{
    if (is_short(j->q->dtype)) {
        const int32_t low = j->q->dtype == PEN_DTYPE_I16 ? INT16_MIN : 0;
        isa_int()->quantise16(x, scale, (float)(low - zero), (float)(low + UINT16_MAX - zero), zero,
                              (uint16_t *)(void *)j->y + first, n);
    } else {
        struct requantise l = qdense_limits(j->q->dtype, zero);
        isa_int()->quantise(x, scale, l.low, l.high, zero, j->y + first, n);
    }
}

static void floats_run(const struct quant_job *j, float *y, size_t first, float scale, int32_t zero, size_t n)
{
    const enum pen_dtype dtype = j->q->dtype;
    if (dtype == PEN_DTYPE_I32) {
        wide_dequantise((const int32_t *)(const void *)j->x + first, zero, scale, y, n);
    } else if (is_short(dtype)) {
        const bool flip = dtype == PEN_DTYPE_I16;
        isa_int()->dequantise16((const uint16_t *)(const void *)j->x + first, flip ? 0x8000 : 0,
                                zero + (flip ? 0x8000 : 0), scale, y, n);
    } else {
        const bool flip = dtype == PEN_DTYPE_I8;
        isa_int()->dequantise(j->x + first, flip ? 0x80 : 0, zero + (flip ? 128 : 0), scale, y, n);
    }
}

static void quant_task(void *context, size_t unit)
{
    const struct quant_job *j = context;
    const struct quant_step *q = j->q;
    size_t row = unit / j->chunks, from = unit % j->chunks * CHUNK, at = row % q->axis, first = row * q->inner + from;
    size_t n = q->inner - from < CHUNK ? q->inner - from : CHUNK;
    if (q->to_codes) {
        codes_run(j, (const float *)(const void *)j->x + first, first, j->scale[at], zero_at(j, at), n);
    } else {
        floats_run(j, (float *)(void *)j->y + first, first, j->scale[at], zero_at(j, at), n);
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
    q->to_codes = b->n->op == OP_QuantizeLinear;
    q->dtype = q->to_codes ? build_out(b, 0)->dtype : build_in(b, 0)->dtype;
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
