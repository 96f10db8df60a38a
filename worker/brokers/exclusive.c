/* exclusive.c - one list in the order of arrival, and a gate before the slots. */
#include "exclusive.h"

#include "assertion.h"

#define ANSWER_WAIT_US 1000000u /* a broker that does not answer PING for this long: its link is about to give it up */

static bool must_be_alone(const struct dispatch *dispatch)
{
    for (size_t i = 0; i < dispatch->jobs_count; i++)
        if (dispatch->jobs[i].env.flags & FRAME_FLAG_ALONE)
            return true;
    return false;
}

static void hand_over(struct exclusive *exclusive, struct handoff *handoff, struct dispatch *dispatch)
{
    PEN_ASSERT(exclusive->stage == EXCLUSIVE_NONE || (dispatch == exclusive->one && exclusive->in_slots == 0),
               "what must be alone goes to the slots when they are empty, and nothing beside it");
    exclusive->in_slots++;
    if (exclusive->decoders)
        decoders_pass(exclusive->decoders, dispatch);
    else
        handoff_push(handoff, dispatch);
}

/* Opens the gate for dispatches up to the next one that must be alone. */
static void release(struct exclusive *exclusive, struct handoff *handoff)
{
    while (exclusive->stage == EXCLUSIVE_NONE && exclusive->first) {
        struct dispatch *dispatch = exclusive->first;
        exclusive->first = dispatch->queue_next;
        if (!exclusive->first)
            exclusive->last = NULL;
        if (must_be_alone(dispatch)) {
            PEN_ASSERT(!exclusive->one, "one dispatch at a time is alone");
            exclusive->one = dispatch;
            exclusive->stage = EXCLUSIVE_DRAINING;
        } else {
            hand_over(exclusive, handoff, dispatch);
        }
    }
}

void exclusive_push(struct exclusive *exclusive, struct handoff *handoff, struct dispatch *dispatch)
{
    if (exclusive->stage == EXCLUSIVE_NONE && !exclusive->first && !must_be_alone(dispatch)) {
        hand_over(exclusive, handoff, dispatch);
        return;
    }
    dispatch->queue_next = NULL;
    *(exclusive->last ? &exclusive->last->queue_next : &exclusive->first) = dispatch;
    exclusive->last = dispatch;
}

void exclusive_finished(struct exclusive *exclusive, const struct dispatch *dispatch)
{
    PEN_ASSERT(exclusive->in_slots > 0, "what the slots have finished was given to them");
    exclusive->in_slots--;
    if (dispatch != exclusive->one)
        return;
    PEN_ASSERT(exclusive->stage == EXCLUSIVE_RUNNING && exclusive->in_slots == 0,
               "what was alone ran, with nothing beside it");
    exclusive->one = NULL;
    exclusive->stage = EXCLUSIVE_OVER;
    exclusive->news = true;
}

static bool all_know(const struct exclusive *exclusive, const struct brokers *brokers, uint64_t now_us)
{
    if (now_us - exclusive->told_us >= ANSWER_WAIT_US)
        return true;
    for (size_t i = 0; i < brokers->count; i++) {
        const struct link *link = &brokers->links[i];
        const struct exclusive_asked *asked = &exclusive->asked[i];
        bool same = link->state == LINK_SERVING && link->hellos == asked->hellos;
        if (asked->ping != 0 && same && link->pongs < asked->ping)
            return false;
    }
    return true;
}

bool exclusive_step(struct exclusive *exclusive, struct handoff *handoff, const struct brokers *brokers,
                    uint64_t now_us)
{
    bool known = !exclusive->news && all_know(exclusive, brokers, now_us);
    if (exclusive->stage == EXCLUSIVE_OVER && known)
        exclusive->stage = EXCLUSIVE_NONE;
    release(exclusive, handoff);
    if (exclusive->stage == EXCLUSIVE_DRAINING && exclusive->in_slots == 0) {
        exclusive->stage = EXCLUSIVE_TELLING;
        exclusive->news = true;
    } else if (exclusive->stage == EXCLUSIVE_TELLING && known) {
        exclusive->stage = EXCLUSIVE_RUNNING;
        hand_over(exclusive, handoff, exclusive->one);
    }
    return exclusive->news;
}

void exclusive_told(struct exclusive *exclusive, struct brokers *brokers, uint64_t now_us)
{
    exclusive->news = false;
    exclusive->told_us = now_us;
    for (size_t i = 0; i < brokers->count; i++) {
        struct link *link = &brokers->links[i];
        exclusive->asked[i] = (struct exclusive_asked){0};
        if (link->state == LINK_SERVING)
            exclusive->asked[i] = (struct exclusive_asked){.hellos = link->hellos, .ping = link_ping(link)};
    }
}

void exclusive_fill(struct exclusive *exclusive, const struct link *link, Penstock__Heartbeat *beat)
{
    if (exclusive->stage != EXCLUSIVE_TELLING && exclusive->stage != EXCLUSIVE_RUNNING)
        return;
    if (exclusive->one->link != link) {
        beat->paused = true;
        return;
    }
    penstock__running_job__init(&exclusive->job);
    exclusive->job.client = exclusive->one->jobs[0].env.job.client;
    exclusive->job.sequence = exclusive->one->jobs[0].env.job.sequence;
    beat->alone = &exclusive->job;
}
