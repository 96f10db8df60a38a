#include "job_new.h"

#include <stdlib.h>
#include <string.h>

#include "client_ref.h"
#include "deadline.h"
#include "job_check.h"
#include "job_meta.h"
#include "sealed.h"

/* The protobuf form, all of it borrowed from the options. */
#define JOB_UNCACHED (PEN_JOB_NO_CACHE | PEN_JOB_LAYERS | PEN_JOB_DEBUG)

struct request {
    Penstock__JobMeta meta;
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS];
    Penstock__TensorDesc *desc_pointers[FRAME_MAX_TENSORS];
    Penstock__Parameter parameters[JOB_PARAMETERS_MAX];
    Penstock__Parameter *parameter_pointers[JOB_PARAMETERS_MAX];
    uint32_t frame_order[FRAME_MAX_TENSORS];
    size_t frames_count;
    const char *needs[JOB_TAGS_MAX + 1]; /* with what debug mode needs */
    struct digest lock;                  /* that the detached job's secret opens */
};

static void parameters_fill(struct request *r, const struct pen_job_options *o)
{
    for (size_t i = 0; i < o->parameters_count; i++) {
        const struct pen_parameter *from = &o->parameters[i];
        Penstock__Parameter *to = &r->parameters[i];
        penstock__parameter__init(to);
        to->name = (char *)(uintptr_t)from->name;
        switch (from->kind) {
        case PEN_PARAMETER_TEXT:
            to->value_case = PENSTOCK__PARAMETER__VALUE_TEXT;
            to->text = (char *)(uintptr_t)from->value.text;
            break;
        case PEN_PARAMETER_INTEGER:
            to->value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
            to->integer = from->value.integer;
            break;
        case PEN_PARAMETER_NUMBER:
            to->value_case = PENSTOCK__PARAMETER__VALUE_NUMBER;
            to->number = from->value.number;
            break;
        case PEN_PARAMETER_FLAG:
            to->value_case = PENSTOCK__PARAMETER__VALUE_FLAG;
            to->flag = from->value.flag;
            break;
        }
        r->parameter_pointers[i] = to;
    }
    r->meta.n_parameters = o->parameters_count;
    r->meta.parameters = r->parameter_pointers;
}

static char *text_or_empty(const char *text)
{
    return (char *)(uintptr_t)(text ? text : "");
}

static enum pen_status lock_fill(struct request *r, const char *secret)
{
    struct digest_stream *stream = secret ? digest_new(DIGEST_SHA256) : NULL;
    if (!stream) {
        return secret ? PEN_ERR_NO_MEMORY : PEN_OK;
    }
    digest_update(stream, secret, strlen(secret));
    r->lock = digest_final(stream);
    digest_free(stream);
    r->meta.detached_lock.data = r->lock.bytes;
    r->meta.detached_lock.len = sizeof r->lock.bytes;
    return PEN_OK;
}

/* Brokers that do not know debug mode send the job to a worker that does. */
static void needs_fill(struct request *r, const struct pen_job_options *o)
{
    for (size_t i = 0; i < o->needs_count; i++) {
        r->needs[i] = o->needs[i];
    }
    r->meta.n_needs = o->needs_count;
    if (o->flags & PEN_JOB_DEBUG) {
        r->needs[r->meta.n_needs++] = "debug_jobs";
    }
    r->meta.needs = (char **)(uintptr_t)r->needs;
}

static enum pen_status request_fill(struct request *r, const char *tenant, const struct pen_job_options *o)
{
    penstock__job_meta__init(&r->meta);
    r->meta.model = text_or_empty(o->model);
    r->meta.version = o->version;
    r->meta.backend = text_or_empty(o->backend);
    r->meta.tenant = text_or_empty(tenant);
    r->meta.traceparent = text_or_empty(o->traceparent);
    r->meta.submit_unix_us = clock_unix_us();
    r->meta.trace = o->flags & PEN_JOB_LAYERS ? 2 : o->flags & PEN_JOB_TRACE ? 1 : 0;
    r->meta.n_outputs = o->outputs_count;
    r->meta.outputs = (char **)(uintptr_t)o->outputs;
    r->meta.n_tags = o->tags_count;
    r->meta.tags = (char **)(uintptr_t)o->tags;
    r->meta.debug = (o->flags & PEN_JOB_DEBUG) != 0;
    needs_fill(r, o);
    r->meta.version_label = text_or_empty(o->version_label);
    r->meta.detached = text_or_empty(o->detached);
    r->meta.detached_ttl_us = o->detached_ttl_us;
    r->meta.detached_state = o->detached_state;
    r->meta.top_k = o->top_k;
    r->meta.max_relative_error = o->max_relative_error;
    r->meta.f32_exact = o->f32_exact;
    r->meta.explain = (o->flags & PEN_JOB_EXPLAIN) != 0;
    parameters_fill(r, o);
    tensors_encode(o->inputs, o->inputs_count, r->descs, r->desc_pointers, r->frame_order, &r->frames_count);
    r->meta.n_inputs = o->inputs_count;
    r->meta.inputs = r->desc_pointers;
    return lock_fill(r, o->detached_secret);
}

static void envelope_fill(struct pen_job *job, const char *tenant, const struct pen_job_options *o)
{
    job->env = envelope_make(FRAME_SUBMIT);
    job->env.model_hash = frame_name_hash(o->model ? o->model : "");
    job->env.tenant_hash = (uint32_t)frame_name_hash(tenant);
    job->env.sequence_id = o->sequence_id;
    job->needs = o->needs_count > 0 || (o->flags & PEN_JOB_DEBUG);
    job->contract = o->max_relative_error != 0.0 || o->f32_exact;
    job->labelled = o->version_label && *o->version_label;
    job->env.priority = o->priority;
    job->env.precision = (uint8_t)o->precision;
    job->env.flags = o->flags & JOB_UNCACHED ? FRAME_FLAG_NO_CACHE : 0;
    if (o->sequence_id) {
        job->env.flags =
            (uint16_t)(job->env.flags | (o->flags & PEN_JOB_SEQUENCE_START ? FRAME_FLAG_SEQUENCE_START : 0) |
                       (o->flags & PEN_JOB_SEQUENCE_END ? FRAME_FLAG_SEQUENCE_END : 0));
    }
    job->env.flags = (uint16_t)(job->env.flags | (o->detached                   ? FRAME_FLAG_FETCH
                                                  : o->flags & PEN_JOB_DETACHED ? FRAME_FLAG_DETACHED
                                                                                : 0));
}

/* How many bytes of raw inputs are copied. */
static size_t copy_bytes(const struct request *r, const struct job_order *order)
{
    size_t bytes = 0;
    for (size_t i = 0; i < r->frames_count && order->inputs == JOB_INPUTS_COPIED; i++) {
        bytes += order->options->inputs[r->frame_order[i]].bytes;
    }
    return bytes;
}

/* Raw inputs of a job that go to a broker on this host: copied into one block. NULL: it is not to be, or cannot be. */
static struct sealed *raws_seal(const struct request *r, const struct job_order *order, size_t *ret_offsets)
{
    struct sealed_piece pieces[FRAME_MAX_TENSORS];
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->frames_count; i++) {
        const struct pen_tensor *t = &order->options->inputs[r->frame_order[i]];
        pieces[i] = (struct sealed_piece){t->data, t->bytes};
        bytes += t->bytes;
    }
    return order->sealed_from && bytes > order->sealed_from ? sealed_copy(pieces, r->frames_count, ret_offsets) : NULL;
}

/* True: the raw inputs lie in sealed memory. */
static bool payload_seals(struct pen_job *job, const struct request *r, const struct job_order *order)
{
    size_t offsets[FRAME_MAX_TENSORS];
    struct sealed *block = raws_seal(r, order, offsets);
    job->payload = block ? payload_new(0, order->release, order->release_arg) : NULL;
    if (!job->payload) {
        sealed_release(block);
        return false;
    }
    payload_seal(job->payload, block);
    for (size_t i = 0; i < r->frames_count; i++) {
        const struct pen_tensor *t = &order->options->inputs[r->frame_order[i]];
        job->frames[i] = (struct raw_frame){sealed_data(block) + offsets[i], t->bytes};
    }
    job->frames_count = r->frames_count;
    return true;
}

/* Raw inputs: copied behind each other, or left where they are. */
static enum pen_status payload_fill(struct pen_job *job, const struct request *r, const struct job_order *order)
{
    size_t at = 0;
    if (payload_seals(job, r, order)) {
        return PEN_OK;
    }
    if (r->frames_count || order->release) {
        job->payload = payload_new(copy_bytes(r, order), order->release, order->release_arg);
        if (!job->payload) {
            return PEN_ERR_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < r->frames_count; i++) {
        const struct pen_tensor *t = &order->options->inputs[r->frame_order[i]];
        job->frames[i] = (struct raw_frame){t->data, t->bytes};
        if (order->inputs == JOB_INPUTS_COPIED) {
            unsigned char *to = payload_copy(job->payload) + at;
            memcpy(to, t->data, t->bytes);
            job->frames[i].data = to;
            at += t->bytes;
        }
    }
    job->frames_count = r->frames_count;
    return PEN_OK;
}

static enum pen_status digest_new_job(struct pen_job *job, const Penstock__JobMeta *meta,
                                      const struct pen_tensor *inputs, enum digest_kind kind, struct pen_error *reterr)
{
    struct meta_arena arena;
    struct digest digest;
    meta_arena_init(&arena, JOB_ARENA_BYTES);
    enum pen_status status = job_meta_digest(kind, meta, inputs, &arena, &digest);
    meta_arena_fini(&arena);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "%s",
                             status == PEN_ERR_NO_MEMORY ? "no memory for the digest of a job."
                                                         : "two parameters of the job have one name.");
    }
    job_digest_set(job, kind, digest);
    return PEN_OK;
}

static struct pen_job *job_alloc(struct pen_client *client, size_t meta_bytes)
{
    struct pen_job *job = malloc(sizeof *job + meta_bytes);
    if (job) {
        memset(job, 0, sizeof *job);
        atomic_init(&job->references, 1);
        job->client = client_retain(client);
        job->meta_bytes = meta_bytes;
        job->digest_kind = -1;
    }
    return job;
}

static enum pen_status too_large(size_t meta_bytes, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "the job's description takes %zu bytes, more than %u: send long texts as a tensor.",
                         meta_bytes, FRAME_META_BYTES_MAX);
}

static enum pen_status no_memory_for(size_t bytes, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a job of %zu bytes.", bytes);
}

/* A record of the packed request, without inputs. NULL without memory. */
static struct pen_job *job_pack(struct pen_client *client, const struct request *r, const struct job_order *order,
                                size_t meta_bytes)
{
    const struct pen_job_options *o = order->options;
    struct pen_job *job = job_alloc(client, meta_bytes);
    if (job) {
        penstock__job_meta__pack(&r->meta, job->meta);
        envelope_fill(job, order->tenant, o);
        job_follow(job, 0);
        job->submitted_us = clock_now_us();
        job->deadline_us = o->deadline_us ? deadline_at(job->submitted_us, o->deadline_us) : DEADLINE_NONE;
        job->callback = o->callback;
        job->callback_arg = o->callback_arg;
        job->ordered = (o->flags & PEN_JOB_ORDERED) != 0;
    }
    return job;
}

static enum pen_status job_fill(struct pen_job *job, const struct request *r, const struct job_order *order,
                                struct pen_error *reterr)
{
    if (payload_fill(job, r, order) != PEN_OK) {
        return no_memory_for(job->payload_bytes, reterr);
    }
    if (order->options->flags & JOB_UNCACHED) {
        return PEN_OK;
    }
    return digest_new_job(job, &r->meta, order->options->inputs, order->digest_kind, reterr);
}

enum pen_status job_new(struct pen_client *client, const struct job_order *order, struct pen_job **ret_job,
                        struct pen_error *reterr)
{
    struct request r;
    size_t bytes = 0;
    enum pen_status status = job_check(order->options, &bytes, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = request_fill(&r, order->tenant, order->options);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "no memory for the lock of a detached job.");
    }
    size_t meta_bytes =
        penstock__job_meta__get_packed_size(&r.meta) + (order->options->sequence_id ? JOB_AFTER_BYTES : 0);
    if (meta_bytes > FRAME_META_BYTES_MAX) {
        return too_large(meta_bytes, reterr);
    }
    struct pen_job *job = job_pack(client, &r, order, meta_bytes);
    if (!job) {
        return no_memory_for(bytes, reterr);
    }
    job->payload_bytes = bytes;
    status = job_fill(job, &r, order, reterr);
    if (status != PEN_OK) {
        payload_forget_release(job->payload);
        job_release(job);
        return status;
    }
    *ret_job = job;
    return PEN_OK;
}
