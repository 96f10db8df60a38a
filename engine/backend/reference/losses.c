/* Training-side operators that appear in the standard: Dropout, losses, optimisers. Source: ONNX. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

#include "backend/reference/random.h"

/* In inference: a copy. In training mode: y = x * mask / (1 - ratio), the mask drawn from the seed. */
enum pen_status kernel_dropout(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    double ratio = kernel_scalar(k, 1, 0.5);
    bool training = kernel_scalar(k, 2, 0.0) != 0.0 && ratio > 0.0;
    struct random r;
    int64_t total = shape_elements(&x->shape);
    enum pen_status status = kernel_output_like(k, 0, 0);
    if (status == PEN_OK && kernel_wants(k, 1)) {
        status = kernel_output(k, 1, PEN_DTYPE_BOOL, &x->shape);
    }
    if (status != PEN_OK) {
        return status;
    }
    random_init(&r, k->n);
    if (!training && total > 0) {
        memcpy(k->out[0].data, x->data, k->out[0].bytes < x->bytes ? k->out[0].bytes : x->bytes);
    }
    for (int64_t i = 0; i < total; i++) {
        bool keep = !training || random_uniform(&r) >= ratio;
        if (training) {
            store_one_f64(k->out[0].data, x->dtype, i, keep ? load_one_f64(x->data, x->dtype, i) / (1.0 - ratio) : 0.0);
        }
        if (kernel_wants(k, 1)) {
            ((uint8_t *)k->out[1].data)[i] = keep;
        }
    }
    return PEN_OK;
}

/* Scores [batch, classes, positions...], targets [batch, positions...], weights [classes]. */
struct loss {
    int64_t batch, classes, positions;
    const struct rt_value *x, *target, *weight;
    bool ignores, mean, none;
    int64_t ignore;
    double *log_p; /* [batch, classes, positions] */
};

static enum pen_status loss_init(struct kernel_call *k, struct loss *l)
{
    const struct shape *s = &k->in[0].shape, *t = &k->in[1].shape;
    const struct attr *ignore = node_attr(k->n, ATTR_ignore_index);
    *l = (struct loss){.x = &k->in[0], .target = &k->in[1], .weight = kernel_has(k, 2) ? &k->in[2] : NULL};
    if (s->rank < 2 || t->rank != s->rank - 1) {
        return kernel_fail(k, PEN_ERR_SHAPE, "targets do not fit the scores");
    }
    l->batch = s->dim[0];
    l->classes = s->dim[1];
    l->positions = dims_product(s, 2, s->rank);
    l->ignores = ignore != NULL;
    l->ignore = ignore != NULL ? ignore->i : 0;
    l->none = node_text_is(k->n, ATTR_reduction, "none", false);
    l->mean = node_text_is(k->n, ATTR_reduction, "mean", true);
    if (shape_elements(t) != l->batch * l->positions ||
        (l->weight != NULL && shape_elements(&l->weight->shape) != l->classes)) {
        return kernel_fail(k, PEN_ERR_SHAPE, "targets or weights do not fit the scores");
    }
    return kernel_doubles(k, 0, &l->log_p);
}

/* In place along the classes: x - max - ln(sum of e^(x - max)). */
static void log_softmax(const struct loss *l)
{
    for (int64_t i = 0; i < l->batch * l->positions; i++) {
        double *x = l->log_p + i / l->positions * l->classes * l->positions + i % l->positions;
        double max = -(double)INFINITY, sum = 0.0;
        for (int64_t c = 0; c < l->classes; c++) {
            max = fmax(max, x[c * l->positions]);
        }
        for (int64_t c = 0; c < l->classes; c++) {
            sum += exp(x[c * l->positions] - max);
        }
        for (int64_t c = 0; c < l->classes; c++) {
            x[c * l->positions] -= max + log(sum);
        }
    }
}

/* loss_i = -w[t_i] * log p[t_i]; mean divides the sum by the sum of the weights. */
static enum pen_status loss_reduce(struct kernel_call *k, const struct loss *l)
{
    struct shape out = l->none ? k->in[1].shape : shape_scalar();
    double sum = 0.0, weights = 0.0;
    enum pen_status status = kernel_output(k, 0, l->x->dtype, &out);
    for (int64_t i = 0; status == PEN_OK && i < l->batch * l->positions; i++) {
        int64_t t = load_one_i64(l->target->data, l->target->dtype, i);
        double w = 0.0, v = 0.0;
        if (!l->ignores || t != l->ignore) {
            if (t < 0 || t >= l->classes) {
                return kernel_fail(k, PEN_ERR_INVALID, "target %lld of %lld classes", (long long)t,
                                   (long long)l->classes);
            }
            w = l->weight != NULL ? load_one_f64(l->weight->data, l->weight->dtype, t) : 1.0;
            v = -w * l->log_p[(i / l->positions * l->classes + t) * l->positions + i % l->positions];
        }
        if (l->none) {
            store_one_f64(k->out[0].data, l->x->dtype, i, v);
        }
        sum += v;
        weights += w;
    }
    if (status == PEN_OK && !l->none) {
        store_one_f64(k->out[0].data, l->x->dtype, 0, l->mean ? sum / weights : sum);
    }
    return status;
}

enum pen_status kernel_nll_loss(struct kernel_call *k)
{
    struct loss l;
    enum pen_status status = loss_init(k, &l);
    return status == PEN_OK ? loss_reduce(k, &l) : status;
}

enum pen_status kernel_ce_loss(struct kernel_call *k)
{
    struct loss l;
    enum pen_status status = loss_init(k, &l);
    if (status != PEN_OK) {
        return status;
    }
    log_softmax(&l);
    status = loss_reduce(k, &l);
    if (status == PEN_OK && kernel_wants(k, 1)) {
        status = kernel_output_like(k, 1, 0);
        if (status == PEN_OK) {
            store_f64(k->out[1].data, l.x->dtype, 0, 1, shape_elements(&l.x->shape), l.log_p);
        }
    }
    return status;
}
