/*
 * lstm_fixed.h - LSTMInteger: one step of an LSTM whose data, states and weights are integers, for both CPU backends. TFLite has this cell in full integer models.
 *
 * Data, hidden state and weights have 8 bits. The sums of the gates are Q3.12 (with normalisation: steps of their own), the activations Q0.15, the cell has 16
 * bits and a scale that is a power of two. The order of roundings is TFLite's, so that the bits are. Source: TFLite's LstmStepInteger8x8_16 and
 * PopulateQuantizedLstmParams8x8_16.
 * Threads: any; a row touches only what it is given.
 */
#ifndef LSTM_FIXED_H
#define LSTM_FIXED_H

#include <stddef.h>

#include "graph/fixed_point.h"

struct node;
struct shape;

enum lstm_gate { LSTM_I, LSTM_F, LSTM_C, LSTM_O, LSTM_GATES };

/* Inputs of the node. Gates in the order i, f, c, o; a coupled cell has no i. */
enum lstm_input {
    LSTM_X,      /* i8 [steps, batch, in], or [batch, steps, in] with layout 1 */
    LSTM_W,      /* i8 [gates, units, in] */
    LSTM_R,      /* i8 [gates, units, out] */
    LSTM_SCALES, /* f32 [LSTM_SCALE_COUNT] */
    LSTM_ZEROS,  /* i32 [LSTM_ZERO_COUNT] */
    LSTM_B,      /* i32 [gates, units]; in steps of data times weights, or of its own with normalisation */
    LSTM_P,      /* i16 [gates without c, units]: peepholes */
    LSTM_N,      /* i16 [gates, units]: coefficients of normalisation */
    LSTM_J,      /* i8 [out, units]: projection; without it out = units */
    LSTM_K,      /* i32 [out]: its bias */
    LSTM_INPUTS
};

/* Scales: these, then for each of the four gates w, r, peephole, coefficients, sums. What is not there is 1. */
enum lstm_scale { LSTM_SCALE_X, LSTM_SCALE_H, LSTM_SCALE_CELL, LSTM_SCALE_BETWEEN, LSTM_SCALE_J, LSTM_SCALE_OF_GATES };
#define LSTM_SCALES_GATE 5
#define LSTM_SCALE_COUNT (LSTM_SCALE_OF_GATES + LSTM_GATES * LSTM_SCALES_GATE)
enum lstm_zero { LSTM_ZERO_X, LSTM_ZERO_H, LSTM_ZERO_BETWEEN, LSTM_ZERO_COUNT };

/* The whole node; pointers are those of its inputs. */
struct lstm_fixed {
    size_t steps, batch, in, units, out, gates; /* gates: 4, or 3 of a coupled cell */
    bool batch_first, projects;
    int cell_bits; /* of the cell before its point; -2: its largest number is 1/4. The interpreter computes 0 to 6 alone */
    int16_t cell_clip;
    int8_t projection_clip; /* 0 = none */
    int32_t x_zero, h_zero, between_zero;
    struct fixed_scale between, projection; /* from Q0.15 * Q0.15 to bytes; from sums to bytes */
    struct lstm_fixed_gate {
        struct fixed_scale x, h, hole, norm;
        int32_t least; /* of a variance */
        const int16_t *holes, *norms;
        const int32_t *bias; /* with norms */
    } gate[LSTM_GATES];
    const int8_t *w, *r, *j;
    const int32_t *b, *k;
};

/*
 * From the node, the shapes of its inputs and their data (NULL where there is none). NULL, or a sentence about what does not fit. `data` may be NULL for shapes
 * alone; then no scale is looked at.
 */
const char *lstm_fixed_read(const struct node *n, const struct shape *const shapes[LSTM_INPUTS],
                            const void *const data[LSTM_INPUTS], struct lstm_fixed *ret);

/* Where the row of data of a step and a sample of the batch lies; those of the result have the same order. */
static inline size_t lstm_fixed_at(const struct lstm_fixed *l, size_t step, size_t sample)
{
    return l->batch_first ? sample * l->steps + step : step * l->batch + sample;
}

/* The bias of the sums with the data, or NULL: normalised gates add theirs later. */
static inline const int32_t *lstm_fixed_bias(const struct lstm_fixed *l)
{
    return l->gate[LSTM_F].norms != NULL ? NULL : l->b;
}

/* A byte of a projected state from its exact sum, (between - between_zero) * weights + bias. */
int8_t lstm_fixed_projected(const struct lstm_fixed *l, int32_t sum);

/*
 * One sample, one step: from exact sums of data and weights [gates, units], with bias, and of state and weights, to the new cell [units] and the bytes [units]
 * that are the new state or go to the projection. scratch: [4 * units]
 */
typedef void (*lstm_fixed_fn)(const struct lstm_fixed *l, const int32_t *x, const int32_t *h, int16_t *cell, int8_t *y,
                              int16_t *scratch);

/* (z - mean) / deviation * coefficients + bias, in place. */
void lstm_fixed_normalise(const struct lstm_fixed_gate *g, int16_t *z, size_t units);

#endif
