/* Sequences and optionals: their element types. */
#include "graph/infer_util.h"
#include "graph/rules.h"

enum pen_status infer_sequence_at(struct infer *c, struct pen_error *reterr)
{
    struct shape y = shape_unknown();
    (void)reterr;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_sequence_construct(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put_kind(c, 0, VALUE_SEQUENCE, infer_dtype_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_sequence_empty(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put_kind(c, 0, VALUE_SEQUENCE, infer_dtype_attr(c, ATTR_dtype, PEN_DTYPE_F32));
    return PEN_OK;
}

enum pen_status infer_sequence_change(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put_kind(c, 0, VALUE_SEQUENCE, infer_dtype_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_split_to_sequence(struct infer *c, struct pen_error *reterr)
{
    (void)reterr;
    infer_put_kind(c, 0, VALUE_SEQUENCE, infer_dtype_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_concat_from_sequence(struct infer *c, struct pen_error *reterr)
{
    return infer_sequence_at(c, reterr);
}

/* ATTR_type holds { kind, element type } of an optional made without an element. */
enum pen_status infer_optional(struct infer *c, struct pen_error *reterr)
{
    uint32_t count;
    const int64_t *type = node_ints(c->n, ATTR_type, &count);
    enum pen_dtype dtype = infer_dtype_of(c, 0);
    (void)reterr;
    if (dtype == PEN_DTYPE_NONE && type && count == 2 && type[1] > 0 && type[1] < PEN_DTYPE_COUNT)
        dtype = (enum pen_dtype)type[1];
    infer_put_kind(c, 0, VALUE_OPTIONAL, dtype);
    return PEN_OK;
}

/* A tensor or a sequence: which, only the run knows, unless the input is no optional (then it is handed on). */
enum pen_status infer_optional_get(struct infer *c, struct pen_error *reterr)
{
    if (c->in[0].kind != VALUE_OPTIONAL)
        return infer_identity(c, reterr);
    if (c->n->out[0] != VALUE_NONE && c->g->values[c->n->out[0]].kind == VALUE_SEQUENCE) { /* as the file declares */
        infer_put_kind(c, 0, VALUE_SEQUENCE, c->in[0].dtype);
        return PEN_OK;
    }
    return infer_sequence_at(c, reterr);
}
