/*
 * json_tensor.h - the "data" of a tensor in JSON: numbers, flags and texts, flat or nested, to and from packed elements.
 *
 * Nesting says nothing here: elements are taken in the order in which they stand (row-major), and their number is checked against the shape.
 * BOOL is true or false. Whole types take whole numbers within their range. FP32 and FP64 also take NaN, Infinity and -Infinity, as Python writes them.
 * FP16 and BF16 have no form in JSON. BYTES are strings, whose UTF-8 bytes count.
 * Threads: any.
 */
#ifndef JSON_TENSOR_H
#define JSON_TENSOR_H

#include "bytes.h"
#include "penstock/tensor.h"

/* "FP32", "BYTES", ...: names of the Open Inference Protocol; NULL: the protocol has none for it. */
const char *datatype_name(enum pen_dtype dtype);
enum pen_dtype datatype_parse(const char *name); /* PEN_DTYPE_NONE: no such name */

/*
 * text: an array. Fixed sizes: `elements` elements are written to `to`, which has room for them. INVALID with a sentence: malformed, out of range, or not
 * as many as the shape says.
 */
enum pen_status json_tensor_read(const char *text, size_t bytes, enum pen_dtype dtype, uint64_t elements, void *to,
                                 struct pen_error *reterr);
/* The same for BYTES: each with its length before it is added to `to`. */
enum pen_status json_tensor_read_texts(const char *text, size_t bytes, uint64_t elements, struct bytes *to,
                                       struct pen_error *reterr);

/* "[1.0,2.5]", flat. UNSUPPORTED for FP16, BF16 and what the protocol does not know. */
enum pen_status json_tensor_write(const struct pen_tensor *tensor, struct bytes *to, struct pen_error *reterr);

#endif
