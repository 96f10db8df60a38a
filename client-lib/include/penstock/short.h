/**
 * @file penstock/short.h
 * What makes a program short: tensors from pictures and arrays, a job with nothing but a model and inputs, the best classes of its result.
 * penstock/client.h includes it; all of it is made of that header's functions. Threads: any.
 */
#ifndef PENSTOCK_SHORT_H
#define PENSTOCK_SHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/dtype.h"
#include "penstock/session.h"
#include "penstock/status.h"
#include "penstock/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pen_class; /* penstock/client.h */
struct pen_model; /* penstock/admin.h */

/**
 * A tensor over an array of the caller's. Nothing is copied: name and array must live as long as the tensor is used.
 * @param dims [rank], each >= 0. @param array in C order, little-endian; its size follows from dtype and dims.
 * @return PEN_OK; SHAPE, TOO_LARGE; DTYPE for texts and for what has no fixed size.
 */
PEN_API enum pen_status pen_tensor_from_array(const char *name, enum pen_dtype dtype, const int64_t *dims,
                                              uint32_t rank, const void *array, struct pen_tensor *ret_tensor,
                                              struct pen_error *reterr);

/**
 * A picture in a file (PNG, JPEG, BMP) as the model takes it: upright, with its channels, size and fit; the rest is the worker's. It
 * asks the broker how, and keeps the answer for one second, or until a result comes from a version of a model that it does not have.
 * @param ret_tensor given, name and data in one; free with pen_picture_free().
 * @return PEN_OK; NOT_FOUND: no such model or file; INVALID: the model does not take pictures, or the file is none; UNSUPPORTED, CORRUPT,
 *         TOO_LARGE, IO: the file; UNAVAILABLE: no answer for 10 s; NO_MEMORY.
 */
PEN_API enum pen_status pen_client_picture(pen_client *client, const char *model, const char *path,
                                           struct pen_tensor *ret_tensor, struct pen_error *reterr);

/** As pen_client_picture(), for a model of a list that the caller has. Asks nobody. */
PEN_API enum pen_status pen_model_picture(const struct pen_model *model, const char *path,
                                          struct pen_tensor *ret_tensor, struct pen_error *reterr);

/** Frees what these two gave, and leaves a tensor without data. A tensor of zeros is fine. */
PEN_API void pen_picture_free(struct pen_tensor *tensor);

/** An entry of a map: a key, which is a text or an integer, and a value, which is a text or a number. */
struct pen_map_entry {
    const char *key;    /**< NULL: the key is key_number */
    int64_t key_number; /**< of a map with integers as keys */
    const char *text;   /**< NULL: the value is a number */
    double value;       /**< in the element type that the model takes; for integers a whole number */
};

/** The model takes a map under this name: it has the inputs NAME.keys and NAME.values, both [rows, entries]. */
PEN_API bool pen_model_has_map(const struct pen_model *model, const char *name);

/**
 * A map as those two inputs of a model, one row. No two entries may have the same key.
 * @param model of a list of pen_client_models(). @param entries [count], copied; at most 1,000,000, in any order.
 * @param ret_tensors keys and values with names and data, for a job's inputs; free with pen_map_free().
 * @return PEN_OK; NOT_FOUND: the model has no such map; DTYPE: a key or a value has another type than the model's; TOO_LARGE; NO_MEMORY.
 */
PEN_API enum pen_status pen_model_map(const struct pen_model *model, const char *name,
                                      const struct pen_map_entry *entries, size_t count,
                                      struct pen_tensor ret_tensors[2], struct pen_error *reterr);

/** Frees what pen_model_map() gave, and leaves tensors without data. Tensors of zeros are fine. */
PEN_API void pen_map_free(struct pen_tensor tensors[2]);

/**
 * pen_client_run() with all defaults: the highest ready version, any backend, no deadline.
 * @param top_k as in pen_job_options. @return as pen_client_run().
 */
PEN_API enum pen_status pen_client_infer(pen_client *client, const char *model, const struct pen_tensor *inputs,
                                         size_t inputs_count, uint32_t top_k, pen_result **ret_result,
                                         struct pen_error *reterr);

/**
 * The best classes of a row of a classifier's result, best first: those that the worker told (pen_job_options.top_k), with
 * names; else those of the first output that has one number per class, by probability or softmax, without names.
 * @param row of the batch, from 0. @param ret_classes [most]; texts live as long as the result.
 * @return how many; 0: no classifier's result, no such row, or no memory.
 */
PEN_API size_t pen_result_top(const pen_result *result, uint32_t row, size_t most, struct pen_class *ret_classes);

#ifdef __cplusplus
}
#endif
#endif
