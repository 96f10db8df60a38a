/*
 * tensor.h - TensorProto and SparseTensorProto to dense data: borrowed from the file where alignment allows, else copied into an arena.
 *
 * Threads: one-at-a-time per arena.
 */
#ifndef ONNX_TENSOR_H
#define ONNX_TENSOR_H

#include "graph/arena.h"
#include "graph/graph.h"
#include "import/onnx/wire.h"

struct external;

struct tensor_source {
    struct graph_arena *arena;
    uint64_t tensor_limit;     /* bytes of one tensor */
    uint64_t dense_limit;      /* of a sparse one when dense, which a small file may ask for; 0 = tensor_limit */
    struct bytes file;         /* data is borrowed only when LIFETIME_PAD bytes of the file follow it */
    struct external *external; /* NULL: external data is refused */
    bool askew;                /* large raw data is borrowed at any byte: graph/askew.h */
};

struct tensor {
    struct bytes name;
    enum pen_dtype dtype;
    struct shape shape;
    const void *data; /* strings: struct string_view[] */
    size_t bytes;
};

enum pen_status tensor_load(const struct tensor_source *source, struct bytes message, struct tensor *ret_tensor,
                            struct pen_error *reterr);
enum pen_status tensor_load_sparse(const struct tensor_source *source, struct bytes message, struct tensor *ret_tensor,
                                   struct pen_error *reterr);

#endif
