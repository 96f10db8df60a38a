#include "import/onnx/message.h"

#define TYPE_DEPTH 4 /* optional(sequence(tensor)) is the deepest there is */

int pb_each(struct bytes *cursor, uint32_t number, struct bytes *ret)
{
    struct wire_field f;
    int got;
    while ((got = wire_next(cursor, &f)) == 1) {
        if (f.number == number && f.type == WIRE_BYTES) {
            *ret = f.bytes;
            return 1;
        }
    }
    return got;
}

bool pb_model_parse(struct bytes message, struct pb_model *ret)
{
    struct pb_model m = {.self = message};
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_VARINT) {
            m.ir_version = (int64_t)f.value;
        } else if (f.number == 7 && f.type == WIRE_BYTES) {
            m.graph = f.bytes;
            m.has_graph = true;
        }
    }
    *ret = m;
    return got == 0;
}

bool pb_node_parse(struct bytes message, struct pb_node *ret)
{
    struct pb_node n = {.self = message};
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.type != WIRE_BYTES)
            continue;
        n.in_count += f.number == NODE_INPUT;
        n.out_count += f.number == NODE_OUTPUT;
        n.attr_count += f.number == NODE_ATTRIBUTE;
        if (f.number == 3)
            n.name = f.bytes;
        else if (f.number == 4)
            n.op_type = f.bytes;
        else if (f.number == 7)
            n.domain = f.bytes;
        else if (f.number == 8)
            n.overload = f.bytes;
    }
    *ret = n;
    return got == 0;
}

/* The type when the file does not state one (IR 1). */
static enum pb_attr_type guess_type(const struct wire_field *f)
{
    static const enum pb_attr_type by_field[] = {[2] = PB_FLOAT, [3] = PB_INT,    [4] = PB_STRING, [5] = PB_TENSOR,
                                                 [6] = PB_GRAPH, [7] = PB_FLOATS, [8] = PB_INTS,   [9] = PB_STRINGS};
    if (f->number == 14)
        return PB_TYPE_PROTO;
    if (f->number == 22)
        return PB_SPARSE_TENSOR;
    return f->number < sizeof by_field / sizeof by_field[0] ? by_field[f->number] : PB_UNDEFINED;
}

static bool attr_field(struct pb_attr *a, const struct wire_field *f)
{
    int64_t count = 0;
    if (f->number == 1)
        a->name = f->bytes;
    else if (f->number == 2)
        a->f = bits_to_float(f->value);
    else if (f->number == 3)
        a->i = (int64_t)f->value;
    else if (f->number == 4)
        a->s = f->bytes;
    else if ((f->number == 5 || f->number == 6 || f->number == 14 || f->number == 22) && f->type == WIRE_BYTES)
        a->message = f->bytes;
    else if (f->number == 7)
        count = wire_count(f, 4);
    else if (f->number == 8)
        count = wire_count(f, 0);
    else if (f->number == 9)
        count = 1;
    else if (f->number == 20)
        a->type = f->value <= PB_TYPE_PROTO ? (enum pb_attr_type)f->value : PB_UNDEFINED;
    else if (f->number == 21)
        a->ref = f->bytes;
    if (count < 0 || count > UINT32_MAX - (int64_t)a->count)
        return false;
    a->count += (uint32_t)count;
    return true;
}

/* Numbers behind the first of an unpacked list. */
static bool attr_more(struct pb_attr *a, const struct wire_field *f, struct bytes *message)
{
    uint8_t key = (uint8_t)(f->number << 3 | f->type);
    if ((f->number != 7 || f->type != WIRE_FIXED32) && (f->number != 8 || f->type != WIRE_VARINT))
        return true;
    uint32_t count = wire_run(message, key, UINT32_MAX, NULL, NULL);
    if (count > UINT32_MAX - a->count)
        return false;
    a->count += count;
    return true;
}

bool pb_attr_parse(struct bytes message, struct pb_attr *ret)
{
    struct pb_attr a = {.self = message};
    struct wire_field f;
    enum pb_attr_type guess = PB_UNDEFINED;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (!attr_field(&a, &f) || !attr_more(&a, &f, &message))
            return false;
        if (guess == PB_UNDEFINED)
            guess = guess_type(&f);
    }
    if (a.type == PB_UNDEFINED)
        a.type = guess;
    *ret = a;
    return got == 0;
}

bool pb_function_parse(struct bytes message, struct pb_function *ret)
{
    struct pb_function p = {.self = message};
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.type != WIRE_BYTES)
            continue;
        p.in_count += f.number == FUNCTION_INPUT;
        p.out_count += f.number == FUNCTION_OUTPUT;
        if (f.number == 1)
            p.name = f.bytes;
        else if (f.number == 10)
            p.domain = f.bytes;
        else if (f.number == 13)
            p.overload = f.bytes;
    }
    *ret = p;
    return got == 0;
}

bool pb_opset_parse(struct bytes message, struct bytes *ret_domain, int64_t *ret_version)
{
    struct bytes domain = {0};
    int64_t version = 0;
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            domain = f.bytes;
        else if (f.number == 2 && f.type == WIRE_VARINT)
            version = (int64_t)f.value;
    }
    *ret_domain = domain;
    *ret_version = version;
    return got == 0;
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

static bool parse_dim(struct bytes message, int64_t *ret_dim, struct bytes *ret_symbol)
{
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_VARINT && (int64_t)f.value >= 0)
            *ret_dim = (int64_t)f.value;
        else if (f.number == 2 && f.type == WIRE_BYTES)
            *ret_symbol = f.bytes;
    }
    return got == 0;
}

static bool parse_shape(struct bytes message, struct pb_type *t)
{
    struct bytes dim;
    int got;
    t->shape = shape_scalar();
    while ((got = pb_each(&message, 1, &dim)) == 1) {
        if (t->shape.rank >= PEN_MAX_RANK)
            return false;
        int32_t axis = t->shape.rank++;
        t->shape.dim[axis] = SHAPE_DIM_UNKNOWN;
        if (!parse_dim(dim, &t->shape.dim[axis], &t->symbol[axis]))
            return false;
    }
    return got == 0;
}

/* TypeProto.Tensor */
static bool parse_tensor_type(struct bytes message, struct pb_type *t)
{
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_VARINT)
            t->dtype = f.value < PEN_DTYPE_COUNT ? (enum pen_dtype)f.value : PEN_DTYPE_NONE;
        else if (f.number == 2 && f.type == WIRE_BYTES && !parse_shape(f.bytes, t))
            return false;
    }
    return got == 0;
}

static bool parse_type(struct bytes message, struct pb_type *t, unsigned depth);

/* TypeProto.Map */
static bool parse_map_type(struct bytes message, struct pb_type *t, unsigned depth)
{
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_VARINT)
            t->key = f.value < PEN_DTYPE_COUNT ? (enum pen_dtype)f.value : PEN_DTYPE_NONE;
        else if (f.number == 2 && f.type == WIRE_BYTES && !parse_type(f.bytes, t, depth + 1))
            return false;
    }
    return got == 0;
}

static bool parse_type(struct bytes message, struct pb_type *t, unsigned depth)
{
    struct wire_field f;
    int got;
    if (depth > TYPE_DEPTH)
        return false;
    while ((got = wire_next(&message, &f)) == 1) {
        struct bytes inner = {0};
        if (f.type != WIRE_BYTES)
            continue;
        if (f.number == 1) {
            if (!parse_tensor_type(f.bytes, t))
                return false;
        } else if (f.number == 5) {
            if (!parse_map_type(f.bytes, t, depth))
                return false;
        } else if (f.number == 4 || f.number == 9) {
            if (depth == 0)
                t->kind = f.number == 4 ? VALUE_SEQUENCE : VALUE_OPTIONAL;
            struct bytes cursor = f.bytes;
            if (pb_each(&cursor, 1, &inner) == 1 && !parse_type(inner, t, depth + 1))
                return false;
        }
    }
    return got == 0;
}

bool pb_type_parse(struct bytes message, struct pb_type *ret)
{
    *ret = (struct pb_type){.shape = shape_unknown()};
    return parse_type(message, ret, 0);
}

bool pb_value_info_parse(struct bytes message, struct pb_type *ret)
{
    struct pb_type t = {.shape = shape_unknown()};
    struct wire_field f;
    int got;
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            t.name = f.bytes;
        else if (f.number == 2 && f.type == WIRE_BYTES && !parse_type(f.bytes, &t, 0))
            return false;
    }
    *ret = t;
    return got == 0;
}
