#include "backend/scores.h"

#include <math.h>

#include "graph/scores.h"

enum post_transform post_transform_of(const struct node *n)
{
    static const char *const names[] = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};
    for (int i = POST_LOGISTIC; i <= POST_PROBIT; i++) {
        if (node_text_is(n, ATTR_post_transform, names[i], false)) {
            return (enum post_transform)i;
        }
    }
    return POST_NONE;
}

/* 1 / (1 + exp(-x)), from the side that does not overflow */
float logistic(float x)
{
    float v = 1.0f / (1.0f + expf(-fabsf(x)));
    return x < 0.0f ? 1.0f - v : v;
}

/* sqrt(2) * inverse error function of 2x - 1, by Winitzki's approximation (a = 0.147), as onnxruntime has it. */
static float probit(float x)
{
    float v = 2.0f * x - 1.0f, sign = v < 0.0f ? -1.0f : 1.0f, log = logf((1.0f - v) * (1.0f + v));
    float a = 2.0f / (3.14159f * 0.147f) + 0.5f * log;
    return 1.41421356f * sign * sqrtf(-a + sqrtf(a * a - log / 0.147f));
}

static void softmax(float *y, size_t count, bool zeros_stay)
{
    float most = -INFINITY, sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        most = y[i] > most ? y[i] : most;
    }
    float of_zero = expf(-most);
    for (size_t i = 0; i < count; i++) {
        bool zero = zeros_stay && fabsf(y[i]) <= 0.0000001f;
        y[i] = zero ? y[i] * of_zero : expf(y[i] - most);
        sum += zero ? 0.0f : y[i];
    }
    for (size_t i = 0; i < count; i++) {
        y[i] /= sum;
    }
}

void post_transform_row(enum post_transform t, float *y, size_t count)
{
    if (count == 1 && t != POST_PROBIT) {
        return;
    }
    if (t == POST_SOFTMAX || t == POST_SOFTMAX_ZERO) {
        softmax(y, count, t == POST_SOFTMAX_ZERO);
        return;
    }
    for (size_t i = 0; i < count && t != POST_NONE; i++) {
        y[i] = t == POST_LOGISTIC ? logistic(y[i]) : probit(y[i]);
    }
}

void class_scores_of(const struct node *n, size_t columns, struct class_scores *ret)
{
    const struct attr *base = node_attr(n, ATTR_base_values);
    *ret = (struct class_scores){.rule = node_int(n, ATTR_rule, SCORE_MOST),
                                 .post = post_transform_of(n),
                                 .columns = columns,
                                 .classes = (size_t)node_int(n, ATTR_classes, 1),
                                 .base = base != NULL ? base->floats : NULL,
                                 .base_count = base != NULL ? base->count : 0};
    ret->named = node_ints(n, ATTR_class_ids, &ret->named_count);
}

bool class_scores_fit(const struct class_scores *s)
{
    bool two = s->rule != SCORE_MOST;
    for (uint32_t i = 0; i < s->named_count; i++) {
        if (s->named[i] < 0 || (size_t)s->named[i] >= s->classes) {
            return false;
        }
    }
    size_t columns = two && s->rule != SCORE_BOTH ? 1 : s->classes;
    return s->columns == columns && s->classes > 0 && (!two || s->classes == 2);
}

/* y = raw + base values; gives the highest. */
static int64_t most_row(const struct class_scores *s, const float *raw, float *y)
{
    size_t candidates = s->named_count > 0 ? s->named_count : s->classes;
    int64_t best = s->named_count > 0 ? s->named[0] : 0;
    for (size_t i = 0; i < s->classes; i++) {
        y[i] = raw[i] + (i < s->base_count ? s->base[i] : 0.0f);
    }
    for (size_t i = 1; i < candidates; i++) {
        int64_t at = s->named_count > 0 ? s->named[i] : (int64_t)i;
        best = y[at] > y[best] ? at : best;
    }
    best = s->classes == 1 ? y[0] > 0.0f : best;
    post_transform_row(s->post, y, s->classes);
    return best;
}

static float bound_of(const struct class_scores *s)
{
    return s->rule == SCORE_HALF || s->rule == SCORE_HALF_SECOND ? 0.5f : 0.0f;
}

/* One score for two classes: 1 - s and s, or the pair that trees of mixed signs have. */
static int64_t pair_row(const struct class_scores *s, float score, float *y)
{
    bool one = score > bound_of(s);
    if (s->post == POST_PROBIT) {
        y[0] = score;
        y[1] = 0.0f;
        post_transform_row(s->post, y, 1);
    } else if (s->post == POST_LOGISTIC) {
        y[0] = logistic(-score);
        y[1] = logistic(score);
    } else if (s->rule == SCORE_SIGN) {
        y[0] = -score;
        y[1] = score;
    } else {
        y[0] = 1.0f - score;
        y[1] = score;
    }
    return one;
}

/* Two columns as they are, then the transform. */
static int64_t both_row(const struct class_scores *s, float first, float second, bool one, float *y)
{
    y[0] = first;
    y[1] = second;
    post_transform_row(s->post, y, 2);
    return one;
}

int64_t class_scores_row(const struct class_scores *s, const float *raw, float *y)
{
    switch (s->rule) {
    case SCORE_MOST:
        return most_row(s, raw, y);
    case SCORE_BOTH:
        if (s->base_count == 2) {
            float second = s->base[1] + raw[0];
            return both_row(s, -second, second, second > 0.0f, y);
        }
        return both_row(s, raw[0] + (s->base_count == 1 ? s->base[0] : 0.0f), raw[1], raw[1] > 0.0f, y);
    case SCORE_HALF_SECOND:
    case SCORE_SIGN_SECOND:
        return both_row(s, 0.0f, raw[0], raw[0] > bound_of(s), y);
    default: {
        float score = raw[0] + (s->base_count > 0 ? s->base[0] : 0.0f);
        return s->base_count == 2 ? both_row(s, score, 0.0f, score > bound_of(s), y) : pair_row(s, score, y);
    }
    }
}
