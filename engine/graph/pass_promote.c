#include "graph/pass_promote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NARROW_BYTES 240

static bool is_half(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
}

/* A node whose meaning hangs on the 16 bits, or whose values are not all in this graph. Random operators give other digits each time anyway. */
static bool binds(const struct node *n)
{
    bool bits = n->op == OP_BitCast || n->op == OP_QuantizeLinear || n->op == OP_DequantizeLinear;
    return !n->dead && (bits || (op_def(n->op)->traits & (OP_CONTROL | OP_SEQUENCE)) != 0);
}

/* "If 'choose' and 2 more nodes"; NULL = nothing stands against it. Lies in the graph. */
static enum pen_status binders_list(struct graph *g, const char **ret_text)
{
    const struct node *first = NULL;
    uint32_t count = 0;
    *ret_text = NULL;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (binds(&g->nodes[n])) {
            first = first == NULL ? &g->nodes[n] : first;
            count++;
        }
    }
    if (first == NULL) {
        return PEN_OK;
    }
    char more[48] = "";
    if (count > 1) {
        snprintf(more, sizeof more, " and %" PRIu32 " more node%s", count - 1, count == 2 ? "" : "s");
    }
    char *text = graph_alloc(g, NARROW_BYTES);
    if (text == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    snprintf(text, NARROW_BYTES, "%s '%.120s'%s", op_def(first->op)->name, first->name, more);
    *ret_text = text;
    return PEN_OK;
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

static enum pen_status inputs_promote(struct graph *g)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0, inputs = g->input_count; status == PEN_OK && i < inputs; i++) {
        if (is_half(g->values[g->inputs[i]].dtype)) {
            status = input_promote(g, g->inputs[i]);
        }
    }
    return status;
}

/* Constants and what nodes make, of the `values` that there were at first. */
static enum pen_status values_promote(struct graph *g, uint32_t values)
{
    enum pen_status status = PEN_OK;
    for (uint32_t v = 0; status == PEN_OK && v < values; v++) {
        struct value *value = &g->values[v];
        if (is_half(value->dtype) && value->data != NULL) {
            status = constant_promote(g, v);
        } else if (is_half(value->dtype) && value->producer != NODE_NONE) {
            value->dtype = PEN_DTYPE_F32;
        }
    }
    return status;
}

/* dtypes: what the outputs were. */
static enum pen_status outputs_promote(struct graph *g, const enum pen_dtype *dtypes)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < g->output_count; i++) {
        if (is_half(dtypes[i])) {
            status = output_promote(g, i, dtypes[i]);
        }
    }
    return status;
}

static enum pen_status widen_all(struct graph *g)
{
    uint32_t values = g->value_count, nodes = g->node_count;
    enum pen_dtype *outputs = malloc(((size_t)g->output_count + 1) * sizeof *outputs);
    if (outputs == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = g->values[g->outputs[i]].dtype;
    }
    enum pen_status status = inputs_promote(g);
    if (status == PEN_OK) {
        status = values_promote(g, values);
    }
    for (uint32_t n = 0; status == PEN_OK && n < nodes; n++) {
        status = attrs_promote(g, n);
    }
    if (status == PEN_OK) {
        status = outputs_promote(g, outputs);
    }
    free(outputs);
    return status;
}

/* Of this graph and those inside it. */
static uint32_t halves_count(const struct graph *g)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        count += is_half(g->values[v].dtype);
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t a = 0; !g->nodes[n].dead && a < g->nodes[n].attr_count; a++) {
            count += g->nodes[n].attrs[a].type == ATTR_GRAPH ? halves_count(g->nodes[n].attrs[a].graph) : 0;
        }
    }
    return count;
}

enum pen_status pass_promote(struct graph *g, uint32_t *ret_count)
{
    uint32_t count = halves_count(g);
    *ret_count = 0;
    enum pen_status status = count > 0 ? binders_list(g, &g->narrow) : PEN_OK;
    if (count == 0 || status != PEN_OK || g->narrow != NULL) {
        return status;
    }
    *ret_count = count;
    return widen_all(g);
}
