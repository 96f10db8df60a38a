#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"

/*
 * QLinearConcat: y_scale, y_zero, then x, x_scale, x_zero for each part. A part's bytes get the result's scale through a table of 256 answers, computed in
 * double as the reference does; a part that has that scale already is copied. y is [outer, sum of widths].
 */
struct part {
    size_t width; /* bytes of one outer position */
    size_t at;    /* in a row of y */
};

struct qconcat {
    enum pen_dtype dtype;
    size_t outer, width;   /* of y */
    const uint8_t *tables; /* 256 bytes for each part, made at the load; NULL = each run makes them */
    uint32_t count;
    struct part parts[];
};

struct qconcat_job {
    const struct qconcat *q;
    const struct part *part;
    const uint8_t *x;
    uint8_t *y;
    bool same;
    size_t rows; /* of one unit */
    const uint8_t *table;
};

static bool is_scalar(const struct value *v, enum pen_dtype dtype)
{
    return dtype_is(v, dtype) && shape_known(&v->shape) && shape_elements(&v->shape) == 1;
}

static bool qconcat_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *y = node_out(g, n, 0), *zero = node_in(g, n, 1);
    bool ok = (dtype_is(y, PEN_DTYPE_U8) || dtype_is(y, PEN_DTYPE_I8)) && n->in_count >= 5 && n->in_count % 3 == 2 &&
              is_scalar(node_in(g, n, 0), PEN_DTYPE_F32) && is_scalar(zero, y->dtype);
    for (uint32_t i = 2; ok && i + 2 < n->in_count; i += 3) {
        ok = dtype_is(node_in(g, n, i), y->dtype) && is_scalar(node_in(g, n, i + 1), PEN_DTYPE_F32) &&
             is_scalar(node_in(g, n, i + 2), y->dtype);
    }
    return (ok && shape_axis(node_int(n, ATTR_axis, 0), y->shape.rank) >= 0) ||
           refuse(ret_reason, "parts that are not bytes of one type with one scale each");
}

static void rows_task(void *context, size_t unit)
{
    const struct qconcat_job *j = context;
    size_t width = j->part->width;
    for (size_t row = unit * j->rows; row < (unit + 1) * j->rows && row < j->q->outer; row++) {
        const uint8_t *x = j->x + row * width;
        uint8_t *y = j->y + row * j->q->width + j->part->at;
        if (j->same) {
            memcpy(y, x, width);
            continue;
        }
        isa_lookup()(j->table, x, y, width);
    }
}

/* y = saturate(round(((x - x_zero) * x_scale) / y_scale) + y_zero) */
static void table_fill(enum pen_dtype dtype, const void *const *x, const void *const *y, uint8_t table[256])
{
    double x_scale = (double)*(const float *)x[0], y_scale = (double)*(const float *)y[0];
    int32_t x_zero = qdense_zero(x[1], dtype), y_zero = qdense_zero(y[1], dtype);
    double low = dtype == PEN_DTYPE_I8 ? -128.0 : 0.0, high = low + 255.0;
    for (int i = 0; i < 256; i++) {
        uint8_t code = (uint8_t)i;
        double v = nearbyint((double)(qdense_zero(&code, dtype) - x_zero) * x_scale / y_scale) + (double)y_zero;
        v = v >= low ? v : low;
        table[i] = (uint8_t)(int32_t)(v > high ? high : v);
    }
}

static bool table_keeps(const uint8_t table[256])
{
    bool same = true;
    for (int i = 0; i < 256; i++) {
        same &= table[i] == i;
    }
    return same;
}

static enum pen_status qconcat_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                    struct pen_error *reterr)
{
    const uint32_t count = (n->in_count - 2) / 3;
    for (uint32_t i = 0; i < n->in_count; i++) {
        if ((i < 2 || i % 3 != 2) && !in_constant(g, n, i)) {
            return PEN_OK;
        }
    }
    uint8_t *tables = packed_alloc((size_t)count * 256);
    if (tables == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the tables of node %s", n->name);
    }
    const void *const result[2] = {node_in(g, n, 0)->data, node_in(g, n, 1)->data};
    for (uint32_t i = 0; i < count; i++) {
        const void *const part[2] = {node_in(g, n, 3 + 3 * i)->data, node_in(g, n, 4 + 3 * i)->data};
        table_fill(node_out(g, n, 0)->dtype, part, result, tables + (size_t)i * 256);
    }
    *ret_packed = tables;
    *ret_bytes = (size_t)count * 256;
    return PEN_OK;
}

static enum pen_status qconcat_run(struct step *s, struct run *r)
{
    const struct qconcat *q = s->state;
    const void *const result[2] = {s->in[0], s->in[1]};
    uint8_t table[256];
    for (uint32_t i = 0; i < q->count; i++) {
        const void *const part[2] = {s->in[3 + 3 * i], s->in[4 + 3 * i]};
        struct qconcat_job j = {.q = q, .part = &q->parts[i], .x = s->in[2 + 3 * i], .y = s->out[0], .table = table};
        j.rows = CHUNK / (j.part->width + 1) + 1;
        if (q->tables != NULL) {
            j.table = q->tables + (size_t)i * 256;
        } else {
            table_fill(q->dtype, part, result, table);
        }
        j.same = table_keeps(j.table);
        parallel(r, rows_task, &j, j.part->width > 0 ? (q->outer + j.rows - 1) / j.rows : 0);
    }
    return PEN_OK;
}

static enum pen_status qconcat_build(struct build *b)
{
    const struct shape *y = &build_out(b, 0)->shape;
    uint32_t count = (b->n->in_count - 2) / 3;
    struct qconcat *q = build_alloc(b, sizeof *q + count * sizeof q->parts[0]);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), y->rank);
    size_t inner = 1;
    q->outer = 1;
    for (int32_t d = 0; d < y->rank; d++) {
        if (d != axis) {
            *(d < axis ? &q->outer : &inner) *= (size_t)y->dim[d];
        }
    }
    q->dtype = build_out(b, 0)->dtype;
    q->count = count;
    q->tables = b->packed;
    for (uint32_t i = 0; i < count; i++) {
        const struct shape *x = &build_in(b, 2 + 3 * i)->shape;
        struct shape want = *y;
        want.dim[axis] = x->rank == y->rank ? x->dim[axis] : -1;
        if (!shape_equal(x, &want)) {
            return build_fail(b, PEN_ERR_SHAPE, "a part does not fit the result");
        }
        q->parts[i] = (struct part){(size_t)x->dim[axis] * inner, q->width};
        q->width += q->parts[i].width;
    }
    b->step->state = q;
    b->step->run = qconcat_run;
    return q->width == (size_t)y->dim[axis] * inner ? PEN_OK
                                                    : build_fail(b, PEN_ERR_SHAPE, "the parts do not fill the result");
}

const struct emitter emit_qconcat = {qconcat_supports, qconcat_pack, qconcat_build};
