/*
 * infer_read.h - the body of an inference request in the Open Inference Protocol's HTTP form, with its binary extension, as an inference.
 *
 * The body is JSON, then the binary tensors in the order of the JSON's inputs. A raw request has no JSON: the whole body is the only input's data, and its
 * shape follows from the model's signature.
 * Threads: any.
 */
#ifndef INFER_READ_H
#define INFER_READ_H

#include "inference.h"

struct infer_source {
    const char *model, *version;
    const char *body; /* [bytes], in `hold` */
    size_t bytes;
    size_t json_bytes; /* of those, JSON; all of them without binary data */
    bool raw;
    const struct pen_model *signature; /* of a raw request */
    struct regions *regions;           /* NULL: this peer may use none */
    struct hold *hold;
};

/* INVALID, NOT_FOUND, TOO_LARGE, UNSUPPORTED, DENIED: with a sentence for the peer. @param ret_inference given. */
enum pen_status infer_read(const struct infer_source *source, struct inference **ret_inference,
                           struct pen_error *reterr);

#endif
