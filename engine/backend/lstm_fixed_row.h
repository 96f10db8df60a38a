/*
 * lstm_fixed_row.h - the loops of lstm_fixed.h, compiled once for each instruction set.
 *
 * Threads: any.
 */
#ifndef LSTM_FIXED_ROW_H
#define LSTM_FIXED_ROW_H

#include "backend/lstm_fixed.h"

/* The sums of one gate, before its activation. */
static inline void lstm_row_sums(const struct lstm_fixed_gate *g, const int32_t *x, const int32_t *h,
                                 const int16_t *cell, int16_t *z, size_t units)
{
    const struct fixed_scale from_x = g->x, from_h = g->h, from_cell = g->hole;
    for (size_t u = 0; u < units; u++) {
        z[u] = fixed_clamp(fixed_scaled(h[u], from_h) + fixed_clamp(fixed_scaled(x[u], from_x)));
    }
    for (size_t u = 0; u < units && g->holes != NULL; u++) {
        z[u] = fixed_clamp(z[u] + fixed_scaled(g->holes[u] * cell[u], from_cell));
    }
    if (g->norms != NULL) {
        lstm_fixed_normalise(g, z, units);
    }
}

static inline void lstm_row_sigmoid(int16_t *z, size_t units)
{
    for (size_t u = 0; u < units; u++) {
        z[u] = fixed_sigmoid(z[u]);
    }
}

static inline void lstm_row_tanh(const int16_t *x, int bits, int16_t *y, size_t units)
{
    const int less = bits < 0 ? -bits : 0, from = bits < 0 ? 0 : bits;
    for (size_t u = 0; u < units; u++) {
        y[u] = fixed_tanh((int16_t)fixed_shift(x[u], less), from);
    }
}

/* c = f c + i g */
static inline void lstm_row_cell(const struct lstm_fixed *l, const int16_t *i, const int16_t *f, const int16_t *g,
                                 int16_t *cell)
{
    const int fresh = l->cell_bits + 15; /* from Q0.15 * Q0.15 to the cell's steps: 30 less the bits behind its point */
    const int32_t clip = l->cell_clip > 0 ? l->cell_clip : 32768;
    for (size_t u = 0; u < l->units; u++) {
        const int32_t held = (int16_t)fixed_shift(f[u] * cell[u], 15), more = (int16_t)fixed_shift(i[u] * g[u], fresh);
        const int32_t sum = fixed_clamp(held + more);
        cell[u] = (int16_t)(sum > clip ? clip : sum < -clip ? -clip : sum);
    }
}

static inline void lstm_row_out(const struct lstm_fixed *l, const int16_t *o, const int16_t *t, int8_t *y)
{
    const struct fixed_scale scale = l->between;
    const int32_t zero = l->between_zero;
    for (size_t u = 0; u < l->units; u++) {
        const int32_t v = fixed_scaled(o[u] * t[u], scale) + zero;
        y[u] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
    }
}

static inline void lstm_row(const struct lstm_fixed *l, const int32_t *x, const int32_t *h, int16_t *cell, int8_t *y,
                            int16_t *scratch)
{
    const size_t units = l->units, first = LSTM_GATES - l->gates;
    int16_t *z[LSTM_GATES];
    for (size_t g = 0; g < LSTM_GATES; g++) {
        z[g] = scratch + g * units;
    }
    for (size_t g = first; g < LSTM_O; g++) {
        lstm_row_sums(&l->gate[g], x + (g - first) * units, h + (g - first) * units, cell, z[g], units);
    }
    lstm_row_tanh(z[LSTM_C], 3, z[LSTM_C], units);
    lstm_row_sigmoid(z[LSTM_F], units);
    if (first == 0) {
        lstm_row_sigmoid(z[LSTM_I], units);
    }
    for (size_t u = 0; u < units && first != 0; u++) {
        z[LSTM_I][u] = (int16_t)(32767 - z[LSTM_F][u]);
    }
    lstm_row_cell(l, z[LSTM_I], z[LSTM_F], z[LSTM_C], cell);
    const size_t last = (LSTM_O - first) * units;
    lstm_row_sums(&l->gate[LSTM_O], x + last, h + last, cell, z[LSTM_O], units);
    lstm_row_sigmoid(z[LSTM_O], units);
    lstm_row_tanh(cell, l->cell_bits, z[LSTM_I], units);
    lstm_row_out(l, z[LSTM_O], z[LSTM_I], y);
}

#endif
