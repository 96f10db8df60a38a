#include "graph/pass_promote.h"

#include <string.h>

static bool is_half(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
}

static bool plain(const struct graph *g)
{
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        bool bits = node->op == OP_BitCast || node->op == OP_QuantizeLinear || node->op == OP_DequantizeLinear;
        if (!node->dead && (bits || (op_def(node->op)->traits & (OP_CONTROL | OP_SEQUENCE | OP_RANDOM)) != 0)) {
            return false;
        }
    }
    return true;
}

static float widen(enum pen_dtype dtype, uint16_t bits)
{
    return dtype == PEN_DTYPE_F16 ? pen_f16_to_f32(bits) : pen_bf16_to_f32(bits);
}

static enum pen_status constant_promote(struct graph *g, uint32_t v)
{
    struct value *value = &g->values[v];
    size_t count = value->bytes / sizeof(uint16_t);
    float *data = graph_alloc_data(g, count * sizeof *data + 1);
    if (data == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)value->data + i * sizeof bits, sizeof bits);
        data[i] = widen(value->dtype, bits);
    }
    value->data = data;
    value->bytes = count * sizeof *data;
    value->dtype = PEN_DTYPE_F32;
    return PEN_OK;
}

static enum pen_status cast_add(struct graph *g, uint32_t from, uint32_t to, enum pen_dtype dtype)
{
    uint32_t node = NODE_NONE;
    enum pen_status status = graph_node(g, OP_Cast, NULL, &from, 1, &to, 1, &node);
    if (status == PEN_OK) {
        status = graph_attr_int(g, node, ATTR_to, dtype);
    }
    g->values[to].dtype = dtype;
    g->values[to].shape = g->values[from].shape;
    return status;
}

static enum pen_status input_promote(struct graph *g, uint32_t input)
{
    uint32_t wide = VALUE_NONE;
    enum pen_status status = graph_value(g, NULL, &wide);
    if (status == PEN_OK) {
        status = graph_replace(g, input, wide);
    }
    return status == PEN_OK ? cast_add(g, input, wide, PEN_DTYPE_F32) : status;
}

/* The output keeps its name and type; what made it gets a new name. */
static enum pen_status output_promote(struct graph *g, uint32_t index, enum pen_dtype dtype)
{
    uint32_t wide = g->outputs[index];
    uint32_t narrow = VALUE_NONE;
    enum pen_status status = graph_value(g, NULL, &narrow);
    if (status != PEN_OK) {
        return status;
    }
    const char *name = g->values[wide].name;
    g->values[wide].name = g->values[narrow].name;
    g->values[narrow].name = name;
    g->outputs[index] = narrow;
    return cast_add(g, wide, narrow, dtype);
}

/* Attributes that name a 16-bit type ask for the wide one now. */
static enum pen_status attrs_promote(struct graph *g, uint32_t node)
{
    static const enum attr_key keys[] = {ATTR_to, ATTR_dtype, ATTR_output_dtype};
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof keys / sizeof keys[0]; i++) {
        if (is_half((enum pen_dtype)node_int(&g->nodes[node], keys[i], PEN_DTYPE_NONE))) {
            status = graph_attr_int(g, node, keys[i], PEN_DTYPE_F32);
        }
    }
    return status;
}

enum pen_status pass_promote(struct graph *g, uint32_t *ret_count)
{
    enum pen_status status = PEN_OK;
    uint32_t values = g->value_count, nodes = g->node_count, inputs = g->input_count;
    uint32_t count = 0;
    for (uint32_t v = 0; v < values; v++) {
        count += is_half(g->values[v].dtype);
    }
    *ret_count = 0;
    if (count == 0 || !plain(g)) {
        return PEN_OK;
    }
    enum pen_dtype outputs[64];
    if (g->output_count > sizeof outputs / sizeof outputs[0]) {
        return PEN_OK;
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = g->values[g->outputs[i]].dtype;
    }
    for (uint32_t i = 0; status == PEN_OK && i < inputs; i++) {
        if (is_half(g->values[g->inputs[i]].dtype)) {
            status = input_promote(g, g->inputs[i]);
        }
    }
    for (uint32_t v = 0; status == PEN_OK && v < values; v++) {
        struct value *value = &g->values[v];
        if (is_half(value->dtype) && value->data != NULL) {
            status = constant_promote(g, v);
        } else if (is_half(value->dtype) && value->producer != NODE_NONE) {
            value->dtype = PEN_DTYPE_F32;
        }
    }
    for (uint32_t n = 0; status == PEN_OK && n < nodes; n++) {
        status = attrs_promote(g, n);
    }
    for (uint32_t i = 0; status == PEN_OK && i < g->output_count; i++) {
        if (is_half(outputs[i])) {
            status = output_promote(g, i, outputs[i]);
        }
    }
    *ret_count = count;
    return status;
}
