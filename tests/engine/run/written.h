/*
 * written.h - a session on a graph that the test has written node by node.
 * Threads: owner. Failures end the test with a message.
 */
#ifndef TEST_WRITTEN_H
#define TEST_WRITTEN_H

#include "folder.h"
#include "onnx_writer.h"
#include "penstock/engine.h"

#define ONNX_STRING 8 /* TensorProto.STRING */

struct written {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    const struct pen_tensor *out; /* of the last run */
    size_t out_count;
    struct pen_error error;
    char folder[FOLDER_PATH_BYTES];
};

/* Takes the graph over. options: NULL = the reference backend. */
void written_open(struct written *w, struct onnx_writer *graph, const struct pen_engine_options *options);
void written_close(struct written *w);

/* One tensor by position. */
struct pen_tensor written_tensor(enum pen_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                                 size_t bytes);
enum pen_status written_run(struct written *w, const struct pen_tensor *in, size_t count);
/* Output `index` is float32 of these dims with these elements. */
void written_expect(const struct written *w, size_t index, uint32_t rank, const int64_t *dims, const float *values);

#define WRITTEN_DIMS(...)   ((const int64_t[]){__VA_ARGS__})
#define WRITTEN_FLOATS(...) ((const float[]){__VA_ARGS__})
#define WRITTEN_F32(rank, dims, ...)                                                                                   \
    written_tensor(PEN_DTYPE_F32, rank, dims, WRITTEN_FLOATS(__VA_ARGS__), sizeof(const float[]){__VA_ARGS__})

#endif
