/* alone.c - one list in the order of arrival, and a gate before the slots. */
#include "alone.h"

#define ANSWER_WAIT_US                                                                                                 \
    1000000u /* a broker that does not answer PING is about to be left by its link, and has lost this worker or will */

static bool must_be_alone(const struct dispatch *dispatch)
{
    for (size_t i = 0; i < dispatch->jobs_count; i++)
        if (dispatch->jobs[i].env.flags & FRAME_FLAG_ALONE)
            return true;
    return false;
}

static void hand_over(struct alone *alone, struct handoff *handoff, struct dispatch *dispatch)
{
    alone->in_slots++;
    handoff_push(handoff, dispatch);
}

/* Opens the gate up to the next one that must be alone. */
static void release(struct alone *alone, struct handoff *handoff)
{
    while (alone->stage == ALONE_NONE && alone->first) {
        struct dispatch *dispatch = alone->first;
        alone->first = dispatch->queue_next;
        if (!alone->first)
            alone->last = NULL;
        if (must_be_alone(dispatch)) {
            alone->one = dispatch;
            alone->stage = ALONE_DRAINING;
        } else {
            hand_over(alone, handoff, dispatch);
        }
    }
}

void alone_push(struct alone *alone, struct handoff *handoff, struct dispatch *dispatch)
{
    if (alone->stage == ALONE_NONE && !alone->first && !must_be_alone(dispatch)) {
        hand_over(alone, handoff, dispatch);
        return;
    }
    dispatch->queue_next = NULL;
    *(alone->last ? &alone->last->queue_next : &alone->first) = dispatch;
    alone->last = dispatch;
}

void alone_finished(struct alone *alone, const struct dispatch *dispatch)
{
    alone->in_slots--;
    if (dispatch != alone->one)
        return;
    alone->one = NULL;
    alone->stage = ALONE_OVER;
    alone->news = true;
}

static bool all_know(const struct alone *alone, const struct brokers *brokers, uint64_t now_us)
{
    if (now_us - alone->told_us >= ANSWER_WAIT_US)
        return true;
    for (size_t i = 0; i < brokers->count; i++) {
        const struct link *link = &brokers->links[i];
        const struct alone_asked *asked = &alone->asked[i];
        bool same = link->state == LINK_SERVING && link->hellos == asked->hellos;
        if (asked->ping != 0 && same && link->pongs < asked->ping)
            return false;
    }
    return true;
}

bool alone_step(struct alone *alone, struct handoff *handoff, const struct brokers *brokers, uint64_t now_us)
{
    bool known = !alone->news && all_know(alone, brokers, now_us);
    if (alone->stage == ALONE_OVER && known)
        alone->stage = ALONE_NONE;
    release(alone, handoff);
    if (alone->stage == ALONE_DRAINING && alone->in_slots == 0) {
        alone->stage = ALONE_TELLING;
        alone->news = true;
    } else if (alone->stage == ALONE_TELLING && known) {
        alone->stage = ALONE_RUNNING;
        hand_over(alone, handoff, alone->one);
    }
    return alone->news;
}

void alone_told(struct alone *alone, struct brokers *brokers, uint64_t now_us)
{
    alone->news = false;
    alone->told_us = now_us;
    for (size_t i = 0; i < brokers->count; i++) {
        struct link *link = &brokers->links[i];
        alone->asked[i] = (struct alone_asked){0};
        if (link->state == LINK_SERVING)
            alone->asked[i] = (struct alone_asked){.hellos = link->hellos, .ping = link_ping(link)};
    }
}

void alone_fill(struct alone *alone, const struct link *link, Penstock__Heartbeat *beat)
{
    if (alone->stage != ALONE_TELLING && alone->stage != ALONE_RUNNING)
        return;
    if (alone->one->link != link) {
        beat->paused = true;
        return;
    }
    penstock__running_job__init(&alone->job);
    alone->job.client = alone->one->jobs[0].env.job.client;
    alone->job.sequence = alone->one->jobs[0].env.job.sequence;
    beat->alone = &alone->job;
}
