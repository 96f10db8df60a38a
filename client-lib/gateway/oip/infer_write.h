/*
 * infer_write.h - the result of a job as the answer of the protocol: JSON, and behind it the binary tensors where they lie.
 * Threads: any.
 */
#ifndef INFER_WRITE_H
#define INFER_WRITE_H

#include <sys/uio.h>

#include "bytes.h"
#include "content_coding.h"
#include "inference.h"

struct infer_content {
    struct bytes text;                         /* the JSON; or all of it, where it is coded */
    struct iovec parts[INFERENCE_TENSORS_MAX]; /* views into the result or the hold */
    size_t parts_count, json_bytes;            /* json_bytes: of the uncoded JSON */
    bool binary;
};

/* model: for labels and batches of classifications; NULL = unknown. regions: for outputs that go there. */
enum pen_status infer_write(const struct inference *inference, const pen_result *result, const struct pen_model *model,
                            struct regions *regions, struct infer_content *ret_content, struct pen_error *reterr);

/* Packs text and parts into text alone. Without memory it stays as it is: false. */
bool infer_content_pack(struct infer_content *content, enum content_coding coding);

/* Bytes of outputs that will be written as JSON, for a guess of what that takes. */
size_t infer_json_bytes(const struct inference *inference, const pen_result *result);
bool infer_classifies(const struct inference *inference);

#endif
