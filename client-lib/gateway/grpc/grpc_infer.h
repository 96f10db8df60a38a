/*
 * grpc_infer.h - ModelInfer, and ModelStreamInfer message by message: read, submitted, awaited, answered.
 * Threads: owner - the loop's.
 */
#ifndef GRPC_INFER_H
#define GRPC_INFER_H

#include <sys/uio.h>

#include "grpc_calls.h"

void grpc_infer_begin(const struct grpc_who *who);
/* Of a stream: each request is answered once and in order. A request that fails is answered with its sentence, and the stream goes on. */
void grpc_infer_next(const struct grpc_who *who);

/* ---- grpc_infer_read.c: any thread ---- */

struct grpc_infer_source {
    const char *message; /* [bytes] */
    size_t bytes;
    struct regions *regions; /* NULL: this peer may use none */
    struct hold *hold;       /* of what is read from the message */
};

/* *ret_final: an answer says that it is the last one of its request. Else as infer_read(). */
enum pen_status grpc_infer_read(const struct grpc_infer_source *source, struct inference **ret_inference,
                                bool *ret_final, struct pen_error *reterr);

/* ---- grpc_infer_write.c: any thread ---- */

#define GRPC_HEAD_BYTES 16

struct grpc_content {
    struct bytes text;                             /* all but the outputs' bytes */
    struct iovec parts[2 * INFERENCE_TENSORS_MAX]; /* heads, and views into the result or the hold, in turns */
    size_t parts_count;
    bool packed; /* all of it lies in text */
    unsigned char heads[INFERENCE_TENSORS_MAX][GRPC_HEAD_BYTES];
};

struct grpc_infer_form {
    bool stream; /* a ModelStreamInferResponse */
    bool final;  /* with the parameter triton_final_response */
};

/* Else as infer_write(). */
enum pen_status grpc_infer_write(const struct inference *inference, const pen_result *result,
                                 const struct pen_model *model, struct regions *regions, struct grpc_infer_form form,
                                 struct grpc_content *ret_content, struct pen_error *reterr);
/* Packs it, where it is large enough for that to pay and memory is there. */
void grpc_content_pack(struct grpc_content *content, enum content_coding coding);
/* A ModelStreamInferResponse that says why a request failed. */
void grpc_infer_write_error(const char *id, const char *text, struct bytes *to);

#endif
