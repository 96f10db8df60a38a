/*
 * Sequences: a worker counts the jobs that it has run of each, and its answer is that count, so a state that is elsewhere, lost or run twice shows.
 * Where there are two brokers, there are none: a sequence lives at one.
 */
#include "sim.h"

#define FIRST_ANSWER 100u

void chain_submit(struct sim *sim, struct sim_client *client, struct sim_job *job)
{
    uint32_t which = sim_draw(sim, SIM_CHAINS);
    struct sim_chain *chain = &client->chains[which];
    job->chain = (uint8_t)(which + 1);
    job->first = !chain->open || sim_chance(sim, 8);
    job->last = sim_chance(sim, 12);
    if (job->first)
        chain->length = 0;
    job->fill = job->answer = job->other = (uint8_t)(FIRST_ANSWER + chain->length++);
    chain->open = !job->last;
    sim->counts.chained++;
}

void chain_broken(struct sim *sim, struct sim_client *client, const struct sim_job *job)
{
    client->chains[job->chain - 1].open = false;
    sim->counts.chains_broken++;
}

uint64_t chain_before(const struct sim_client *client, const struct sim_job *job)
{
    for (const struct sim_job *before = job - 1; before >= client->jobs; before--) {
        if (before->chain == job->chain)
            return before->sequence;
    }
    return 0;
}

static struct sim_state *find(struct sim_worker *worker, uint64_t client, uint64_t chain)
{
    for (uint32_t i = 0; i < worker->states_count; i++) {
        if (worker->states[i].client == client && worker->states[i].id == chain)
            return &worker->states[i];
    }
    return NULL;
}

void chain_taken(struct sim *sim, struct sim_worker *worker, const struct sim_held *held)
{
    const struct sim_state *state = find(worker, held->id.client, held->chain);
    if (held->first)
        return;
    if (!state || state->ending)
        sim_fail(sim, "worker %s was given job %016lx-%lu of a sequence whose state it does not keep", worker->name,
                 (unsigned long)held->id.client, (unsigned long)held->id.sequence);
    for (uint32_t i = 0; state && i < worker->links[0].held_count; i++) {
        const struct sim_held *other = &worker->held[0][i];
        if (other->id.client == held->id.client && other->chain == held->chain && other->id.sequence >= state->first)
            sim_fail(sim, "worker %s was given job %lu of a sequence while it holds job %lu of it", worker->name,
                     (unsigned long)held->id.sequence, (unsigned long)other->id.sequence);
    }
}

void chain_drop(struct sim_worker *worker, uint64_t client, uint64_t chain)
{
    struct sim_state *state = find(worker, client, chain);
    if (state)
        *state = worker->states[--worker->states_count];
}

void chain_over(struct sim *sim, struct sim_worker *worker, uint64_t client, uint64_t chain)
{
    struct sim_state *state = find(worker, client, chain);
    for (uint32_t i = 0; state && i < worker->links[0].held_count; i++) {
        if (worker->held[0][i].id.client == client && worker->held[0][i].chain == chain && sim_chance(sim, 50)) {
            state->ending = true;
            return;
        }
    }
    chain_drop(worker, client, chain);
}

enum pen_status chain_run(struct sim *sim, struct sim_worker *worker, const struct sim_held *held, uint8_t *ret_value)
{
    struct sim_state *state = find(worker, held->id.client, held->chain);
    if (state ? held->id.sequence < state->first : !held->first)
        return PEN_ERR_NOT_FOUND;
    if (held->first)
        chain_drop(worker, held->id.client, held->chain);
    state = find(worker, held->id.client, held->chain);
    if (!state && worker->states_count == SIM_STATES) {
        sim_fail(sim, "worker %s keeps more than %u states", worker->name, SIM_STATES);
        return PEN_ERR_BUSY;
    }
    if (!state) {
        state = &worker->states[worker->states_count++];
        *state = (struct sim_state){.client = held->id.client, .id = held->chain, .first = held->id.sequence};
    }
    *ret_value = (uint8_t)(FIRST_ANSWER + state->runs++);
    if (held->last || state->ending)
        chain_drop(worker, held->id.client, held->chain);
    return PEN_OK;
}
