#include <string.h>
#include <strings.h>

#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"

/*
 * LSTM and GRU with constant weights. The inputs of all steps go through one product (biases with it); then step by step the state goes through another and the
 * cell follows: two dispatches a step for an LSTM, two to four for a GRU. Gates in ONNX's order: LSTM i, o, f, c; GRU z, r, h.
 */
#define DIRECTIONS_MAX 2
enum rnn_slot {
    SLOT_W = 0,
    SLOT_R,
    SLOT_BIAS,
    SLOT_LAST,
    SLOT_LAST_BIAS,
    SLOTS
}; /* of one direction; LAST: the h gate of a GRU */

struct rnn_act {
    uint32_t kind; /* gate() of rnn.glsl */
    float a, b;
};

static bool act_find(const struct string_view *name, struct rnn_act *ret)
{
    static const struct {
        const char *name;
        struct rnn_act act;
    } acts[] = {{"Sigmoid", {0, 0, 0}},           {"Tanh", {1, 0, 0}},          {"Relu", {2, 0, 0}},
                {"HardSigmoid", {3, 0.2f, 0.5f}}, {"LeakyRelu", {4, 0.01f, 0}}, {"Elu", {5, 1, 0}},
                {"Softsign", {6, 0, 0}},          {"Softplus", {7, 0, 0}}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strlen(acts[i].name) == name->bytes && strncasecmp(acts[i].name, name->text, name->bytes) == 0) {
            *ret = acts[i].act;
            return true;
        }
    }
    return false;
}

static uint32_t directions_of(const struct node *n)
{
    return node_text_is(n, ATTR_direction, "bidirectional", false) ? 2 : 1;
}

static bool acts_read(const struct node *n, struct rnn_act act[DIRECTIONS_MAX][3])
{
    static const struct string_view sigmoid = {"Sigmoid", 7}, tangent = {"Tanh", 4};
    const struct attr *given = node_attr(n, ATTR_activations), *alpha = node_attr(n, ATTR_activation_alpha),
                      *beta = node_attr(n, ATTR_activation_beta);
    uint32_t each = n->op == OP_LSTM ? 3 : 2, count = each * directions_of(n);
    for (uint32_t i = 0; i < count; i++) {
        const struct string_view *name = i % each == 0 ? &sigmoid : &tangent;
        struct rnn_act *a = &act[i / each][i % each];
        if (!act_find(given != NULL && i < given->count ? &given->texts[i] : name, a)) {
            return false;
        }
        a->a = alpha != NULL && i < alpha->count ? alpha->floats[i] : a->a;
        a->b = beta != NULL && i < beta->count ? beta->floats[i] : a->b;
    }
    return true;
}

static bool rnn_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct rnn_act act[DIRECTIONS_MAX][3];
    if (!vk_all_f32(g, n) || node_in(g, n, 4) != NULL) {
        return vk_refuse(ret_reason, "sequence lengths, or not f32");
    }
    if (!vk_constant(g, n, 1) || !vk_constant(g, n, 2) || (node_in(g, n, 3) != NULL && !vk_constant(g, n, 3))) {
        return vk_refuse(ret_reason, "weights that are computed");
    }
    if (node_int(n, ATTR_input_forget, 0) != 0 || node_int(n, ATTR_layout, 0) != 0 ||
        node_int(n, ATTR_rounded_state, 0) != 0) {
        return vk_refuse(ret_reason, "coupled gates, the batch first, or rounded states");
    }
    const struct shape *w = &node_in(g, n, 1)->shape, *r = &node_in(g, n, 2)->shape;
    int64_t gates = n->op == OP_LSTM ? 4 : 3;
    bool fits = w->rank == 3 && r->rank == 3 && w->dim[0] == (int64_t)directions_of(n) && r->dim[0] == w->dim[0] &&
                r->dim[1] == w->dim[1] && r->dim[1] == gates * r->dim[2] && shape_elements(w) > 0 &&
                shape_elements(r) > 0;
    return (fits && acts_read(n, act)) || vk_refuse(ret_reason, "weights of another shape, or another activation");
}

/* ---- weights ---- */

static bool matrix_pack(struct vk_pack *p, uint32_t slot, const float *w, size_t outs, size_t k)
{
    struct filter f = {.groups = 1, .out = outs, .in = k, .kernel_h = 1, .kernel_w = 1, .out_step = k, .in_step = 1};
    float *packed = vk_pack_floats(p, slot, vk_filter_packed(&f));
    if (packed != NULL) {
        vk_filter_pack(&f, w, 1.0f, packed);
        vk_pack_bf16(p, slot);
    }
    return packed != NULL;
}

static bool direction_pack(struct vk_pack *p, uint32_t d, const float *w, const float *r, const float *bias,
                           size_t hidden, size_t inputs)
{
    bool gru = p->n->op == OP_GRU, after = node_int(p->n, ATTR_linear_before_reset, 0) != 0;
    size_t all = (gru ? 3 : 4) * hidden, first = gru ? 2 * hidden : all;
    uint32_t slot = d * SLOTS;
    float *sum = vk_pack_floats(p, slot + SLOT_BIAS, all + 4),
          *last = vk_pack_floats(p, slot + SLOT_LAST_BIAS, hidden + 4);
    for (size_t i = 0; sum != NULL && bias != NULL && i < all; i++) {
        bool apart = gru && after && i >= 2 * hidden; /* the h gate's second bias is inside of the reset */
        sum[i] = bias[i] + (apart ? 0.0f : bias[all + i]);
    }
    for (size_t i = 0; last != NULL && bias != NULL && gru && after && i < hidden; i++) {
        last[i] = bias[all + 2 * hidden + i];
    }
    return sum != NULL && last != NULL && matrix_pack(p, slot + SLOT_W, w, all, inputs) &&
           matrix_pack(p, slot + SLOT_R, r, first, hidden) &&
           (!gru || matrix_pack(p, slot + SLOT_LAST, r + first * hidden, hidden, hidden));
}

static enum pen_status rnn_pack(struct vk_pack *p)
{
    const struct value *w = node_in(p->g, p->n, 1), *r = node_in(p->g, p->n, 2), *bias = node_in(p->g, p->n, 3);
    size_t rows = (size_t)w->shape.dim[1], inputs = (size_t)w->shape.dim[2], hidden = (size_t)r->shape.dim[2];
    for (uint32_t d = 0; d < directions_of(p->n); d++) {
        if (!direction_pack(p, d, (const float *)w->data + d * rows * inputs,
                            (const float *)r->data + d * rows * hidden,
                            bias != NULL ? (const float *)bias->data + d * 2 * rows : NULL, hidden, inputs)) {
            return PEN_ERR_NO_MEMORY;
        }
    }
    return PEN_OK;
}

/* ---- steps ---- */

struct rnn {
    size_t steps, batch, inputs, hidden, gates;
    uint32_t directions, d;
    struct rnn_act act[DIRECTIONS_MAX][3];
    uint32_t x, r, n, state, cell, reset, y; /* cells */
};

/* SLOT_W: of all steps' inputs at once; the others: of one step's state. */
static void product(struct vk_build *b, const struct rnn *q, size_t outs, uint32_t slot, uint32_t x, uint32_t y,
                    bool bias)
{
    size_t rows = slot == SLOT_W ? q->steps * q->batch : q->batch, k = slot == SLOT_W ? q->inputs : q->hidden;
    struct vk_product p = {
        .w = vk_matrix_window(rows, k), .groups = 1, .group_in = k, .group_out = outs, .x = x, .y = y};
    p.weights = vk_packed_cell(b, q->d * SLOTS + slot);
    p.bias = bias ? vk_packed_cell(b, q->d * SLOTS + (slot == SLOT_W ? SLOT_BIAS : SLOT_LAST_BIAS)) : VK_CELL_NONE;
    vk_product(b, &p);
}

static void acts_spec(struct vk_work *w, const struct rnn_act *acts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        vk_spec(w, acts[i].kind);
        vk_spec_float(w, acts[i].a);
        vk_spec_float(w, acts[i].b);
    }
}

/* Where the state of a step lies in Y [steps, directions, batch, hidden]. */
static size_t y_at(const struct rnn *q, size_t t)
{
    return (t * q->directions + q->d) * q->batch * q->hidden;
}

static void lstm_step(struct vk_build *b, const struct rnn *q, size_t t, bool first)
{
    bool peep = vk_in(b, 7) != NULL;
    if (!first) {
        product(b, q, 4 * q->hidden, SLOT_R, q->state, q->r, false);
    }
    struct vk_work *w = vk_dispatch(b, SHADER_lstm_cell);
    vk_bind(w, q->y != VK_CELL_NONE ? q->y : q->reset, VK_WRITE);
    vk_bind(w, q->x, VK_READ);
    vk_bind(w, q->r, VK_READ);
    vk_bind(w, q->state, VK_WRITE);
    vk_bind(w, q->cell, VK_READ_WRITE);
    vk_bind(w, peep ? vk_in_cell(b, 7) : q->x, VK_READ);
    acts_spec(w, q->act[q->d], 3);
    vk_spec(w, peep);
    vk_spec_float(w, node_float(b->n, ATTR_clip, 0.0f));
    vk_spec_float(w, node_float(b->n, ATTR_cell_clip, 0.0f));
    vk_spec(w, q->y != VK_CELL_NONE);
    const size_t words[] = {q->batch, q->hidden, t, y_at(q, t), first, q->d * 3 * q->hidden};
    for (size_t i = 0; i < 6; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, q->batch * q->hidden);
}

static void gru_cell(struct vk_build *b, const struct rnn *q, size_t t, bool reset, bool after)
{
    struct vk_work *w = vk_dispatch(b, SHADER_gru_cell);
    vk_bind(w, q->y != VK_CELL_NONE ? q->y : q->reset, VK_WRITE);
    vk_bind(w, q->x, VK_READ);
    vk_bind(w, q->r, VK_READ);
    vk_bind(w, reset ? q->r : q->n, VK_READ);
    vk_bind(w, q->state, VK_READ_WRITE);
    vk_bind(w, q->reset, VK_WRITE);
    acts_spec(w, q->act[q->d], 2);
    vk_spec(w, reset);
    vk_spec(w, after);
    vk_spec_float(w, node_float(b->n, ATTR_clip, 0.0f));
    vk_spec(w, q->y != VK_CELL_NONE && !reset);
    vk_push(w, q->batch);
    vk_push(w, q->hidden);
    vk_push(w, t);
    vk_push(w, y_at(q, t));
    vk_items(w, q->batch * q->hidden);
}

static void gru_step(struct vk_build *b, const struct rnn *q, size_t t)
{
    bool after = node_int(b->n, ATTR_linear_before_reset, 0) != 0;
    product(b, q, 2 * q->hidden, SLOT_R, q->state, q->r, false);
    if (!after) {
        gru_cell(b, q, t, true, false);
    }
    product(b, q, q->hidden, SLOT_LAST, after ? q->state : q->reset, q->n, after);
    gru_cell(b, q, t, false, after);
}

/* One direction's piece of an input or output [directions, batch, hidden] from or to a cell. */
static void piece_copy(struct vk_build *b, const struct rnn *q, uint32_t y, uint32_t x, bool out)
{
    size_t count = q->batch * q->hidden;
    struct vk_box box = {.rank = 1, .dim = {count}, .x_step = {1}, .y_step = {1}};
    box.x_at = out ? 0 : q->d * count;
    box.y_at = out ? q->d * count : 0;
    vk_box_copy(b, &box, y, x, vk_build_f16(b) ? 2 : 4);
}

static void direction_build(struct vk_build *b, struct rnn *q)
{
    bool lstm = b->n->op == OP_LSTM;
    bool backward = node_text_is(b->n, ATTR_direction, "reverse", false) || q->d == 1;
    const struct fact *h = vk_in(b, 5), *c = lstm ? vk_in(b, 6) : NULL;
    bool first = lstm && h == NULL && c == NULL;
    float zero[1] = {0};
    product(b, q, q->gates * q->hidden, SLOT_W, vk_in_cell(b, 0), q->x, true);
    uint32_t zeros = first ? VK_CELL_NONE : vk_host_cell(b, zero, sizeof zero);
    for (uint32_t i = 0; !first && i < (lstm ? 2u : 1u); i++) {
        uint32_t to = i == 0 ? q->state : q->cell;
        if ((i == 0 ? h : c) != NULL) {
            piece_copy(b, q, to, vk_in_cell(b, 5 + i), false);
        } else {
            struct vk_box fill = {.rank = 1, .dim = {q->batch * q->hidden}, .x_step = {0}, .y_step = {1}};
            vk_box_copy(b, &fill, to, zeros, vk_build_f16(b) ? 2 : 4);
        }
    }
    for (size_t i = 0; i < q->steps && b->status == PEN_OK; i++) {
        size_t t = backward ? q->steps - 1 - i : i;
        if (lstm) {
            lstm_step(b, q, t, first && i == 0);
        } else {
            gru_step(b, q, t);
        }
    }
    if (vk_out(b, 1) != NULL) {
        piece_copy(b, q, vk_out_cell(b, 1), q->state, true);
    }
    if (lstm && vk_out(b, 2) != NULL) {
        piece_copy(b, q, vk_out_cell(b, 2), q->cell, true);
    }
}

static void rnn_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    struct rnn q = {.steps = (size_t)x->dim[0],
                    .batch = (size_t)x->dim[1],
                    .inputs = (size_t)x->dim[2],
                    .hidden = (size_t)vk_in(b, 2)->shape.dim[2],
                    .gates = b->n->op == OP_LSTM ? 4 : 3,
                    .directions = directions_of(b->n)};
    if (x->rank != 3 || q.inputs != (size_t)vk_in(b, 1)->shape.dim[2] || !acts_read(b->n, q.act)) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and weights do not fit each other");
        return;
    }
    q.y = vk_out(b, 0) != NULL ? vk_out_cell(b, 0) : VK_CELL_NONE;
    for (q.d = 0; q.d < q.directions; q.d++) { /* own temporaries: the directions run side by side */
        q.x = vk_temp_cell(b, q.steps * q.batch * q.gates * q.hidden);
        q.r = vk_temp_cell(b, q.batch * q.gates * q.hidden);
        q.n = vk_temp_cell(b, q.batch * q.hidden);
        q.state = vk_temp_cell(b, q.batch * q.hidden);
        q.cell = vk_temp_cell(b, q.batch * q.hidden);
        q.reset = vk_temp_cell(b, q.batch * q.hidden);
        direction_build(b, &q);
    }
}

const struct vk_op vk_op_rnn = {rnn_supports, rnn_pack, rnn_build};
