#include "backend/xnnpack/rnn_any.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "backend/xnnpack/isa.h"

#define DIRECTIONS_MAX  2
#define ACTIVATIONS_MAX 3

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

struct activation_of {
    enum unary_fn fn; /* NONE: outer * tanh or nothing of (inner * x + shift) */
    float a, b;
    float inner, shift, outer; /* around the function; 1, 0, 1 where the standard has no such numbers */
};

struct rnn_any {
    size_t steps, batch, inputs, hidden, directions, gates;
    bool batch_first, reverse, reset_after, coupled, rounded, rounded_x;
    float clip, cell_clip; /* 0 = none */
    struct activation_of act[DIRECTIONS_MAX][ACTIVATIONS_MAX];
    size_t unit_floats; /* scratch of one unit: h, c, gates, part */
    size_t x_at;        /* behind those of all: x rounded */
};

struct rnn_job {
    const struct step *s;
    const struct rnn_any *q;
    const float *x, *w, *r, *bias, *h0, *c0, *peep;
    const int32_t *lengths;
    float *y, *y_h, *y_c;
};

/* What one unit works with. */
struct unit {
    const struct rnn_job *j;
    size_t direction;
    float *h, *c, *gate, *part; /* [hidden], [hidden], [gates * hidden], [hidden] */
};

/* ---- activations ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum unary_fn fn;
    float alpha, beta;
} activations[] = {
    {"Relu", UNARY_RELU, 0.0f, 0.0f},         {"Tanh", UNARY_TANH, 0.0f, 0.0f},
    {"Sigmoid", UNARY_SIGMOID, 0.0f, 0.0f},   {"LeakyRelu", UNARY_LEAKY, 0.01f, 0.0f},
    {"Elu", UNARY_ELU, 1.0f, 0.0f},           {"HardSigmoid", UNARY_HARDSIGMOID, 0.2f, 0.5f},
    {"Softsign", UNARY_SOFTSIGN, 0.0f, 0.0f}, {"Softplus", UNARY_SOFTPLUS, 0.0f, 0.0f},
    {"Affine", UNARY_NONE, 1.0f, 0.0f},       {"ScaledTanh", UNARY_TANH, 1.0f, 1.0f},
};

static bool activation_read(const struct node *n, uint32_t index, const char *own, struct activation_of *ret)
{
    const struct attr *given = node_attr(n, ATTR_activations), *alpha = node_attr(n, ATTR_activation_alpha),
                      *beta = node_attr(n, ATTR_activation_beta);
    const char *text = given != NULL && index < given->count ? given->texts[index].text : own;
    size_t bytes = given != NULL && index < given->count ? given->texts[index].bytes : strlen(own);
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strlen(activations[i].name) != bytes || strncasecmp(activations[i].name, text, bytes) != 0) {
            continue;
        }
        float a = alpha != NULL && index < alpha->count ? alpha->floats[index] : activations[i].alpha;
        float b = beta != NULL && index < beta->count ? beta->floats[index] : activations[i].beta;
        *ret = (struct activation_of){.fn = activations[i].fn, .a = a, .b = b, .inner = 1.0f, .outer = 1.0f};
        if (strcmp(activations[i].name, "Affine") == 0) { /* alpha x + beta */
            ret->inner = a;
            ret->shift = b;
        } else if (strcmp(activations[i].name, "ScaledTanh") == 0) { /* alpha tanh(beta x) */
            ret->inner = b;
            ret->outer = a;
        }
        return true;
    }
    return false;
}

static bool activations_read(const struct node *n, size_t directions, struct rnn_any *q)
{
    static const char *const own[] = {"Sigmoid", "Tanh", "Tanh"};
    uint32_t each = n->op == OP_LSTM ? 3 : n->op == OP_GRU ? 2 : 1;
    for (uint32_t i = 0; i < each * directions; i++) {
        const char *name = n->op == OP_RNN ? "Tanh" : own[i % each];
        if (!activation_read(n, i, name, &q->act[i / each][i % each])) {
            return false;
        }
    }
    return true;
}

/* x [n] in place. */
static void activate_cell(const struct unit *u, uint32_t which, float *x, size_t n)
{
    const struct activation_of *a = &u->j->q->act[u->direction][which];
    const struct own *own = isa_own();
    if (a->inner != 1.0f || a->shift != 0.0f) {
        own->affine(x, x, n, 0.0f, a->inner, NULL, NULL);
        own->binary(BINARY_ADD, x, 1, &a->shift, 0, x, n);
    }
    if (a->fn != UNARY_NONE) {
        own->unary(a->fn, x, x, n, a->a, a->b);
    }
    if (a->outer != 1.0f) {
        own->affine(x, x, n, 0.0f, a->outer, NULL, NULL);
    }
}

/* The same of gates, which are clipped before; the cell on its way out is not. */
static void activate(const struct unit *u, uint32_t which, float *x, size_t n)
{
    const float clip = u->j->q->clip;
    if (clip > 0.0f) {
        isa_own()->unary(UNARY_CLAMP, x, x, n, -clip, clip);
    }
    activate_cell(u, which, x, n);
}

/* ---- cells -------------------------------------------------------------------------------------------------------------- */

/* Row j of the gates: its share of the input, and of the state. */
static float from_input(const struct unit *u, size_t j, const float *xt)
{
    const struct rnn_any *q = u->j->q;
    size_t rows = q->gates * q->hidden;
    float bias = u->j->bias != NULL ? u->j->bias[u->direction * 2 * rows + j] : 0.0f;
    return isa_own()->dot(u->j->w + (u->direction * rows + j) * q->inputs, xt, q->inputs) + bias;
}

static float from_state(const struct unit *u, size_t j, const float *h)
{
    const struct rnn_any *q = u->j->q;
    size_t rows = q->gates * q->hidden;
    float bias = u->j->bias != NULL ? u->j->bias[u->direction * 2 * rows + rows + j] : 0.0f;
    return isa_own()->dot(u->j->r + (u->direction * rows + j) * q->hidden, h, q->hidden) + bias;
}

static void gates_fill(struct unit *u, size_t rows, const float *xt)
{
    for (size_t j = 0; j < rows; j++) {
        u->gate[j] = from_input(u, j, xt) + from_state(u, j, u->h);
    }
}

/* h = f(x W^T + h R^T + b) */
static void simple_step(struct unit *u, const float *xt)
{
    size_t n = u->j->q->hidden;
    gates_fill(u, n, xt);
    activate(u, 0, u->gate, n);
    memcpy(u->h, u->gate, n * sizeof *u->h);
}

/* z = f(.), r = f(.), m = g(x W^T + (r h) R^T) or g(x W^T + r (h R^T)), h = (1 - z) m + z h */
static void gru_step(struct unit *u, const float *xt)
{
    size_t n = u->j->q->hidden;
    const struct own *own = isa_own();
    float *z = u->gate, *reset = z + n, *m = reset + n;
    gates_fill(u, 2 * n, xt);
    activate(u, 0, z, 2 * n);
    own->binary(BINARY_MUL, reset, 1, u->h, 1, u->part, n);
    for (size_t i = 0; i < n; i++) {
        float state =
            u->j->q->reset_after ? reset[i] * from_state(u, 2 * n + i, u->h) : from_state(u, 2 * n + i, u->part);
        m[i] = from_input(u, 2 * n + i, xt) + state;
    }
    activate(u, 1, m, n);
    for (size_t i = 0; i < n; i++) {
        u->h[i] = (1.0f - z[i]) * m[i] + z[i] * u->h[i];
    }
}

/* gate += peephole * c, for gate number `which` of i, o, f. */
static void peep(const struct unit *u, uint32_t which)
{
    size_t n = u->j->q->hidden;
    if (u->j->peep != NULL) {
        isa_own()->binary(BINARY_MUL, u->j->peep + (u->direction * 3 + which) * n, 1, u->c, 1, u->part, n);
        isa_own()->binary(BINARY_ADD, u->gate + which * n, 1, u->part, 1, u->gate + which * n, n);
    }
}

/* i, f = f(. + p c), c = f c + i g(.), o = f(. + p c), h = o h(c); gates in the order i, o, f, c. */
static void lstm_step(struct unit *u, const float *xt)
{
    const struct rnn_any *q = u->j->q;
    const struct own *own = isa_own();
    size_t n = q->hidden;
    float *in = u->gate, *out = in + n, *forget = out + n, *cell = forget + n;
    gates_fill(u, 4 * n, xt);
    peep(u, 0);
    peep(u, 2);
    activate(u, 0, in, n);
    activate(u, 0, forget, n);
    activate(u, 1, cell, n);
    for (size_t i = 0; i < n; i++) {
        u->c[i] = (q->coupled ? 1.0f - in[i] : forget[i]) * u->c[i] + in[i] * cell[i];
    }
    if (q->cell_clip > 0.0f) {
        own->unary(UNARY_CLAMP, u->c, u->c, n, -q->cell_clip, q->cell_clip);
    }
    peep(u, 1);
    activate(u, 0, out, n);
    memcpy(u->part, u->c, n * sizeof *u->part);
    activate_cell(u, 2, u->part, n);
    own->binary(BINARY_MUL, out, 1, u->part, 1, u->h, n);
}

/* ---- sequences ---------------------------------------------------------------------------------------------------------- */

/* Of the state of batch entry b: [directions, batch, hidden], or batch first. */
static size_t state_at(const struct rnn_any *q, size_t d, size_t b)
{
    return (q->batch_first ? b * q->directions + d : d * q->batch + b) * q->hidden;
}

static float *output_at(const struct rnn_job *j, size_t t, size_t d, size_t b)
{
    const struct rnn_any *q = j->q;
    size_t row = q->batch_first ? (b * q->steps + t) * q->directions + d : (t * q->directions + d) * q->batch + b;
    return j->y + row * q->hidden;
}

static void start(float *to, const float *from, size_t at, size_t n)
{
    if (from != NULL) {
        memcpy(to, from + at, n * sizeof *to);
    } else {
        memset(to, 0, n * sizeof *to);
    }
}

static struct unit unit_of(const struct rnn_job *j, size_t index)
{
    const struct rnn_any *q = j->q;
    float *memory = (float *)j->s->scratch + index * q->unit_floats;
    size_t n = q->hidden;
    return (struct unit){j, index / q->batch, memory, memory + n, memory + 3 * n, memory + 2 * n};
}

static struct unit unit_start(const struct rnn_job *j, size_t index)
{
    const struct rnn_any *q = j->q;
    struct unit u = unit_of(j, index);
    size_t state = state_at(q, u.direction, index % q->batch);
    start(u.h, j->h0, state, q->hidden);
    start(u.c, j->c0, state, q->hidden);
    return u;
}

static size_t length_of(const struct rnn_job *j, size_t b)
{
    return j->lengths != NULL ? (size_t)j->lengths[b] : j->q->steps;
}

/* Step i of entry b; steps behind a sequence's end are zero. */
static void unit_step(struct unit *u, size_t b, size_t i)
{
    const struct rnn_job *j = u->j;
    const struct rnn_any *q = j->q;
    size_t d = u->direction, n = q->hidden, length = length_of(j, b);
    size_t t = i >= length ? i : q->reverse || d == 1 ? length - 1 - i : i;
    const float *xt = j->x + (q->batch_first ? b * q->steps + t : t * q->batch + b) * q->inputs;
    if (i < length) {
        (q->gates == 4 ? lstm_step : q->gates == 3 ? gru_step : simple_step)(u, xt);
    }
    if (j->y != NULL && i < length) {
        memcpy(output_at(j, t, d, b), u->h, n * sizeof *u->h);
    } else if (j->y != NULL) {
        memset(output_at(j, t, d, b), 0, n * sizeof *u->h);
    }
}

static void unit_end(const struct unit *u, size_t b)
{
    const struct rnn_job *j = u->j;
    size_t state = state_at(j->q, u->direction, b), bytes = j->q->hidden * sizeof *u->h;
    if (j->y_h != NULL) {
        memcpy(j->y_h + state, u->h, bytes);
    }
    if (j->y_c != NULL) {
        memcpy(j->y_c + state, u->c, bytes);
    }
}

static void sequence_task(void *context, size_t index)
{
    const struct rnn_job *j = context;
    struct unit u = unit_start(j, index);
    for (size_t i = 0; i < j->q->steps; i++) {
        unit_step(&u, index % j->q->batch, i);
    }
    unit_end(&u, index % j->q->batch);
}

/* ---- states rounded to bytes, all entries together (ATTR_rounded_state) ------------------------------------------------------ */

void rnn_range_add(struct rnn_range *r, const float *x, size_t n)
{
    float low, high;
    isa_own()->range(x, n, &low, &high);
    r->low = low < r->low ? low : r->low;
    r->high = high > r->high ? high : r->high;
}

struct rnn_steps rnn_range_steps(const struct rnn_range *r)
{
    const float scale = (r->high - r->low) / 255.0f;
    const bool any = scale > 0.0f;
    return (struct rnn_steps){any ? scale : 0.0f, any ? nearbyintf(fminf(fmaxf(-r->low / scale, 0.0f), 255.0f)) : 0.0f};
}

#define ROUND_AT_ONCE 512

void rnn_range_round(const struct rnn_range *r, float *x, size_t n)
{
    const struct rnn_steps steps = rnn_range_steps(r);
    const float scale = steps.scale, zero = steps.zero;
    if (!(scale > 0.0f)) {
        memset(x, 0, n * sizeof *x);
        return;
    }
    uint8_t bytes[ROUND_AT_ONCE];
    for (size_t i = 0; i < n; i += ROUND_AT_ONCE) {
        const size_t count = n - i < ROUND_AT_ONCE ? n - i : ROUND_AT_ONCE;
        isa_int()->quantise(x + i, scale, -zero, 255.0f - zero, (int32_t)zero, bytes, count);
        isa_int()->dequantise(bytes, 0, (int32_t)zero, scale, x + i, count);
    }
}

static void rounded_task(void *context, size_t direction)
{
    const struct rnn_job *j = context;
    const struct rnn_any *q = j->q;
    size_t first = direction * q->batch;
    for (size_t b = 0; b < q->batch; b++) {
        (void)unit_start(j, first + b);
    }
    for (size_t i = 0; i < q->steps; i++) {
        struct rnn_range range = {0.0f, 0.0f};
        for (size_t b = 0; b < q->batch; b++) {
            if (i <= length_of(j, b)) { /* one step behind its end a sequence counts as zeros */
                rnn_range_add(&range, unit_of(j, first + b).h, q->hidden);
            }
        }
        for (size_t b = 0; b < q->batch; b++) {
            struct unit u = unit_of(j, first + b);
            if (i < length_of(j, b)) {
                rnn_range_round(&range, u.h, q->hidden);
            }
            unit_step(&u, b, i);
        }
    }
    for (size_t b = 0; b < q->batch; b++) {
        struct unit u = unit_of(j, first + b);
        unit_end(&u, b);
    }
}

/* A copy of x, all of it rounded to bytes over one range. */
static const float *input_rounded(const struct rnn_any *q, const struct step *s)
{
    const size_t count = q->steps * q->batch * q->inputs;
    float *x = (float *)s->scratch + q->x_at;
    struct rnn_range range = {0.0f, 0.0f};
    memcpy(x, s->in[IN_X], count * sizeof *x);
    rnn_range_add(&range, x, count);
    rnn_range_round(&range, x, count);
    return x;
}

static const void *input(const struct step *s, uint32_t index)
{
    return index < s->n->in_count ? s->in[index] : NULL;
}

static enum pen_status any_run(struct step *s, struct run *r)
{
    const struct rnn_any *q = s->state;
    struct rnn_job j = {.s = s,
                        .q = q,
                        .x = s->in[IN_X],
                        .w = s->in[IN_W],
                        .r = s->in[IN_R],
                        .bias = input(s, IN_B),
                        .h0 = input(s, IN_H),
                        .c0 = input(s, IN_C),
                        .peep = input(s, IN_P),
                        .lengths = input(s, IN_LENGTHS)};
    j.y = s->n->out_count > 0 ? s->out[0] : NULL;
    j.y_h = s->n->out_count > 1 ? s->out[1] : NULL;
    j.y_c = s->n->out_count > 2 ? s->out[2] : NULL;
    for (size_t b = 0; j.lengths != NULL && b < q->batch; b++) {
        if (j.lengths[b] < 0 || (size_t)j.lengths[b] > q->steps) {
            return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: a sequence of %d of %zu steps",
                                 s->n->name, (int)j.lengths[b], q->steps);
        }
    }
    if (q->rounded_x) {
        j.x = input_rounded(q, s);
    }
    if (q->rounded) {
        parallel(r, rounded_task, &j, q->directions);
    } else {
        parallel(r, sequence_task, &j, q->directions * q->batch);
    }
    return PEN_OK;
}

bool rnn_any_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct rnn_any ignored = {0};
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && v->dtype != (i == IN_LENGTHS ? PEN_DTYPE_I32 : PEN_DTYPE_F32)) {
            return refuse(ret_reason, "only f32, with i32 lengths");
        }
    }
    bool ranks = node_in(g, n, IN_X)->shape.rank == 3 && node_in(g, n, IN_W)->shape.rank == 3 &&
                 node_in(g, n, IN_R)->shape.rank == 3;
    return (ranks && activations_read(n, DIRECTIONS_MAX, &ignored)) ||
           refuse(ret_reason, "an activation that is not known here");
}

/* An optional tensor that is there has this many elements. */
static bool has(const struct fact *f, size_t count)
{
    return f == NULL || shape_elements(&f->shape) == (int64_t)count;
}

static bool sizes_fit(struct build *b, const struct rnn_any *q)
{
    size_t rows = q->directions * q->gates * q->hidden, state = q->directions * q->batch * q->hidden;
    return has(build_in(b, IN_W), rows * q->inputs) && has(build_in(b, IN_R), rows * q->hidden) &&
           has(build_in(b, IN_B), 2 * rows) && has(build_in(b, IN_LENGTHS), q->batch) &&
           has(build_in(b, IN_H), state) && has(build_in(b, IN_C), state) &&
           has(build_in(b, IN_P), q->directions * 3 * q->hidden) && has(build_out(b, 0), state * q->steps) &&
           has(build_out(b, 1), state) && has(build_out(b, 2), state);
}

enum pen_status rnn_any_build(struct build *b)
{
    const struct shape *x = &build_in(b, IN_X)->shape, *r = &build_in(b, IN_R)->shape;
    struct rnn_any *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->batch_first = node_int(b->n, ATTR_layout, 0) != 0;
    q->steps = (size_t)x->dim[q->batch_first ? 1 : 0];
    q->batch = (size_t)x->dim[q->batch_first ? 0 : 1];
    q->inputs = (size_t)x->dim[2];
    q->directions = (size_t)r->dim[0];
    q->hidden = (size_t)r->dim[2];
    q->gates = b->n->op == OP_LSTM ? 4 : b->n->op == OP_GRU ? 3 : 1;
    q->reverse = node_text_is(b->n, ATTR_direction, "reverse", false);
    q->reset_after = node_int(b->n, ATTR_linear_before_reset, 0) != 0;
    q->coupled = node_int(b->n, ATTR_input_forget, 0) != 0;
    q->rounded = node_int(b->n, ATTR_rounded_state, 0) != ROUNDED_NONE;
    q->rounded_x = node_int(b->n, ATTR_rounded_state, 0) == ROUNDED_ALL;
    q->clip = node_float(b->n, ATTR_clip, 0.0f);
    q->cell_clip = node_float(b->n, ATTR_cell_clip, 0.0f);
    q->unit_floats = ((q->gates + 3) * q->hidden + 15) / 16 * 16;
    if (q->directions < 1 || q->directions > DIRECTIONS_MAX || !sizes_fit(b, q) ||
        !activations_read(b->n, q->directions, q)) {
        return build_fail(b, PEN_ERR_SHAPE, "weights, states or results have another size");
    }
    q->x_at = q->directions * q->batch * q->unit_floats;
    b->step->scratch_bytes = (q->x_at + (q->rounded_x ? q->steps * q->batch * q->inputs : 0)) * sizeof(float);
    b->step->state = q;
    b->step->run = any_run;
    return PEN_OK;
}
