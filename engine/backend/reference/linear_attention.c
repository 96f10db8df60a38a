/* Recurrent mixers of newer language models: LinearAttention, CausalConvWithState. Source: ONNX, opset 27. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

enum update_rule { RULE_LINEAR, RULE_GATED, RULE_DELTA, RULE_GATED_DELTA };

struct linear {
    enum update_rule rule;
    int64_t batch, length, q_heads, kv_heads, dk, dv;
    double scale;
    const double *q, *k, *v; /* [batch, length, heads * size] */
    const double *decay;     /* [batch, length, kv_heads * decay_size] */
    const double *beta;      /* [batch, length, beta_size] */
    int64_t decay_size, beta_size;
    double *state; /* [batch, kv_heads, dk, dv] */
    double *held;  /* [dv] */
};

static enum update_rule rule_of(const struct node *n)
{
    return node_text_is(n, ATTR_update_rule, "linear", false)  ? RULE_LINEAR
           : node_text_is(n, ATTR_update_rule, "gated", false) ? RULE_GATED
           : node_text_is(n, ATTR_update_rule, "delta", false) ? RULE_DELTA
                                                               : RULE_GATED_DELTA;
}

/* One token of one key-value head: S = decay * S + beta * k (v - S^T k), the forms without decay or delta leave those out. */
static void state_update(const struct linear *l, int64_t b, int64_t t, int64_t h)
{
    int64_t row = b * l->length + t;
    const double *key = l->k + (row * l->kv_heads + h) * l->dk, *value = l->v + (row * l->kv_heads + h) * l->dv;
    double *s = l->state + (b * l->kv_heads + h) * l->dk * l->dv;
    bool delta = l->rule == RULE_DELTA || l->rule == RULE_GATED_DELTA;
    double beta = delta ? l->beta[row * l->beta_size + (l->beta_size == 1 ? 0 : h)] : 1.0;
    for (int64_t i = 0; i < l->dk && (l->rule == RULE_GATED || l->rule == RULE_GATED_DELTA); i++) {
        double factor = exp(l->decay[(row * l->kv_heads + h) * l->decay_size + (l->decay_size == 1 ? 0 : i)]);
        for (int64_t j = 0; j < l->dv; j++) {
            s[i * l->dv + j] *= factor;
        }
    }
    for (int64_t j = 0; j < l->dv; j++) {
        l->held[j] = 0.0;
        for (int64_t i = 0; i < l->dk && delta; i++) {
            l->held[j] += s[i * l->dv + j] * key[i];
        }
    }
    for (int64_t i = 0; i < l->dk; i++) {
        for (int64_t j = 0; j < l->dv; j++) {
            s[i * l->dv + j] += beta * key[i] * (value[j] - l->held[j]);
        }
    }
}

/* o = scale * q^T S for the query heads that share this state. */
static void state_read(const struct linear *l, int64_t b, int64_t t, int64_t h, struct rt_value *y)
{
    int64_t group = l->q_heads / l->kv_heads, row = b * l->length + t;
    const double *s = l->state + (b * l->kv_heads + h) * l->dk * l->dv;
    for (int64_t g = h * group; g < (h + 1) * group; g++) {
        const double *q = l->q + (row * l->q_heads + g) * l->dk;
        for (int64_t j = 0; j < l->dv; j++) {
            double sum = 0.0;
            for (int64_t i = 0; i < l->dk; i++) {
                sum += q[i] * s[i * l->dv + j];
            }
            store_one_f64(y->data, y->dtype, (row * l->q_heads + g) * l->dv + j, l->scale * sum);
        }
    }
}

static enum pen_status optional_doubles(struct kernel_call *k, uint32_t index, bool needed, const double **ret)
{
    double *items = NULL;
    if (!kernel_has(k, index)) {
        return needed ? kernel_fail(k, PEN_ERR_INVALID, "this update rule needs input %u", index) : PEN_OK;
    }
    enum pen_status status = kernel_doubles(k, index, &items);
    *ret = items;
    return status;
}

static enum pen_status linear_init(struct kernel_call *k, struct linear *l)
{
    const struct shape *q = &k->in[0].shape, *key = &k->in[1].shape, *v = &k->in[2].shape;
    *l = (struct linear){.rule = rule_of(k->n),
                         .q_heads = node_int(k->n, ATTR_q_num_heads, 0),
                         .kv_heads = node_int(k->n, ATTR_kv_num_heads, 0)};
    if (q->rank != 3 || key->rank != 3 || v->rank != 3 || l->kv_heads < 1 || l->q_heads < 1 ||
        l->q_heads % l->kv_heads != 0 || q->dim[2] % l->q_heads != 0 || v->dim[2] % l->kv_heads != 0 ||
        key->dim[2] / l->kv_heads != q->dim[2] / l->q_heads || key->dim[2] % l->kv_heads != 0 ||
        key->dim[0] != q->dim[0] || v->dim[0] != q->dim[0] || key->dim[1] != q->dim[1] || v->dim[1] != q->dim[1]) {
        return kernel_fail(k, PEN_ERR_SHAPE, "queries, keys and values do not fit %lld and %lld heads",
                           (long long)l->q_heads, (long long)l->kv_heads);
    }
    l->batch = q->dim[0];
    l->length = q->dim[1];
    l->dk = q->dim[2] / l->q_heads;
    l->dv = v->dim[2] / l->kv_heads;
    l->scale = (double)node_float(k->n, ATTR_scale, 0.0f);
    l->scale = l->scale == 0.0 ? 1.0 / sqrt((double)l->dk) : l->scale;
    int64_t rows = l->batch * l->length;
    l->decay_size = kernel_has(k, 4) && rows > 0 ? shape_elements(&k->in[4].shape) / (rows * l->kv_heads) : 1;
    l->beta_size = kernel_has(k, 5) && rows > 0 ? shape_elements(&k->in[5].shape) / rows : 1;
    if ((l->decay_size != 1 && l->decay_size != l->dk) || (l->beta_size != 1 && l->beta_size != l->kv_heads) ||
        (kernel_has(k, 3) && shape_elements(&k->in[3].shape) != l->batch * l->kv_heads * l->dk * l->dv)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "state, decay or beta do not fit");
    }
    return PEN_OK;
}

static enum pen_status linear_load(struct kernel_call *k, struct linear *l)
{
    bool decays = l->rule == RULE_GATED || l->rule == RULE_GATED_DELTA,
         delta = l->rule == RULE_DELTA || l->rule == RULE_GATED_DELTA;
    size_t bytes = (size_t)(l->batch * l->kv_heads * l->dk * l->dv) * sizeof(double);
    enum pen_status status = optional_doubles(k, 0, true, &l->q);
    if (status == PEN_OK) {
        status = optional_doubles(k, 1, true, &l->k);
    }
    if (status == PEN_OK) {
        status = optional_doubles(k, 2, true, &l->v);
    }
    if (status == PEN_OK) {
        status = optional_doubles(k, 4, decays, &l->decay);
    }
    if (status == PEN_OK) {
        status = optional_doubles(k, 5, delta, &l->beta);
    }
    l->held = kernel_scratch(k, (size_t)l->dv * sizeof *l->held);
    l->state = kernel_scratch(k, bytes);
    if (status == PEN_OK && (l->held == NULL || l->state == NULL)) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for the state");
    }
    if (status == PEN_OK && kernel_has(k, 3)) {
        load_f64(k->in[3].data, k->in[3].dtype, 0, 1, (int64_t)(bytes / sizeof(double)), l->state);
    } else if (status == PEN_OK) {
        memset(l->state, 0, bytes);
    }
    return status;
}

/* q, k, v, past state, decay, beta */
enum pen_status kernel_linear_attention(struct kernel_call *k)
{
    struct linear l;
    enum pen_status status = linear_init(k, &l);
    if (status == PEN_OK) {
        status = linear_load(k, &l);
    }
    struct shape y = shape_of(3, (const int64_t[]){l.batch, l.length, l.q_heads * l.dv});
    struct shape state = shape_of(4, (const int64_t[]){l.batch, l.kv_heads, l.dk, l.dv});
    if (status == PEN_OK) {
        status = kernel_output(k, 0, k->in[0].dtype, &y);
    }
    for (int64_t i = 0; status == PEN_OK && i < l.batch * l.length * l.kv_heads; i++) {
        int64_t h = i % l.kv_heads, t = i / l.kv_heads % l.length, b = i / (l.kv_heads * l.length);
        state_update(&l, b, t, h);
        state_read(&l, b, t, h, &k->out[0]);
    }
    if (status == PEN_OK && kernel_wants(k, 1)) {
        status = kernel_output(k, 1, kernel_has(k, 3) ? k->in[3].dtype : k->in[0].dtype, &state);
    }
    if (status == PEN_OK && kernel_wants(k, 1)) {
        store_f64(k->out[1].data, k->out[1].dtype, 0, 1, shape_elements(&state), l.state);
    }
    return status;
}

/* y[b, c, t] = act(bias[c] + sum over i of w[c, i] * seen[t + i]); seen = the last k - 1 values of before, then x. */
enum pen_status kernel_causal_conv(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0], *w = &k->in[1];
    if (x->shape.rank != 3 || w->shape.rank != 3 || w->shape.dim[0] != x->shape.dim[1] || w->shape.dim[1] != 1 ||
        w->shape.dim[2] < 1 || (kernel_has(k, 2) && shape_elements(&k->in[2].shape) != x->shape.dim[1])) {
        return kernel_fail(k, PEN_ERR_SHAPE, "weights do not fit the data");
    }
    int64_t batch = x->shape.dim[0], channels = x->shape.dim[1], length = x->shape.dim[2], taps = w->shape.dim[2],
            before = taps - 1;
    bool swish =
        node_text_is(k->n, ATTR_activation, "silu", false) || node_text_is(k->n, ATTR_activation, "swish", false);
    struct shape carry = shape_of(3, (const int64_t[]){batch, channels, before});
    double *seen = kernel_scratch(k, (size_t)(before + length) * sizeof *seen),
           *taps_of = kernel_scratch(k, (size_t)taps * sizeof *taps_of);
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status == PEN_OK && kernel_wants(k, 1)) {
        status = kernel_output(k, 1, x->dtype, &carry);
    }
    if (status == PEN_OK &&
        (seen == NULL || taps_of == NULL || (kernel_has(k, 3) && !shape_equal(&carry, &k->in[3].shape)))) {
        status = kernel_fail(k, PEN_ERR_SHAPE, "the carried state does not fit");
    }
    for (int64_t i = 0; i < batch * channels && status == PEN_OK; i++) {
        double bias = kernel_has(k, 2) ? load_one_f64(k->in[2].data, k->in[2].dtype, i % channels) : 0.0;
        for (int64_t t = 0; t < before; t++) {
            seen[t] = kernel_has(k, 3) ? load_one_f64(k->in[3].data, k->in[3].dtype, i * before + t) : 0.0;
        }
        load_f64(x->data, x->dtype, i * length, 1, length, seen + before);
        load_f64(w->data, w->dtype, i % channels * taps, 1, taps, taps_of);
        for (int64_t t = 0; t < length; t++) {
            double sum = bias;
            for (int64_t j = 0; j < taps; j++) {
                sum += taps_of[j] * seen[t + j];
            }
            store_one_f64(k->out[0].data, x->dtype, i * length + t, swish ? sum / (1.0 + exp(-sum)) : sum);
        }
        if (kernel_wants(k, 1)) {
            store_f64(k->out[1].data, x->dtype, i * before, 1, before, seen + length);
        }
    }
    return status;
}
