#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/rnn_any.h"
#include "backend/xnnpack/rnn_bytes.h"

/*
 * LSTM and GRU with constant weights, peepholes, clipping and the usual activations. The inputs of all steps go through one matrix product; then step by step the hidden state
 * goes through another that adds to it, and the cell follows. Two directions go their ways side by side. Every other form is rnn_any.h's. Gates: LSTM i, o, f, c; GRU z, r, h (ONNX's order).
 */
#define DIRECTIONS_MAX 2
#define APART_THREADS  4 /* so many share one direction's products sooner than they leave it to one of them */

/* An activation by its name: what the loop of own.h is called with. */
struct gate_act {
    enum unary_fn fn;
    float a, b;
};

/* Offsets into one packed block, for each direction. */
struct packed_rnn {
    size_t inputs, hidden, gates;
    enum gemm_form form;              /* of the weights */
    bool bytes;                       /* both products are of bytes (rnn_bytes.h); input_at, hidden_at are theirs */
    size_t bias_at[DIRECTIONS_MAX];   /* bytes: [gates * hidden] */
    size_t input_at[DIRECTIONS_MAX];  /* [inputs, gates * hidden] with the biases that can be added there */
    size_t hidden_at[DIRECTIONS_MAX]; /* [hidden, gates * hidden]; GRU: [hidden, 2 * hidden] */
    size_t last_at[DIRECTIONS_MAX];   /* GRU: [hidden, hidden] of the h gate */
};

struct rnn {
    const struct packed_rnn *p;
    bool gru, reset_after; /* linear_before_reset */
    enum rounded rounded;  /* LSTM: what is rounded to bytes */
    struct rnn_bytes input_bytes, hidden_bytes;
    size_t x_at;   /* in scratch: x rounded, where weights are no codes */
    int direction; /* 0 forward, 1 reverse, 2 both */
    size_t steps, batch;
    struct gate_act act[DIRECTIONS_MAX][3]; /* LSTM: gates, candidate, cell's way out; GRU: gates, candidate */
    float clip, cell_clip;                  /* 0 = none */
    struct dense input, hidden, last;
    bool apart;                                  /* the two directions run at the same time */
    size_t gates_at, state_at, cell_at, part_at; /* offsets into scratch */
    size_t apart_bytes;                          /* from one direction's to the other's; 0 = both use the same */
    size_t product_bytes; /* the same for what products copy: threads divide it by each product's own measure */
};

static size_t directions_of(const struct node *n)
{
    return node_text_is(n, ATTR_direction, "bidirectional", false) ? 2 : 1;
}

/* alpha and beta are the operator's own where the node names none. False for an activation there is no loop for. */
static bool act_find(const struct string_view *name, struct gate_act *ret)
{
    static const struct {
        const char *name;
        struct gate_act act;
    } acts[] = {{"Sigmoid", {UNARY_SIGMOID, 0, 0}},     {"HardSigmoid", {UNARY_HARDSIGMOID, 0.2f, 0.5f}},
                {"Tanh", {UNARY_TANH, 0, 0}},           {"Relu", {UNARY_RELU, 0, 0}},
                {"LeakyRelu", {UNARY_LEAKY, 0.01f, 0}}, {"Elu", {UNARY_ELU, 1, 0}},
                {"Softsign", {UNARY_SOFTSIGN, 0, 0}},   {"Softplus", {UNARY_SOFTPLUS, 0, 0}}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strlen(acts[i].name) == name->bytes && strncasecmp(acts[i].name, name->text, name->bytes) == 0) {
            *ret = acts[i].act;
            return true;
        }
    }
    return false;
}

static bool acts_read(const struct node *n, struct gate_act act[DIRECTIONS_MAX][3])
{
    static const struct string_view sigmoid = {"Sigmoid", 7}, tangent = {"Tanh", 4};
    const struct attr *given = node_attr(n, ATTR_activations), *alpha = node_attr(n, ATTR_activation_alpha),
                      *beta = node_attr(n, ATTR_activation_beta);
    uint32_t each = n->op == OP_LSTM ? 3 : 2, count = each * (uint32_t)directions_of(n);
    for (uint32_t i = 0; i < count; i++) {
        const struct string_view *name = i % each == 0 ? &sigmoid : &tangent;
        struct gate_act *a = &act[i / each][i % each];
        if (!act_find(given != NULL && i < given->count ? &given->texts[i] : name, a)) {
            return false;
        }
        a->a = alpha != NULL && i < alpha->count ? alpha->floats[i] : a->a;
        a->b = beta != NULL && i < beta->count ? beta->floats[i] : a->b;
    }
    return true;
}

/* The form with products in blocks: constant weights, nothing optional. */
static bool is_plain(const struct graph *g, const struct node *n)
{
    if (n->op == OP_RNN || (n->op != OP_LSTM && node_int(n, ATTR_rounded_state, 0) != 0) || !all_f32(g, n) ||
        node_in(g, n, 4) != NULL || !in_constant(g, n, 1) || !in_constant(g, n, 2) ||
        (node_in(g, n, 3) != NULL && !in_constant(g, n, 3))) {
        return false;
    }
    bool plain = node_int(n, ATTR_input_forget, 0) == 0 && node_int(n, ATTR_layout, 0) == 0;
    struct gate_act act[DIRECTIONS_MAX][3];
    const struct shape *w = &node_in(g, n, 1)->shape, *r = &node_in(g, n, 2)->shape;
    int64_t gates = n->op == OP_LSTM ? 4 : 3;
    bool fits = w->rank == 3 && r->rank == 3 && w->dim[0] == (int64_t)directions_of(n) && r->dim[0] == w->dim[0] &&
                r->dim[1] == w->dim[1] && r->dim[1] == gates * r->dim[2] && shape_elements(w) > 0 &&
                shape_elements(r) > 0;
    return plain && fits && acts_read(n, act);
}

static bool rnn_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return is_plain(g, n) || rnn_any_supports(g, n, ret_reason);
}

/* Columns [0, n) of w, whose rows lie k apart. */
static enum pen_status piece_add(struct packed_rnn *p, size_t *at, const float *w, const float *bias, size_t k,
                                 size_t n, size_t *ret_at)
{
    const struct dense_matrix matrix = {
        .w = w, .bias = bias, .k_stride = 1, .n_stride = k, .k = k, .n = n, .alpha = 1.0f};
    *ret_at = *at;
    *at += dense_form_bytes(p->form, k, n);
    return dense_pack_form((struct dense_weights *)(void *)((uint8_t *)p + *ret_at), p->form, &matrix);
}

/* One direction: w [gates h, inputs], r [gates h, h], bias [2 gates h] or NULL. */
static enum pen_status direction_pack(struct packed_rnn *p, size_t d, size_t *at, const float *w, const float *r,
                                      const float *bias, bool after, float *sum)
{
    bool gru = p->gates == 3;
    size_t h = p->hidden, all = p->gates * h, first = gru ? 2 * h : all;
    for (size_t i = 0; i < all; i++) {
        bool apart = gru && after && i >= 2 * h; /* the h gate's second bias is inside of the reset */
        sum[i] = bias == NULL ? 0.0f : bias[i] + (apart ? 0.0f : bias[all + i]);
    }
    enum pen_status status = piece_add(p, at, w, sum, p->inputs, all, &p->input_at[d]);
    status = status == PEN_OK ? piece_add(p, at, r, NULL, h, first, &p->hidden_at[d]) : status;
    if (gru && status == PEN_OK) {
        const float *inside = after && bias != NULL ? bias + all + 2 * h : NULL;
        status = piece_add(p, at, r + 2 * h * h, inside, h, h, &p->last_at[d]);
    }
    return status;
}

static size_t bias_bytes(size_t count)
{
    return (count * sizeof(float) + 63) / 64 * 64;
}

/* An LSTM's direction as bytes. False without memory. */
static bool bytes_pack(struct packed_rnn *p, size_t d, size_t *at, const struct value *w, const struct value *r,
                       const float *bias)
{
    uint8_t *base = (uint8_t *)p;
    const size_t all = p->gates * p->hidden;
    float *sum = (float *)(void *)(base + *at);
    p->bias_at[d] = *at;
    for (size_t i = 0; i < all; i++) {
        sum[i] = bias == NULL ? 0.0f : bias[i] + bias[all + i];
    }
    p->input_at[d] = *at + bias_bytes(all);
    p->hidden_at[d] = p->input_at[d] + rnn_bytes_packed(w);
    *at = p->hidden_at[d] + rnn_bytes_packed(r);
    return rnn_bytes_pack(w, d, base + p->input_at[d]) && rnn_bytes_pack(r, d, base + p->hidden_at[d]);
}

static enum pen_status directions_pack(struct packed_rnn *p, const struct graph *g, const struct node *n, size_t *at,
                                       float *sum)
{
    const struct value *w = node_in(g, n, 1), *r = node_in(g, n, 2), *bias = node_in(g, n, 3);
    const bool after = node_int(n, ATTR_linear_before_reset, 0) != 0;
    const size_t all = p->gates * p->hidden;
    enum pen_status status = PEN_OK;
    for (size_t d = 0; d < directions_of(n) && status == PEN_OK; d++) {
        const float *of = bias != NULL ? (const float *)bias->data + d * 2 * all : NULL;
        if (p->bytes) {
            status = bytes_pack(p, d, at, w, r, of) ? PEN_OK : PEN_ERR_NO_MEMORY;
        } else {
            status = direction_pack(p, d, at, (const float *)w->data + d * all * p->inputs,
                                    (const float *)r->data + d * all * p->hidden, of, after, sum);
        }
    }
    return status;
}

static size_t direction_bytes(const struct packed_rnn *p, const struct graph *g, const struct node *n)
{
    const size_t h = p->hidden, all = p->gates * h;
    return p->bytes ? rnn_bytes_packed(node_in(g, n, 1)) + rnn_bytes_packed(node_in(g, n, 2)) + bias_bytes(all)
                    : dense_form_bytes(p->form, p->inputs, all) + dense_form_bytes(p->form, h, all) +
                          dense_form_bytes(p->form, h, h);
}

static enum pen_status pack_any(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                size_t *ret_bytes, struct pen_error *reterr)
{
    *ret_packed = NULL;
    *ret_bytes = 0;
    if (!is_plain(g, n)) {
        return PEN_OK;
    }
    const struct value *w = node_in(g, n, 1), *r = node_in(g, n, 2), *bias = node_in(g, n, 3);
    const enum rounded rounded = (enum rounded)node_int(n, ATTR_rounded_state, 0);
    struct packed_rnn head = {.inputs = (size_t)w->shape.dim[2],
                              .hidden = (size_t)r->shape.dim[2],
                              .gates = n->op == OP_GRU ? 3 : 4,
                              .form = rounded == ROUNDED_NONE ? form : GEMM_F32,
                              .bytes = rounded == ROUNDED_ALL && rnn_bytes_are(w) && rnn_bytes_are(r)};
    const size_t directions = directions_of(n), all = head.gates * head.hidden;
    if (bias != NULL && shape_elements(&bias->shape) != (int64_t)(directions * 2 * all)) {
        return pen_error_set(reterr, PEN_ERR_SHAPE, "xnnpack: node %s: the bias has another size", n->name);
    }
    size_t at = (sizeof(struct packed_rnn) + 63) / 64 * 64;
    struct packed_rnn *p = packed_alloc(at + directions * direction_bytes(&head, g, n));
    float *sum = malloc(all * sizeof *sum);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (p != NULL && sum != NULL) {
        *p = head;
        status = directions_pack(p, g, n, &at, sum);
    }
    free(sum);
    if (status != PEN_OK) {
        free(p);
        return pen_error_set(reterr, status, "xnnpack: no memory for the weights of node %s", n->name);
    }
    *ret_packed = p;
    *ret_bytes = at;
    return PEN_OK;
}

static enum pen_status rnn_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                struct pen_error *reterr)
{
    return pack_any(g, n, GEMM_F32, ret_packed, ret_bytes, reterr);
}

static enum pen_status rnn_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                     struct pen_error *reterr)
{
    return pack_any(g, n, dense_form_bf16(), ret_packed, ret_bytes, reterr);
}

/* Direction d's. */
static float *scratch_at(const struct step *s, size_t at, size_t d)
{
    const struct rnn *q = s->state;
    return (float *)(void *)((uint8_t *)s->scratch + at + d * q->apart_bytes);
}

/* y = x * w (+ sum), for direction d. */
static void product(const struct step *s, size_t d, const struct dense *dense, const struct dense_weights *w,
                    const float *x, const float *sum, float *y, struct run *r)
{
    const struct rnn *q = s->state;
    struct dense_item item = {.x = x, .panels = w->data, .bias = dense_bias(w), .sum = sum, .y = y};
    dense_run(dense, &item, 1, (uint8_t *)s->scratch + d * q->product_bytes, r);
}

static const struct dense_weights *weights_at(const struct rnn *q, size_t at)
{
    return (const void *)((const uint8_t *)q->p + at);
}

/* Gates are clipped before; the cell on its way out is not. */
static void activate(const struct rnn *q, const struct gate_act *act, float *x, size_t n)
{
    if (q->clip > 0.0f) {
        isa_own()->unary(UNARY_CLAMP, x, x, n, -q->clip, q->clip);
    }
    isa_own()->unary(act->fn, x, x, n, act->a, act->b);
}

/* gate += p * c */
static void peep(const float *p, const float *c, float *gate, float *part, size_t n)
{
    if (p != NULL) {
        isa_own()->binary(BINARY_MUL, p, 1, c, 1, part, n);
        isa_own()->binary(BINARY_ADD, gate, 1, part, 1, gate, n);
    }
}

/* Gates of one step [batch, 4 h], already summed; c and h [batch, h] are replaced. p: peepholes i, o, f [3 h] or NULL. */
static void lstm_cell(const struct rnn *q, const struct gate_act *act, const float *p, float *gates, float *c_all,
                      float *h, float *part)
{
    const struct own *own = isa_own();
    size_t n = q->p->hidden;
    for (size_t b = 0; b < q->batch; b++) {
        float *i = gates + b * 4 * n, *o = i + n, *f = o + n, *g = f + n, *c = c_all + b * n;
        peep(p, c, i, part, n);
        peep(p != NULL ? p + 2 * n : NULL, c, f, part, n);
        if (p == NULL) {
            activate(q, &act[0], i, 3 * n);
        } else {
            activate(q, &act[0], i, n);
            activate(q, &act[0], f, n);
        }
        activate(q, &act[1], g, n);
        own->binary(BINARY_MUL, f, 1, c, 1, f, n);
        own->binary(BINARY_MUL, i, 1, g, 1, i, n);
        own->binary(BINARY_ADD, f, 1, i, 1, c, n);
        if (q->cell_clip > 0.0f) {
            own->unary(UNARY_CLAMP, c, c, n, -q->cell_clip, q->cell_clip);
        }
        if (p != NULL) { /* the way out sees the new cell */
            peep(p + n, c, o, part, n);
            activate(q, &act[0], o, n);
        }
        own->unary(act[2].fn, c, part, n, act[2].a, act[2].b);
        own->binary(BINARY_MUL, o, 1, part, 1, h + b * n, n);
    }
}

/* z and r are in gates; h' = (1 - z) * candidate + z * h. */
static void gru_blend(const struct rnn *q, const float *gates, const float *candidate, float *h)
{
    size_t n = q->p->hidden;
    for (size_t b = 0; b < q->batch; b++) {
        for (size_t i = 0; i < n; i++) {
            float z = gates[b * 3 * n + i];
            h[b * n + i] = (1.0f - z) * candidate[b * n + i] + z * h[b * n + i];
        }
    }
}

/* Gates of one step [batch, 3 h]: the inputs' share; z and r get the state's share here. part: [batch, 2 h]. */
static void gru_cell(const struct step *s, const struct rnn *q, size_t d, float *gates, float *h, float *part,
                     struct run *r)
{
    const struct own *own = isa_own();
    size_t n = q->p->hidden;
    float *candidate = part, *reset = part + q->batch * n;
    product(s, d, &q->hidden, weights_at(q, q->p->hidden_at[d]), h, gates, gates, r);
    for (size_t b = 0; b < q->batch; b++) {
        float *z = gates + b * 3 * n;
        activate(q, &q->act[d][0], z, 2 * n);
        own->binary(BINARY_MUL, z + n, 1, h + b * n, 1, reset + b * n, n);
    }
    product(s, d, &q->last, weights_at(q, q->p->last_at[d]), q->reset_after ? h : reset, NULL, candidate, r);
    for (size_t b = 0; b < q->batch; b++) {
        float *c = candidate + b * n, *from = gates + b * 3 * n;
        if (q->reset_after) {
            own->binary(BINARY_MUL, c, 1, from + n, 1, c, n);
        }
        own->binary(BINARY_ADD, c, 1, from + 2 * n, 1, c, n);
        activate(q, &q->act[d][1], c, n);
    }
    gru_blend(q, gates, candidate, h);
}

static void state_start(const struct step *s, uint32_t input, size_t d, size_t count, float *to)
{
    const float *from = input < s->n->in_count ? s->in[input] : NULL;
    if (from != NULL) {
        memcpy(to, from + d * count, count * sizeof *to);
    } else {
        memset(to, 0, count * sizeof *to);
    }
}

static void state_end(const struct step *s, uint32_t output, size_t d, size_t count, const float *from)
{
    if (output < s->n->out_count && s->out[output] != NULL) {
        memcpy((float *)s->out[output] + d * count, from, count * sizeof *from);
    }
}

static void state_round(const struct rnn *q, float *h, size_t count)
{
    struct rnn_range range = {0.0f, 0.0f};
    if (q->rounded != ROUNDED_NONE) {
        rnn_range_add(&range, h, count);
        rnn_range_round(&range, h, count);
    }
}

/* x, or a copy of it that is rounded to bytes as a whole. */
static const float *input_of(const struct step *s)
{
    const struct rnn *q = s->state;
    if (q->rounded != ROUNDED_ALL) {
        return s->in[0];
    }
    const size_t count = q->steps * q->batch * q->p->inputs;
    float *x = (float *)(void *)((uint8_t *)s->scratch + q->x_at);
    memcpy(x, s->in[0], count * sizeof *x);
    state_round(q, x, count);
    return x;
}

/* The share of the inputs in all gates of all steps. */
static void direction_begin(const struct step *s, size_t d, struct run *r)
{
    const struct rnn *q = s->state;
    float *gates = scratch_at(s, q->gates_at, d);
    if (q->p->bytes) {
        const uint8_t *packed = (const uint8_t *)q->p;
        const struct rnn_rows rows = {s->in[0], (const float *)(const void *)(packed + q->p->bias_at[d]), gates, 0};
        rnn_bytes_run(&q->input_bytes, packed + q->p->input_at[d], &rows, (uint8_t *)s->scratch + d * q->product_bytes,
                      r);
    } else {
        product(s, d, &q->input, weights_at(q, q->p->input_at[d]), input_of(s), NULL, gates, r);
    }
}

/* The share of an LSTM's state in the gates of one step. */
static void state_add(const struct step *s, size_t d, float *h, float *gates, struct run *r)
{
    const struct rnn *q = s->state;
    if (q->p->bytes) {
        const struct rnn_rows rows = {h, gates, gates, q->p->gates * q->p->hidden};
        rnn_bytes_run(&q->hidden_bytes, (const uint8_t *)q->p + q->p->hidden_at[d], &rows,
                      (uint8_t *)s->scratch + d * q->product_bytes, r);
    } else {
        state_round(q, h, q->batch * q->p->hidden);
        product(s, d, &q->hidden, weights_at(q, q->p->hidden_at[d]), h, gates, gates, r);
    }
}

/* Step by step. */
static void direction_run(const struct step *s, size_t d, struct run *r)
{
    const struct rnn *q = s->state;
    const size_t directions = directions_of(s->n), count = q->batch * q->p->hidden,
                 row = q->batch * q->p->gates * q->p->hidden;
    float *gates = scratch_at(s, q->gates_at, d), *h = scratch_at(s, q->state_at, d), *c = scratch_at(s, q->cell_at, d),
          *part = scratch_at(s, q->part_at, d);
    const float *peepholes =
        !q->gru && s->n->in_count > 7 && s->in[7] != NULL ? (const float *)s->in[7] + d * 3 * q->p->hidden : NULL;
    bool backwards = q->direction == 1 || d == 1;
    state_start(s, 5, d, count, h);
    if (!q->gru) {
        state_start(s, 6, d, count, c);
    }
    for (size_t i = 0; i < q->steps; i++) {
        size_t t = backwards ? q->steps - 1 - i : i;
        if (q->gru) {
            gru_cell(s, q, d, gates + t * row, h, part, r);
        } else {
            state_add(s, d, h, gates + t * row, r);
            lstm_cell(q, q->act[d], peepholes, gates + t * row, c, h, part);
        }
        if (s->n->out_count > 0 && s->out[0] != NULL) {
            memcpy((float *)s->out[0] + (t * directions + d) * count, h, count * sizeof *h);
        }
    }
    state_end(s, 1, d, count, h);
    if (!q->gru) {
        state_end(s, 2, d, count, c);
    }
}

/* One direction, by one thread. */
static void direction_task(void *context, size_t unit)
{
    struct run alone = {0};
    direction_run(context, unit, &alone);
}

static enum pen_status rnn_run(struct step *s, struct run *r)
{
    const struct rnn *q = s->state;
    const size_t directions = directions_of(s->n);
    for (size_t d = 0; d < directions; d++) {
        direction_begin(s, d, r);
        if (!q->apart) {
            direction_run(s, d, r);
        }
    }
    if (q->apart) {
        parallel(r, direction_task, s, directions);
    }
    return PEN_OK;
}

static bool outputs_fit(const struct build *b, const struct rnn *q, size_t directions)
{
    int64_t state = (int64_t)(directions * q->batch * q->p->hidden);
    for (uint32_t i = 0; i < b->n->out_count; i++) {
        if (build_out(b, i) != NULL &&
            shape_elements(&build_out(b, i)->shape) != (i == 0 ? state * (int64_t)q->steps : state)) {
            return false;
        }
    }
    for (uint32_t i = 5; i < b->n->in_count && i < 7; i++) {
        if (build_in(b, i) != NULL && shape_elements(&build_in(b, i)->shape) != state) {
            return false;
        }
    }
    const struct fact *peepholes = !q->gru ? build_in(b, 7) : NULL;
    return peepholes == NULL || shape_elements(&peepholes->shape) == (int64_t)(directions * 3 * q->p->hidden);
}

static size_t piece(size_t *at, size_t floats)
{
    size_t here = *at;
    *at += (floats * sizeof(float) + 127) / 64 * 64;
    return here;
}

static void products_init(struct rnn *q, size_t threads)
{
    const size_t h = q->p->hidden, all = q->p->gates * h;
    dense_init_matrix(&q->input, q->steps * q->batch, q->p->inputs, all, q->p->inputs, threads);
    dense_init_matrix(&q->hidden, q->batch, h, q->gru ? 2 * h : all, h, threads);
    q->hidden.y_stride = q->hidden.sum_stride = all;
    dense_init_matrix(&q->last, q->batch, h, h, h, threads);
    dense_form_set(&q->input, q->p->form, threads);
    dense_form_set(&q->hidden, q->p->form, threads);
    dense_form_set(&q->last, q->p->form, threads);
}

static enum pen_status rnn_build(struct build *b)
{
    if (b->packed == NULL) {
        return rnn_any_build(b);
    }
    const struct shape *x = &build_in(b, 0)->shape;
    struct rnn *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->p = b->packed;
    q->gru = b->n->op == OP_GRU;
    q->reset_after = node_int(b->n, ATTR_linear_before_reset, 0) != 0;
    q->rounded = (enum rounded)node_int(b->n, ATTR_rounded_state, 0);
    q->clip = node_float(b->n, ATTR_clip, 0.0f);
    q->cell_clip = node_float(b->n, ATTR_cell_clip, 0.0f);
    acts_read(b->n, q->act); /* supports has seen that it can */
    q->direction = node_text_is(b->n, ATTR_direction, "reverse", false) ? 1 : 0;
    if (x->rank != 3 || x->dim[2] != (int64_t)q->p->inputs) {
        return build_fail(b, PEN_ERR_SHAPE, "the input does not fit the weights");
    }
    q->steps = (size_t)x->dim[0];
    q->batch = (size_t)x->dim[1];
    if (q->steps == 0 || !outputs_fit(b, q, directions_of(b->n))) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "states or results have another size");
    }
    size_t h = q->p->hidden, all = q->p->gates * h, threads = build_threads(b);
    products_init(q, threads);
    size_t at = dense_scratch_bytes(&q->input, threads), other = dense_scratch_bytes(&q->hidden, threads);
    at = at > other ? at : other;
    other = dense_scratch_bytes(&q->last, threads);
    at = at > other ? at : other;
    if (q->p->bytes) {
        rnn_bytes_init(&q->input_bytes, q->steps * q->batch, all, q->p->inputs, threads);
        rnn_bytes_init(&q->hidden_bytes, q->batch, all, h, threads);
        const size_t first = rnn_bytes_scratch(&q->input_bytes, threads),
                     second = rnn_bytes_scratch(&q->hidden_bytes, threads);
        at = at > first ? at : first;
        at = at > second ? at : second;
        b->step->kernel = "own gemm of bytes";
        b->step->why = "weights of 8 bits, inputs and states rounded to 8 bits: exact sums";
    } else if (q->p->form != GEMM_F32) {
        b->step->kernel = q->p->form == GEMM_PAIRS ? "own gemm, bf16 by its instruction" : "own gemm, weights of bf16";
    }
    q->apart = directions_of(b->n) == 2 && threads > 1 && threads < APART_THREADS;
    q->product_bytes = q->apart ? (at + 63) / 64 * 64 : 0;
    at += q->product_bytes;
    const size_t shared = at;
    q->gates_at = piece(&at, q->steps * q->batch * all);
    q->state_at = piece(&at, q->batch * h);
    q->cell_at = piece(&at, q->batch * h);
    q->part_at = piece(&at, 2 * q->batch * h);
    q->apart_bytes = q->apart ? at - shared : 0;
    at += q->apart_bytes;
    q->x_at = piece(&at, q->rounded == ROUNDED_ALL && !q->p->bytes ? q->steps * q->batch * q->p->inputs : 0);
    b->step->scratch_bytes = at;
    b->step->state = q;
    b->step->run = rnn_run;
    return PEN_OK;
}

const struct emitter emit_rnn = {rnn_supports, rnn_pack, rnn_build};
const struct emitter emit_rnn_bf16 = {rnn_supports, rnn_pack_bf16, rnn_build};
