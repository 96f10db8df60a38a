#include "backend/experts.h"

#include <math.h>
#include <string.h>

#define EXPERTS_MAX 4096

static bool act_of(const struct node *n, enum expert_act *ret)
{
    static const char *const names[] = {"relu", "gelu", "silu", "identity", "swiglu"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (node_text_is(n, ATTR_activation_type, names[i], i == 0)) {
            *ret = (enum expert_act)i;
            return true;
        }
    }
    return false;
}

static bool is(const struct shape *s, int32_t rank, size_t a, size_t b, size_t c)
{
    const size_t want[3] = {a, b, c};
    for (int32_t i = 0; s != NULL && i < rank; i++) {
        if (s->rank != rank || s->dim[i] != (int64_t)want[i]) {
            return false;
        }
    }
    return true;
}

bool experts_of(const struct node *n, const struct shape *const shapes[8], struct experts *e, const char **ret_reason)
{
    const struct shape *x = shapes[0], *router = shapes[1], *w1 = shapes[2], *w2 = shapes[4];
    int64_t k = node_int(n, ATTR_k, 1), fusion = node_int(n, ATTR_swiglu_fusion, 0);
    *e = (struct experts){.normalise = node_int(n, ATTR_normalize_routing_weights, 0) != 0,
                          .interleaved = fusion == 1,
                          .alpha = node_float(n, ATTR_activation_alpha, 1.0f),
                          .beta = node_float(n, ATTR_activation_beta, 0.0f),
                          .limit = node_float(n, ATTR_swiglu_limit, INFINITY)};
    *ret_reason = "x, router and weights that fit each other are needed";
    if (x->rank < 2 || router->rank != 2 || w1->rank != 3 || w2->rank != 3 || w1->dim[0] < 1 ||
        w1->dim[0] > EXPERTS_MAX || k < 1 || k > w1->dim[0]) {
        return false;
    }
    e->count = (size_t)w1->dim[0];
    e->k = (size_t)k;
    e->hidden = (size_t)x->dim[x->rank - 1];
    e->rows = e->hidden > 0 ? (size_t)shape_elements(x) / e->hidden : 0;
    e->first = (size_t)w1->dim[1];
    e->inter = (size_t)w2->dim[2];
    if (!act_of(n, &e->act) || (shapes[6] != NULL && e->act == EXPERT_SWIGLU) ||
        (e->act == EXPERT_SWIGLU && fusion != 1 && fusion != 2) || node_int(n, ATTR_use_sparse_mixer, 0) != 0 ||
        node_int(n, ATTR_swiglu_limit_after_activation, 0) != 0) {
        *ret_reason = "activations relu, gelu, silu, identity and fused swiglu, and no sparse mixer, are known here";
        return false;
    }
    return e->first == (e->act == EXPERT_SWIGLU ? 2 : 1) * e->inter && is(router, 2, e->rows, e->count, 0) &&
           is(w1, 3, e->count, e->first, e->hidden) && is(shapes[3], 2, e->count, e->first, 0) &&
           is(w2, 3, e->count, e->hidden, e->inter) && is(shapes[5], 2, e->count, e->hidden, 0) &&
           is(shapes[6], 3, e->count, e->inter, e->hidden) && is(shapes[7], 2, e->count, e->inter, 0);
}

size_t experts_scratch(const struct experts *e)
{
    return e->first + e->inter + e->count;
}

/* y [out] = w x + b of one expert */
static void layer(const struct experts *e, const float *w, const float *b, size_t expert, size_t out, size_t in,
                  const float *x, float *y)
{
    for (size_t i = 0; i < out; i++) {
        y[i] = e->dot(w + (expert * out + i) * in, x, in) + (b != NULL ? b[expert * out + i] : 0.0f);
    }
}

static float silu(float x, float alpha)
{
    return x / (1.0f + expf(-alpha * x));
}

static float plain_act(enum expert_act act, float x)
{
    return act == EXPERT_RELU   ? (x < 0.0f ? 0.0f : x)
           : act == EXPERT_GELU ? 0.5f * x * (1.0f + tanhf(0.7978845608f * x * (1.0f + 0.044715f * x * x)))
           : act == EXPERT_SILU ? silu(x, 1.0f)
                                : x;
}

/* inter [inter] from the first layer's rows; swiglu(g, l) = g sigmoid(alpha g) (l + beta), both clamped before. */
static void activate(const struct experts *e, const float *rows, float *inter)
{
    for (size_t i = 0; i < e->inter; i++) {
        if (e->act != EXPERT_SWIGLU) {
            inter[i] = plain_act(e->act, rows[i]);
            continue;
        }
        float gate = e->interleaved ? rows[2 * i] : rows[i];
        float value = e->interleaved ? rows[2 * i + 1] : rows[e->inter + i];
        gate = fminf(gate, e->limit);
        value = fminf(fmaxf(value, -e->limit), e->limit);
        inter[i] = silu(gate, e->alpha) * (value + e->beta);
    }
}

/* The best expert that is not taken yet; the first of equals. */
static size_t best(const struct experts *e, const float *router, const float *taken)
{
    size_t at = e->count;
    for (size_t i = 0; i < e->count; i++) {
        if (taken[i] == 0.0f && (at == e->count || router[i] > router[at])) {
            at = i;
        }
    }
    return at;
}

/* share [count]: how much each expert's answer counts, 0 for those that are not asked. Softmax over all, then over the chosen when normalised. */
static void route(const struct experts *e, const float *router, float *share)
{
    float sum = 0.0f, most = -INFINITY;
    for (size_t i = 0; i < e->count; i++) {
        share[i] = 0.0f;
        most = fmaxf(most, router[i]);
    }
    for (size_t i = 0; i < e->count && !e->normalise; i++) {
        sum += expf(router[i] - most);
    }
    for (size_t i = 0; i < e->k; i++) {
        size_t at = best(e, router, share);
        share[at] = fmaxf(expf(router[at] - most), 1e-37f);
        sum += e->normalise ? share[at] : 0.0f;
    }
    for (size_t i = 0; i < e->count; i++) {
        share[i] /= sum;
    }
}

void experts_row(const struct experts *e, const float *x, const float *router, float *scratch, float *y)
{
    float *rows = scratch, *inter = rows + e->first, *share = inter + e->inter;
    memset(y, 0, e->hidden * sizeof *y);
    route(e, router, share);
    for (size_t i = 0; i < e->count; i++) {
        if (share[i] == 0.0f) {
            continue;
        }
        layer(e, e->w1, e->b1, i, e->first, e->hidden, x, rows);
        activate(e, rows, inter);
        if (e->w3 != NULL) {
            layer(e, e->w3, e->b3, i, e->inter, e->hidden, x, rows);
            for (size_t j = 0; j < e->inter; j++) {
                inter[j] *= rows[j];
            }
        }
        for (size_t j = 0; j < e->hidden; j++) {
            float one = e->dot(e->w2 + (i * e->hidden + j) * e->inter, inter, e->inter);
            y[j] += share[i] * (one + (e->b2 != NULL ? e->b2[i * e->hidden + j] : 0.0f));
        }
    }
}
