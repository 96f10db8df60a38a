#include "job.h"

#include <stdlib.h>

#include "assertion.h"
#include "client_ref.h"
#include "job_meta.h"
#include "meta_fields.h"
#include "wire_reader.h"
#include "result.h"

/* JobMeta.sequence_after, a fixed64, behind everything else: it is known only when the job gets its number. */
#define AFTER_TAG (JOB_META_SEQUENCE_AFTER << 3 | WIRE_FIXED64)

struct pen_job *job_retain(struct pen_job *job)
{
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
    return job;
}

void job_release(struct pen_job *job)
{
    unsigned held = job ? atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) : 0;
    PEN_ASSERT(!job || held > 0, "a job is given back only by who holds it");
    if (held != 1) {
        return;
    }
    PEN_ASSERT(!job_pending(job), "a job that awaits its answer is held by the pending ones");
    pen_result_free(job->result);
    payload_drop(job->payload);
    client_release(job->client);
    free(job);
}

/* ---- states ---- */

#define BIT(state) (1u << (state))

/* Where a job may go from each state. A broker may answer a job that this connection has not carried, and refuse one twice. */
static const uint8_t next_states[] = {
    [JOB_MADE] = BIT(JOB_WAITS),
    [JOB_WAITS] = BIT(JOB_SENT) | BIT(JOB_HELD) | BIT(JOB_ANSWERED),
    [JOB_SENT] = BIT(JOB_WAITS) | BIT(JOB_HELD) | BIT(JOB_ANSWERED),
    [JOB_HELD] = BIT(JOB_SENT) | BIT(JOB_HELD) | BIT(JOB_ANSWERED),
    [JOB_ANSWERED] = BIT(JOB_ENDED),
    [JOB_ENDED] = BIT(JOB_TAKEN),
    [JOB_TAKEN] = 0,
};
_Static_assert(sizeof next_states == JOB_STATE_COUNT, "each state has a row");

void job_enter(struct pen_job *job, enum job_state state)
{
    PEN_ASSERT(state < JOB_STATE_COUNT && next_states[job->state] & BIT(state),
               "a job goes from one state only to those that follow it");
    PEN_ASSERT((state >= JOB_ANSWERED && state < JOB_TAKEN) == (job->result != NULL),
               "a job has its result from the answer on until it is taken");
    job->state = state;
    job->ended = state >= JOB_ENDED;
}

bool job_pending(const struct pen_job *job)
{
    return job->state == JOB_WAITS || job->state == JOB_SENT || job->state == JOB_HELD;
}

void job_answer(struct pen_job *job, struct pen_result *result)
{
    PEN_ASSERT(job_pending(job) && !job->result, "a job is answered once, while it awaits its answer");
    PEN_ASSERT(!job->older && !job->newer, "who is answered has left the pending ones");
    job->result = result;
    payload_drop(job->payload);
    job->payload = NULL;
    job_enter(job, JOB_ANSWERED);
}

struct pen_result *job_take_result(struct pen_job *job)
{
    struct pen_result *result = job->result;
    PEN_ASSERT(job->state == JOB_ENDED, "the result of a job is taken once, when it has ended");
    job->result = NULL;
    job_enter(job, JOB_TAKEN);
    return result;
}

/* ---- the packed request ---- */

void job_follow(struct pen_job *job, uint64_t before)
{
    uint8_t *to = job->meta + job->meta_bytes - JOB_AFTER_BYTES;
    if (job->env.sequence_id == 0) {
        return;
    }
    PEN_ASSERT(job->meta_bytes >= JOB_AFTER_BYTES, "the request of a job of a sequence has room for its predecessor");
    *to++ = AFTER_TAG;
    for (unsigned i = 0; i < 8; i++) {
        *to++ = (uint8_t)(before >> (8 * i));
    }
}

void job_digest_set(struct pen_job *job, enum digest_kind kind, struct digest digest)
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
        job_digest_set(job, kind, digest);
    }
    meta_arena_fini(&arena);
    return status;
}
