#include "inference.h"

#include <stdlib.h>
#include <string.h>

struct inference *inference_new(struct hold *hold)
{
    struct inference *inference = malloc(sizeof *inference);
    if (!inference)
        return NULL;
    memset(inference, 0, offsetof(struct inference, inputs));
    inference->hold = hold;
    inference->version = "";
    hold_retain(hold);
    return inference;
}

void inference_free(struct inference *inference)
{
    if (!inference)
        return;
    pen_job_free(inference->job);
    hold_release(inference->hold);
    free(inference);
}

const char *inference_text(struct inference *inference, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = hold_take(inference->hold, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

const char *inference_require(struct inference *inference, const char *text)
{
    char *at = hold_take(inference->hold, strlen(text) + 1);
    if (!at)
        return "no memory is left for " INFERENCE_REQUIRE;
    for (const char *from = text;; from++) {
        size_t bytes = strcspn(from, ";");
        if (inference->needs_count == INFERENCE_NEEDS_MAX || bytes == 0)
            return INFERENCE_REQUIRE " has 1 to 16 flags, NAME or NAME=VALUE, with ';' between";
        inference->needs[inference->needs_count++] = memcpy(at, from, bytes);
        at[bytes] = '\0';
        at += bytes + 1;
        from += bytes;
        if (!*from)
            return NULL;
    }
}

static void on_end(pen_job *job, pen_result *result, void *arg)
{
    struct inference *inference = arg;
    (void)job;
    pen_job_free(inference->job);
    inference->job = NULL;
    inference->ended(inference, result);
}

/* What the broker would find, too, but for a job of its own it says it later. */
static enum pen_status check(const struct inference *inference, struct pen_error *reterr)
{
    if (inference->inputs_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the request has no inputs");
    for (size_t i = 0; i < inference->inputs_count; i++) {
        enum pen_status status = pen_tensor_check(&inference->inputs[i], reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static size_t wanted_names(const struct inference *inference, const char **names)
{
    for (size_t i = 0; i < inference->outputs_count; i++)
        names[i] = inference->outputs[i].name;
    return inference->outputs_count;
}

static unsigned flags_of(const struct inference *inference)
{
    return PEN_JOB_BORROW | (inference->sequence_start ? (unsigned)PEN_JOB_SEQUENCE_START : 0u) |
           (inference->sequence_end ? (unsigned)PEN_JOB_SEQUENCE_END : 0u) |
           (inference->trace ? (unsigned)PEN_JOB_TRACE : 0u) | (inference->debug ? (unsigned)PEN_JOB_DEBUG : 0u);
}

enum pen_status inference_submit(struct inference *inference, struct gateway_session *session, struct pen_error *reterr)
{
    const char *names[INFERENCE_TENSORS_MAX];
    bool numbered = strspn(inference->version, "0123456789") == strlen(inference->version);
    enum pen_status status = check(inference, reterr);
    struct pen_job_options options;
    if (status != PEN_OK)
        return status;
    pen_job_options_init(&options, sizeof options);
    options.model = inference->model;
    options.version = numbered ? strtoull(inference->version, NULL, 10) : 0;
    options.version_label = numbered ? NULL : inference->version;
    options.inputs = inference->inputs;
    options.inputs_count = inference->inputs_count;
    options.outputs_count = wanted_names(inference, names);
    options.outputs = options.outputs_count ? names : NULL;
    options.parameters = inference->parameters;
    options.parameters_count = inference->parameters_count;
    options.deadline_us = inference->timeout_us;
    options.priority = inference->priority;
    options.needs = inference->needs_count ? inference->needs : NULL;
    options.needs_count = inference->needs_count;
    options.sequence_id = inference->sequence_id;
    options.traceparent = inference->traceparent;
    options.flags = flags_of(inference);
    if (inference->precision)
        status = pen_job_options_precision(&options, inference->precision, reterr);
    if (status != PEN_OK)
        return status;
    options.release = hold_release;
    options.release_arg = inference->hold;
    options.callback = on_end;
    options.callback_arg = inference;
    hold_retain(inference->hold);
    session_busy(session);
    status = pen_client_submit(session->client, &options, &inference->job, reterr);
    if (status != PEN_OK)
        hold_release(inference->hold);
    return status;
}
