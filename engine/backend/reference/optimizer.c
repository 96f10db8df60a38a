/* One step of an optimiser for any number of tensors. Source: ONNX preview Adagrad, Adam, Momentum (pseudo code there). */
#include "backend/reference/kernels.h"

#include <math.h>

struct step {
    double rate, updates, norm, norm_post, epsilon, alpha, beta, decay;
    bool nesterov;
};

/* One element: x, gradient g, first state v (momentum or squared sum), second state h; updated in place. */
typedef void (*step_fn)(const struct step *s, double *x, double g, double *v, double *h);

static void adagrad(const struct step *s, double *x, double g, double *v, double *h)
{
    (void)h;
    g += s->norm * *x;
    *v += g * g;
    *x -= s->rate / (1.0 + s->updates * s->decay) * g / (sqrt(*v) + s->epsilon);
}

static void adam(const struct step *s, double *x, double g, double *v, double *h)
{
    double rate = s->rate;
    g += s->norm * *x;
    *v = s->alpha * *v + (1.0 - s->alpha) * g;
    *h = s->beta * *h + (1.0 - s->beta) * g * g;
    if (s->updates > 0.0) {
        rate *= sqrt(1.0 - pow(s->beta, s->updates)) / (1.0 - pow(s->alpha, s->updates));
    }
    *x -= rate * *v / (sqrt(*h) + s->epsilon);
    *x *= 1.0 - s->norm_post;
}

static void momentum(const struct step *s, double *x, double g, double *v, double *h)
{
    (void)h;
    g += s->norm * *x;
    *v = s->alpha * *v + (s->updates > 0.0 ? s->beta : 1.0) * g;
    *x -= s->rate * (s->nesterov ? g + s->alpha * *v : *v);
}

/* Inputs: rate, count, then all x, all gradients, all states; outputs: all x, all states. */
enum pen_status kernel_optimizer(struct kernel_call *k)
{
    bool two = k->n->op == OP_Adam;
    uint32_t per = two ? 4 : 3, count = (k->n->in_count - 2) / per;
    step_fn fn = two ? adam : k->n->op == OP_Adagrad ? adagrad : momentum;
    struct step s = {.rate = kernel_scalar(k, 0, 0.0),
                     .updates = kernel_scalar(k, 1, 0.0),
                     .norm = (double)node_float(k->n, ATTR_norm_coefficient, 0.0f),
                     .norm_post = (double)node_float(k->n, ATTR_norm_coefficient_post, 0.0f),
                     .epsilon = (double)node_float(k->n, ATTR_epsilon, 1e-6f),
                     .alpha = (double)node_float(k->n, ATTR_alpha, 0.9f),
                     .beta = (double)node_float(k->n, ATTR_beta, 0.999f),
                     .decay = (double)node_float(k->n, ATTR_decay_factor, 0.0f),
                     .nesterov = node_text_is(k->n, ATTR_mode, "nesterov", false)};
    if ((k->n->in_count - 2) % per != 0 || k->n->out_count != count * (per - 1)) {
        return kernel_fail(k, PEN_ERR_INVALID, "%u inputs for %u outputs", k->n->in_count, k->n->out_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct rt_value *x = &k->in[2 + i];
        enum pen_status status = PEN_OK;
        for (uint32_t j = 0; j < per; j++) {
            const struct rt_value *part = &k->in[2 + j * count + i];
            if (!shape_equal(&part->shape, &x->shape)) {
                return kernel_fail(k, PEN_ERR_SHAPE, "tensor %u and its states differ in shape", i);
            }
            if (j + 1 < per && status == PEN_OK) {
                status = kernel_output(k, j * count + i, x->dtype, &x->shape);
            }
        }
        for (int64_t e = 0; status == PEN_OK && e < shape_elements(&x->shape); e++) {
            double v[4] = {0.0};
            for (uint32_t j = 0; j < per; j++) {
                v[j] = load_one_f64(k->in[2 + j * count + i].data, k->in[2 + j * count + i].dtype, e);
            }
            fn(&s, &v[0], v[1], &v[2], &v[3]);
            store_one_f64(k->out[i].data, x->dtype, e, v[0]);
            for (uint32_t j = 1; j + 1 < per; j++) {
                store_one_f64(k->out[j * count + i].data, x->dtype, e, v[j + 1]);
            }
        }
        if (status != PEN_OK) {
            return status;
        }
    }
    return PEN_OK;
}
