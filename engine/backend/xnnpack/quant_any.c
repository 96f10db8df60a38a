#include "backend/xnnpack/quant_any.h"

#include "backend/reference/element_io.h"
#include "backend/reference/quantise.h"

#define UNIT 4096 /* elements; a whole number of bytes for every type */

/* x [outer, axis, inner]; a scale for each `block` positions of the axis (full: of each outer and inner position), for the whole axis, or one. */
struct quant_any {
    size_t elements, axis, inner, block, blocks;
    bool to_codes, single, full;
    enum pen_dtype dtype; /* of the codes */
};

struct any_job {
    const struct quant_any *q;
    const void *x, *zero;
    const float *scale;
    void *y;
};

static bool code_fits(enum pen_dtype dtype)
{
    return (element_class(dtype) & ELEMENT_INTEGER) != 0 && pen_dtype_bits(dtype) <= 32;
}

bool quant_any_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *scale = node_in(g, n, 1), *zero = node_in(g, n, 2),
                       *y = node_out(g, n, 0);
    bool to = n->op == OP_QuantizeLinear;
    const struct value *real = to ? x : y, *code = to ? y : x;
    if (!dtype_is(real, PEN_DTYPE_F32) || !dtype_is(scale, PEN_DTYPE_F32) || !code_fits(code->dtype) ||
        (zero != NULL && zero->dtype != code->dtype)) {
        return refuse(ret_reason, "not between f32 and integers of at most 32 bits");
    }
    return x->shape.rank >= 0 || refuse(ret_reason, "an unknown number of dimensions");
}

static size_t scale_at(const struct quant_any *q, size_t i)
{
    size_t at = i / q->inner % q->axis / q->block;
    return q->single ? 0 : q->full ? (i / (q->inner * q->axis) * q->blocks + at) * q->inner + i % q->inner : at;
}

static void any_task(void *context, size_t unit)
{
    const struct any_job *j = context;
    const struct quant_any *q = j->q;
    size_t from = unit * UNIT, last = from + UNIT < q->elements ? from + UNIT : q->elements;
    double low, high;
    quantise_range(q->dtype, &low, &high);
    for (size_t i = from; i < last; i++) {
        size_t at = scale_at(q, i);
        double zero = j->zero != NULL ? load_one_f64(j->zero, q->dtype, (int64_t)at) : 0.0;
        if (q->to_codes) {
            double v = (double)(((const float *)j->x)[i] / j->scale[at]);
            store_one_f64(j->y, q->dtype, (int64_t)i, isnan(v) ? zero : quantise_value(v, zero, low, high));
        } else {
            double code = load_one_f64(j->x, q->dtype, (int64_t)i);
            ((float *)j->y)[i] = (float)((code - zero) * (double)j->scale[at]);
        }
    }
}

/* Several a byte, the first in the low bits. */
static void bits_widen(const uint8_t *bytes, enum pen_dtype dtype, size_t from, size_t n, float *to)
{
    const unsigned bits = (unsigned)pen_dtype_bits(dtype), per_byte = 8 / bits;
    const int32_t mask = (1 << bits) - 1, sign = dtype == PEN_DTYPE_I4 || dtype == PEN_DTYPE_I2 ? 1 << (bits - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = from + i;
        to[i] = (float)(((bytes[at / per_byte] >> at % per_byte * bits & mask) ^ sign) - sign);
    }
}

#define WIDEN(type)                                                                                                    \
    do {                                                                                                               \
        const type *codes = (const type *)x + from;                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                               \
            to[i] = (float)codes[i];                                                                                   \
        }                                                                                                              \
    } while (0)

/* Codes [from, from + n) of at most 16 bits: single precision holds them. */
static void codes_widen(const void *x, enum pen_dtype dtype, size_t from, size_t n, float *to)
{
    switch (dtype) {
    case PEN_DTYPE_I8:
        WIDEN(int8_t);
        break;
    case PEN_DTYPE_U8:
        WIDEN(uint8_t);
        break;
    case PEN_DTYPE_I16:
        WIDEN(int16_t);
        break;
    case PEN_DTYPE_U16:
        WIDEN(uint16_t);
        break;
    default:
        bits_widen(x, dtype, from, n, to);
    }
}

/* Neighbours from i on whose scale is the same, or the next one each. */
static size_t run_length(const struct quant_any *q, size_t i)
{
    const size_t position = i % q->axis, end = (position / q->block + 1) * q->block;
    return q->single      ? q->elements - i
           : q->inner > 1 ? q->inner - i % q->inner
                          : (end < q->axis ? end : q->axis) - position;
}

/* A difference of such codes is exact, and the product rounds once: as in double. */
static void floats_task(void *context, size_t unit)
{
    const struct any_job *j = context;
    const struct quant_any *q = j->q;
    const size_t first = unit * UNIT, last = first + UNIT < q->elements ? first + UNIT : q->elements;
    const size_t step = q->full && q->inner > 1 ? 1 : 0;
    float zeros[UNIT];
    for (size_t i = first, n = 0; i < last; i += n) {
        const size_t run = run_length(q, i), at = scale_at(q, i);
        float *y = (float *)j->y + i;
        n = run < last - i ? run : last - i;
        codes_widen(j->x, q->dtype, i, n, y);
        zeros[0] = 0.0f;
        if (j->zero != NULL) {
            codes_widen(j->zero, q->dtype, at, step == 1 ? n : 1, zeros);
        }
        const size_t zero_step = j->zero != NULL ? step : 0;
        for (size_t k = 0; k < n; k++) {
            y[k] = (y[k] - zeros[k * zero_step]) * j->scale[at + k * step];
        }
    }
}

static enum pen_status any_run(struct step *s, struct run *r)
{
    const struct quant_any *q = s->state;
    struct any_job j = {
        .q = q, .x = s->in[0], .scale = s->in[1], .zero = s->n->in_count > 2 ? s->in[2] : NULL, .y = s->out[0]};
    const bool narrow = !q->to_codes && pen_dtype_bits(q->dtype) <= 16;
    parallel(r, narrow ? floats_task : any_task, &j, (q->elements + UNIT - 1) / UNIT);
    return PEN_OK;
}

enum pen_status quant_any_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *scale = build_in(b, 1), *zero = build_in(b, 2);
    struct quant_any *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int64_t block = node_int(b->n, ATTR_block_size, 0);
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 1), x->shape.rank);
    *q = (struct quant_any){
        .elements = (size_t)shape_elements(&x->shape), .axis = 1, .inner = 1, .block = 1, .blocks = 1};
    q->to_codes = b->n->op == OP_QuantizeLinear;
    q->dtype = q->to_codes ? build_out(b, 0)->dtype : x->dtype;
    q->single = shape_elements(&scale->shape) == 1 && block == 0;
    if (!q->single && axis < 0) {
        return build_fail(b, PEN_ERR_SHAPE, "the axis is out of range");
    }
    for (int32_t d = axis; d < x->shape.rank && !q->single; d++) {
        *(d == axis ? &q->axis : &q->inner) *= (size_t)x->shape.dim[d];
    }
    q->full = block > 0;
    q->block = block > 0 ? (size_t)block : 1;
    q->blocks = (q->axis + q->block - 1) / q->block;
    size_t lanes = q->elements > 0 ? q->elements / (q->axis * q->inner) * q->inner : 0;
    size_t want = q->single ? 1 : q->full ? lanes * q->blocks : q->blocks;
    if (q->elements > 0 && (shape_elements(&scale->shape) != (int64_t)want ||
                            (zero != NULL && shape_elements(&zero->shape) != (int64_t)want))) {
        return build_fail(b, PEN_ERR_SHAPE, "scales or zero points do not fit the data");
    }
    b->step->state = q;
    b->step->run = any_run;
    return PEN_OK;
}
