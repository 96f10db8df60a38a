/*
 * rnn.h - what RNN, GRU and LSTM share: shapes, weights in double, activations by name, and the walk over time.
 *
 * Threads: any.
 */
#ifndef RNN_H
#define RNN_H

#include "backend/reference/kernels.h"

struct rnn_activation {
    double (*fn)(double x, double alpha, double beta);
    double alpha, beta;
};

struct rnn {
    int64_t time, batch, input, hidden, directions, gates;
    bool batch_first;
    bool reverse_first;           /* the only direction runs backwards */
    bool rounded;                 /* the state of all entries is rounded to bytes together before each step */
    double clip;                  /* 0 = none */
    struct rnn_activation act[6]; /* per direction and activation: act[direction * per + i] */
    uint32_t act_per;
    const double *x; /* as stored */
    const double *w, *r,
        *b; /* [directions, gates * hidden, input], [directions, gates * hidden, hidden], [directions, 2 * gates * hidden] or NULL */
    const double *h0, *c0, *p; /* initial states as stored, peepholes [directions, 3 * hidden]; NULL when absent */
    const int64_t *lengths;    /* [batch] */
    double *h, *c;             /* state of one direction: [batch, hidden] */
    double *bytes;             /* rounded: [batch, hidden] */
    double *gate;              /* [gates * hidden] of one step */
    double *scratch;           /* [2 * gates * hidden] */
};

/* One step of one batch entry: xt [input], h and c [hidden] updated in place. */
typedef void (*rnn_step)(const struct rnn *r, const struct node *n, int64_t direction, const double *xt, double *h,
                         double *c);

enum pen_status rnn_init(struct kernel_call *k, int64_t gates, uint32_t acts, const char *const *names, struct rnn *r);
/* Runs all directions and writes Y, Y_h and, when has_cell, Y_c. */
enum pen_status rnn_run(struct kernel_call *k, struct rnn *r, rnn_step step, bool has_cell);

/* Clips before; a cell on its way out is not clipped. */
double rnn_activate(const struct rnn *r, int64_t direction, uint32_t which, double x);
double rnn_activate_cell(const struct rnn *r, int64_t direction, uint32_t which, double x);
double rnn_dot(const double *a, const double *b, int64_t n);
double rnn_clip(const struct rnn *r, double x);

#endif
