#include "quarantine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "frame.h"
#include "job_meta.h"
#include "group_builder.h"
#include "penstock/dtype.h"
#include "session.h"

struct quarantine *quarantine_new(void)
{
    struct quarantine *quarantine = malloc(sizeof *quarantine); /* 300 KB: what is not used stays untouched */
    if (!quarantine)
        return NULL;
    quarantine->count = quarantine->traces_next = 0;
    return quarantine;
}

void quarantine_free(struct quarantine *quarantine)
{
    free(quarantine);
}

void quarantine_trace(struct quarantine *quarantine, struct job_id id, const char *worker)
{
    struct trace *trace = &quarantine->traces[quarantine->traces_next++ % QUARANTINE_TRACE];
    trace->id = id;
    snprintf(trace->worker, sizeof trace->worker, "%s", worker);
}

/* Appends to a text of QUARANTINE_TEXT bytes; what does not fit is left out. */
static void append(char *text, const char *separator, const char *more)
{
    size_t used = strlen(text);
    if (used + strlen(separator) + strlen(more) < QUARANTINE_TEXT)
        snprintf(text + used, QUARANTINE_TEXT - used, "%s%s", used ? separator : "", more);
}

static void fill_workers(const struct quarantine *quarantine, struct job_id id, char *text)
{
    uint32_t kept = quarantine->traces_next < QUARANTINE_TRACE ? quarantine->traces_next : QUARANTINE_TRACE;
    for (uint32_t i = kept; i > 0; i--) {
        const struct trace *trace = &quarantine->traces[(quarantine->traces_next - i) % QUARANTINE_TRACE];
        if (job_id_equal(trace->id, id))
            append(text, ", ", trace->worker);
    }
}

static void describe(const Penstock__TensorDesc *input, char *text)
{
    char one[QUARANTINE_TEXT];
    const char *dtype = input->dtype < PEN_DTYPE_COUNT ? pen_dtype_name((enum pen_dtype)input->dtype) : "?";
    int used = snprintf(one, sizeof one, "%.64s %s [", input->name, dtype);
    for (size_t d = 0; d < input->n_dims && d < 8; d++)
        used += snprintf(one + used, sizeof one - (size_t)used, "%s%" PRId64, d ? "," : "", input->dims[d]);
    snprintf(one + used, sizeof one - (size_t)used, "] %" PRIu64 " bytes", input->bytes);
    append(text, "; ", one);
}

#define CONTENT_BYTES_MAX                                                                                              \
    (16u << 20) /* hashed in a millisecond or two; a larger job is known by its client's digest alone */
#define META_BYTES_MAX (1u << 20)

static uint64_t payload_of(const Penstock__JobMeta *meta)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < meta->n_inputs; i++)
        bytes += meta->inputs[i]->bytes;
    return bytes;
}

/* Reads the request again: this happens so rarely that unpacking and hashing it once more is fine. */
static void fill_content(const struct shared_message *request, struct quarantined *entry)
{
    struct envelope env;
    struct pen_tensor inputs[FRAME_MAX_TENSORS];
    struct meta_arena arena;
    meta_arena_init(&arena, META_BYTES_MAX);
    Penstock__JobMeta *job = group_open(request, &arena, &penstock__job_meta__descriptor, &env);
    if (job) {
        entry->has_digest = (env.flags & FRAME_FLAG_DIGEST) != 0;
        entry->digest = env.digest;
        entry->payload = payload_of(job);
        for (size_t i = 0; i < job->n_inputs; i++)
            describe(job->inputs[i], entry->inputs);
        entry->has_content = entry->payload <= CONTENT_BYTES_MAX &&
                             group_tensors(request, job->inputs, job->n_inputs, inputs, NULL) == PEN_OK &&
                             job_meta_digest(DIGEST_XXH3, job, inputs, &arena, &entry->content) == PEN_OK;
    }
    meta_arena_fini(&arena);
}

static void remove_at(struct quarantine *quarantine, uint32_t index)
{
    PEN_ASSERT(index < quarantine->count, "what leaves the quarantine is in it");
    quarantine->count--;
    memmove(&quarantine->entries[index], &quarantine->entries[index + 1],
            (quarantine->count - index) * sizeof quarantine->entries[0]);
}

void quarantine_add(struct quarantine *quarantine, const struct job *job, const struct job *suspect, uint64_t now_us)
{
    if (quarantine->count == QUARANTINE_MAX)
        remove_at(quarantine, 0);
    PEN_ASSERT(quarantine->count < QUARANTINE_MAX, "the quarantine has a row for who comes");
    struct quarantined *entry = &quarantine->entries[quarantine->count++];
    *entry = (struct quarantined){.id = job->id,
                                  .version = job->lane->model->version,
                                  .since_us = now_us,
                                  .bytes = shared_message_bytes(job->request),
                                  .deaths = suspect->deaths};
    snprintf(entry->tenant, sizeof entry->tenant, "%s", job->session->tenant->name);
    snprintf(entry->model, sizeof entry->model, "%s", job->lane->model->name);
    fill_workers(quarantine, suspect->id, entry->workers);
    fill_content(job->request, entry);
}

static bool could_be(const struct quarantined *entry, const struct model *model, const char *tenant, uint64_t now_us,
                     uint64_t age_us)
{
    return now_us - entry->since_us < age_us && entry->version == model->version &&
           strcmp(entry->model, model->name) == 0 && strcmp(entry->tenant, tenant) == 0;
}

static const struct quarantined *refuse(struct quarantined *entry)
{
    entry->refused++;
    return entry;
}

const struct quarantined *quarantine_refuses(struct quarantine *quarantine, const struct model *model,
                                             const char *tenant, const struct digest *digest, uint64_t now_us,
                                             uint64_t age_us)
{
    for (uint32_t i = 0; i < quarantine->count; i++) {
        struct quarantined *entry = &quarantine->entries[i];
        if (entry->has_digest && digest_equal(entry->digest, *digest) && could_be(entry, model, tenant, now_us, age_us))
            return refuse(entry);
    }
    return NULL;
}

const struct quarantined *quarantine_refuses_content(struct quarantine *quarantine, const struct model *model,
                                                     const char *tenant, const Penstock__JobMeta *meta,
                                                     const struct pen_tensor *inputs, struct meta_arena *arena,
                                                     uint64_t now_us, uint64_t age_us)
{
    struct digest content;
    bool hashed = false;
    uint64_t payload = payload_of(meta);
    for (uint32_t i = 0; i < quarantine->count; i++) {
        struct quarantined *entry = &quarantine->entries[i];
        if (!entry->has_content || entry->payload != payload || !could_be(entry, model, tenant, now_us, age_us))
            continue;
        if (!hashed && job_meta_digest(DIGEST_XXH3, meta, inputs, arena, &content) != PEN_OK)
            return NULL;
        hashed = true;
        if (digest_equal(entry->content, content))
            return refuse(entry);
    }
    return NULL;
}

const struct quarantined *quarantine_find(const struct quarantine *quarantine, struct job_id id)
{
    for (uint32_t i = 0; i < quarantine->count; i++) {
        if (job_id_equal(quarantine->entries[i].id, id))
            return &quarantine->entries[i];
    }
    return NULL;
}

bool quarantine_kick(struct quarantine *quarantine, struct job_id id)
{
    const struct quarantined *entry = quarantine_find(quarantine, id);
    if (!entry)
        return false;
    remove_at(quarantine, (uint32_t)(entry - quarantine->entries));
    return true;
}

uint32_t quarantine_kick_all(struct quarantine *quarantine)
{
    uint32_t count = quarantine->count;
    quarantine->count = 0;
    return count;
}
