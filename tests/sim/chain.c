/*
 * Sequences: a worker counts the jobs that it has run of each, and its answer is that count, so a state that is elsewhere, lost or run twice shows.
 * Where there are two brokers a sequence lives at one: who goes to the other in the middle of it is told so there and begins anew. What the first
 * one still has of it may reach the worker on which it was begun anew; that tells them apart by the job that each follows (worker/run/states.c).
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

void chain_some(struct sim *sim)
{
    if (sim->has.twice && sim->has.chains && sim_world(sim, 4))
        client_elsewhere(sim, &sim->clients[sim_world_draw(sim, SIM_CLIENTS)]);
}

#define TRACES 64u

void chain_sent(const struct conn *conn, struct sim_job *job)
{
    if (conn->state == CONN_OPEN)
        job->job_traces |= (uint64_t)1 << conn->trace % TRACES;
}

/* The first job of the sequence that it belongs to. */
static const struct sim_job *first_of(const struct sim_client *client, const struct sim_job *job)
{
    const struct sim_job *first = job;
    while (first > client->jobs && !(first->chain == job->chain && first->first))
        first--;
    return first;
}

/* That broker has seen one begin of which it still may say how it ended: the name was free for the client, not there. */
static bool knows_older(const struct sim_client *client, const struct sim_job *first)
{
    for (const struct sim_job *older = client->jobs; older < first; older++) {
        if (older->chain == first->chain && older->first && older->job_traces >> client->conn->trace % TRACES & 1)
            return true;
    }
    return false;
}

static bool may_end(enum pen_status status)
{
    static const enum pen_status may[] = {PEN_ERR_NOT_FOUND,   PEN_ERR_CANCELLED, PEN_ERR_INVALID, PEN_ERR_BUSY,
                                          PEN_ERR_UNAVAILABLE, PEN_ERR_DEADLINE,  PEN_ERR_DENIED,  PEN_ERR_TOO_LARGE};
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++) {
        if (status == may[i])
            return true;
    }
    return false;
}

void chain_answered(struct sim *sim, const struct sim_client *client, const struct sim_job *job)
{
    const struct sim_job *first = first_of(client, job);
    if (first == job || first->job_traces >> client->conn->trace % TRACES & 1)
        return;
    sim->counts.chains_elsewhere += sim->has.twice && job->status == PEN_ERR_NOT_FOUND;
    bool of_older = job->status == PEN_ERR_TIMEOUT || job->status == PEN_ERR_WORKER_LOST; /* so that one ended */
    if (!may_end(job->status) && !(of_older && knows_older(client, first)))
        sim_fail(sim, "job %lu of a sequence is answered %s by a broker that has not seen its first job, %lu",
                 (unsigned long)job->sequence, pen_status_name(job->status), (unsigned long)first->sequence);
}

static struct sim_state *find(struct sim_worker *worker, uint64_t client, uint64_t chain)
{
    for (uint32_t i = 0; i < worker->states_count; i++) {
        if (worker->states[i].client == client && worker->states[i].id == chain)
            return &worker->states[i];
    }
    return NULL;
}

/* Has the worker had jobs of that sequence of another broker, or of one that has been restarted since? */
static bool shared(struct sim_worker *worker, const struct sim_held *held, uint32_t trace)
{
    struct sim_touch *touch = worker->touches, *end = touch + worker->touches_count;
    while (touch < end && (touch->client != held->id.client || touch->id != held->chain))
        touch++;
    if (touch == end && worker->touches_count == SIM_STATES)
        return true; /* more than are told apart */
    if (touch == end) {
        worker->touches_count++;
        *touch = (struct sim_touch){.client = held->id.client, .id = held->chain, .trace = trace};
    }
    touch->several |= touch->trace != trace;
    return touch->several;
}

/* What one broker has here another does not know: then it is the worker that tells them apart, and the answers that are judged. */
void chain_taken(struct sim *sim, struct sim_link *link, const struct sim_held *held)
{
    struct sim_worker *worker = link->worker;
    const struct sim_state *state = find(worker, held->id.client, held->chain);
    bool several = shared(worker, held, link->conn->trace);
    if (held->first || several)
        return;
    if (!state || state->ending)
        sim_fail(sim, "worker %s was given job %016lx-%lu of a sequence whose state it does not keep", worker->name,
                 (unsigned long)held->id.client, (unsigned long)held->id.sequence);
    for (uint32_t i = 0; state && i < link->held_count; i++) {
        const struct sim_held *other = &link->held[i];
        if (other->id.client == held->id.client && other->chain == held->chain && other->id.sequence >= state->first)
            sim_fail(sim, "worker %s was given job %lu of a sequence while it holds job %lu of it", worker->name,
                     (unsigned long)held->id.sequence, (unsigned long)other->id.sequence);
    }
}

static void chain_drop(struct sim_worker *worker, uint64_t client, uint64_t chain)
{
    struct sim_state *state = find(worker, client, chain);
    if (state)
        *state = worker->states[--worker->states_count];
}

void chain_failed(struct sim_worker *worker, const struct sim_held *held)
{
    const struct sim_state *state = find(worker, held->id.client, held->chain);
    if (state && state->first <= held->id.sequence)
        chain_drop(worker, held->id.client, held->chain);
}

void chain_over(struct sim *sim, struct sim_link *link, struct job_id job, uint64_t chain)
{
    struct sim_state *state = find(link->worker, job.client, chain);
    if (state && state->first > job.sequence) /* begun anew since, with another broker */
        return;
    for (uint32_t i = 0; state && i < link->held_count; i++) {
        if (link->held[i].id.client == job.client && link->held[i].chain == chain && sim_chance(sim, 50)) {
            state->ending = true;
            return;
        }
    }
    chain_drop(link->worker, job.client, chain);
}

/* What worker/run/states.c makes of a job that comes to a state, or to none. */
static enum pen_status judge(const struct sim_state *state, const struct sim_held *held)
{
    if (state && held->id.sequence < state->first)
        return PEN_ERR_CANCELLED;
    if (held->first)
        return PEN_OK;
    if (!state)
        return PEN_ERR_NOT_FOUND;
    return held->said.after != 0 && held->said.after != state->last ? PEN_ERR_CANCELLED : PEN_OK;
}

enum pen_status chain_run(struct sim *sim, struct sim_worker *worker, const struct sim_held *held, uint8_t *ret_value)
{
    enum pen_status status = judge(find(worker, held->id.client, held->chain), held);
    if (status != PEN_OK) {
        sim->counts.chains_overtaken += sim->has.twice;
        return status;
    }
    if (held->first)
        chain_drop(worker, held->id.client, held->chain);
    struct sim_state *state = find(worker, held->id.client, held->chain);
    if (!state && worker->states_count == SIM_STATES) {
        sim_fail(sim, "worker %s keeps more than %u states", worker->name, SIM_STATES);
        return PEN_ERR_BUSY;
    }
    if (!state) {
        state = &worker->states[worker->states_count++];
        *state = (struct sim_state){.client = held->id.client, .id = held->chain, .first = held->id.sequence};
    }
    *ret_value = (uint8_t)(FIRST_ANSWER + state->runs++);
    state->last = held->id.sequence;
    if (held->last || state->ending)
        chain_drop(worker, held->id.client, held->chain);
    return PEN_OK;
}
