#include <string.h>

#include "backend/reference/element_io.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/number.h"

/*
 * Cast and CastLike between any two numeric types. Pairs of whole bytes that number.h knows go through its loops; the others by blocks of doubles, or of
 * 64-bit integers between integer types. Values of 2 and 4 bits are packed: blocks start at whole bytes.
 */
struct cast {
    enum pen_dtype from, to;
    size_t count;
    bool fast, small, integers; /* number_cast does it; into a float of 8 bits or fewer; both integers */
    bool saturate;
    int round;
};

struct cast_job {
    const struct cast *q;
    const void *x;
    void *y;
};

static bool is_number(enum pen_dtype dtype)
{
    unsigned class = element_class(dtype);
    return class != 0 && class != ELEMENT_TEXT && class != ELEMENT_COMPLEX;
}

static bool cast_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    return (x != NULL && is_number(x->dtype) && is_number(y->dtype)) || refuse(ret_reason, "not between numbers");
}

static void block_cast(const struct cast *q, const void *x, void *y, int64_t at, int64_t n)
{
    union {
        double f[ELEMENT_BLOCK];
        int64_t i[ELEMENT_BLOCK];
    } block;
    if (q->integers) {
        load_i64(x, q->from, at, 1, n, block.i);
        store_i64(y, q->to, at, 1, n, block.i);
        return;
    }
    load_f64(x, q->from, at, 1, n, block.f);
    if (!q->small) {
        store_f64(y, q->to, at, 1, n, block.f);
        return;
    }
    int64_t codes[ELEMENT_BLOCK];
    for (int64_t i = 0; i < n; i++) {
        codes[i] = small_float_encode(q->to, block.f[i], q->saturate, q->round);
    }
    store_i64(y, pen_dtype_bits(q->to) == 4 ? PEN_DTYPE_U4 : PEN_DTYPE_U8, at, 1, n, codes);
}

static void cast_task(void *context, size_t unit)
{
    const struct cast_job *j = context;
    const struct cast *q = j->q;
    size_t from = unit * CHUNK, to = q->count - from < CHUNK ? q->count : from + CHUNK;
    if (q->fast) {
        number_cast(q->from, (const uint8_t *)j->x + from * number_bytes(q->from), q->to,
                    (uint8_t *)j->y + from * number_bytes(q->to), to - from);
        return;
    }
    if (pen_dtype_bits(q->to) < 8 && to == q->count) { /* what is left of the last byte is zero */
        ((uint8_t *)j->y)[(to * pen_dtype_bits(q->to) + 7) / 8 - 1] = 0;
    }
    for (size_t at = from; at < to; at += ELEMENT_BLOCK) {
        block_cast(q, j->x, j->y, (int64_t)at, (int64_t)(to - at < ELEMENT_BLOCK ? to - at : ELEMENT_BLOCK));
    }
}

static enum pen_status cast_run(struct step *s, struct run *r)
{
    const struct cast *q = s->state;
    struct cast_job j = {q, s->in[0], s->out[0]};
    if (q->from != q->to) {
        parallel(r, cast_task, &j, (q->count + CHUNK - 1) / CHUNK);
    } else if (j.x != j.y) {
        memcpy(j.y, j.x, (q->count * pen_dtype_bits(q->to) + 7) / 8);
    }
    return PEN_OK;
}

static enum pen_status cast_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *y = build_out(b, 0);
    struct cast *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int64_t count = shape_elements(&x->shape);
    if (count != shape_elements(&y->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in size");
    }
    q->from = x->dtype;
    q->to = y->dtype;
    q->count = (size_t)count;
    q->fast = number_casts(q->from, q->to);
    q->integers = element_class(q->from) != ELEMENT_FLOAT && element_class(q->to) != ELEMENT_FLOAT;
    q->small = element_class(q->to) == ELEMENT_FLOAT && pen_dtype_bits(q->to) <= 8;
    q->saturate = node_int(b->n, ATTR_saturate, 1) != 0;
    q->round = node_text_is(b->n, ATTR_round_mode, "down", false)      ? -1
               : node_text_is(b->n, ATTR_round_mode, "nearest", false) ? 0
                                                                       : 1;
    b->view = q->from == q->to;
    b->step->state = q;
    b->step->run = cast_run;
    return PEN_OK;
}

const struct emitter emit_cast = {cast_supports, NULL, cast_build};
