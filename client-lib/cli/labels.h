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
 * The `most` best classes of the first output with as many elements as there are labels (batch 1). Outputs that are no probabilities
 * already (within 0..1, sum 1) go through softmax. Returns how many; 0: no such output.
 */
size_t labels_top(const pen_result *result, const char *const *labels, size_t labels_count, size_t most,
                  struct label *ret_top);

#endif
