/*
 * classes.h - the best classes of a classifier's output, and their scores: used alike for a worker's answer, the
 * command line and the engine's tools.
 *
 * A score is the model's number (for a quantised byte the real number that it stands for), or the softmax over the
 * row's numbers.
 * Threads: any (pure functions).
 */
#ifndef CLASSES_H
#define CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/tensor.h"

#define CLASSES_MAX 1000u /* per result, over all its rows */

/* Element i of a tensor of numbers; data need not be aligned. NaN for other types. */
double tensor_value(const struct pen_tensor *tensor, size_t index);

enum number_form { NUMBER_NONE, NUMBER_FRACTION, NUMBER_SIGNED, NUMBER_UNSIGNED };
/* NUMBER_NONE: tensor_value gives NaN for the type. */
enum number_form number_form(enum pen_dtype dtype);

/* Element i of a tensor of whole numbers, exact; of a signed type it is an int64_t. A double keeps only 53 bits of it. */
uint64_t tensor_whole(const struct pen_tensor *tensor, size_t index);

/* Rows of an output: its first dimension; 1 when it has no other. */
uint32_t classes_rows(const struct pen_tensor *output);

/*
 * How many classes each of `rows` rows of an output has. All numbers of the row, when there are as many as `named`
 * classes with names (0: there are no names). Otherwise the numbers of one dimension when the others are 1 ([rows, n],
 * [rows, 1, 1, n], and [n] for one row). 0: it is no classifier's output; a single class does not count, either.
 */
size_t classes_count(const struct pen_tensor *output, uint32_t rows, size_t named);

enum classes_rule {
    CLASSES_AUTO, /* unchanged when all lie within 0..1, as probabilities do; else softmax */
    CLASSES_PLAIN,
    CLASSES_SOFTMAX,
};

/* The real number of a byte in a quantised output: (byte - zero_point) * scale. When unknown: the whole type spans
   0..1. */
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
 * The `most` best of elements [first, first + count) of the output, best first; equal ones by index, NaN last. Returns
 * how many; 0 for other types than numbers. Time: count * log(most).
 */
size_t classes_best(const struct pen_tensor *output, size_t first, size_t count, enum classes_rule rule,
                    const struct classes_quant *quant, size_t most, struct class_score *ret_best);

#endif
