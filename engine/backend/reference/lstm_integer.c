/* LSTMInteger: products as plain loops, the step of lstm_fixed_row.h between them. */
#include <string.h>

#include "backend/lstm_fixed_row.h"
#include "backend/reference/kernels.h"

struct memory {
    int32_t *x, *h; /* [gates, units] */
    int16_t *cell, *scratch;
    int8_t *between, *state;
};

/* sums[rows] = (x - zero) w' + bias; w [rows][width] */
static void product_of(const int8_t *x, int32_t zero, const int8_t *w, size_t rows, size_t width, const int32_t *bias,
                       int32_t *sums)
{
    for (size_t r = 0; r < rows; r++) {
        int64_t sum = bias != NULL ? bias[r] : 0;
        for (size_t i = 0; i < width; i++) {
            sum += (int64_t)(x[i] - zero) * w[r * width + i];
        }
        sums[r] = (int32_t)sum; /* wraps, as the interpreter's does */
    }
}

static void step_run(const struct lstm_fixed *l, const struct memory *m, const int8_t *x, int8_t *y)
{
    const size_t rows = l->gates * l->units;
    product_of(x, l->x_zero, l->w, rows, l->in, lstm_fixed_bias(l), m->x);
    product_of(m->state, l->h_zero, l->r, rows, l->out, NULL, m->h);
    lstm_row(l, m->x, m->h, m->cell, m->between, m->scratch);
    if (!l->projects) {
        memcpy(m->state, m->between, l->out);
    } else {
        product_of(m->between, l->between_zero, l->j, l->out, l->units, l->k, m->x);
        for (size_t i = 0; i < l->out; i++) {
            m->state[i] = lstm_fixed_projected(l, m->x[i]);
        }
    }
    memcpy(y, m->state, l->out);
}

static bool memory_take(struct kernel_call *k, const struct lstm_fixed *l, struct memory *m)
{
    const size_t rows = l->gates * l->units, sums = rows > l->out ? rows : l->out;
    m->x = kernel_scratch(k, sums * sizeof *m->x);
    m->h = kernel_scratch(k, rows * sizeof *m->h);
    m->cell = kernel_scratch(k, l->units * sizeof *m->cell);
    m->scratch = kernel_scratch(k, LSTM_GATES * l->units * sizeof *m->scratch);
    m->between = kernel_scratch(k, l->units);
    m->state = kernel_scratch(k, l->out);
    return m->x && m->h && m->cell && m->scratch && m->between && m->state;
}

static enum pen_status samples_run(struct kernel_call *k, const struct lstm_fixed *l, const struct memory *m)
{
    const int8_t *x = k->in[LSTM_X].data;
    int8_t *y = k->out[0].data;
    for (size_t b = 0; b < l->batch; b++) {
        enum pen_status status = kernel_cancelled(k);
        if (status != PEN_OK) {
            return status;
        }
        memset(m->cell, 0, l->units * sizeof *m->cell);
        memset(m->state, l->h_zero, l->out);
        for (size_t t = 0; t < l->steps; t++) {
            const size_t at = lstm_fixed_at(l, t, b);
            step_run(l, m, x + at * l->in, y + at * l->out);
        }
    }
    return PEN_OK;
}

static bool types_fit(const struct kernel_call *k)
{
    static const enum pen_dtype types[LSTM_INPUTS] = {PEN_DTYPE_I8,  PEN_DTYPE_I8,  PEN_DTYPE_I8,  PEN_DTYPE_F32,
                                                      PEN_DTYPE_I32, PEN_DTYPE_I32, PEN_DTYPE_I16, PEN_DTYPE_I16,
                                                      PEN_DTYPE_I8,  PEN_DTYPE_I32};
    for (uint32_t i = 0; i < LSTM_INPUTS; i++) {
        const bool optional = i >= LSTM_B;
        if (kernel_has(k, i) ? k->in[i].dtype != types[i] : !optional) {
            return false;
        }
    }
    return true;
}

enum pen_status kernel_lstm_integer(struct kernel_call *k)
{
    const struct shape *shapes[LSTM_INPUTS] = {0};
    const void *data[LSTM_INPUTS] = {0};
    struct lstm_fixed l;
    struct memory m;
    if (!types_fit(k)) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "data, weights, biases or scales of another type");
    }
    for (uint32_t i = 0; i < LSTM_INPUTS; i++) {
        shapes[i] = kernel_has(k, i) ? &k->in[i].shape : NULL;
        data[i] = kernel_has(k, i) ? k->in[i].data : NULL;
    }
    const char *wrong = lstm_fixed_read(k->n, shapes, data, &l);
    if (wrong != NULL) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%s", wrong);
    }
    struct shape y = *shapes[LSTM_X];
    y.dim[2] = (int64_t)l.out;
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I8, &y);
    if (status != PEN_OK) {
        return status;
    }
    return memory_take(k, &l, &m) ? samples_run(k, &l, &m)
                                  : kernel_fail(k, PEN_ERR_NO_MEMORY, "no memory for the states of %zu units", l.units);
}
