#include "import/build/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/infer.h"
#include "graph/internal.h"
#include "import/inventory.h"
#include "words.h"

void build_fini(struct build *b)
{
    names_fini(&b->names);
    shape_env_free(b->env);
}

void build_stop(struct build *b, enum pen_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    if (b->status != PEN_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = b->name ? pen_error_set(b->reterr, status, "node %.120s (%.60s): %s", b->name,
                                        b->origin ? b->origin : "?", text)
                        : pen_error_set(b->reterr, status, "%s", text);
}

void build_miss(struct build *b, const char *what)
{
    struct build_missing *m = b->missing;
    char text[256];
    inventory_miss(b->g->limits.inventory, what, b->name);
    if (m->count++ >= BUILD_MISSING_MAX)
        return;
    int bytes =
        snprintf(text, sizeof text, "%s%.100s (node %.80s)", m->count > 1 ? ", " : "", what, b->name ? b->name : "?");
    if (bytes > 0 && m->bytes + (size_t)bytes < sizeof m->text) {
        memcpy(m->text + m->bytes, text, (size_t)bytes + 1);
        m->bytes += (size_t)bytes;
    }
}

enum pen_status build_missing_error(const struct build_missing *m, const char *format, bool whole,
                                    struct pen_error *reterr)
{
    if (m->count == 0)
        return PEN_OK;
    bool cut = m->count > BUILD_MISSING_MAX || m->bytes + 200 > sizeof m->text;
    char lines[160] = "";
    if (!whole)
        snprintf(lines, sizeof lines,
                 "; it keeps a part of the importer: add a line \"import %s OPERATOR\" for each to the list of "
                 "-DPENSTOCK_KERNELS",
                 format);
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%u %s operators that this build does not know: %s%s%s", m->count,
                         words_plural(m->count, "node uses", "nodes use"), m->text, cut ? " ..." : "", lines);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------------- */

static void note(struct build *b, enum pen_status status)
{
    if (status == PEN_OK || b->status != PEN_OK)
        return;
    if (status == PEN_ERR_NO_MEMORY)
        build_stop(b, status, "no memory, or the model's budget is spent");
    else if (status == PEN_ERR_TOO_LARGE)
        build_stop(b, status, "a limit on nodes, values or tensors is exceeded");
    else
        build_stop(b, status, "its inputs or a constant do not fit");
}

void build_many(struct build *b, enum op op, const uint32_t *in, uint32_t count, uint32_t *out, uint32_t outs)
{
    for (uint32_t i = 0; i < outs; i++)
        out[i] = VALUE_NONE;
    while (count > op_def(op)->min_in && in[count - 1] == VALUE_NONE)
        count--;
    for (uint32_t i = 0; i < outs && b->status == PEN_OK; i++)
        note(b, graph_value(b->g, NULL, &out[i]));
    if (b->status != PEN_OK)
        return;
    enum pen_status status = graph_node(b->g, op, b->name, in, count, out, outs, &b->node);
    if (status == PEN_ERR_INVALID)
        build_stop(b, status, "%u %s and %u %s do not suit %s", count, words_plural(count, "input", "inputs"), outs,
                   words_plural(outs, "output", "outputs"), op_def(op)->name);
    note(b, status);
    if (status == PEN_OK && b->origin)
        b->g->nodes[b->node].origin = b->origin;
}

uint32_t build_op(struct build *b, enum op op, const uint32_t *in, uint32_t count)
{
    uint32_t out = VALUE_NONE;
    build_many(b, op, in, count, &out, 1);
    return b->status == PEN_OK ? out : VALUE_NONE;
}

uint32_t build_1(struct build *b, enum op op, uint32_t x)
{
    return build_op(b, op, &x, 1);
}

uint32_t build_2(struct build *b, enum op op, uint32_t x, uint32_t y)
{
    uint32_t in[] = {x, y};
    return build_op(b, op, in, 2);
}

uint32_t build_3(struct build *b, enum op op, uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t in[] = {x, y, z};
    return build_op(b, op, in, 3);
}

void build_int(struct build *b, enum attr_key key, int64_t value)
{
    if (b->status == PEN_OK)
        note(b, graph_attr_int(b->g, b->node, key, value));
}

void build_float(struct build *b, enum attr_key key, float value)
{
    if (b->status == PEN_OK)
        note(b, graph_attr_float(b->g, b->node, key, value));
}

void build_ints(struct build *b, enum attr_key key, const int64_t *items, uint32_t count)
{
    if (b->status == PEN_OK)
        note(b, graph_attr_ints(b->g, b->node, key, items, count));
}

void build_text(struct build *b, enum attr_key key, const char *text)
{
    if (b->status == PEN_OK)
        note(b, graph_attr_text(b->g, b->node, key, text));
}

void build_graph(struct build *b, enum attr_key key, struct graph *body)
{
    struct attr attr = {.key = key, .type = ATTR_GRAPH, .graph = body};
    if (b->status == PEN_OK)
        note(b, graph_attr_set(b->g, b->node, &attr));
}

/* A copy of the text that no other value has, entered in the table. */
static const char *name_claim(struct build *b, const char *name, size_t bytes, uint32_t value)
{
    char text[512];
    size_t used = bytes < sizeof text - 16 ? bytes : sizeof text - 16;
    if (bytes > 0 && memchr(name, '\0', bytes)) {
        build_stop(b, PEN_ERR_INVALID, "the name of an input or output has a NUL byte in it ('%.60s...')", name);
        return "";
    }
    memcpy(text, used ? name : "", used);
    text[used] = '\0';
    used = strlen(text);
    if (used == 0)
        used = (size_t)snprintf(text, sizeof text, "value");
    size_t stem = used;
    for (unsigned i = 1; b->status == PEN_OK; i++) {
        const char *copy = graph_text(b->g, text, used);
        enum pen_status status =
            copy ? names_put(&b->names, (struct bytes){(const uint8_t *)copy, used}, value) : PEN_ERR_NO_MEMORY;
        if (status == PEN_OK)
            return copy;
        if (status != PEN_ERR_INVALID || i > 100000)
            note(b, PEN_ERR_NO_MEMORY);
        used = stem + (size_t)snprintf(text + stem, 16, ":%u", i);
    }
    return "";
}

static bool fresh(const struct value *v)
{
    return v->name[0] == '~' && !v->data && v->producer != NODE_NONE;
}

uint32_t build_bind(struct build *b, uint32_t value, const char *name, size_t bytes)
{
    if (b->status != PEN_OK || value == VALUE_NONE)
        return VALUE_NONE;
    if (!fresh(&b->g->values[value]))
        value = build_1(b, OP_Identity, value);
    if (b->status != PEN_OK)
        return VALUE_NONE;
    const char *claimed = name_claim(b, name, bytes, value);
    b->g->values[value].name = claimed;
    return b->status == PEN_OK ? value : VALUE_NONE;
}

uint32_t build_input(struct build *b, const char *name, size_t bytes, enum pen_dtype dtype, const struct shape *shape)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_value(b->g, NULL, &id));
    if (b->status == PEN_OK)
        note(b, graph_input_add(b->g, id));
    if (b->status != PEN_OK)
        return VALUE_NONE;
    const char *claimed = name_claim(b, name, bytes, id);
    struct value *v = &b->g->values[id];
    v->name = claimed;
    v->dtype = dtype;
    v->shape = *shape;
    return id;
}

/* ---- constants --------------------------------------------------------------------------------------------------------- */

uint32_t build_const(struct build *b, enum pen_dtype dtype, const struct shape *shape, const void *data, size_t bytes,
                     bool copy)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_constant(b->g, NULL, dtype, shape, data, bytes, copy, &id));
    return id;
}

uint32_t build_i64(struct build *b, const int64_t *items, uint32_t count)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_constant_i64(b->g, items, count, false, &id));
    return id;
}

uint32_t build_i64_scalar(struct build *b, int64_t item)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_constant_i64(b->g, &item, 1, true, &id));
    return id;
}

uint32_t build_f32(struct build *b, const float *items, uint32_t count)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_constant_f32(b->g, items, count, false, &id));
    return id;
}

uint32_t build_f32_scalar(struct build *b, float item)
{
    uint32_t id = VALUE_NONE;
    if (b->status == PEN_OK)
        note(b, graph_constant_f32(b->g, &item, 1, true, &id));
    return id;
}

/* Two's complement of the saturated integer; little-endian, so that the low bytes are the narrow form. */
static int64_t integer_of(double item)
{
    return item >= 9.2e18 ? INT64_MAX : item <= -9.2e18 ? INT64_MIN : (int64_t)item;
}

uint32_t build_scalar(struct build *b, enum pen_dtype dtype, double item)
{
    struct shape shape = shape_scalar();
    float f = (float)item;
    int64_t i = integer_of(item);
    uint16_t half = pen_f32_to_f16(f), brain = pen_f32_to_bf16(f);
    size_t bytes = 0;
    const void *data = dtype == PEN_DTYPE_F32    ? (const void *)&f
                       : dtype == PEN_DTYPE_F64  ? (const void *)&item
                       : dtype == PEN_DTYPE_F16  ? (const void *)&half
                       : dtype == PEN_DTYPE_BF16 ? (const void *)&brain
                                                 : (const void *)&i;
    if (pen_dtype_bytes(dtype, 1, &bytes) != 0 || bytes > sizeof i) {
        build_stop(b, PEN_ERR_DTYPE, "no scalar of element type %s can be made", pen_dtype_name(dtype));
        return VALUE_NONE;
    }
    return build_const(b, dtype, &shape, data, bytes, true);
}

const struct value *build_value(const struct build *b, uint32_t value)
{
    return value == VALUE_NONE ? NULL : &b->g->values[value];
}

/* ---- short forms ------------------------------------------------------------------------------------------------------------ */

uint32_t build_reshape(struct build *b, uint32_t x, const int64_t *dims, uint32_t rank)
{
    uint32_t y = build_2(b, OP_Reshape, x, build_i64(b, dims, rank));
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0)
            build_int(b, ATTR_allowzero, 1);
    }
    return y;
}

uint32_t build_transpose(struct build *b, uint32_t x, const int64_t *perm, uint32_t rank)
{
    uint32_t y = build_1(b, OP_Transpose, x);
    build_ints(b, ATTR_perm, perm, rank);
    return y;
}

uint32_t build_cast(struct build *b, uint32_t x, enum pen_dtype to)
{
    uint32_t y = build_1(b, OP_Cast, x);
    build_int(b, ATTR_to, to);
    return y;
}

uint32_t build_axis_op(struct build *b, enum op op, const uint32_t *in, uint32_t count, int64_t axis)
{
    uint32_t y = build_op(b, op, in, count);
    build_int(b, ATTR_axis, axis);
    return y;
}

uint32_t build_unsqueeze(struct build *b, uint32_t x, int64_t axis)
{
    return build_2(b, OP_Unsqueeze, x, build_i64(b, &axis, 1));
}

uint32_t build_squeeze(struct build *b, uint32_t x, int64_t axis)
{
    return build_2(b, OP_Squeeze, x, build_i64(b, &axis, 1));
}

uint32_t build_slice(struct build *b, uint32_t x, int64_t axis, int64_t begin, int64_t end, int64_t step)
{
    uint32_t in[] = {x, build_i64(b, &begin, 1), build_i64(b, &end, 1), build_i64(b, &axis, 1), build_i64(b, &step, 1)};
    return build_op(b, OP_Slice, in, 5);
}

uint32_t build_reduce(struct build *b, enum op op, uint32_t x, uint32_t axes, bool keep)
{
    uint32_t y = build_2(b, op, x, axes);
    build_int(b, ATTR_keepdims, keep ? 1 : 0);
    return y;
}
