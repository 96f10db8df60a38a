#include "backend/svm.h"

#include <math.h>
#include <string.h>

static double kernel_of(const struct svm *s, const float *x, const float *v)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->features; i++) {
        double d = (double)x[i] - (double)v[i];
        sum += s->kernel == SVM_RBF ? d * d : (double)x[i] * (double)v[i];
    }
    switch (s->kernel) {
    case SVM_POLY:
        return pow((double)s->gamma * sum + (double)s->coef0, (double)s->degree);
    case SVM_RBF:
        return exp(-(double)s->gamma * sum);
    case SVM_SIGMOID:
        return tanh((double)s->gamma * sum + (double)s->coef0);
    case SVM_LINEAR:
    default:
        return sum;
    }
}

static const float *floats_of(const struct node *n, enum attr_key key, size_t *ret_count)
{
    const struct attr *a = node_attr(n, key);
    *ret_count = a != NULL && a->type == ATTR_FLOATS ? a->count : 0;
    return *ret_count > 0 ? a->floats : NULL;
}

static void kernel_read(const struct node *n, struct svm *s)
{
    size_t count = 0;
    const float *p = floats_of(n, ATTR_kernel_params, &count);
    s->kernel = node_text_is(n, ATTR_kernel_type, "POLY", false)      ? SVM_POLY
                : node_text_is(n, ATTR_kernel_type, "RBF", false)     ? SVM_RBF
                : node_text_is(n, ATTR_kernel_type, "SIGMOID", false) ? SVM_SIGMOID
                                                                      : SVM_LINEAR;
    s->gamma = count > 0 ? p[0] : 0.0f;
    s->coef0 = count > 1 ? p[1] : 0.0f;
    s->degree = count > 2 ? p[2] : 0.0f;
}

/* How many support vectors, and that the lists are as long as they say. */
static const char *lists_check(const struct node *n, struct svm *s, size_t width, size_t vectors, size_t coefficients,
                               size_t rho, size_t prob_a, size_t prob_b)
{
    bool classifier = n->op == OP_SVMClassifier;
    uint32_t counts = 0;
    s->per_class = node_ints(n, ATTR_vectors_per_class, &counts);
    int64_t total = classifier ? 0 : node_int(n, ATTR_n_supports, 0);
    for (uint32_t i = 0; classifier && i < counts; i++) {
        total = s->per_class[i] < 0 || total < 0 ? -1 : total + s->per_class[i];
    }
    if (total < 0 || total > INT32_MAX || width == 0 || rho == 0 || s->coefficients == NULL) {
        return "counts of support vectors are below 0, or there are no coefficients, no rho or no features";
    }
    s->vector_count = (size_t)total;
    s->pairs = s->classes * (s->classes - 1) / 2;
    if (total == 0) {
        s->kernel = SVM_LINEAR;
        return coefficients == s->classes * width ? NULL : "the coefficients do not suit the features";
    }
    size_t rows = classifier ? s->classes - 1 : 1;
    bool fits = vectors == s->vector_count * width && coefficients >= rows * s->vector_count &&
                rho >= (classifier ? s->pairs : 1) && (!classifier || counts == s->classes) && prob_a == prob_b &&
                (prob_a == 0 || prob_a >= s->pairs);
    return fits ? NULL : "support vectors, coefficients, rho and probabilities do not suit each other or the features";
}

bool svm_of(const struct node *n, size_t width, struct svm *ret, const char **ret_reason)
{
    size_t vectors, coefficients, rho, a, b;
    *ret = (struct svm){.features = width,
                        .classes = n->op == OP_SVMClassifier ? (size_t)node_int(n, ATTR_classes, 1) : 1,
                        .one_class = node_int(n, ATTR_one_class, 0) != 0,
                        .positive = true,
                        .post = post_transform_of(n)};
    kernel_read(n, ret);
    ret->vectors = floats_of(n, ATTR_support_vectors, &vectors);
    ret->coefficients = floats_of(n, ATTR_coefficients, &coefficients);
    ret->rho = floats_of(n, ATTR_rho, &rho);
    ret->prob_a = floats_of(n, ATTR_prob_a, &a);
    ret->prob_b = floats_of(n, ATTR_prob_b, &b);
    *ret_reason = lists_check(n, ret, width, vectors, coefficients, rho, a, b);
    for (size_t i = 0; i < coefficients; i++) {
        ret->positive = ret->positive && ret->coefficients[i] >= 0.0f;
    }
    return *ret_reason == NULL;
}

size_t svm_scores(const struct svm *s)
{
    return s->vector_count > 0 && s->prob_a == NULL && s->classes > 2 ? s->pairs : s->classes;
}

size_t svm_scratch(const struct svm *s)
{
    return s->vector_count + s->pairs + 3 * s->classes + 2 * s->classes * s->classes;
}

float svm_regress(const struct svm *s, const float *x)
{
    double sum = (double)s->rho[0];
    if (s->vector_count == 0) {
        sum += kernel_of(s, x, s->coefficients);
    }
    for (size_t i = 0; i < s->vector_count; i++) {
        sum += (double)s->coefficients[i] * kernel_of(s, x, s->vectors + i * s->features);
    }
    return s->one_class ? (sum > 0.0 ? 1.0f : -1.0f) : (float)sum;
}

/* Coefficients [classes - 1, vectors]: row j - 1 holds class i's against class j > i, row i class j's against class i < j. */
static double pair_sum(const struct svm *s, const float *k, size_t i, size_t j, const size_t start[2])
{
    double sum = 0.0;
    const float *a = s->coefficients + (j - 1) * s->vector_count, *b = s->coefficients + i * s->vector_count;
    for (size_t m = start[0]; m < start[0] + (size_t)s->per_class[i]; m++) {
        sum += (double)a[m] * (double)k[m];
    }
    for (size_t m = start[1]; m < start[1] + (size_t)s->per_class[j]; m++) {
        sum += (double)b[m] * (double)k[m];
    }
    return sum;
}

/* Probabilities p from r[i, j] = P(i | i or j): the minimum of sum over pairs of (r_ji p_i - r_ij p_j)^2, by iteration. */
static void couple(size_t n, const float *r, float *p, float *q, float *qp)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = 1.0f / (float)n;
        q[i * n + i] = 0.0f;
        for (size_t j = 0; j < n; j++) {
            if (j != i) {
                q[i * n + i] += r[j * n + i] * r[j * n + i];
                q[i * n + j] = -r[j * n + i] * r[i * n + j];
            }
        }
    }
    for (int turn = 0; turn < 100; turn++) {
        float pqp = 0.0f, worst = 0.0f;
        for (size_t i = 0; i < n; i++) {
            qp[i] = 0.0f;
            for (size_t j = 0; j < n; j++) {
                qp[i] += q[i * n + j] * p[j];
            }
            pqp += p[i] * qp[i];
        }
        for (size_t i = 0; i < n; i++) {
            worst = fmaxf(worst, fabsf(qp[i] - pqp));
        }
        if (worst < 0.005f / (float)n) {
            break;
        }
        for (size_t i = 0; i < n; i++) {
            float d = (pqp - qp[i]) / q[i * n + i];
            p[i] += d;
            pqp = (pqp + d * (d * q[i * n + i] + 2.0f * qp[i])) / (1.0f + d) / (1.0f + d);
            for (size_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + d * q[i * n + j]) / (1.0f + d);
                p[j] /= 1.0f + d;
            }
        }
    }
}

/* r from the scores of pairs, by the sigmoids that were fitted: kept off 0 and 1. */
static void probabilities(const struct svm *s, const float *scores, float *y, float *scratch)
{
    size_t n = s->classes, at = 0;
    float *r = scratch, *q = r + n * n, *qp = q + n * n;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++, at++) {
            float v = 1.0f - logistic(scores[at] * s->prob_a[at] + s->prob_b[at]);
            v = fminf(fmaxf(v, 1.0e-7f), 1.0f - 1.0e-7f);
            r[i * n + j] = v;
            r[j * n + i] = 1.0f - v;
        }
    }
    couple(n, r, y, q, qp);
}

static int64_t linear_classify(const struct svm *s, const float *x, float *y)
{
    int64_t best = 0;
    for (size_t i = 0; i < s->classes; i++) {
        y[i] = (float)(kernel_of(s, x, s->coefficients + i * s->features) + (double)s->rho[0]);
        best = y[i] > y[best] ? (int64_t)i : best;
    }
    float most = y[best];
    if (s->classes == 2 && s->prob_a == NULL && (s->positive ? most >= 0.5f : most > 0.0f)) {
        best = 1;
    }
    post_transform_row(s->post, y, s->classes);
    return best;
}

/* Two classes without probabilities: the one score and its opposite. */
static void two_scores(const struct svm *s, float score, float *y)
{
    y[0] = s->post == POST_NONE ? -score : s->post == POST_LOGISTIC ? logistic(-score) : 1.0f - score;
    y[1] = s->post == POST_LOGISTIC ? logistic(score) : score;
}

int64_t svm_classify(const struct svm *s, const float *x, float *y, float *scratch)
{
    if (s->vector_count == 0) {
        return linear_classify(s, x, y);
    }
    float *k = scratch, *scores = k + s->vector_count, *votes = scores + s->pairs, *rest = votes + s->classes;
    size_t at = 0, best = 0, first_i = 0;
    memset(votes, 0, s->classes * sizeof *votes);
    for (size_t i = 0; i < s->vector_count; i++) {
        k[i] = (float)kernel_of(s, x, s->vectors + i * s->features);
    }
    for (size_t i = 0; i < s->classes; first_i += (size_t)s->per_class[i++]) {
        size_t first_j = first_i + (size_t)s->per_class[i];
        for (size_t j = i + 1; j < s->classes; first_j += (size_t)s->per_class[j++], at++) {
            size_t start[2] = {first_i, first_j};
            double sum = pair_sum(s, k, i, j, start) + (double)s->rho[at];
            scores[at] = (float)sum;
            votes[sum > 0.0 ? i : j] += 1.0f;
        }
    }
    for (size_t i = 1; i < s->classes; i++) {
        best = votes[i] > votes[best] ? i : best;
    }
    if (s->prob_a != NULL) {
        probabilities(s, scores, y, rest);
        post_transform_row(s->post, y, s->classes);
    } else if (s->classes == 2) {
        two_scores(s, scores[0], y);
    } else {
        memcpy(y, scores, s->pairs * sizeof *y);
        post_transform_row(s->post, y, s->pairs);
    }
    return (int64_t)best;
}
