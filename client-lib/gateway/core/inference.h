/*
 * inference.h - one request for a model, whatever protocol it came by: the model, typed tensors, parameters and wanted outputs, and its way through the pool.
 *
 * Tensors are views into the request's hold; nothing is copied on the way to the broker.
 * Threads: inference_* on one thread at a time; inference_submit and inference_cancel: owner - the loop's.
 */
#ifndef INFERENCE_H
#define INFERENCE_H

#include "hold.h"
#include "penstock/client.h"
#include "session_pool.h"

#define INFERENCE_TENSORS_MAX    64
#define INFERENCE_PARAMETERS_MAX 64
#define INFERENCE_CLASSES_MAX    1000
#define INFERENCE_NEEDS_MAX      16 /* as of a job */

/* The request parameter that demands flags of the worker: a text, "NAME" or "NAME=VALUE", several with ';' between. */
#define INFERENCE_REQUIRE "penstock_require"

/* The flag that asks for debug mode: the job runs alone, and the answer has a log of its operators, as the parameter penstock_debug_log. For the role admin. */
#define INFERENCE_DEBUG "penstock_debug"

/* Where an output is to go besides the answer. */
struct inference_target {
    const char *region; /* NULL = into the answer */
    uint64_t offset, bytes;
};

struct inference_output {
    const char *name;
    bool binary;
    uint32_t classes; /* > 0: so many best classes instead of the numbers */
    struct inference_target target;
};

struct inference {
    struct hold *hold;                /* names, texts and data */
    const char *model, *version, *id; /* version: digits, a label or ""; id: NULL = none */
    size_t inputs_count, outputs_count, parameters_count, needs_count;
    bool binary_default; /* of outputs that say nothing about it, and of those that nobody asked for by name */
    bool trace, debug;
    bool provenance;       /* the answer says what its numbers rest on */
    const char *precision; /* a contract's text, checked when it is submitted; NULL = any */
    uint8_t priority;
    uint64_t timeout_us, sequence_id;
    bool sequence_start, sequence_end;
    const char *traceparent;
    pen_job *job; /* under way */
    void (*ended)(struct inference *inference, pen_result *result);
    void *owner; /* whose `ended` it is */
    struct pen_tensor inputs[INFERENCE_TENSORS_MAX];
    struct inference_output outputs[INFERENCE_TENSORS_MAX];
    struct pen_parameter parameters[INFERENCE_PARAMETERS_MAX];
    const char *needs[INFERENCE_NEEDS_MAX]; /* flags of the worker, in the hold */
};

/* hold: retained. NULL without memory. */
struct inference *inference_new(struct hold *hold);
void inference_free(struct inference *inference); /* cancels what is under way; NULL is fine */

/* A copy of the text in the hold; NULL without memory. */
const char *inference_text(struct inference *inference, const char *text);

/* Takes the text of INFERENCE_REQUIRE. @return NULL, or a sentence that says what is wrong. */
const char *inference_require(struct inference *inference, const char *text);

/* Checks every input, then submits. `ended` is called on the loop's thread with the result, which is given. @return as pen_client_submit(). */
enum pen_status inference_submit(struct inference *inference, struct gateway_session *session,
                                 struct pen_error *reterr);

/*
 * The best classes of each row as a BYTES tensor "SCORE:INDEX[:LABEL]", row by row. tensor: of numbers, [classes] or, if `batched`, [rows, classes].
 * model: for its labels; NULL = none. UNSUPPORTED: not of numbers; NO_MEMORY.
 */
enum pen_status inference_classify(const struct pen_tensor *tensor, uint32_t classes, bool batched,
                                   const struct pen_model *model, struct hold *hold, struct pen_tensor *ret_tensor,
                                   struct pen_error *reterr);

#endif
