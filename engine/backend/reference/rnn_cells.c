/* The three recurrent cells. Source: ONNX RNN, GRU, LSTM; names of the gates as there. */
#include "backend/reference/rnn.h"

#include <math.h>

/* x * W^T + b_w of gate row j of one direction. */
static double from_input(const struct rnn *r, int64_t d, int64_t j, const double *xt)
{
    int64_t rows = r->gates * r->hidden;
    return rnn_dot(r->w + (d * rows + j) * r->input, xt, r->input) + (r->b != NULL ? r->b[d * 2 * rows + j] : 0.0);
}

/* h * R^T + b_r */
static double from_state(const struct rnn *r, int64_t d, int64_t j, const double *h)
{
    int64_t rows = r->gates * r->hidden;
    return rnn_dot(r->r + (d * rows + j) * r->hidden, h, r->hidden) +
           (r->b != NULL ? r->b[d * 2 * rows + rows + j] : 0.0);
}

/* h = f(x W^T + h R^T + b) */
static void simple_step(const struct rnn *r, const struct node *n, int64_t d, const double *xt, double *h, double *c)
{
    (void)n, (void)c;
    for (int64_t i = 0; i < r->hidden; i++) {
        r->gate[i] = rnn_activate(r, d, 0, from_input(r, d, i, xt) + from_state(r, d, i, h));
    }
    for (int64_t i = 0; i < r->hidden; i++) {
        h[i] = r->gate[i];
    }
}

/* z = f(.), r = f(.), n = g(x W^T + (r h) R^T) or g(x W^T + r (h R^T)), h = (1 - z) n + z h */
static void gru_step(const struct rnn *r, const struct node *n, int64_t d, const double *xt, double *h, double *c)
{
    (void)c;
    bool linear_first = node_int(n, ATTR_linear_before_reset, 0) != 0;
    int64_t hidden = r->hidden;
    double *z = r->gate, *reset = z + hidden, *candidate = reset + hidden, *scaled = r->scratch;
    for (int64_t i = 0; i < 2 * hidden; i++) {
        r->gate[i] = rnn_activate(r, d, 0, from_input(r, d, i, xt) + from_state(r, d, i, h));
    }
    for (int64_t i = 0; i < hidden; i++) {
        scaled[i] = reset[i] * h[i];
    }
    for (int64_t i = 0; i < hidden; i++) {
        int64_t row = 2 * hidden + i;
        double state = linear_first ? reset[i] * from_state(r, d, row, h) : from_state(r, d, row, scaled);
        candidate[i] = rnn_activate(r, d, 1, from_input(r, d, row, xt) + state);
    }
    for (int64_t i = 0; i < hidden; i++) {
        h[i] = (1.0 - z[i]) * candidate[i] + z[i] * h[i];
    }
}

/* i, f = f(. + p c), c = f c + i g(.), o = f(. + p c), h = o h(c); gates in the order i, o, f, c */
static void lstm_step(const struct rnn *r, const struct node *n, int64_t d, const double *xt, double *h, double *c)
{
    int64_t hidden = r->hidden;
    bool coupled = node_int(n, ATTR_input_forget, 0) != 0;
    double clip = (double)node_float(n, ATTR_cell_clip, 0.0f);
    const double *p = r->p != NULL ? r->p + d * 3 * hidden : NULL; /* order i, o, f */
    for (int64_t j = 0; j < 4 * hidden; j++) {
        r->gate[j] = from_input(r, d, j, xt) + from_state(r, d, j, h);
    }
    for (int64_t i = 0; i < hidden; i++) {
        double in = rnn_activate(r, d, 0, r->gate[i] + (p != NULL ? p[i] * c[i] : 0.0));
        double forget = rnn_activate(r, d, 0, r->gate[2 * hidden + i] + (p != NULL ? p[2 * hidden + i] * c[i] : 0.0));
        double cell = rnn_activate(r, d, 1, r->gate[3 * hidden + i]);
        c[i] = (coupled ? 1.0 - in : forget) * c[i] + in * cell;
        if (clip > 0.0) {
            c[i] = fmin(fmax(c[i], -clip), clip);
        }
        double out = rnn_activate(r, d, 0, r->gate[hidden + i] + (p != NULL ? p[hidden + i] * c[i] : 0.0));
        h[i] = out * rnn_activate_cell(r, d, 2, c[i]);
    }
}

enum pen_status kernel_rnn(struct kernel_call *k)
{
    static const char *const names[] = {"Tanh"};
    struct rnn r;
    enum pen_status status = rnn_init(k, 1, 1, names, &r);
    return status == PEN_OK ? rnn_run(k, &r, simple_step, false) : status;
}

enum pen_status kernel_gru(struct kernel_call *k)
{
    static const char *const names[] = {"Sigmoid", "Tanh"};
    struct rnn r;
    enum pen_status status = rnn_init(k, 3, 2, names, &r);
    return status == PEN_OK ? rnn_run(k, &r, gru_step, false) : status;
}

enum pen_status kernel_lstm(struct kernel_call *k)
{
    static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
    struct rnn r;
    enum pen_status status = rnn_init(k, 4, 3, names, &r);
    return status == PEN_OK ? rnn_run(k, &r, lstm_step, true) : status;
}
