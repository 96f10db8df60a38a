/*
 * onnx_file.h - writes small ONNX files: the sound, the slow and the broken models that tests of whole programs need.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef SUPPORT_ONNX_FILE_H
#define SUPPORT_ONNX_FILE_H

#include <stddef.h>
#include <stdint.h>

#define ONNX_DIMS_MAX 8

/* A dimension below zero becomes the symbolic dimension "N". */
struct onnx_value {
    const char *name;
    int32_t dtype; /* enum pen_dtype */
    int64_t dims[ONNX_DIMS_MAX];
    size_t rank;
    const float *data; /* NULL: an input or output; else an initialiser of float32 */
    /* Of an initialiser whose data lies in that file beside the model, from its first byte: `data` is not read. */
    const char *file;
};

struct onnx_node {
    const char *op;
    const char *inputs[4], *outputs[2]; /* NULL ends them */
    const char *ints_name;              /* one attribute of type INTS, NULL = none */
    int64_t ints[4];
};

struct onnx_model {
    const struct onnx_node *nodes;
    size_t nodes_count;
    const struct onnx_value *inputs, *outputs, *weights;
    size_t inputs_count, outputs_count, weights_count;
};

/* Opset 17. The bytes are given: free(3) them. */
uint8_t *onnx_bytes(const struct onnx_model *model, size_t *ret_size);
void onnx_write(const char *path, const struct onnx_model *model);

/* uint8 [N, 1024] -> Identity -> the same. */
void onnx_write_identity(const char *path);
/* y = x + w over float32 [N, 2]; w is the first two floats of w.data beside it, which the caller writes. */
void onnx_write_sum(const char *path);
/* A folder of models with one, NAME, that is such an Identity and makes no batches. */
void onnx_identity_folder(const char *models, const char *name);
/* `layers` 3x3 convolutions on float32 [N, 16, 64, 64]: about 9.4 million multiply-adds each. Input "x", output "y". */
void onnx_write_slow(const char *path, size_t layers);

#endif
