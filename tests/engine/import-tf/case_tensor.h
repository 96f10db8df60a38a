/*
 * case_tensor.h - tensors of the case files: [name, dtype, shape, values], values as JSON numbers, "nan", "inf", "-inf".
 *
 * Threads: one-at-a-time.
 */
#ifndef CASE_TENSOR_H
#define CASE_TENSOR_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "penstock/tensor.h"

struct case_tensor {
    struct pen_tensor tensor; /* name borrowed from the JSON, data owned */
    const char *dtype;        /* as the file writes it */
};

enum pen_dtype case_dtype(const char *name);
double case_number(const cJSON *item);
void case_tensor_init(struct case_tensor *t, const cJSON *json); /* a case file that cannot be read ends the program */
void case_tensor_fini(struct case_tensor *t);
double case_tensor_at(const struct pen_tensor *t, size_t index);
/* True when `got` has the dtype and shape of `want` and every element lies within absolute + relative * |want|; NaN fits only NaN. Else *text says what differs. */
bool case_tensor_same(const struct pen_tensor *got, const struct pen_tensor *want, double absolute, double relative,
                      char *text, size_t bytes);

#endif
