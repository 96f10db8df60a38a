/*
 * Ensembles: `line` runs `first` and `second` one behind the other, `fork` runs `third` beside them. Workers have some of the parts, some have the
 * whole line; what they have changes. Each model makes another number of its input, so a flow that is mixed up, or another's answer, shows.
 */
#include <string.h>

#include "ensemble_internal.h"
#include "sim.h"

enum part { FIRST, SECOND, THIRD, LINE, FORK };
enum { WHOLE_LINE = 1u << SIM_PARTS, NEWER_SECOND = 2u << SIM_PARTS, PARTS_ALL = 4u << SIM_PARTS };

static const struct wire_step line_steps[] = {{"first", "x", "t", false}, {"second", "t", "y", false}};
static const struct wire_step fork_steps[] = {
    {"first", "x", "t", false}, {"second", "t", "y", false}, {"third", "x", "u", false}};

static const struct wire_model parts[SIM_PARTS] = {
    [FIRST] = {.name = "first",
               .version = 1,
               .backend = "xnnpack",
               .precision = PRECISION_F32,
               .warm_us = 300,
               .digest = 20,
               .cacheable = true,
               .max_batch = 4},
    [SECOND] = {.name = "second",
                .version = 1,
                .backend = "xnnpack",
                .precision = PRECISION_F32,
                .warm_us = 2000,
                .digest = 21,
                .cacheable = true,
                .dim = -1},
    [THIRD] = {.name = "third",
               .version = 1,
               .backend = "reference",
               .precision = PRECISION_F32,
               .warm_us = 800,
               .digest = 22,
               .cacheable = true},
    [LINE] = {.name = "line",
              .version = 1,
              .backend = "xnnpack",
              .precision = PRECISION_F32,
              .digest = 23,
              .cacheable = true,
              .not_ready = true,
              .steps = line_steps,
              .steps_count = 2},
    [FORK] = {.name = "fork",
              .version = 1,
              .backend = "xnnpack",
              .precision = PRECISION_F32,
              .digest = 24,
              .cacheable = true,
              .not_ready = true,
              .steps = fork_steps,
              .steps_count = 3},
};

/* ---- workers ---- */

void steps_begin(struct sim *sim, struct sim_worker *worker)
{
    worker->parts = sim_draw(sim, PARTS_ALL) | sim_draw(sim, WHOLE_LINE);
    if (worker->parts & WHOLE_LINE && !sim_chance(sim, 30))
        worker->parts &= ~(uint32_t)WHOLE_LINE;
}

/* No one has all of them. */
void steps_mend(struct sim_worker *worker, uint32_t index)
{
    worker->parts = 1u << index % LINE | 1u << LINE | 1u << FORK;
}

size_t steps_offers(const struct sim_worker *worker, struct wire_model *ret_models)
{
    size_t count = 0;
    for (size_t i = 0; i < SIM_PARTS; i++) {
        bool whole = i == LINE && worker->parts & WHOLE_LINE;
        if (!whole && !(worker->parts & 1u << i))
            continue;
        ret_models[count] = parts[i];
        ret_models[count].not_ready = parts[i].not_ready && !whole;
        ret_models[count].warm_us = whole ? 2500 : parts[i].warm_us;
        ret_models[count].digest = (uint8_t)(parts[i].digest + (i == SECOND && worker->parts & NEWER_SECOND ? 10 : 0));
        count++;
    }
    return count;
}

static uint8_t part_run(enum part part, uint8_t value)
{
    switch (part) {
    case FIRST:
        return (uint8_t)(value + 16);
    case SECOND:
        return (uint8_t)(value * 2 + 1);
    case THIRD:
        return (uint8_t)(value + 7);
    case LINE:
    case FORK:
        break;
    }
    return part_run(SECOND, part_run(FIRST, value));
}

/* Of four such bytes; that of a request does not depend on the model. */
static struct digest digest_of(uint8_t fill)
{
    static struct digest digests[256];
    static bool known[256];
    if (!known[fill]) {
        digests[fill] = wire_job_envelope(&(struct wire_job){.fill = fill, .model = "", .true_digest = true}).digest;
        known[fill] = true;
    }
    return digests[fill];
}

bool steps_run(struct sim_held *held)
{
    static uint64_t hashes[SIM_PARTS];
    for (size_t i = 0; i < SIM_PARTS; i++) {
        if (hashes[i] == 0)
            hashes[i] = frame_name_hash(parts[i].name);
        if (hashes[i] != held->model)
            continue;
        held->digest = digest_of(held->value);
        held->value = part_run((enum part)i, held->value);
        return true;
    }
    return false;
}

/* ---- clients ---- */

/* One in eleven says the digest of another input: what it gets is its own affair, and nobody else's. */
void steps_submit(struct sim *sim, struct sim_job *job)
{
    static const enum part asked[] = {LINE, FORK, LINE, FORK, FIRST, SECOND};
    enum part part = asked[sim_draw(sim, 6)];
    job->steps = (uint8_t)(part + 1);
    job->answer = part_run(part, job->fill);
    job->claim = job->fill;
    if (sim_chance(sim, 9))
        job->claim = (uint8_t)(job->fill % 3 + 1);
    job->other = part_run(part, job->claim);
    sim->counts.wholes += part >= LINE;
}

struct envelope steps_job(const struct sim_client *client, const struct sim_job *job, struct wire_job *wire)
{
    uint64_t kind = client->uuid * 13 + job->sequence * 5;
    wire->model = parts[job->steps - 1].name;
    wire->backend = kind % 19 == 0 && !job->role ? "xnnpack" : NULL; /* kept ones would wait for ever */
    wire->priority = (uint8_t)(kind % 4);
    struct envelope env = wire_job_envelope(wire);
    if (env.flags & FRAME_FLAG_DIGEST)
        env.digest = digest_of(job->claim);
    return env;
}

/* ---- the broker ---- */

/* Not a random number, so that a seed replays; another after each restart, as random ones are. */
void steps_broker_up(struct sim *sim)
{
    sim->side->broker.ensembles->uuid = 0x57E9000000000000u + ++sim->brokers;
}

uint64_t steps_spread(const struct sim *sim)
{
    return sim->side->broker.ensembles->count;
}

uint32_t steps_wholes(const struct sim *sim)
{
    return (uint32_t)sim->side->broker.ensembles->by_number.count;
}

static bool flows_in(const struct ensemble_run *ensemble, const struct ensemble_plan_step *step)
{
    for (size_t i = 0; i < step->inputs_count; i++) {
        if (!ensemble->flows[step->inputs[i].tensor].shared)
            return false;
    }
    return true;
}

static const char *step_wrong(const struct ensemble_run *ensemble, size_t index)
{
    const struct ensemble_step *step = &ensemble->steps[index];
    bool ready = flows_in(ensemble, &ensemble->plan->steps[index]);
    switch (step->told.state) {
    case EXPLAINED_WAITS:
        return step->job || step->reply ? "has begun" : ready ? "could begin" : NULL;
    case EXPLAINED_RUNS:
        return !step->job || step->reply || !ready ? "does not" : NULL;
    case EXPLAINED_DONE:
        return step->job || !step->reply ? "is not" : NULL;
    case EXPLAINED_FAILED:
    case EXPLAINED_STOPPED:
        break;
    }
    return "the whole goes on";
}

uint64_t steps_check_whole(struct sim *sim, const struct job *job, uint32_t *steps)
{
    const struct ensemble_run *ensemble = job->ensemble;
    uint64_t bytes = ensemble ? shared_message_bytes(ensemble->source) : 0;
    uint32_t under_way = 0;
    if (!ensemble || ensemble->over || ensemble->job != job ||
        ensemble_find(sim->side->broker.ensembles, ensemble->number) != ensemble) {
        sim_fail(sim, "job %lu runs in steps, and its run is over or another's", (unsigned long)job->id.sequence);
        return 0;
    }
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        const struct ensemble_step *step = &ensemble->steps[i];
        const char *wrong = step_wrong(ensemble, i);
        if (wrong)
            sim_fail(sim, "step %zu of job %lu is in state %d: %s", i + 1, (unsigned long)job->id.sequence,
                     step->told.state, wrong);
        under_way += step->job != NULL;
        bytes += step->reply ? shared_message_bytes(step->reply) : 0;
    }
    if (under_way == 0 || bytes != ensemble->bytes)
        sim_fail(sim, "job %lu has %u steps under way; %lu bytes are kept, %lu counted",
                 (unsigned long)job->id.sequence, under_way, (unsigned long)bytes, (unsigned long)ensemble->bytes);
    *steps += under_way;
    return bytes;
}

void steps_check_step(struct sim *sim, const struct job *job)
{
    const struct ensemble_run *ensemble = ensemble_find(sim->side->broker.ensembles, ensemble_number(job->id));
    if (!ensemble || ensemble->steps[ensemble_index(job->id)].job != job)
        sim_fail(sim, "a step is of no whole");
    else if (job->session != ensemble->job->session || job->deadline_us != ensemble->job->deadline_us ||
             job->arrival != ensemble->job->arrival)
        sim_fail(sim, "a step has another client, deadline or turn than its whole");
    else if (job->state != JOB_QUEUED && job->state != JOB_DISPATCHED)
        sim_fail(sim, "a step is %s", job_state_name((enum job_state)job->state));
    else if (job->state == JOB_QUEUED && job->priority > ensemble->job->priority)
        sim_fail(sim, "a step waits at priority %u, its whole has %u", job->priority, ensemble->job->priority);
    sim->counts.steps_sent += job->state == JOB_DISPATCHED;
}

void steps_check_lane(struct sim *sim, const struct lane *lane)
{
    const struct broker *broker = &sim->side->broker;
    if (!effect_posted(&lane->look) && !model_served(lane->model, &lane->demand) &&
        ensemble_served(&broker->models, &broker->labels, lane->model, &lane->demand))
        sim_fail(sim, "jobs of ensemble %s wait though all of its steps are served", lane->model->name);
}
