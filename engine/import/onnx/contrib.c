#include "import/onnx/contrib.h"

#include <string.h>

bool contrib_lacks(struct call *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (call_input(c, i) == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks input %u", c->name, c->origin, i);
    }
    if (!call_wants(c, 0))
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) gives nothing", c->name, c->origin);
    return c->status != PEN_OK;
}

void contrib_refuse(struct call *c, const char *why)
{
    call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): %s", c->name, c->origin, why);
}

void contrib_whole(struct call *c, enum op op)
{
    uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

int32_t contrib_rank(struct call *c, uint32_t index)
{
    return call_shape(c, call_input(c, index)).rank;
}

void contrib_set_int(struct call *c, uint32_t value, enum attr_key key, int64_t item)
{
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[value].producer, key, item);
}

uint32_t contrib_cast(struct call *c, uint32_t x, enum pen_dtype to)
{
    uint32_t y = call_value(c, OP_Cast, &x, 1);
    contrib_set_int(c, y, ATTR_to, to);
    return y;
}

uint32_t contrib_sum(struct call *c, uint32_t a, uint32_t b)
{
    return a == VALUE_NONE ? b : b == VALUE_NONE ? a : call_value(c, OP_Add, (uint32_t[]){a, b}, 2);
}

uint32_t contrib_f32(struct call *c, float item)
{
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &item, 1, true, &id);
    return id;
}

uint32_t contrib_zero_i32(struct call *c)
{
    static const int32_t nothing = 0;
    const struct shape scalar = shape_scalar();
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant(c->g, NULL, PEN_DTYPE_I32, &scalar, &nothing, sizeof nothing, true, &id);
    return id;
}

uint32_t contrib_scalar(struct call *c, int64_t item)
{
    return call_i64(c, &item, 1, true);
}

uint32_t contrib_list(struct call *c, int64_t item)
{
    return call_i64(c, &item, 1, false);
}

uint32_t contrib_dim(struct call *c, uint32_t x, int64_t axis)
{
    uint32_t shape = call_value(c, OP_Shape, &x, 1);
    return call_value_axis(c, OP_Gather, (uint32_t[]){shape, contrib_scalar(c, axis)}, 2, 0);
}

uint32_t contrib_reshape(struct call *c, uint32_t x, const int64_t *dims, uint32_t rank)
{
    return call_value(c, OP_Reshape, (uint32_t[]){x, call_i64(c, dims, rank, false)}, 2);
}

uint32_t contrib_transpose(struct call *c, uint32_t x, const int64_t *perm, uint32_t rank)
{
    uint32_t y = call_value(c, OP_Transpose, &x, 1);
    if (c->status == PEN_OK)
        c->status = graph_attr_ints(c->g, c->g->values[y].producer, ATTR_perm, perm, rank);
    return y;
}

uint32_t contrib_unsqueeze(struct call *c, uint32_t x, int64_t axis)
{
    return call_value(c, OP_Unsqueeze, (uint32_t[]){x, contrib_list(c, axis)}, 2);
}

uint32_t contrib_pick(struct call *c, uint32_t x, int64_t axis, int64_t index)
{
    return call_value_axis(c, OP_Gather, (uint32_t[]){x, contrib_scalar(c, index)}, 2, axis);
}

uint32_t contrib_slice(struct call *c, uint32_t x, int64_t axis, uint32_t from, uint32_t to)
{
    return call_value(c, OP_Slice, (uint32_t[]){x, from, to, contrib_list(c, axis)}, 4);
}

uint32_t contrib_steps(struct call *c, uint32_t count)
{
    return call_value(c, OP_Range, (uint32_t[]){contrib_scalar(c, 0), count, contrib_scalar(c, 1)}, 3);
}

uint32_t contrib_dequantise(struct call *c, uint32_t x, uint32_t scale, uint32_t zero, int64_t axis)
{
    return call_value_axis(c, OP_DequantizeLinear, (uint32_t[]){x, scale, zero}, zero == VALUE_NONE ? 2 : 3, axis);
}

void contrib_dynamic_bytes(struct call *c, uint32_t x, uint32_t made[3])
{
    for (uint32_t i = 0; i < 3; i++) {
        made[i] = VALUE_NONE;
        if (c->status == PEN_OK)
            c->status = graph_value(c->g, NULL, &made[i]);
    }
    (void)call_emit(c, OP_DynamicQuantizeLinear, &x, 1, made, 3);
}

uint32_t contrib_product(struct call *c, const uint32_t in[4], uint32_t a_scale, uint32_t b_scale, uint32_t bias)
{
    uint32_t count = in[3] != VALUE_NONE ? 4 : in[2] != VALUE_NONE ? 3 : 2;
    uint32_t y = contrib_cast(c, call_value(c, OP_MatMulInteger, in, count), PEN_DTYPE_F32);
    uint32_t scale = call_value(c, OP_Mul, (uint32_t[]){a_scale, b_scale}, 2);
    return contrib_sum(c, call_value(c, OP_Mul, (uint32_t[]){y, scale}, 2), bias);
}

void contrib_give(struct call *c, uint32_t value, uint32_t output)
{
    if (call_wants(c, output))
        (void)call_emit(c, OP_Identity, &value, 1, &c->out[output], 1);
}

void contrib_mask_index(struct call *c, uint32_t ids, uint32_t mask)
{
    const int64_t flat[1] = {-1};
    if (!call_wants(c, 1))
        return;
    if (mask == VALUE_NONE) {
        uint32_t batch = contrib_reshape(c, contrib_dim(c, ids, 0), flat, 1);
        (void)call_emit(c, OP_Expand, (uint32_t[]){contrib_zero_i32(c), batch}, 2, &c->out[1], 1);
        return;
    }
    uint32_t flags = contrib_cast(c, mask, PEN_DTYPE_F32);
    uint32_t count = call_value(c, OP_ReduceSum, (uint32_t[]){flags, contrib_list(c, 1)}, 2);
    contrib_set_int(c, count, ATTR_keepdims, 0);
    contrib_give(c, contrib_cast(c, count, PEN_DTYPE_I32), 1);
}

/* Elements fill whole bytes when a row does; otherwise each row is copied without the bits behind its end. */
static void *bits_copy(struct call *c, const struct value *v, int64_t bits, int64_t last, int64_t rows, size_t *bytes)
{
    int64_t row = v->shape.dim[v->shape.rank - 1];
    *bytes = (size_t)((rows * last * bits + 7) / 8);
    uint8_t *to = graph_alloc(c->g, *bytes + 1);
    if (!to)
        return NULL;
    memset(to, 0, *bytes + 1);
    for (int64_t i = 0; i < rows * last; i++) {
        int64_t from = i / last * row * 8 + i % last * bits, at = i * bits;
        unsigned item = (unsigned)((const uint8_t *)v->data)[from / 8] >> (from % 8) & ((1u << bits) - 1u);
        to[at / 8] = (uint8_t)(to[at / 8] | item << (at % 8));
    }
    return to;
}

uint32_t contrib_unpack(struct call *c, uint32_t x, int64_t bits, int64_t last)
{
    const struct value *v = &c->g->values[x];
    uint32_t id = VALUE_NONE;
    if (c->status != PEN_OK || bits == 8)
        return x;
    int64_t rows = v->data && v->shape.rank > 0 && v->shape.dim[v->shape.rank - 1] > 0
                       ? shape_elements(&v->shape) / v->shape.dim[v->shape.rank - 1]
                       : -1;
    if (rows < 0 || v->dtype != PEN_DTYPE_U8 || (bits != 2 && bits != 4) || last < 1 ||
        (last * bits + 7) / 8 != v->shape.dim[v->shape.rank - 1]) {
        contrib_refuse(c, "codes of 2, 4 or 8 bits in constant bytes are needed, as many as a row has");
        return id;
    }
    struct shape shape = v->shape;
    shape.dim[shape.rank - 1] = last;
    size_t bytes = v->bytes;
    void *data = last * bits % 8 == 0 ? (void *)(uintptr_t)v->data : bits_copy(c, v, bits, last, rows, &bytes);
    if (!data)
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the codes of node %s", c->name);
    else
        c->status =
            graph_constant(c->g, NULL, bits == 4 ? PEN_DTYPE_U4 : PEN_DTYPE_U2, &shape, data, bytes, false, &id);
    return id;
}
