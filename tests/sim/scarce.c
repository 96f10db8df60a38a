/*
 * Memory that is short: the limit of a control group that is lowered and raised while the brokers work, allocations that fail, small limits of what
 * waits, of what a client has unread and of what a worker may have outstanding. What a broker uses is counted here from what it holds.
 *
 * Proved: no job comes in while memory is short, none is refused for it while there is plenty, no worker is given more than it said, and when all
 * is over and read, nothing is kept.
 */
#include <string.h>

#include "sim.h"

#define ROOM_BYTES 8192u /* more than any job wants */
#define LOOK_US                                                                                                        \
    10000u /* readings are no older when a job comes, and no older than DOUBT_US when one is refused: broker/system/headroom.c */
#define DOUBT_US             2000u
#define MEMORY_RESERVE_BYTES 65536u

static struct sim *world;
static uint64_t limit;    /* UINT64_MAX: none */
static uint64_t moved_us; /* when it did */
static uint64_t missing;  /* what failed allocations gave back */
static uint64_t tight_us[SIM_SIDES];

/* ---- what the broker is told of the system ---- */

static uint64_t used_by(const struct broker *broker)
{
    const struct session *session;
    const struct job *job;
    uint64_t used = broker->transfers.bytes + broker->sessions.kept_bytes;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        TAILQ_FOREACH(job, &session->live, in_session)
        {
            used += HEADROOM_JOB_BYTES + shared_message_bytes(job->request);
        }
    }
    return used;
}

static void source_read(void *context, bool thorough, struct memory_reading *ret_reading)
{
    const struct sim_side *side = context;
    (void)thorough;
    for (size_t i = 0; i < MEMORY_LIMIT_COUNT; i++)
        ret_reading->limit[i] = UINT64_MAX;
    ret_reading->limit[MEMORY_GROUP] = limit;
    ret_reading->used[MEMORY_GROUP] = used_by(&side->broker);
}

static void source_relieve(void *context)
{
    (void)context;
}

static void source_spare(void *context, bool sparing)
{
    (void)context;
    (void)sparing;
}

static uint64_t source_missing(void)
{
    return missing;
}

static void source_hold(void)
{
    missing = 0;
}

/* ---- what happens ---- */

static void move(struct sim *sim, uint64_t wanted)
{
    sim_note(sim, "memory limit", wanted, limit);
    limit = wanted;
    moved_us = sim->clock_us;
}

static uint64_t some_limit(struct sim *sim)
{
    static const uint64_t limits[] = {8192, 16384, 32768, 131072, 1048576, UINT64_MAX};
    return limits[sim_world_draw(sim, sizeof limits / sizeof limits[0])];
}

void scarce_draw(struct sim *sim)
{
    static const int64_t queues[] = {500, 5000, 1 << 30, 1 << 30};
    static const uint64_t workers[] = {0, 300, 1500};
    sim->counts.scarce++;
    sim->options.queue_bytes = queues[sim_world_draw(sim, 4)];
    if (sim_world(sim, 40))
        sim->options.peer_bytes = 4096;
    sim->worker_bytes = workers[sim_world_draw(sim, 3)];
    missing = 0;
    moved_us = 0;
    limit = some_limit(sim);
}

void scarce_side_up(struct sim *sim)
{
    struct sim_side *side = sim->side;
    const struct memory_source source = {source_read, source_relieve, source_spare, source_missing, source_hold, side};
    world = sim;
    if (!sim->has.scarce)
        return;
    tight_us[side->number] = sim->clock_us;
    headroom_init(&side->headroom, &source, sim->clock_us);
    side->broker.headroom = &side->headroom;
}

void scarce_some(struct sim *sim)
{
    if (!sim->has.scarce || !sim_world(sim, 8))
        return;
    if (sim_world(sim, 20)) {
        missing = MEMORY_RESERVE_BYTES;
        return;
    }
    move(sim, some_limit(sim));
    sim->counts.memory_moves++;
}

void scarce_heal(struct sim *sim)
{
    if (sim->has.scarce)
        move(sim, UINT64_MAX);
}

/* ---- whenever a broker asks whether there is room ---- */

enum pen_status __real_headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                                     struct pen_error *reterr);
enum pen_status __wrap_headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                                     struct pen_error *reterr);

static bool plenty(uint64_t used)
{
    return missing == 0 && (limit == UINT64_MAX || used + ROOM_BYTES + limit / 16 * 5 < limit);
}

/* An ensemble's steps are jobs that were not let in one by one. */
static void judge(const struct broker *broker, uint64_t used, enum pen_status status, bool tight, uint64_t since_us)
{
    uint64_t now_us = world->clock_us;
    if (status != PEN_OK && !tight && now_us > since_us + DOUBT_US)
        sim_fail(world, "a job is refused for memory, of which %lu of %lu bytes are used", (unsigned long)used,
                 (unsigned long)limit);
    if (status == PEN_OK && !world->has.steps && limit != UINT64_MAX && now_us >= moved_us + LOOK_US &&
        used > limit - limit / 4 + broker->live * SIM_META_ADDED + ROOM_BYTES / 4)
        sim_fail(world, "a job comes in while %lu of %lu bytes are used", (unsigned long)used, (unsigned long)limit);
}

enum pen_status __wrap_headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                                     struct pen_error *reterr)
{
    if (!headroom)
        return PEN_OK;
    struct sim_side *side = world->side;
    uint64_t used = used_by(&side->broker) + headroom->taken, since_us = tight_us[side->number];
    bool tight = !plenty(used) || now_us < moved_us + DOUBT_US;
    if (tight)
        tight_us[side->number] = now_us;
    enum pen_status status = __real_headroom_take(headroom, held, wanted, now_us, reterr);
    if (status != PEN_OK && now_us > headroom->read_us + DOUBT_US)
        sim_fail(world, "a job is refused for memory by a reading of %lu us ago",
                 (unsigned long)(now_us - headroom->read_us));
    judge(&side->broker, used_by(&side->broker), status, tight, since_us);
    return status;
}

/* ---- what else is bounded ---- */

static bool says(const char *text, size_t bytes, const char *words)
{
    return memmem(text, bytes, words, strlen(words)) != NULL;
}

void scarce_refused(struct sim *sim, const char *text, size_t bytes)
{
    sim->counts.over_queue += says(text, bytes, "(--queue-bytes)");
    sim->counts.over_peer += says(text, bytes, "(--peer-bytes)");
}

void scarce_given(struct sim *sim, const struct worker *worker)
{
    if (sim->worker_bytes && worker->messages > 1 && worker->bytes > sim->worker_bytes)
        sim_fail(sim, "worker %s may have %lu bytes outstanding, is given more, and has %zu", worker->hello->name,
                 (unsigned long)sim->worker_bytes, worker->bytes);
}

/* All clients have said that they have everything. */
void scarce_check_end(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &sim->clients[i];
        const struct session *session = session_find(&client->side->broker.sessions, client->uuid);
        if (session && client->jobs_count > 0 && (!TAILQ_EMPTY(&session->kept) || session->unsent > 0))
            sim_fail(sim, "client %016lx has read and acknowledged all, and replies are kept for it",
                     (unsigned long)client->uuid);
    }
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        const struct broker *broker = &sim->sides[i].broker;
        if (broker->transfers.bytes != 0 || broker->transfers.open != 0)
            sim_fail(sim, "all is over, and %lu bytes are announced", (unsigned long)broker->transfers.bytes);
    }
}
