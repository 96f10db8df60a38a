/* Jobs of a sequence that follow one whose payload is still coming: they wait among the announced jobs, under the
   same caps, and go on in their order. */
#include "answer.h"
#include "assertion.h"
#include "submit.h"
#include "transfer_internal.h"
#include "transfer.h"

/* A job can only wait for an older one, so there are no circles. */
static bool waits(const struct transfer_in *in)
{
    struct job_id before = {.client = in->env.job.client, .sequence = in->after};
    return in->after > 0 && in->after < in->env.job.sequence && transfer_in_find(in->link, before);
}

static void set_blocked(struct transfer_in *in)
{
    PEN_ASSERT(!in->blocked && in->link->ins_blocked < in->link->ins_count, "who is blocked is counted once");
    in->blocked = true;
    in->link->ins_blocked++;
}

bool transfer_block(struct broker *broker, struct transfer_in *in)
{
    if (!waits(in))
        return false;
    PEN_ASSERT(in->open && in->link->ins_open > 0 && broker->transfers.open > 0, "who is blocked has had credit");
    in->open = false;
    in->link->ins_open--;
    broker->transfers.open--;
    TAILQ_INSERT_TAIL(&broker->transfers.waiting, in, in_waiting);
    set_blocked(in);
    return true;
}

static struct transfer_in *next_free(const struct session *session)
{
    struct transfer_link *link = session->transfers.link;
    struct transfer_in *in = NULL;
    if (link && link->ins_blocked > 0)
        TAILQ_FOREACH(in, &link->ins, in_link)
        {
            if (in->blocked && !effect_posted(&in->here) && !waits(in))
                break;
        }
    return in;
}

/* Ends, because each one then has its effect posted or was freed. A freed one may release jobs that came before it. */
void transfer_follow(struct broker *broker, const struct session *session)
{
    struct transfer_in *in;
    while ((in = next_free(session)) != NULL)
        transfer_in_complete(broker, in);
}

static uint64_t read_after(struct broker *broker, const struct envelope *env, const uint8_t *meta)
{
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    return job && job->sequence_after < env->job.sequence ? job->sequence_after : 0;
}

static enum pen_status hold(struct broker *broker, struct session *session, const struct envelope *env, uint64_t after,
                            struct message *message, uint64_t *ret_wait_us, struct pen_error *reterr)
{
    struct transfer_in *in;
    struct bulk run;
    enum pen_status status = submit_room(broker, session, message->bytes, ret_wait_us, reterr);
    if (status != PEN_OK)
        return status;
    bulk_init(&run, 0);
    run.total = run.moved = run.granted = message->bytes;
    status = transfer_in_announce(broker, session->transfers.link, env, &run, message, &in, reterr);
    if (status != PEN_OK)
        return status;
    in->after = after;
    set_blocked(in);
    return PEN_OK;
}

bool transfer_hold(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                   struct message *message)
{
    const struct transfer_link *link = session->transfers.link;
    if (!link || link->ins_count == 0 || message->overflow || message->count != 1u + env->frames)
        return false;
    struct pen_error error = {.status = PEN_OK};
    uint64_t after = read_after(broker, env, meta);
    if (after == 0 || !transfer_in_find(link, (struct job_id){env->job.client, after}) ||
        jobs_find(&broker->jobs, env->job))
        return false;
    struct transfer_in *known = transfer_in_find(link, env->job);
    if (known)
        transfer_in_free(broker, known); /* it is sent again */
    uint64_t wait_us = 0;
    enum pen_status status = hold(broker, session, env, after, message, &wait_us, &error);
    if (status != PEN_OK)
        answer_refusal(broker, session, env, "", wait_us, &error);
    return true;
}
