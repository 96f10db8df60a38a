/*
 * scores.h - post-transforms and answers of classifiers (graph/scores.h), a row at a time: shared by the CPU backends.
 *
 * Threads: any.
 */
#ifndef BACKEND_SCORES_H
#define BACKEND_SCORES_H

#include "graph/graph.h"

enum post_transform { POST_NONE, POST_LOGISTIC, POST_SOFTMAX, POST_SOFTMAX_ZERO, POST_PROBIT };

enum post_transform post_transform_of(const struct node *n);
/* In place. Formulas: ONNX-ML's operators; softmax-zero leaves values below 1e-7 out of the sum. A single score knows
 * PROBIT only, as in onnxruntime. */
void post_transform_row(enum post_transform t, float *y, size_t count);

struct class_scores {
    int64_t rule; /* enum score_rule */
    enum post_transform post;
    size_t columns, classes; /* of raw, of the answer */
    const float *base;
    size_t base_count;
    const int64_t *named; /* [named_count]: the classes that may be the highest; none = all */
    uint32_t named_count;
};

void class_scores_of(const struct node *n, size_t columns, struct class_scores *ret);
/* The row is as wide as the rule wants, and there are classes. */
bool class_scores_fit(const struct class_scores *s);
/* One row: raw [columns] -> y [classes]; gives the index of the class. */
int64_t class_scores_row(const struct class_scores *s, const float *raw, float *y);

float logistic(float x);

#endif
