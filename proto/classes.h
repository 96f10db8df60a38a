/*
 * classes.h - the best classes of a classifier's output, and their scores: the same for a worker's answer, the command line and the engine's tools.
 *
 * A score is what the model gives, as the real number that a quantised byte stands for, or the softmax of all the row's numbers.
 * Threads: any (pure functions).
 */
#ifndef CLASSES_H
#define CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"

#define CLASSES_MAX 1000u /* of one result, over all its rows */

/* Element i of a number tensor; data need not be aligned. NaN for types that are no numbers. */
double tensor_value(const struct pen_tensor *tensor, size_t index);

/* Rows of an output: its first dimension, 1 when that is all it has. */
uint32_t classes_rows(const struct pen_tensor *output);

/*
 * How many classes each of `rows` rows of an output has: all its numbers when there are as many as `named` classes with a name (0: none have one), else those of one
 * dimension where others are 1 ([rows, n], [rows, 1, 1, n], and [n] for one row). 0: it is another kind of output. One class alone is none.
 */
size_t classes_count(const struct pen_tensor *output, uint32_t rows, size_t named);

enum classes_rule {
    CLASSES_AUTO, /* as they are when all lie within 0..1, as probabilities do; else softmax */
    CLASSES_PLAIN,
    CLASSES_SOFTMAX,
};

/* What a byte of a quantised output stands for: (byte - zero_point) * scale. Unknown: the whole type spans 0..1. */
struct classes_quant {
    bool known;
    float scale;
    int32_t zero_point;
};

struct class_score {
    size_t index;
    double score;
};

/*
 * The `most` best of elements [first, first + count) of the output, best first; equal ones by index, NaN behind all others. Returns how many; 0 for what is no
 * numbers. Time: count * log(most).
 */
size_t classes_best(const struct pen_tensor *output, size_t first, size_t count, enum classes_rule rule,
                    const struct classes_quant *quant, size_t most, struct class_score *ret_best);

#endif
