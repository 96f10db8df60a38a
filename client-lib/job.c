#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "core.h"
#include "deadline.h"
#include "job_meta.h"
#include "meta_fields.h"
#include "result.h"
#include "wire_reader.h"
#include "words.h"

#define NAME_BYTES_MAX 255u
#define PARAMETERS_MAX 64u
#define TAGS_MAX       16u
/* JobMeta.sequence_after, a fixed64, behind everything else: it is known only when the job gets its number. */
#define AFTER_TAG        (JOB_META_SEQUENCE_AFTER << 3 | WIRE_FIXED64)
#define AFTER_BYTES      9u
#define BORROW_BYTES_MIN (64u * 1024u) /* below, a copy is cheaper than the bookkeeping */
#define JOB_ARENA_BYTES  (512u * 1024u)

struct pen_job *job_retain(struct pen_job *job)
{
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
    return job;
}

void job_release(struct pen_job *job)
{
    if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    pen_result_free(job->result);
    payload_drop(job->payload);
    client_release(job->client);
    free(job);
}

static enum pen_status check_name(const char *what, const char *name, struct pen_error *reterr)
{
    size_t length = name ? strnlen(name, NAME_BYTES_MAX + 1) : 0;
    if (length == 0 || length > NAME_BYTES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s %s needs a name of 1 to %u bytes.", words_article(what), what,
                             NAME_BYTES_MAX);
    }
    return PEN_OK;
}

static enum pen_status check_inputs(const struct pen_job_options *o, size_t *ret_bytes, struct pen_error *reterr)
{
    size_t bytes = 0;
    for (size_t i = 0; i < o->inputs_count; i++) {
        const struct pen_tensor *t = &o->inputs[i];
        enum pen_status status = check_name("input tensor", t->name, reterr);
        status = status == PEN_OK ? pen_tensor_check(t, reterr) : status;
        if (status != PEN_OK) {
            return status;
        }
        if (t->bytes && !t->data) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "input \"%s\" has %zu bytes but no data.", t->name, t->bytes);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(o->inputs[k].name, t->name) == 0) {
                return pen_error_set(reterr, PEN_ERR_INVALID, "input \"%s\" is given twice.", t->name);
            }
        }
        if (bytes > SIZE_MAX - t->bytes) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the inputs together exceed the address space.");
        }
        bytes += t->bytes;
    }
    *ret_bytes = bytes;
    return PEN_OK;
}

static enum pen_status check_lists(const struct pen_job_options *o, struct pen_error *reterr)
{
    struct job_id detached;
    if (o->detached && job_id_parse(o->detached, &detached) != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "\"%.64s\" " JOB_ID_REFUSED ".", o->detached);
    }
    if (o->detached_secret && (!*o->detached_secret || strlen(o->detached_secret) > DETACHED_SECRET_MAX)) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the secret of a detached job has 1 to %d bytes.",
                             DETACHED_SECRET_MAX);
    }
    enum pen_status status = o->detached ? PEN_OK : check_name("model", o->model, reterr);
    for (size_t i = 0; status == PEN_OK && i < o->outputs_count; i++) {
        status = check_name("requested output", o->outputs[i], reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < o->tags_count; i++) {
        status = check_name("tag", o->tags[i], reterr);
    }
    for (size_t i = 0; status == PEN_OK && i < o->parameters_count; i++) {
        const struct pen_parameter *p = &o->parameters[i];
        status = check_name("parameter", p->name, reterr);
        if (status == PEN_OK && p->kind == PEN_PARAMETER_TEXT && !p->value.text) {
            status = pen_error_set(reterr, PEN_ERR_INVALID, "parameter \"%s\" is a text without a value.", p->name);
        }
    }
    return status;
}

static enum pen_status check(const struct pen_job_options *o, size_t *ret_bytes, struct pen_error *reterr)
{
    struct cap {
        const char *what;
        size_t count, most;
        const void *items;
    } caps[] = {{"inputs", o->inputs_count, FRAME_MAX_TENSORS, o->inputs},
                {"requested outputs", o->outputs_count, FRAME_MAX_TENSORS, o->outputs},
                {"parameters", o->parameters_count, PARAMETERS_MAX, o->parameters},
                {"tags", o->tags_count, TAGS_MAX, o->tags}};
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        if (caps[i].count > caps[i].most) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a job has %zu %s; at most %zu are allowed.", caps[i].count,
                                 caps[i].what, caps[i].most);
        }
        if (caps[i].count && !caps[i].items) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "a job counts %zu %s but gives none.", caps[i].count,
                                 caps[i].what);
        }
    }
    if ((unsigned)o->precision >= PRECISION_COUNT) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "precision %u is unknown.", (unsigned)o->precision);
    }
    if (o->top_k > CLASSES_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "top_k %u: at most %u classes can be told.", o->top_k,
                             CLASSES_MAX);
    }
    enum pen_status status = check_lists(o, reterr);
    return status == PEN_OK ? check_inputs(o, ret_bytes, reterr) : status;
}

static void digest_set(struct pen_job *job, enum digest_kind kind, struct digest digest)
{
    job->digest_kind = (int)kind;
    job->env.digest = digest;
    job->env.flags = (uint16_t)((job->env.flags & ~FRAME_FLAG_DIGEST_SHA256) | FRAME_FLAG_DIGEST |
                                (kind == DIGEST_SHA256 ? FRAME_FLAG_DIGEST_SHA256 : 0));
}

enum pen_status job_digest(struct pen_job *job, enum digest_kind kind)
{
    struct meta_arena arena;
    struct pen_tensor inputs[FRAME_MAX_TENSORS];
    struct digest digest;
    meta_arena_init(&arena, JOB_ARENA_BYTES);
    Penstock__JobMeta *meta = meta_unpack(&arena, &penstock__job_meta__descriptor, job->meta, job->meta_bytes);
    enum pen_status status = meta ? PEN_OK : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        status = tensors_decode(meta->inputs, meta->n_inputs, job->frames, job->frames_count, "input", inputs, NULL);
    }
    if (status == PEN_OK) {
        status = job_meta_digest(kind, meta, inputs, &arena, &digest);
    }
    if (status == PEN_OK) {
        digest_set(job, kind, digest);
    }
    meta_arena_fini(&arena);
    return status;
}

/* The protobuf form, all of it borrowed from the options. */
struct request {
    Penstock__JobMeta meta;
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS];
    Penstock__TensorDesc *desc_pointers[FRAME_MAX_TENSORS];
    Penstock__Parameter parameters[PARAMETERS_MAX];
    Penstock__Parameter *parameter_pointers[PARAMETERS_MAX];
    uint32_t frame_order[FRAME_MAX_TENSORS];
    size_t frames_count;
    struct digest lock; /* that the detached job's secret opens */
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

static enum pen_status request_fill(struct request *r, const struct pen_client *client, const struct pen_job_options *o)
{
    penstock__job_meta__init(&r->meta);
    r->meta.model = text_or_empty(o->model);
    r->meta.version = o->version;
    r->meta.backend = text_or_empty(o->backend);
    r->meta.tenant = text_or_empty(client->tenant);
    r->meta.traceparent = text_or_empty(o->traceparent);
    r->meta.submit_unix_us = clock_unix_us();
    r->meta.trace = o->flags & PEN_JOB_LAYERS ? 2 : o->flags & PEN_JOB_TRACE ? 1 : 0;
    r->meta.n_outputs = o->outputs_count;
    r->meta.outputs = (char **)(uintptr_t)o->outputs;
    r->meta.n_tags = o->tags_count;
    r->meta.tags = (char **)(uintptr_t)o->tags;
    r->meta.version_label = text_or_empty(o->version_label);
    r->meta.detached = text_or_empty(o->detached);
    r->meta.detached_ttl_us = o->detached_ttl_us;
    r->meta.detached_state = o->detached_state;
    r->meta.top_k = o->top_k;
    r->meta.explain = (o->flags & PEN_JOB_EXPLAIN) != 0;
    parameters_fill(r, o);
    tensors_encode(o->inputs, o->inputs_count, r->descs, r->desc_pointers, r->frame_order, &r->frames_count);
    r->meta.n_inputs = o->inputs_count;
    r->meta.inputs = r->desc_pointers;
    return lock_fill(r, o->detached_secret);
}

static void envelope_fill(struct pen_job *job, const struct pen_job_options *o)
{
    job->env = envelope_make(FRAME_SUBMIT);
    job->env.model_hash = frame_name_hash(o->model ? o->model : "");
    job->env.tenant_hash = (uint32_t)frame_name_hash(job->client->tenant);
    job->env.sequence_id = o->sequence_id;
    job->labelled = o->version_label && *o->version_label;
    job->env.priority = o->priority;
    job->env.precision = (uint8_t)o->precision;
    job->env.flags = o->flags & (PEN_JOB_NO_CACHE | PEN_JOB_LAYERS) ? FRAME_FLAG_NO_CACHE : 0;
    if (o->sequence_id)
        job->env.flags =
            (uint16_t)(job->env.flags | (o->flags & PEN_JOB_SEQUENCE_START ? FRAME_FLAG_SEQUENCE_START : 0) |
                       (o->flags & PEN_JOB_SEQUENCE_END ? FRAME_FLAG_SEQUENCE_END : 0));
    job->env.flags = (uint16_t)(job->env.flags | (o->detached                   ? FRAME_FLAG_FETCH
                                                  : o->flags & PEN_JOB_DETACHED ? FRAME_FLAG_DETACHED
                                                                                : 0));
}

/* Raw inputs: copied behind each other, or left where they are. */
static enum pen_status payload_fill(struct pen_job *job, const struct request *r, const struct pen_job_options *o,
                                    bool borrow, void (*release)(void *), void *release_arg)
{
    size_t copy_bytes = 0, at = 0;
    borrow = borrow && r->frames_count;
    for (size_t i = 0; i < r->frames_count && !borrow; i++) {
        copy_bytes += o->inputs[r->frame_order[i]].bytes;
    }
    if (r->frames_count || release) {
        job->payload = payload_new(copy_bytes, release, release_arg);
        if (!job->payload) {
            return PEN_ERR_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < r->frames_count; i++) {
        const struct pen_tensor *t = &o->inputs[r->frame_order[i]];
        job->frames[i] = (struct raw_frame){t->data, t->bytes};
        if (!borrow) {
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
    digest_set(job, kind, digest);
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

void job_follow(struct pen_job *job, uint64_t before)
{
    uint8_t *to = job->meta + job->meta_bytes - AFTER_BYTES;
    if (job->env.sequence_id == 0) {
        return;
    }
    *to++ = AFTER_TAG;
    for (unsigned i = 0; i < 8; i++) {
        *to++ = (uint8_t)(before >> (8 * i));
    }
}

enum pen_status job_new(struct pen_client *client, const struct pen_job_options *o, bool borrow,
                        void (*release)(void *), void *release_arg, enum digest_kind digest_kind,
                        struct pen_job **ret_job, struct pen_error *reterr)
{
    struct request r;
    size_t bytes = 0;
    enum pen_status status = check(o, &bytes, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = request_fill(&r, client, o);
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "no memory for the lock of a detached job.");
    }
    size_t meta_bytes = penstock__job_meta__get_packed_size(&r.meta) + (o->sequence_id ? AFTER_BYTES : 0);
    if (meta_bytes > FRAME_META_BYTES_MAX) {
        return too_large(meta_bytes, reterr);
    }
    struct pen_job *job = job_alloc(client, meta_bytes);
    if (!job) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a job of %zu bytes.", bytes);
    }
    penstock__job_meta__pack(&r.meta, job->meta);
    envelope_fill(job, o);
    job_follow(job, 0);
    job->payload_bytes = bytes;
    job->submitted_us = clock_now_us();
    job->deadline_us = o->deadline_us ? deadline_at(job->submitted_us, o->deadline_us) : DEADLINE_NONE;
    job->callback = o->callback;
    job->ordered = (o->flags & PEN_JOB_ORDERED) != 0;
    job->callback_arg = o->callback_arg;
    status = payload_fill(job, &r, o, borrow || (release && bytes >= BORROW_BYTES_MIN), release, release_arg);
    if (status != PEN_OK) {
        status = pen_error_set(reterr, status, "no memory for a job of %zu bytes.", bytes);
    } else if (!(o->flags & (PEN_JOB_NO_CACHE | PEN_JOB_LAYERS))) {
        status = digest_new_job(job, &r.meta, o->inputs, digest_kind, reterr);
    }
    if (status != PEN_OK) {
        payload_forget_release(job->payload);
        job_release(job);
        return status;
    }
    *ret_job = job;
    return PEN_OK;
}
