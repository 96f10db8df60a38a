/*
 * labels.h - the best answers of a classifier's output.
 *
 * Threads: any (no state).
 */
#ifndef LABELS_H
#define LABELS_H

#include "penstock/client.h"

struct label {
    size_t index;
    double score; /* probability */
    const char *text;
};

/* Element i of a number tensor; data need not be aligned. NaN for types that are no numbers. */
double tensor_value(const struct pen_tensor *tensor, size_t index);

/*
 * The `most` best classes of an output that has one element per label (batch 1); an output that is no list of probabilities already (within
 * 0..1, sum 1) goes through softmax. Returns how many; 0: it is not of that size, or no numbers.
 */
size_t labels_of(const struct pen_tensor *output, const char *const *labels, size_t labels_count, size_t most,
                 struct label *ret_top);

/* The same for the first output of the result that fits. */
size_t labels_top(const pen_result *result, const char *const *labels, size_t labels_count, size_t most,
                  struct label *ret_top);

#endif
