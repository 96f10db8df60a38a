#include "graph/infer_util.h"
#include "graph/rules.h"

#include <stdio.h>

enum pen_status infer_same(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, infer_dtype_of(c, 0), infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_byte_table(struct infer *c, struct pen_error *reterr)
{
    const struct shape *table = infer_shape_of(c, 1);
    if (shape_known(table) && shape_elements(table) != 256)
        return infer_fail(c, reterr, "a table of bytes needs 256 of them");
    infer_put(c, 0, infer_dtype_of(c, 1), infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_same_bool(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_BOOL, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_murmur_hash(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, node_int(c->n, ATTR_positive, 1) != 0 ? PEN_DTYPE_U32 : PEN_DTYPE_I32, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_same_f32(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_F32, infer_shape_of(c, 0));
    return PEN_OK;
}

/* Identity also hands sequences and optionals on. */
enum pen_status infer_identity(struct infer *c, struct pen_error *reterr)
{
    if (c->in[0].kind == VALUE_TENSOR)
        return infer_same(c, reterr);
    infer_put_kind(c, 0, c->in[0].kind, c->in[0].dtype);
    return PEN_OK;
}

enum pen_status infer_cast(struct infer *c, struct pen_error *reterr)
{
    enum pen_dtype to = infer_dtype_attr(c, ATTR_to, PEN_DTYPE_NONE);
    if (to == PEN_DTYPE_NONE)
        return infer_fail(c, reterr, "attribute 'to' names no element type");
    infer_put(c, 0, to, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_cast_like(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, infer_dtype_of(c, 1), infer_shape_of(c, 0));
    return PEN_OK;
}

/* All inputs together; a contradiction names the two shapes. */
static enum pen_status broadcast_all(struct infer *c, uint32_t first, struct shape *ret, struct pen_error *reterr)
{
    struct shape shape = *infer_shape_of(c, first);
    for (uint32_t i = first + 1; i < c->n->in_count; i++) {
        struct shape wider;
        if (!infer_has(c, i))
            continue;
        if (!shape_broadcast(&shape, &c->in[i].shape, &wider)) {
            char a[96], b[96];
            return infer_fail(c, reterr, "shapes %s and %s do not broadcast", shape_text(&shape, a, sizeof a),
                              shape_text(&c->in[i].shape, b, sizeof b));
        }
        shape = wider;
    }
    *ret = shape;
    return PEN_OK;
}

enum pen_status infer_broadcast(struct infer *c, struct pen_error *reterr)
{
    struct shape shape;
    enum pen_status status = broadcast_all(c, 0, &shape, reterr);
    enum pen_dtype dtype = infer_dtype_of(c, 0);
    if (dtype == PEN_DTYPE_NONE && c->n->op != OP_Pow)
        dtype = infer_dtype_of(c, 1);
    if (status == PEN_OK)
        infer_put(c, 0, dtype, &shape);
    return status;
}

enum pen_status infer_compare(struct infer *c, struct pen_error *reterr)
{
    struct shape shape;
    enum pen_status status = broadcast_all(c, 0, &shape, reterr);
    if (status == PEN_OK)
        infer_put(c, 0, PEN_DTYPE_BOOL, &shape);
    return status;
}

enum pen_status infer_where(struct infer *c, struct pen_error *reterr)
{
    struct shape shape;
    enum pen_status status = broadcast_all(c, 0, &shape, reterr);
    enum pen_dtype dtype = infer_dtype_of(c, 1);
    if (status == PEN_OK)
        infer_put(c, 0, dtype != PEN_DTYPE_NONE ? dtype : infer_dtype_of(c, 2), &shape);
    return status;
}

/* Inputs 0 and 3 (two quantised tensors with scale and zero point behind each). */
enum pen_status infer_qlinear_binary(struct infer *c, struct pen_error *reterr)
{
    struct shape shape;
    if (!shape_broadcast(infer_shape_of(c, 0), infer_shape_of(c, 3), &shape))
        return infer_fail(c, reterr, "the two inputs do not broadcast");
    infer_put(c, 0, infer_dtype_of(c, 0), &shape);
    return PEN_OK;
}

enum pen_status infer_like(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, infer_dtype_attr(c, ATTR_dtype, infer_dtype_of(c, 0)), infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_dropout(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put(c, 0, infer_dtype_of(c, 0), infer_shape_of(c, 0));
    infer_put(c, 1, PEN_DTYPE_BOOL, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_scalar_i64(struct infer *c, struct pen_error *reterr)
{
    struct shape scalar = shape_scalar();
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_I64, &scalar);
    return PEN_OK;
}

enum pen_status infer_scalar_bool(struct infer *c, struct pen_error *reterr)
{
    struct shape scalar = shape_scalar();
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_BOOL, &scalar);
    return PEN_OK;
}
