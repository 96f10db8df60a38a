/*
 * Suspects, as worker/brokers/exclusive.c runs them: what came before one of them is finished, what came behind it waits, whichever broker it came from. Before
 * it starts its broker is told so and the others that nothing of theirs has begun; it starts when all have answered that.
 *
 * What this proves in a gentle world: whoever a broker finds guilty is poisonous.
 */
#include <string.h>

#include "quarantine.h"
#include "sim.h"

#define ANSWER_WAIT_US 1000000u
#define POISON_MODEL   "quick"
#define POISON_FILL    2u

/* The first that must be alone, in the order of arrival, and how many came before it. NULL: there is none. */
static const struct sim_held *first_alone(const struct sim_worker *worker, uint32_t *ret_before)
{
    const struct sim_held *first = NULL;
    *ret_before = 0;
    for (uint32_t k = 0; k < SIM_SIDES; k++) {
        for (uint32_t i = 0; i < worker->links[k].held_count; i++) {
            const struct sim_held *held = &worker->held[k][i];
            if (held->alone && (!first || held->order < first->order))
                first = held;
        }
    }
    for (uint32_t k = 0; first && k < SIM_SIDES; k++)
        for (uint32_t i = 0; i < worker->links[k].held_count; i++)
            *ret_before += worker->held[k][i].order < first->order;
    return first;
}

/* In a gentle world it is the content that ends whoever runs it, else the number of the job. */
bool suspects_poisonous(const struct sim *sim, const struct sim_held *held)
{
    static uint64_t model;
    if (model == 0)
        model = frame_name_hash(POISON_MODEL);
    return sim->has.gentle ? held->model == model && held->value == POISON_FILL
                           : (held->id.client * 5 + held->id.sequence) % 23 == 0;
}

bool suspects_may_run(const struct sim_worker *worker, const struct sim_held *held)
{
    uint32_t before;
    if (!worker->runs_alone)
        return true;
    if (worker->stage == STAGE_RUNNING)
        return held->order == worker->one_order;
    if (worker->stage == STAGE_TELLING || worker->stage == STAGE_OVER)
        return false;
    const struct sim_held *first = first_alone(worker, &before);
    return !first || held->order < first->order;
}

static void tell(struct sim *sim, struct sim_worker *worker)
{
    worker->told_us = sim->clock_us;
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        struct sim_link *link = &worker->links[i];
        link->asked = 0;
        if (!link->ready)
            continue;
        worker_beat(sim, link);
        worker_say(sim, link, FRAME_PING, (struct job_id){0, 0});
        link->asked = link->pings;
        link->asked_hellos = link->hellos;
    }
}

static bool all_know(const struct sim *sim, const struct sim_worker *worker)
{
    if (sim->clock_us - worker->told_us >= ANSWER_WAIT_US)
        return true;
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        const struct sim_link *link = &worker->links[i];
        if (link->asked != 0 && link->ready && link->hellos == link->asked_hellos && link->pongs < link->asked)
            return false;
    }
    return true;
}

/* One step; false: it stays as it is. */
static bool next_stage(struct sim *sim, struct sim_worker *worker)
{
    uint32_t before;
    const struct sim_held *first = first_alone(worker, &before);
    bool here = first && first->order == worker->one_order;
    switch (worker->stage) {
    case STAGE_NONE:
    case STAGE_DRAINING:
        if (!first || before > 0)
            return false;
        worker->one = first->id;
        worker->one_order = first->order; /* two brokers may have given it the same job */
        worker->stage = STAGE_TELLING;
        tell(sim, worker);
        return true;
    case STAGE_TELLING:
    case STAGE_RUNNING:
        if (here && (worker->stage == STAGE_RUNNING || !all_know(sim, worker)))
            return false;
        worker->stage = here ? STAGE_RUNNING : STAGE_OVER;
        sim->counts.solo_batches += here;
        if (!here)
            tell(sim, worker);
        return true;
    case STAGE_OVER:
        if (!all_know(sim, worker))
            return false;
        worker->stage = STAGE_NONE;
        return true;
    }
    return false;
}

void suspects_turn(struct sim *sim, struct sim_worker *worker)
{
    while (worker->runs_alone && !worker->frozen && next_stage(sim, worker))
        ;
}

static bool holds_one(const struct sim_link *link)
{
    for (uint32_t i = 0; i < link->held_count; i++) {
        if (link->held[i].order == link->worker->one_order)
            return true;
    }
    return false;
}

void suspects_fill(const struct sim_link *link, Penstock__Heartbeat *beat, Penstock__RunningJob *room)
{
    const struct sim_worker *worker = link->worker;
    if (worker->stage != STAGE_TELLING && worker->stage != STAGE_RUNNING)
        return;
    if (!holds_one(link)) {
        beat->paused = true;
        return;
    }
    penstock__running_job__init(room);
    room->client = worker->one.client;
    room->sequence = worker->one.sequence;
    beat->alone = room;
}

/*
 * Another broker that has answered that it knows sends nothing until it hears that the suspect is over. The suspect's own may have forgotten: a worker
 * that says hello anew has what it still holds adopted as jobs like any other.
 */
void suspects_given(struct sim *sim, struct sim_link *link)
{
    const struct sim_worker *worker = link->worker;
    bool knows = link->asked != 0 && link->hellos == link->asked_hellos && link->pongs >= link->asked;
    if ((worker->stage == STAGE_TELLING || worker->stage == STAGE_RUNNING) && knows && !holds_one(link))
        sim_fail(sim, "worker %s is given work by a broker that knows of a suspect there", worker->name);
}

void suspects_check(struct sim *sim)
{
    const struct quarantine *quarantine = sim->side->broker.quarantine;
    for (uint32_t i = 0; sim->has.gentle && i < quarantine->count; i++) {
        const struct quarantined *entry = &quarantine->entries[i];
        if (strcmp(entry->model, POISON_MODEL) != 0 || sim_fill(entry->id) != POISON_FILL)
            sim_fail(sim, "job %lu is in quarantine and ended nobody", (unsigned long)entry->id.sequence);
    }
}
