/* outgoing.c - jobs in the order of their submission, each as the broker's welcome allows. */
#include "outgoing.h"

#include <inttypes.h>
#include <stdio.h>

#include "assertion.h"
#include "deadline.h"
#include "finish.h"
#include "job.h"
#include "parcels.h"
#include "result.h"
#include "transfer.h"

#define SENDS_MAX 16u /* a job that was on this many lost connections may be what kills them */

struct envelope outgoing_envelope(const struct pen_client *c, enum frame_type type)
{
    struct envelope env = envelope_make(type);
    env.job.client = c->session.uuid;
    return env;
}

bool outgoing_plain(struct pen_client *c, struct envelope env, uint64_t now_us)
{
    PEN_ASSERT(env.job.client == c->session.uuid, "what a client sends says whose it is");
    if (link_send(&c->link, env, NULL, 0) != 0) {
        return false;
    }
    c->session.sent_us = now_us;
    return true;
}

/* What the broker would hang up on. */
static enum pen_status check_sizes(const struct session *s, const struct pen_job *job, char *text, size_t text_bytes)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < job->frames_count; i++) {
        largest = job->frames[i].bytes > largest ? job->frames[i].bytes : largest;
    }
    if (s->job_bytes_max && job->payload_bytes > s->job_bytes_max) {
        snprintf(text, text_bytes,
                 "the job has %zu bytes of inputs; the broker takes %" PRIu64 " (its --max-job-bytes).",
                 job->payload_bytes, s->job_bytes_max);
        return PEN_ERR_TOO_LARGE;
    }
    if (s->frame_bytes_max && largest > s->frame_bytes_max) {
        snprintf(text, text_bytes,
                 "an input has %" PRIu64 " bytes; the broker takes %" PRIu64 " (its --max-frame-bytes).", largest,
                 s->frame_bytes_max);
        return PEN_ERR_TOO_LARGE;
    }
    return PEN_OK;
}

/* What the broker, an older one too, would not do and not refuse either: it skips fields and flags that it does not know. */
static enum pen_status check_knowledge(const struct session *s, const struct pen_job *job, char *text,
                                       size_t text_bytes)
{
    const char *why = NULL;
    if ((job->env.flags & (FRAME_FLAG_DETACHED | FRAME_FLAG_FETCH)) && !s->detached) {
        why = "this broker takes no detached jobs: it was started without --journal and without Redis.";
    } else if (job->needs && !s->needs) {
        why =
            "this broker is too old to know the flags of workers: it would run the job anywhere. Name tags of workers "
            "instead.";
    } else if (job->contract && !s->contracts) {
        why = "this broker is too old to know max_relative_error and f32-exact: it would run the job in any precision. "
              "Name "
              "a class, such as f32, instead.";
    } else if (s->broker_minor == 0 && job->labelled) {
        why =
            "this broker speaks version 1.0 of the protocol and may not know labels: it would run the highest version, "
            "whatever the label says. Name the version itself.";
    } else if (s->broker_minor == 0 && (job->env.flags & (FRAME_FLAG_SEQUENCE_START | FRAME_FLAG_SEQUENCE_END))) {
        why = "this broker speaks version 1.0 of the protocol, which has no sequences: it would send their jobs to "
              "workers that lack their state. It takes a newer broker.";
    }
    if (why) {
        snprintf(text, text_bytes, "%s", why);
    }
    return why ? PEN_ERR_UNSUPPORTED : PEN_OK;
}

/* PEN_OK, or why this job is not sent. */
static enum pen_status job_fits(const struct pen_client *c, const struct pen_job *job, char *text, size_t text_bytes)
{
    enum pen_status status = check_sizes(&c->session, job, text, text_bytes);
    if (status == PEN_OK) {
        status = check_knowledge(&c->session, job, text, text_bytes);
    }
    if (status == PEN_OK && job->sends >= SENDS_MAX) {
        snprintf(text, text_bytes, "the connection was lost %u times with this job on it.", job->sends);
        status = PEN_ERR_UNAVAILABLE;
    }
    return status;
}

/* 0, or -1 when the socket takes no more. */
static int job_send(struct pen_client *c, struct pen_job *job, uint64_t now_us)
{
    if (job->digest_kind >= 0 && job->digest_kind != (int)c->session.digest_kind) {
        job_digest(job,
                   c->session.digest_kind); /* on failure the old digest stays: the broker takes what the flag says */
    }
    struct envelope env = job->env;
    env.job.client = c->session.uuid;
    env.deadline_us = deadline_remaining(now_us, job->deadline_us);
    env.flags = (uint16_t)(env.flags | (job->sends ? FRAME_FLAG_RESENT : 0));
    if (!parcels_submit(c, job, env) && !transfer_announce(c, job, env) &&
        link_send_frames(&c->link, env, job->meta, job->meta_bytes, job->payload, job->frames, job->frames_count) !=
            0) {
        return -1;
    }
    c->counters.jobs_resent += job->sends != 0;
    c->session.sent_us = now_us;
    pending_sent(&c->pending, job);
    job->cancel = job->cancelled;
    c->session.cancels_waiting |= job->cancelled;
    return 0;
}

void outgoing_jobs(struct pen_client *c, uint64_t now_us)
{
    struct pen_job *job;
    char text[256];
    PEN_ASSERT(c->session.state == SESSION_READY, "jobs are sent to a broker that has welcomed us");
    while ((job = c->pending.unsent) != NULL) {
        enum pen_status status = job_fits(c, job, text, sizeof text);
        if (status != PEN_OK) {
            finish_job(c, job, result_local(status, text), now_us);
        } else if (job_send(c, job, now_us) != 0) {
            return;
        }
    }
}

void outgoing_cancels(struct pen_client *c, uint64_t now_us)
{
    PEN_ASSERT(c->session.state == SESSION_READY, "a broker that has welcomed us is told of cancellations");
    c->session.cancels_waiting = false;
    for (struct pen_job *job = c->pending.oldest; job && job != c->pending.unsent; job = job->newer) {
        if (job->cancel) {
            PEN_ASSERT(job->cancelled && job->sends > 0, "the broker is told of cancelled jobs that it has");
            struct envelope env = outgoing_envelope(c, FRAME_CANCEL);
            env.job.sequence = job->env.job.sequence;
            job->cancel = !outgoing_plain(c, env, now_us);
            c->session.cancels_waiting |= job->cancel; /* without memory: at the next turn */
        }
    }
}
