/*
 * onnx_writer.h - writes ONNX graphs of any size node by node: subgraphs, attributes, constants of every type. onnx_file.h has the few fixed models.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef SUPPORT_ONNX_WRITER_H
#define SUPPORT_ONNX_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct onnx_writer; /* one graph */

struct onnx_writer *onnx_writer_new(const char *name);
void onnx_writer_free(struct onnx_writer *w); /* NULL is fine */

/* dtype: as TensorProto numbers them. A dim below zero takes the next of symbols (may be NULL: no name). */
void onnx_writer_input(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                       const char *const *symbols);
void onnx_writer_output(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                        const char *const *symbols);
/* An input that is a sequence of tensors of any shape. */
void onnx_writer_sequence(struct onnx_writer *w, const char *name, int32_t dtype);
void onnx_writer_constant(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                          const void *data, size_t bytes);

/* A constant whose data lies in a file beside the model: whatever location says. */
void onnx_writer_external(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                          const char *location);

enum onnx_attr_type { ONNX_ATTR_END = 0, ONNX_ATTR_INT, ONNX_ATTR_FLOAT, ONNX_ATTR_INTS, ONNX_ATTR_GRAPH };

struct onnx_attr {
    enum onnx_attr_type type;
    const char *name;
    int64_t i;
    float f;
    const int64_t *ints;
    size_t count;
    const struct onnx_writer *graph;
};

/* Lists end with NULL or an attribute of type END; "" is an omitted input. attrs may be NULL. */
void onnx_writer_node(struct onnx_writer *w, const char *op, const char *const *inputs, const char *const *outputs,
                      const struct onnx_attr *attrs);
/* One output with a fresh name, which is given; it lives as long as the writer. */
const char *onnx_writer_step(struct onnx_writer *w, const char *op, const char *const *inputs,
                             const struct onnx_attr *attrs);

uint8_t *onnx_writer_bytes(const struct onnx_writer *w, int64_t opset, size_t *ret_size); /* gives */
void onnx_writer_save(const struct onnx_writer *w, int64_t opset, const char *path);

#define ONNX_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
