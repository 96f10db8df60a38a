/*
 * svm.h - support vector machines: kernels between rows and support vectors, votes of pairs of classes, probabilities. Shared by the CPU backends.
 *
 * Sources: ONNX-ML SVMClassifier and SVMRegressor; LIBSVM's pairwise coupling (Wu, Lin, Weng 2004, second method).
 * Threads: any.
 */
#ifndef SVM_H
#define SVM_H

#include "backend/scores.h"

enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID };

struct svm {
    enum svm_kernel kernel;
    float gamma, coef0, degree;
    const float *vectors, *coefficients, *rho, *prob_a, *prob_b;
    const int64_t *per_class; /* support vectors of each class */
    size_t vector_count, features, classes, pairs;
    bool one_class, positive; /* positive: no coefficient is below 0 */
    enum post_transform post;
};

/* Lists that fit together, or false with a phrase. width: features of a row. */
bool svm_of(const struct node *n, size_t width, struct svm *ret, const char **ret_reason);
size_t svm_scores(const struct svm *s); /* columns of a classifier's scores */
/* Floats of scratch memory that a row needs. */
size_t svm_scratch(const struct svm *s);
float svm_regress(const struct svm *s, const float *x);
/* Index of the class; y [svm_scores] */
int64_t svm_classify(const struct svm *s, const float *x, float *y, float *scratch);

#endif
