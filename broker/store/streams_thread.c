#include "streams_thread.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "deadline.h"
#include "streams_talk.h"

#define PIPELINE_MAX   128u
#define PIPELINE_BYTES (32u * 1024u * 1024u) /* bytes of requests and replies; then they are sent */
#define RETRY_US       500000u
#define LOOK_US        500000u /* without a bell for this long: look, because a message of the bell may be lost */
#define TAKE_MAX       8u      /* jobs taken at once; then other brokers get their turn */

struct work {
    struct talk talk;
    struct note *notes[PIPELINE_MAX];
    size_t count;
    char *models; /* that can be run; NULL = none yet */
    uint32_t room;
    bool look, stop, told_down;
    uint64_t look_us, claim_us, retry_us;
};

static void report(struct work *work, bool up, const char *text)
{
    struct note *note = note_new(NOTE_STATE, (struct job_id){0, 0});
    if (!note)
        return;
    note->up = up;
    snprintf(note->text, sizeof note->text, "%s", text);
    box_put(&work->talk.streams->out, note);
}

static void go_down(struct work *work)
{
    PEN_ASSERT(work->talk.redis || work->talk.bell, "only a connection that stands goes down");
    talk_close(&work->talk);
    report(work, false, work->talk.reason);
    work->retry_us = clock_now_us() + RETRY_US;
}

/* After Redis was away, the other brokers get half a lease to renew their jobs before this one claims any. */
static void come_up(struct work *work)
{
    char text[NOTE_TEXT_BYTES];
    uint64_t now_us = clock_now_us();
    PEN_ASSERT(!work->talk.redis && !work->talk.bell, "one connection at a time");
    work->retry_us = now_us + RETRY_US;
    if (!talk_open(&work->talk)) {
        report(work, false, work->talk.reason);
        return;
    }
    talk_durability(&work->talk, text, sizeof text);
    report(work, true, text);
    work->claim_us = now_us + work->talk.streams->options.lease_us / 2;
    work->look = true;
}

/* ---- notes ---- */

static void take_want(struct work *work, struct note *note)
{
    if (note->list) {
        free(work->models);
        work->models = note->list;
        note->list = NULL;
    }
    work->look |= note->room > work->room;
    work->room = note->room;
    note_free(note);
}

/* Collects questions, up to a full pipeline; a STOP ends it. */
static void collect(struct work *work)
{
    struct note *note;
    size_t bytes = 0;
    while (!work->stop && work->count < PIPELINE_MAX && bytes < PIPELINE_BYTES &&
           (note = box_take(&work->talk.streams->in)) != NULL) {
        if (note->kind == NOTE_WANT) {
            take_want(work, note);
        } else if (note->kind == NOTE_STOP) {
            work->stop = true;
            note_free(note);
        } else {
            note->answer = ANSWER_DOWN;
            PEN_ASSERT(note->kind <= NOTE_RENEW, "only questions are asked");
            bytes += note->shared ? shared_message_bytes(note->shared) : 0;
            work->notes[work->count++] = note;
        }
    }
}

/* False also for a connection that ended on the way: nobody knows how far its answers came. */
static bool replicated(struct work *work)
{
    if (!work->talk.redis)
        return redis_place_replicas(&work->talk.streams->options.place) == 0;
    if (talk_replicated(&work->talk))
        return true;
    go_down(work);
    return false;
}

/* Too few replicas have what was written: when the master dies now, it is lost, so nobody is told that it is there. */
static void forget_answers(struct work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        struct note *note = work->notes[i];
        bool wrote = note->kind == NOTE_ACCEPT || note->kind == NOTE_DONE || note->kind == NOTE_CANCEL;
        if (wrote && (note->answer == ANSWER_OK || note->answer == ANSWER_KNOWN))
            note->answer = ANSWER_UNKNOWN;
    }
}

/* Sends all gathered questions in one write: with appendfsync always this costs one sync, and one wait for replicas. */
static void exchange(struct work *work)
{
    bool asked[PIPELINE_MAX] = {false};
    for (size_t i = 0; work->talk.redis && i < work->count; i++)
        asked[i] = talk_ask(&work->talk, work->notes[i]);
    for (size_t i = 0; i < work->count; i++) {
        if (asked[i])
            work->notes[i]->answer = ANSWER_UNKNOWN;
        if (asked[i] && work->talk.redis && !talk_answer(&work->talk, work->notes[i]))
            go_down(work);
    }
    if (!replicated(work))
        forget_answers(work);
    for (size_t i = 0; i < work->count; i++)
        box_put(&work->talk.streams->out, work->notes[i]);
    work->count = 0;
    if (work->talk.redis && work->talk.refused)
        go_down(work);
}

/* ---- taking ---- */

static bool wants(const struct work *work)
{
    return work->talk.redis && work->models && *work->models && work->room > 0 && !work->stop;
}

static void take(struct work *work, uint64_t now_us)
{
    uint32_t taken, count = work->room < TAKE_MAX ? work->room : TAKE_MAX;
    bool claim = now_us >= work->claim_us;
    PEN_ASSERT(count > 0 && work->models, "a broker takes jobs when it has room and workers");
    work->look = false;
    work->look_us = now_us + LOOK_US;
    if (claim)
        work->claim_us = now_us + work->talk.streams->options.lease_us / 4;
    if (!talk_take(&work->talk, work->models, count, claim, &taken)) {
        go_down(work);
        return;
    }
    work->room -= taken < work->room ? taken : work->room;
    work->look = taken == count; /* there may be more */
}

static bool look_due(const struct work *work, uint64_t now_us)
{
    return wants(work) && (work->look || now_us >= work->look_us || now_us >= work->claim_us);
}

/* ---- the thread ---- */

static int wait_ms(const struct work *work)
{
    uint64_t now_us = clock_now_us(), until_us = work->retry_us;
    if (work->talk.redis)
        until_us = !wants(work) ? now_us + LOOK_US : work->look_us < work->claim_us ? work->look_us : work->claim_us;
    if (look_due(work, now_us) || until_us <= now_us)
        return 0;
    return (int)((until_us - now_us) / 1000 + 1);
}

static void wait_for_something(struct work *work)
{
    struct pollfd fds[4] = {{.fd = work->talk.streams->in.event, .events = POLLIN},
                            {.fd = work->talk.redis ? work->talk.redis->fd : -1, .events = POLLIN},
                            {.fd = work->talk.bell ? work->talk.bell->fd : -1, .events = POLLIN},
                            {.fd = redis_finder_descriptor(&work->talk.finder), .events = POLLIN}};
    if (poll(fds, 4, wait_ms(work)) <= 0)
        return;
    if (fds[3].revents && redis_finder_moved(&work->talk.finder)) {
        snprintf(work->talk.reason, sizeof work->talk.reason, "the Sentinels have another master");
        if (work->talk.redis)
            go_down(work);
        work->retry_us = 0;
        return;
    }
    if (fds[1].revents) { /* Redis never sends unasked */
        snprintf(work->talk.reason, sizeof work->talk.reason, "Redis closed the connection");
        go_down(work);
    } else if (fds[2].revents && !talk_listen(&work->talk, &work->look)) {
        snprintf(work->talk.reason, sizeof work->talk.reason, "Redis closed the connection of its channel");
        go_down(work);
    }
}

void *streams_run(void *context)
{
    struct work work = {.talk = {.streams = context}};
    const struct streams_options *options = &work.talk.streams->options;
    redis_finder_init(&work.talk.finder, &options->place);
    snprintf(work.talk.prefix, sizeof work.talk.prefix,
             options->place.kind == REDIS_CLUSTER ? "{%.128s:detached}" : "%.128s:detached", options->namespace);
    snprintf(work.talk.me, sizeof work.talk.me, "%016" PRIx64, work.talk.streams->options.broker_uuid);
    while (!work.stop) {
        wait_for_something(&work);
        collect(&work);
        exchange(&work);
        uint64_t now_us = clock_now_us();
        if (look_due(&work, now_us))
            take(&work, now_us);
        if (!work.stop && !work.talk.redis && now_us >= work.retry_us)
            come_up(&work);
    }
    talk_close(&work.talk);
    redis_finder_fini(&work.talk.finder);
    free(work.models);
    return NULL;
}
