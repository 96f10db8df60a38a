#include "backend/reference/rnn.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#define ACT(name, formula)                                                                                             \
    static double name(double x, double alpha, double beta)                                                            \
    {                                                                                                                  \
        (void)alpha, (void)beta;                                                                                       \
        return formula;                                                                                                \
    }

ACT(act_relu, x < 0.0 ? 0.0 : x)
ACT(act_tanh, tanh(x))
ACT(act_sigmoid, 1.0 / (1.0 + exp(-x)))
ACT(act_affine, alpha *x + beta)
ACT(act_leaky, x < 0.0 ? alpha * x : x)
ACT(act_thresholded, x < alpha ? 0.0 : x)
ACT(act_scaled_tanh, alpha *tanh(beta *x))
ACT(act_hard_sigmoid, fmin(fmax(alpha *x + beta, 0.0), 1.0))
ACT(act_elu, x < 0.0 ? alpha * expm1(x) : x)
ACT(act_softsign, x / (1.0 + fabs(x)))
ACT(act_softplus, x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x)))
ACT(act_swish, x / (1.0 + exp(-x)))
ACT(act_mish, x *tanh(x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x))))
ACT(act_gelu, 0.5 * x * (1.0 + erf(x / sqrt(2.0))))
ACT(act_selu, 1.0507009873554805 * (x < 0.0 ? 1.6732632423543772 * expm1(x) : x))
ACT(act_exp, exp(x))
ACT(act_relu6, fmin(fmax(x, 0.0), 6.0))

static const struct {
    const char *name;
    struct rnn_activation act;
} activations[] = {
    {"Relu", {act_relu, 0, 0}},
    {"Tanh", {act_tanh, 0, 0}},
    {"Sigmoid", {act_sigmoid, 0, 0}},
    {"Affine", {act_affine, 1.0, 0.0}},
    {"LeakyRelu", {act_leaky, 0.01, 0}},
    {"ThresholdedRelu", {act_thresholded, 1.0, 0}},
    {"ScaledTanh", {act_scaled_tanh, 1.0, 1.0}},
    {"HardSigmoid", {act_hard_sigmoid, 0.2, 0.5}},
    {"Elu", {act_elu, 1.0, 0}},
    {"Softsign", {act_softsign, 0, 0}},
    {"Softplus", {act_softplus, 0, 0}},
    {"Swish", {act_swish, 0, 0}}, /* from here on: Keras' */
    {"Mish", {act_mish, 0, 0}},
    {"Gelu", {act_gelu, 0, 0}},
    {"Selu", {act_selu, 0, 0}},
    {"Exponential", {act_exp, 0, 0}},
    {"Relu6", {act_relu6, 0, 0}},
};

static bool name_is(const char *name, const char *text, size_t bytes)
{
    return strlen(name) == bytes && strncasecmp(name, text, bytes) == 0;
}

static bool activation_find(const char *text, size_t bytes, struct rnn_activation *ret)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (name_is(activations[i].name, text, bytes)) {
            *ret = activations[i].act;
            return true;
        }
    }
    return false;
}

/* Names from the node, or the operator's own for each direction. */
static enum pen_status activations_init(struct kernel_call *k, struct rnn *r, const char *const *names)
{
    const struct attr *given = node_attr(k->n, ATTR_activations);
    const struct attr *alpha = node_attr(k->n, ATTR_activation_alpha), *beta = node_attr(k->n, ATTR_activation_beta);
    uint32_t count = r->act_per * (uint32_t)r->directions;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = names[i % r->act_per];
        size_t bytes = strlen(text);
        if (given != NULL && i < given->count) {
            text = given->texts[i].text;
            bytes = given->texts[i].bytes;
        }
        if (!activation_find(text, bytes, &r->act[i])) {
            return kernel_fail(k, PEN_ERR_UNSUPPORTED, "activation %.*s", (int)bytes, text);
        }
        r->act[i].alpha = alpha != NULL && i < alpha->count ? (double)alpha->floats[i] : r->act[i].alpha;
        r->act[i].beta = beta != NULL && i < beta->count ? (double)beta->floats[i] : r->act[i].beta;
    }
    return PEN_OK;
}

/* A double copy of an input that must hold `want` elements; NULL when omitted. */
static enum pen_status load(struct kernel_call *k, uint32_t index, int64_t want, const double **ret)
{
    double *copy = NULL;
    *ret = NULL;
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    if (shape_elements(&k->in[index].shape) != want) {
        return kernel_fail(k, PEN_ERR_SHAPE, "input %u has %lld elements, expected %lld", index,
                           (long long)shape_elements(&k->in[index].shape), (long long)want);
    }
    enum pen_status status = kernel_doubles(k, index, &copy);
    *ret = copy;
    return status;
}

static enum pen_status lengths_init(struct kernel_call *k, struct rnn *r)
{
    int64_t *lengths = kernel_scratch(k, (size_t)r->batch * sizeof *lengths);
    if (lengths == NULL || (kernel_has(k, 4) && shape_elements(&k->in[4].shape) != r->batch)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "sequence lengths do not fit the batch");
    }
    for (int64_t i = 0; i < r->batch; i++) {
        lengths[i] = kernel_has(k, 4) ? load_one_i64(k->in[4].data, k->in[4].dtype, i) : r->time;
        if (lengths[i] < 0 || lengths[i] > r->time) {
            return kernel_fail(k, PEN_ERR_INVALID, "a sequence length of %lld", (long long)lengths[i]);
        }
    }
    r->lengths = lengths;
    return PEN_OK;
}

/* x, w, r, b, lengths, h0, c0, p */
static enum pen_status tensors_init(struct kernel_call *k, struct rnn *r)
{
    int64_t rows = r->directions * r->gates * r->hidden, state = r->directions * r->batch * r->hidden;
    const struct {
        uint32_t input;
        int64_t count;
        const double **to;
    } loads[] = {
        {0, r->time * r->batch * r->input, &r->x},
        {1, rows * r->input, &r->w},
        {2, rows * r->hidden, &r->r},
        {3, 2 * rows, &r->b},
        {5, state, &r->h0},
        {6, state, &r->c0},
        {7, r->directions * 3 * r->hidden, &r->p},
    };
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        enum pen_status status = load(k, loads[i].input, loads[i].count, loads[i].to);
        if (status != PEN_OK) {
            return status;
        }
    }
    return lengths_init(k, r);
}

/* x rounded to bytes over its own range, which holds 0, and back: DynamicQuantizeLinear, in float as there. */
static void bytes_round(const double *x, int64_t n, double *y)
{
    float low = 0.0f, high = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, (float)x[i]);
        high = fmaxf(high, (float)x[i]);
    }
    float scale = (high - low) / 255.0f;
    float zero = scale > 0.0f ? nearbyintf(fminf(fmaxf(-low / scale, 0.0f), 255.0f)) : 0.0f;
    for (int64_t i = 0; i < n; i++) {
        float code = scale > 0.0f ? nearbyintf((float)x[i] / scale) + zero : 0.0f;
        y[i] = scale > 0.0f ? (double)(fminf(fmaxf(code, 0.0f), 255.0f) - zero) * (double)scale : 0.0;
    }
}

enum pen_status rnn_init(struct kernel_call *k, int64_t gates, uint32_t acts, const char *const *names, struct rnn *r)
{
    const struct shape *x = &k->in[0].shape, *rec = &k->in[2].shape;
    if (x->rank != 3 || rec->rank != 3 || rec->dim[0] < 1 || rec->dim[0] > 2) {
        return kernel_fail(k, PEN_ERR_SHAPE, "needs x and weights of rank 3");
    }
    *r = (struct rnn){.batch_first = node_int(k->n, ATTR_layout, 0) != 0,
                      .input = x->dim[2],
                      .hidden = rec->dim[2],
                      .directions = rec->dim[0],
                      .gates = gates,
                      .act_per = acts,
                      .rounded = node_int(k->n, ATTR_rounded_state, 0) != ROUNDED_NONE,
                      .reverse_first = node_text_is(k->n, ATTR_direction, "reverse", false),
                      .clip = (double)node_float(k->n, ATTR_clip, 0.0f)};
    r->time = x->dim[r->batch_first ? 1 : 0];
    r->batch = x->dim[r->batch_first ? 0 : 1];
    enum pen_status status = activations_init(k, r, names);
    if (status == PEN_OK) {
        status = tensors_init(k, r);
    }
    if (status != PEN_OK) {
        return status;
    }
    size_t state = (size_t)(r->batch * r->hidden) * sizeof(double), gate = (size_t)(gates * r->hidden) * sizeof(double);
    r->h = kernel_scratch(k, state);
    r->c = kernel_scratch(k, state);
    r->gate = kernel_scratch(k, gate);
    r->scratch = kernel_scratch(k, 2 * gate);
    r->bytes = r->rounded ? kernel_scratch(k, state) : r->h;
    if (status == PEN_OK && node_int(k->n, ATTR_rounded_state, 0) == ROUNDED_ALL) {
        const int64_t count = r->time * r->batch * r->input;
        double *bytes = kernel_scratch(k, (size_t)count * sizeof *bytes);
        if (bytes == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the input");
        }
        bytes_round(r->x, count, bytes);
        r->x = bytes;
    }
    bool ok = r->bytes != NULL && r->h != NULL && r->c != NULL && r->gate != NULL && r->scratch != NULL;
    return ok ? PEN_OK : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the state");
}

double rnn_activate_cell(const struct rnn *r, int64_t direction, uint32_t which, double x)
{
    const struct rnn_activation *a = &r->act[direction * r->act_per + which];
    return a->fn(x, a->alpha, a->beta);
}

double rnn_activate(const struct rnn *r, int64_t direction, uint32_t which, double x)
{
    return rnn_activate_cell(r, direction, which, rnn_clip(r, x));
}

double rnn_clip(const struct rnn *r, double x)
{
    return r->clip <= 0.0 ? x : x < -r->clip ? -r->clip : x > r->clip ? r->clip : x;
}

double rnn_dot(const double *a, const double *b, int64_t n)
{
    double s[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int j = 0; j < 4; j++) {
            s[j] += a[i + j] * b[i + j];
        }
    }
    for (; i < n; i++) {
        s[0] += a[i] * b[i];
    }
    return s[0] + s[1] + s[2] + s[3];
}

/* State [directions, batch, hidden], or [batch, directions, hidden] when batch_first. */
static int64_t state_at(const struct rnn *r, int64_t direction, int64_t batch)
{
    return (r->batch_first ? batch * r->directions + direction : direction * r->batch + batch) * r->hidden;
}

/* Y [time, directions, batch, hidden], or [batch, time, directions, hidden]. */
static int64_t output_at(const struct rnn *r, int64_t t, int64_t direction, int64_t batch)
{
    return (r->batch_first ? (batch * r->time + t) * r->directions + direction
                           : (t * r->directions + direction) * r->batch + batch) *
           r->hidden;
}

static enum pen_status outputs_new(struct kernel_call *k, const struct rnn *r, bool has_cell)
{
    struct shape y = r->batch_first ? shape_of(4, (const int64_t[]){r->batch, r->time, r->directions, r->hidden})
                                    : shape_of(4, (const int64_t[]){r->time, r->directions, r->batch, r->hidden});
    struct shape state = r->batch_first ? shape_of(3, (const int64_t[]){r->batch, r->directions, r->hidden})
                                        : shape_of(3, (const int64_t[]){r->directions, r->batch, r->hidden});
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < 3 && status == PEN_OK; i++) {
        if (kernel_wants(k, i) && (i < 2 || has_cell)) {
            status = kernel_output(k, i, k->in[0].dtype, i == 0 ? &y : &state);
        }
    }
    if (status == PEN_OK && kernel_wants(k, 0)) { /* steps behind a sequence's end are zero */
        memset(k->out[0].data, 0, k->out[0].bytes);
    }
    return status;
}

static void state_start(struct rnn *r, int64_t direction)
{
    for (int64_t b = 0; b < r->batch; b++) {
        for (int64_t i = 0; i < r->hidden; i++) {
            r->h[b * r->hidden + i] = r->h0 != NULL ? r->h0[state_at(r, direction, b) + i] : 0.0;
            r->c[b * r->hidden + i] = r->c0 != NULL ? r->c0[state_at(r, direction, b) + i] : 0.0;
        }
    }
}

/* Where an entry ended: its state goes out. */
static void state_store(struct kernel_call *k, const struct rnn *r, int64_t d, int64_t b, bool has_cell)
{
    enum pen_dtype dtype = k->in[0].dtype;
    if (kernel_wants(k, 1)) {
        store_f64(k->out[1].data, dtype, state_at(r, d, b), 1, r->hidden, r->h + b * r->hidden);
    }
    if (has_cell && kernel_wants(k, 2)) {
        store_f64(k->out[2].data, dtype, state_at(r, d, b), 1, r->hidden, r->c + b * r->hidden);
    }
}

/* Step i of entry b, where its sequence is that long. */
static void entry_step(struct kernel_call *k, struct rnn *r, rnn_step step, int64_t d, int64_t b, int64_t i)
{
    double *h = r->h + b * r->hidden, *c = r->c + b * r->hidden;
    int64_t t = d == 1 || r->reverse_first ? r->lengths[b] - 1 - i : i;
    if (i >= r->lengths[b]) {
        return;
    }
    if (r->rounded) {
        memcpy(h, r->bytes + b * r->hidden, (size_t)r->hidden * sizeof *h);
    }
    step(r, k->n, d, r->x + (r->batch_first ? b * r->time + t : t * r->batch + b) * r->input, h, c);
    if (kernel_wants(k, 0)) {
        store_f64(k->out[0].data, k->in[0].dtype, output_at(r, t, d, b), 1, r->hidden, h);
    }
}

/* The states before step i, rounded together. onnxruntime has zeros for a sequence from one step behind its end on. */
static void states_round(struct rnn *r, int64_t i)
{
    const size_t row = (size_t)r->hidden * sizeof *r->h;
    for (int64_t b = 0; b < r->batch; b++) {
        if (i > r->lengths[b]) {
            memset(r->bytes + b * r->hidden, 0, row);
        } else {
            memcpy(r->bytes + b * r->hidden, r->h + b * r->hidden, row);
        }
    }
    bytes_round(r->bytes, r->batch * r->hidden, r->bytes);
}

enum pen_status rnn_run(struct kernel_call *k, struct rnn *r, rnn_step step, bool has_cell)
{
    enum pen_status status = outputs_new(k, r, has_cell);
    for (int64_t d = 0; d < r->directions && status == PEN_OK; d++) {
        state_start(r, d);
        for (int64_t i = 0; i < r->time && status == PEN_OK; i++) {
            if (r->rounded) {
                states_round(r, i);
            }
            for (int64_t b = 0; b < r->batch; b++) {
                entry_step(k, r, step, d, b, i);
            }
            status = kernel_cancelled(k);
        }
        for (int64_t b = 0; b < r->batch && status == PEN_OK; b++) {
            state_store(k, r, d, b, has_cell);
        }
    }
    return status;
}
