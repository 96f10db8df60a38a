#include "result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explanation.h"
#include "job.pb-c.h"
#include "tensor_codec.h"

#define RESULT_ARENA_BYTES (512u * 1024u) /* of unpacked meta: its packed form is at most 64 KiB */

struct pen_result {
    enum pen_status status;
    const char *error;
    struct pen_result_info info;
    struct pen_tensor *outputs; /* [outputs_count], borrowed from the messages and the arena */
    size_t outputs_count;
    const Penstock__ResultMeta *meta;    /* in the arena; NULL for local results */
    struct pen_explanation *explanation; /* texts in the arena; NULL without one */
    struct pen_annotation *annotations;  /* [meta->n_annotations], texts in the arena; their classes behind them */
    size_t annotations_count;
    struct meta_arena arena;
    zmq_msg_t *frames; /* [frames_count] */
    size_t frames_count;
    char text[]; /* error of a local result */
};

static struct pen_result no_memory = {
    .status = PEN_ERR_NO_MEMORY,
    .error = "the client is out of memory; the answer was dropped.",
    .info = {.model = "",
             .backend = "",
             .device = "",
             .worker = "",
             .library = "",
             .isa = "",
             .build = "",
             .error_source = "",
             .batch_reason = "",
             .detached_state = ""},
};

struct pen_result *result_no_memory(void)
{
    return &no_memory;
}

static void info_blank(struct pen_result_info *info)
{
    info->model = info->backend = info->device = info->worker = info->library = info->batch_reason =
        info->detached_state = info->isa = info->build = info->error_source = "";
}

static struct pen_result *result_new(enum pen_status status, const char *text)
{
    size_t length = text ? strlen(text) : 0;
    struct pen_result *result = calloc(1, sizeof *result + length + 1);
    if (!result) {
        return NULL;
    }
    result->status = status;
    if (length) {
        memcpy(result->text, text, length);
    }
    result->error = result->text;
    info_blank(&result->info);
    meta_arena_init(&result->arena, RESULT_ARENA_BYTES);
    return result;
}

struct pen_result *result_local(enum pen_status status, const char *text)
{
    struct pen_result *result = result_new(status, text);
    return result ? result : result_no_memory();
}

/* protobuf-c leaves an absent text as "", never NULL. */
static void info_fill(struct pen_result_info *info, const Penstock__ResultMeta *meta)
{
    info->model = meta->model;
    info->version = meta->version;
    info->backend = meta->backend;
    info->device = meta->device;
    info->worker = meta->worker;
    info->library = meta->library;
    info->isa = meta->isa;
    info->build = meta->build;
    info->age_us = meta->age_us;
    if (meta->measured) {
        info->measured = true;
        info->error_largest = meta->measured->largest;
        info->error_mean = meta->measured->mean;
        info->error_inputs = meta->measured->inputs;
        info->error_source = meta->measured->source;
        info->error_repeatable = meta->measured->repeatable;
    }
    info->batch_reason = meta->batch_reason;
    if (meta->detached) {
        info->detached_state = meta->detached->state;
        info->detached_status =
            meta->detached->status < PEN_STATUS_COUNT ? (enum pen_status)meta->detached->status : PEN_ERR_INTERNAL;
        info->detached_attempts = meta->detached->attempts;
        info->detached_age_us = meta->detached->age_us;
        info->detached_left_us = meta->detached->left_us;
    }
    info->precision = meta->precision;
    info->cached = meta->cached;
    info->batch_size = meta->batch_size;
    info->attempts = meta->attempts;
    info->queue_us = meta->queue_us;
    info->decode_us = meta->decode_us;
    info->compute_us = meta->compute_us;
    info->worker_us = meta->worker_us;
    info->total_us = meta->total_us;
    info->retry_after_us = meta->retry_after_us;
}

/* Moves the messages in, so that the views stay valid. */
static bool frames_take(struct pen_result *result, struct incoming *in)
{
    if (!in->frames_count) {
        return true;
    }
    result->frames = calloc(in->frames_count, sizeof *result->frames);
    if (!result->frames) {
        return false;
    }
    result->frames_count = in->frames_count;
    for (size_t i = 0; i < in->frames_count; i++) {
        zmq_msg_init(&result->frames[i]);
        zmq_msg_move(&result->frames[i], &in->frames[i]);
    }
    return true;
}

static enum pen_status outputs_decode(struct pen_result *result, struct pen_error *reterr)
{
    const Penstock__ResultMeta *meta = result->meta;
    struct raw_frame raw[FRAME_MAX_TENSORS];
    if (meta->n_outputs > FRAME_MAX_TENSORS) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the answer has %zu outputs, more than %u.", meta->n_outputs,
                             FRAME_MAX_TENSORS);
    }
    for (size_t i = 0; i < result->frames_count; i++) {
        raw[i] = (struct raw_frame){zmq_msg_data(&result->frames[i]), zmq_msg_size(&result->frames[i])};
    }
    if (meta->n_outputs == 0) {
        return PEN_OK;
    }
    result->outputs = calloc(meta->n_outputs, sizeof *result->outputs);
    if (!result->outputs) {
        return PEN_ERR_NO_MEMORY;
    }
    enum pen_status status =
        tensors_decode(meta->outputs, meta->n_outputs, raw, result->frames_count, "output", result->outputs, reterr);
    result->outputs_count = status == PEN_OK ? meta->n_outputs : 0;
    return status;
}

/* A status without a name here: its number stands in the sentence, before the broker's own. */
static const char *error_text(struct pen_result *result, const struct envelope *env)
{
    const char *own = result->meta->error;
    size_t room = strlen(own) + 128;
    if (!envelope_status_unknown(env)) {
        return own;
    }
    char *text = result->arena.allocator.alloc(result->arena.allocator.allocator_data, room);
    if (!text) {
        return own;
    }
    snprintf(text, room, "the answer has the status %u, which this version does not know%s%s", env->status_told,
             *own ? ": " : "", own);
    return text;
}

static struct pen_class class_of(const Penstock__Class *from)
{
    return (struct pen_class){from->index, from->score, from->name};
}

/* Annotations and their classes in one block. False without memory. */
static bool annotations_take(struct pen_result *result, const Penstock__ResultMeta *meta)
{
    size_t classes = 0, used = 0;
    for (size_t i = 0; i < meta->n_annotations; i++) {
        classes += meta->annotations[i]->n_classes;
    }
    if (meta->n_annotations == 0) {
        return true;
    }
    result->annotations =
        calloc(1, meta->n_annotations * sizeof *result->annotations + classes * sizeof(struct pen_class));
    if (!result->annotations) {
        return false;
    }
    struct pen_class *to = (struct pen_class *)(result->annotations + meta->n_annotations);
    for (size_t i = 0; i < meta->n_annotations; i++) {
        const Penstock__Annotation *from = meta->annotations[i];
        result->annotations[i] = (struct pen_annotation){from->output, from->row, from->n_classes, to + used};
        for (size_t k = 0; k < from->n_classes; k++) {
            to[used++] = class_of(from->classes[k]);
        }
    }
    result->annotations_count = meta->n_annotations;
    return true;
}

struct pen_result *result_from(struct incoming *in)
{
    struct pen_result *result = result_new(in->env.status, NULL);
    if (!result) {
        return result_no_memory();
    }
    result->meta =
        meta_unpack(&result->arena, &penstock__result_meta__descriptor, in->meta, (size_t)in->env.meta_bytes);
    if (!result->meta) {
        bool starved = result->arena.starved;
        struct pen_error error = {.status = PEN_OK, .text = ""};
        enum pen_status status = meta_refusal(
            &result->arena, "the answer's description is malformed; broker and client may differ in version.", &error);
        pen_result_free(result);
        return starved ? result_no_memory() : result_local(status, error.text);
    }
    info_fill(&result->info, result->meta);
    result->error = error_text(result, &in->env);
    if (result->meta->explanation) {
        result->explanation = explanation_new(result->meta->explanation);
    }
    if (result->status != PEN_OK) {
        return result;
    }
    struct pen_error error = {.status = PEN_OK, .text = ""};
    enum pen_status status = annotations_take(result, result->meta) && frames_take(result, in)
                                 ? outputs_decode(result, &error)
                                 : PEN_ERR_NO_MEMORY;
    if (status != PEN_OK) {
        pen_result_free(result);
        return status == PEN_ERR_NO_MEMORY ? result_no_memory() : result_local(PEN_ERR_CORRUPT, error.text);
    }
    return result;
}

void result_round_trip(struct pen_result *result, uint64_t us)
{
    if (result != &no_memory) {
        result->info.round_trip_us = us;
    }
}

enum pen_status pen_result_status(const pen_result *result)
{
    return result->status;
}

const char *pen_result_error(const pen_result *result)
{
    return result->status == PEN_OK ? "" : result->error;
}

const struct pen_result_info *pen_result_info(const pen_result *result)
{
    return &result->info;
}

size_t pen_result_outputs(const pen_result *result)
{
    return result->outputs_count;
}

const struct pen_tensor *pen_result_output(const pen_result *result, size_t index)
{
    return index < result->outputs_count ? &result->outputs[index] : NULL;
}

const struct pen_tensor *pen_result_find(const pen_result *result, const char *name)
{
    for (size_t i = 0; name && i < result->outputs_count; i++) {
        if (strcmp(result->outputs[i].name, name) == 0) {
            return &result->outputs[i];
        }
    }
    return NULL;
}

size_t pen_result_annotations(const pen_result *result)
{
    return result->annotations_count;
}

const struct pen_annotation *pen_result_annotation(const pen_result *result, size_t index)
{
    return index < result->annotations_count ? &result->annotations[index] : NULL;
}

size_t pen_result_labels(const pen_result *result)
{
    return result->meta ? result->meta->n_labels : 0;
}

const char *pen_result_label(const pen_result *result, size_t index)
{
    return index < pen_result_labels(result) ? result->meta->labels[index] : NULL;
}

const struct pen_explanation *pen_result_explanation(const pen_result *result)
{
    return result->explanation;
}

const char *pen_result_debug_log(const pen_result *result)
{
    return result->meta ? result->meta->debug_log : "";
}

void pen_result_free(pen_result *result)
{
    if (!result || result == &no_memory) {
        return;
    }
    for (size_t i = 0; i < result->frames_count; i++) {
        zmq_msg_close(&result->frames[i]);
    }
    free(result->frames);
    free(result->outputs);
    free(result->explanation);
    free(result->annotations);
    meta_arena_fini(&result->arena);
    free(result);
}
