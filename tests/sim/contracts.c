/*
 * Jobs that state what their numbers keep, and workers of which each was measured otherwise, or not (yet). The rule is written down here a second time: who is given
 * a job must keep what it states, and a job is refused for it only where nobody does.
 */
#include <math.h>
#include <string.h>

#include "sim.h"

enum level { EXACT, FINE, COARSE, UNMEASURED, UNSTEADY, BOUNDLESS, MEASURING, LEVELS };

static const struct {
    const char *source;
    double error;
    bool unrepeatable, measures, half;
} levels[LEVELS] = {
    [EXACT] = {.source = "reference"},
    [FINE] = {.source = "seeded", .error = 1e-6},
    [COARSE] = {.source = "calibration", .error = 1e-3, .half = true},
    [UNMEASURED] = {.source = NULL},
    [UNSTEADY] = {.source = "seeded", .error = 1e-6, .unrepeatable = true},
    [BOUNDLESS] = {.source = "seeded", .error = INFINITY},
    [MEASURING] = {.measures = true},
};

void contracts_draw(struct sim *sim)
{
    sim->has.contracts = sim_world(sim, 20);
}

/* ---- workers ---- */

void contracts_begin(struct sim *sim, struct sim_worker *worker)
{
    worker->level = sim->has.contracts ? sim_world_draw(sim, LEVELS) : EXACT;
}

bool contracts_change(struct sim *sim, struct sim_worker *worker)
{
    if (!sim->has.contracts || !sim_world(sim, 50))
        return false;
    worker->level = sim_world_draw(sim, LEVELS);
    return true;
}

bool contracts_mend(struct sim_worker *worker)
{
    bool changed = worker->level != EXACT;
    worker->level = EXACT;
    return changed;
}

void contracts_offers(const struct sim *sim, const struct sim_worker *worker, struct wire_model *models, size_t count)
{
    for (size_t i = 0; sim->has.contracts && i < count; i++) {
        models[i].error_source = levels[worker->level].source;
        models[i].error = levels[worker->level].error;
        models[i].unrepeatable = levels[worker->level].unrepeatable;
        models[i].measures = levels[worker->level].measures;
        if (levels[worker->level].half && strcmp(models[i].name, "quick") == 0)
            models[i].precision = PRECISION_F16_STORAGE;
    }
}

/* ---- jobs ---- */

/* Those of sequences and ensembles and detached ones ask for nothing: they have worlds of their own. */
void contracts_submit(struct sim *sim, struct sim_job *job)
{
    static const double bounds[] = {1e-9, 1e-4, 1e-2, 0.5};
    if (!sim->has.contracts || job->chain || job->steps || job->role)
        return;
    uint32_t drawn = sim_world_draw(sim, 10);
    job->error_max = drawn < 6 ? bounds[drawn % 4] : 0.0;
    job->exact = drawn == 5 || drawn == 6;
    sim->counts.contracts += job->error_max > 0.0 || job->exact;
}

void contracts_fill(const struct sim_job *job, struct wire_job *wire)
{
    wire->error_max = job->error_max;
    wire->exact = job->exact;
    if (job->exact)
        wire->precision = PRECISION_F32;
}

/* NULL: it is none of a client that is still there. */
static const struct sim_job *job_of(const struct sim *sim, struct job_id id, const struct sim_client **ret_client)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &sim->clients[i];
        *ret_client = client;
        if (client->uuid == id.client && id.sequence > 0 && id.sequence <= client->jobs_count)
            return &client->jobs[id.sequence - 1];
    }
    return NULL;
}

static bool keeps(const struct offer *offer, const struct sim_job *job)
{
    const Penstock__MeasuredError *measured = offer->meta->measured;
    if (job->error_max > 0.0 && !(measured && measured->largest <= job->error_max))
        return false;
    if (job->exact && !(measured && measured->repeatable))
        return false;
    bool full = offer->meta->precision == PRECISION_F32;
    return job->exact ? full : full || job->error_max > 0.0; /* "any" alone is no half precision */
}

void contracts_given(struct sim *sim, const struct sim_side *side, uint32_t peer, const struct envelope *env,
                     uint64_t version)
{
    const struct sim_client *client;
    const struct sim_job *job = sim->has.contracts ? job_of(sim, env->job, &client) : NULL;
    const struct worker *worker = fleet_by_peer(&side->broker.fleet, peer);
    for (size_t i = 0; job && worker && i < worker->offers_count; i++) {
        const struct offer *offer = worker->offers[i];
        if (frame_name_hash(offer->model->name) != env->model_hash || offer->model->version != version)
            continue;
        if (!keeps(offer, job))
            sim_fail(sim, "worker %s is given job %lu, which asks for error %g%s: it has %s %g", worker->hello->name,
                     (unsigned long)env->job.sequence, job->error_max, job->exact ? ", exact" : "",
                     offer->meta->measured ? offer->meta->measured->source : "none",
                     offer->meta->measured ? offer->meta->measured->largest : 0.0);
        sim->counts.contracts_kept += job->error_max > 0.0 || job->exact;
    }
}

/* Offers of the version that the job would get now, on the backend that it asks for. */
void contracts_refused(struct sim *sim, const struct sim_side *side, const struct envelope *env)
{
    const struct sim_client *client;
    const struct sim_job *job =
        sim->has.contracts && env->status == PEN_ERR_UNSUPPORTED ? job_of(sim, env->job, &client) : NULL;
    const struct offer *offer;
    if (!job || job->role || !(job->error_max > 0.0 || job->exact))
        return;
    const char *backend = client_backend(client, job);
    const struct model *model = model_find(&side->broker.models, client_model(client, job), job->version);
    sim->counts.contracts_refused++;
    if (!model)
        return;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (keeps(offer, job) && (!backend || strcmp(offer->meta->backend, backend) == 0))
            sim_fail(sim, "job %lu, which asks for error %g%s, is refused, and worker %s keeps it",
                     (unsigned long)env->job.sequence, job->error_max, job->exact ? ", exact" : "",
                     offer->worker->hello->name);
    }
}
