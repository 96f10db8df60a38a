/*
 * Detached jobs, in a journal or in Redis. The journal's file keeps what was synced and nothing else when the broker ends, as after a power cut; at times
 * it is full, or cannot be synced. Redis (play_streams.h) belongs to all brokers and can be away, or lose its answers. What a client was told is
 * accepted must be there until its time is over, whatever happens, and end in the right answer; what one fetch was told the next one is
 * told, by the same broker or, from Redis, by any.
 */
#include <stdlib.h>
#include <string.h>

#include "detached_entry.h"
#include "journal.h"
#include "paper.h"
#include "play_streams.h"
#include "sim.h"

#define EPOCH_US                                                                                                       \
    4000000000000000u /* a detached store that reads its journal does so by the real clock: that must be earlier */
#define BYTES_MAX  (1u << 19)
#define ROOM_SMALL 500u

static struct paper *paper;
static const uint64_t *wall_us;

static uint64_t wall(void)
{
    return EPOCH_US + *wall_us;
}

static void mood(enum play_mood wanted)
{
    static enum play_mood now;
    if (wanted != now)
        play_mood(wanted);
    now = wanted;
}

void detached_begin(struct sim *sim, uint64_t (*clock)(void))
{
    if (!paper)
        paper = paper_new();
    paper->written = paper->synced = 0;
    paper->room = sizeof paper->bytes;
    paper->sync_fails = false;
    if (sim->has.shared)
        play_begin(clock);
}

void detached_end(struct sim *sim)
{
    if (!sim->has.shared)
        return;
    sim->counts.taken += play_runs();
    mood(PLAY_UP);
    play_end();
}

static void journal_up(struct sim *sim, struct broker *broker)
{
    paper->written = paper->synced;
    sim->counts.power_cuts++;
    if (journal_open_file(&paper->file, paper->synced, BYTES_MAX, &sim->journal) != PEN_OK ||
        detached_open_journal(broker, sim->journal, paper->bytes, paper->synced) != PEN_OK)
        abort();
}

void detached_broker_up(struct sim *sim)
{
    struct broker *broker = &sim->side->broker;
    wall_us = &sim->clock_us;
    if (!sim->has.shared)
        journal_up(sim, broker);
    else if (detached_open_redis(broker, NULL) != PEN_OK)
        abort();
    detached_clock(broker->detached, wall);
}

void detached_work(struct sim *sim, bool well)
{
    if (!sim->has.detached)
        return;
    if (well && sim->has.shared)
        mood(PLAY_UP);
    if (sim->has.shared || !sim->sides[0].up)
        return;
    if (well) {
        paper->room = sizeof paper->bytes;
        paper->sync_fails = false;
    }
    while (journal_work(sim->journal) && well)
        ;
}

/* ---- clients ---- */

static void begin(struct sim *sim, const struct sim_client *client, struct sim_job *job)
{
    static const uint64_t ttls[] = {0, 0, 500000, 100000};
    struct sim_detached *one = &sim->detached[sim->detached_count];
    job->role = ROLE_DETACHED;
    job->wanted = (uint8_t)sim->detached_count++;
    *one = (struct sim_detached){.id = {client->uuid, job->sequence},
                                 .ttl_us = ttls[sim_draw(sim, 4)],
                                 .begun_us = sim->clock_us,
                                 .expires_us = UINT64_MAX,
                                 .answer = job->answer,
                                 .other = job->other};
    sim->counts.detached++;
}

void sim_detached_submit(struct sim *sim, const struct sim_client *client, struct sim_job *job)
{
    if (sim->detached_count < SIM_DETACHED && sim_chance(sim, 50)) {
        begin(sim, client, job);
    } else if (sim->detached_count > 0) {
        job->role = ROLE_FETCH;
        job->wanted = (uint8_t)sim_draw(sim, sim->detached_count);
        job->steps = job->chain = 0;
    }
}

/* Some only want to know how far it is. */
static bool asks_state(const struct sim_job *job)
{
    return job->role == ROLE_FETCH && job->sequence % 5 == 0;
}

size_t detached_job(const struct sim *sim, const struct sim_job *job, struct wire_job *wire, struct envelope *env,
                    uint8_t *meta, size_t *ret_raw_bytes)
{
    const struct sim_detached *one = &sim->detached[job->wanted];
    char text[JOB_ID_TEXT_BYTES];
    if (job->role == ROLE_DETACHED) {
        wire->detached_ttl_us = one->ttl_us;
        env->flags |= FRAME_FLAG_DETACHED;
        return wire_job(meta, wire, ret_raw_bytes);
    }
    Penstock__JobMeta fetch = PENSTOCK__JOB_META__INIT;
    fetch.detached = (char *)(uintptr_t)job_id_text(one->id, text);
    fetch.detached_state = asks_state(job);
    *env = envelope_make(FRAME_SUBMIT);
    env->job = wire->id;
    env->flags = FRAME_FLAG_FETCH;
    *ret_raw_bytes = 0;
    return penstock__job_meta__pack(&fetch, meta);
}

static uint64_t ttl_of(const struct sim *sim, const struct sim_detached *one)
{
    return one->ttl_us ? one->ttl_us : (uint64_t)sim->options.detached_ttl_us;
}

/* Its time begins when the broker takes it, which was not before the client heard of it. */
static void accepted(struct sim *sim, struct sim_detached *one)
{
    one->accepted = true;
    one->heard_us = sim->clock_us;
    one->expires_us = one->begun_us + ttl_of(sim, one);
    sim->counts.accepted++;
}

static bool kept(const struct sim *sim, const struct sim_detached *one)
{
    return one->accepted && sim->clock_us < one->expires_us;
}

/* Who must say the same to all: Redis, or this broker until it ends. */
static uint32_t teller(const struct sim *sim)
{
    return sim->has.shared ? 1 : sim->brokers;
}

/* A job that is sent again when its time is over is another one. */
static bool first_life(const struct sim *sim, const struct sim_detached *one)
{
    return sim->clock_us < one->begun_us + ttl_of(sim, one);
}

/* Its own end may be NOT_FOUND, when a model that it needed was unloaded; that is kept like any other. */
static bool ended_not_found(const struct sim *sim, const struct sim_detached *one)
{
    struct envelope env;
    const uint8_t *meta;
    const struct entry *entry = sim->has.shared ? NULL : entry_find(sim->sides[0].broker.detached, one->id);
    const struct shared_message *reply = sim->has.shared ? play_reply(one->id) : entry ? entry->reply : NULL;
    zmq_msg_t *header = reply ? (zmq_msg_t *)(uintptr_t)&reply->frames[0] : NULL;
    return header && envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK &&
           env.status == PEN_ERR_NOT_FOUND;
}

static void fetched(struct sim *sim, const struct sim_job *job, struct sim_detached *one, uint8_t value)
{
    if (job->status == PEN_ERR_NOT_FOUND && !sim->has.shared && !sim->sides[0].up)
        return; /* nobody can be asked what it knew */
    bool unknown = job->status == PEN_ERR_NOT_FOUND && !ended_not_found(sim, one);
    if (unknown && kept(sim, one) && one->heard_us < job->asked_us)
        sim_fail(sim, "detached job %lu was accepted, and is not known any more", (unsigned long)one->id.sequence);
    if (unknown || job->status == PEN_ERR_BUSY || job->status == PEN_ERR_UNAVAILABLE ||
        job->status == PEN_ERR_DEADLINE || (job->cancelled && job->status == PEN_ERR_CANCELLED))
        return;
    sim->counts.fetched++;
    if (asks_state(job))
        return;
    if (job->status == PEN_OK && value != one->answer && value != one->other)
        sim_fail(sim, "detached job %lu asked for %u, and a fetch is told %u", (unsigned long)one->id.sequence,
                 one->answer, value);
    if (job->status == PEN_ERR_CANCELLED && !one->cancelled)
        sim_fail(sim, "detached job %lu was cancelled by nobody", (unsigned long)one->id.sequence);
    if (one->told_by == teller(sim) && first_life(sim, one) && one->status != job->status)
        sim_fail(sim, "a fetch of detached job %lu is told %s, the one before %s", (unsigned long)one->id.sequence,
                 pen_status_name(job->status), pen_status_name((enum pen_status)one->status));
    one->status = (uint8_t)job->status;
    one->told_by = sim->has.shared || job->asked_of == sim->brokers ? teller(sim) : 0;
}

void detached_answered(struct sim *sim, struct sim_job *job, uint8_t value)
{
    struct sim_detached *one = &sim->detached[job->wanted];
    if (job->role == ROLE_FETCH)
        fetched(sim, job, one, value);
    else if (job->status == PEN_OK && !one->accepted)
        accepted(sim, one);
}

/* ---- what happens ---- */

static void cancel_some(struct sim *sim)
{
    struct sim_client *client = &sim->clients[sim_draw(sim, SIM_CLIENTS)];
    struct sim_detached *one = &sim->detached[sim_draw(sim, sim->detached_count)];
    char text[JOB_ID_TEXT_BYTES];
    uint8_t meta[256];
    if (sim->detached_count == 0 || !client->ready)
        return;
    one->cancelled = true;
    size_t bytes = wire_control(meta, "cancel", job_id_text(one->id, text), 1);
    net_say(sim, client->conn, envelope_make(FRAME_CONTROL), meta, bytes);
}

static void trouble_of_redis(struct sim *sim)
{
    static const enum play_mood moods[] = {PLAY_UP, PLAY_UP, PLAY_DOWN, PLAY_DEAF};
    mood(moods[sim_draw(sim, 4)]);
}

static void trouble_of_disk(struct sim *sim)
{
    switch (sim_draw(sim, 3)) {
    case 0:
        paper->sync_fails = !paper->sync_fails;
        break;
    case 1:
        paper->room = sim_chance(sim, 50) ? paper->written + sim_draw(sim, ROOM_SMALL) : sizeof paper->bytes;
        break;
    default:
        if (sim->sides[0].up)
            journal_compact(sim->journal, wall());
    }
}

void detached_some(struct sim *sim)
{
    uint32_t drawn = sim_draw(sim, 12);
    if (drawn == 0)
        cancel_some(sim);
    else if (drawn < 4 && sim->has.shared)
        trouble_of_redis(sim);
    else if (drawn < 4)
        trouble_of_disk(sim);
    else
        detached_work(sim, sim_chance(sim, 30));
}

static enum play_state state_of(const struct sim *sim, const struct sim_detached *one)
{
    if (sim->has.shared)
        return play_state(one->id);
    const struct entry *entry = entry_find(sim->sides[0].broker.detached, one->id);
    return !entry ? PLAY_NONE : entry->state == ENTRY_DONE && entry->reply ? PLAY_DONE : PLAY_OPEN;
}

void detached_check(struct sim *sim)
{
    for (uint32_t i = 0; sim->side->number == 0 && i < sim->detached_count; i++) {
        const struct sim_detached *one = &sim->detached[i];
        if (kept(sim, one) && state_of(sim, one) == PLAY_NONE)
            sim_fail(sim, "detached job %lu was accepted, and is not there any more", (unsigned long)one->id.sequence);
    }
}

bool sim_detached_open(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->detached_count; i++) {
        if (kept(sim, &sim->detached[i]) && state_of(sim, &sim->detached[i]) == PLAY_OPEN)
            return true;
    }
    return false;
}

void detached_check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->detached_count; i++) {
        const struct sim_detached *one = &sim->detached[i];
        if (kept(sim, one) && state_of(sim, one) != PLAY_DONE)
            sim_fail(sim, "detached job %lu was accepted, and never ended", (unsigned long)one->id.sequence);
    }
}
