/*
 * com.microsoft.nchwc: graphs that a session saved for the processor it ran on, with channels in blocks of 8 or 16. Here a blocked tensor is a plain one [batch, channels, ...]
 * whose channels are rounded up to whole blocks, and weights are put back into their order. Source: ONNX Runtime's NCHWc transformer.
 *
 * The file does not tell the size of a block: 16 with AVX-512, 8 with AVX2. Weights that were filled up to whole blocks show it.
 */
#include <string.h>

#include "graph/askew.h"
#include "import/onnx/contrib.h"

#define NCHWC "com.microsoft.nchwc"

/* ---- the size of a block --------------------------------------------------------------------------------------------------- */

static bool is_zero(const float *x, int64_t at)
{
    return x[at] == 0.0f;
}

/* Output channels that the last of the blocks was filled up with. */
static int64_t filled(const float *w, int64_t count, int64_t out, int64_t block)
{
    int64_t first = count - count / (out / block), most = block;
    for (int64_t i = first; i < count; i++) {
        int64_t behind = block - 1 - i % block;
        most = !is_zero(w, i) && behind < most ? behind : most;
    }
    return most < block ? most : 0;
}

/* 8 or 16 where these weights show it, else 0. */
static int64_t block_shown(const struct value *v)
{
    if (!v->data || v->dtype != PEN_DTYPE_F32 || v->shape.rank < 3 || v->shape.dim[0] < 8)
        return 0;
    int64_t out = v->shape.dim[0], in = v->shape.dim[1], count = shape_elements(&v->shape);
    if (out % 16 != 0)
        return out % 8 == 0 ? 8 : 0;
    int64_t wide = filled(v->data, count, out, 16), narrow = filled(v->data, count, out, 8);
    if ((in > 8 && in < 16) || wide >= 8 || (wide > 0 && narrow == 0))
        return 16;
    return narrow > 0 && wide == 0 ? 8 : 0;
}

/* Looks at the weights of all blocked convolutions of this graph. */
static int64_t block_find(struct call *c)
{
    struct bytes cursor = c->scope->message, part, name;
    struct pb_node n;
    uint32_t id;
    int64_t block = 0;
    while (block == 0 && pb_each(&cursor, GRAPH_NODE, &part) == 1) {
        if (!pb_node_parse(part, &n) || !bytes_are(n.domain, NCHWC) || !bytes_are(n.op_type, "Conv"))
            continue;
        struct bytes inputs = part;
        bool second = pb_each(&inputs, NODE_INPUT, &name) == 1 && pb_each(&inputs, NODE_INPUT, &name) == 1;
        if (second && names_get(&c->scope->names, name, &id) && graph_align(c->g, id) == PEN_OK)
            block = block_shown(&c->g->values[id]);
    }
    return block;
}

static int64_t block_of(struct call *c)
{
    if (c->r->nchwc_block == 0)
        c->r->nchwc_block = block_find(c);
    if (c->r->nchwc_block == 0)
        contrib_refuse(c, "the file was saved for one kind of processor and does not tell which; save the model with "
                          "optimisation level extended, "
                          "or basic, instead of all");
    return c->r->nchwc_block;
}

/* ---- convolution ------------------------------------------------------------------------------------------------------------- */

/* Where element (o, i, p) of [out, in, pixels] lies: blocks of out, of in (wide), pixels, within the block of in, within that of out. */
static int64_t place(const struct shape *s, int64_t pixels, int64_t block, bool wide, int64_t o, int64_t i, int64_t p)
{
    int64_t in = s->dim[1], row = o / block * in * pixels * block;
    if (!wide)
        return row + (i * pixels + p) * block + o % block;
    return row + ((i / block * pixels + p) * block + i % block) * block + o % block;
}

/* Weights in the standard's order. */
static uint32_t plain_weights(struct call *c, uint32_t weights, int64_t block, bool wide)
{
    const struct value *v = &c->g->values[weights];
    const struct shape s = v->shape;
    uint32_t id = VALUE_NONE;
    if (graph_align(c->g, weights) != PEN_OK) {
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the weights of node %s", c->name);
        return id;
    }
    int64_t count = v->data && v->dtype == PEN_DTYPE_F32 && s.rank >= 3 ? shape_elements(&s) : 0;
    if (count < 1 || s.dim[0] % block != 0 || (wide && s.dim[1] % block != 0)) {
        contrib_refuse(c, "constant f32 weights in whole blocks are needed");
        return id;
    }
    float *to = graph_alloc_data(c->g, v->bytes);
    if (!to) {
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the weights of node %s", c->name);
        return id;
    }
    int64_t pixels = count / (s.dim[0] * s.dim[1]), at = 0;
    for (int64_t o = 0; o < s.dim[0]; o++) {
        for (int64_t i = 0; i < s.dim[1]; i++) {
            for (int64_t p = 0; p < pixels; p++)
                to[at++] = ((const float *)v->data)[place(&s, pixels, block, wide, o, i, p)];
        }
    }
    c->status = graph_constant(c->g, NULL, PEN_DTYPE_F32, &s, to, v->bytes, false, &id);
    return id;
}

/* x, weights, bias, a sum. Inputs of fewer channels than a block are not blocked; one channel for each output is depthwise. */
static void up_nchwc_conv(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    int64_t block = block_of(c), group = call_int(c, "group", 1);
    if (block == 0)
        return;
    const struct shape *s = &c->g->values[call_input(c, 1)].shape;
    bool depthwise = group > 1 && s->rank > 1 && s->dim[1] == 1;
    bool wide = !depthwise && s->rank > 1 && s->dim[1] >= block;
    int64_t out = s->rank > 1 ? s->dim[0] : 0;
    uint32_t in[3] = {call_input(c, 0), plain_weights(c, call_input(c, 1), block, wide), call_input(c, 2)};
    uint32_t y = call_value(c, OP_Conv, in, in[2] == VALUE_NONE ? 2 : 3);
    if (c->status == PEN_OK)
        call_copy_attrs(c, c->g->values[y].producer, contrib_act_attrs);
    if (depthwise)
        contrib_set_int(c, y, ATTR_group, out);
    contrib_finish_act(c, contrib_sum(c, y, call_input(c, 3)));
}

/* ---- in and out ---------------------------------------------------------------------------------------------------------------- */

static uint32_t turned(struct call *c, uint32_t x, bool to_last)
{
    int32_t rank = call_shape(c, x).rank;
    int64_t perm[PEN_MAX_RANK];
    if (rank < 3) {
        contrib_refuse(c, "the number of dimensions must be known");
        return VALUE_NONE;
    }
    perm[0] = 0;
    for (int32_t i = 1; i < rank; i++)
        perm[i] = to_last ? (i + 1 < rank ? i + 1 : 1) : (i == 1 ? rank - 1 : i - 1);
    return contrib_transpose(c, x, perm, (uint32_t)rank);
}

/* Channels are filled up with zeros to whole blocks. */
static void up_reorder_input(struct call *c)
{
    if (contrib_lacks(c, 1))
        return;
    uint32_t x = call_input(c, 0);
    if (call_int(c, "channels_last", 0) != 0)
        x = turned(c, x, false);
    struct shape s = call_shape(c, x);
    int64_t block = block_of(c), pads[2 * PEN_MAX_RANK] = {0};
    if (block == 0 || c->status != PEN_OK)
        return;
    if (s.rank < 3 || s.dim[1] < 1) {
        contrib_refuse(c, "the number of channels must be known");
        return;
    }
    pads[s.rank + 1] = (block - s.dim[1] % block) % block;
    if (pads[s.rank + 1] > 0)
        x = call_value(c, OP_Pad, (uint32_t[]){x, call_i64(c, pads, 2 * (uint32_t)s.rank, false)}, 2);
    contrib_give(c, x, 0);
}

static void up_reorder_output(struct call *c)
{
    int64_t channels = call_int(c, "channels", 0);
    if (contrib_lacks(c, 1))
        return;
    uint32_t x = call_input(c, 0);
    if (channels > 0)
        x = contrib_slice(c, x, 1, contrib_list(c, 0), contrib_list(c, channels));
    if (call_int(c, "channels_last", 0) != 0)
        x = turned(c, x, true);
    contrib_give(c, x, 0);
}

/* scales: whole numbers for each axis */
static void up_nchwc_upsample(struct call *c)
{
    static const char *const except[] = {"scales", NULL};
    const int64_t *items;
    float scales[PEN_MAX_RANK];
    uint32_t count = 0, id = VALUE_NONE;
    if (contrib_lacks(c, 1) || !call_ints(c, "scales", &items, &count) || count < 3 || count > PEN_MAX_RANK) {
        contrib_refuse(c, "scales for each axis are needed");
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        scales[i] = (float)items[i];
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, scales, count, false, &id);
    uint32_t node = call_emit(c, OP_Resize, (uint32_t[]){call_input(c, 0), VALUE_NONE, id}, 3, c->out, 1);
    call_copy_attrs(c, node, except);
    if (!call_attr(c, "coordinate_transformation_mode"))
        call_set_text(c, node, ATTR_coordinate_transformation_mode, "asymmetric");
    if (!call_attr(c, "nearest_mode"))
        call_set_text(c, node, ATTR_nearest_mode, "floor");
}

const struct op_row rows_nchwc[] = {
    UP_ROW(NCHWC, Conv, 1, EVER, OP_NONE, up_nchwc_conv),
    UP_SAME(NCHWC, MaxPool, 1, EVER, OP_MaxPool),
    UP_SAME(NCHWC, AveragePool, 1, EVER, OP_AveragePool),
    UP_SAME(NCHWC, GlobalMaxPool, 1, EVER, OP_GlobalMaxPool),
    UP_SAME(NCHWC, GlobalAveragePool, 1, EVER, OP_GlobalAveragePool),
    UP_ROW(NCHWC, ReorderInput, 1, EVER, OP_NONE, up_reorder_input),
    UP_ROW(NCHWC, ReorderOutput, 1, EVER, OP_NONE, up_reorder_output),
    UP_ROW(NCHWC, Upsample, 1, EVER, OP_NONE, up_nchwc_upsample),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
