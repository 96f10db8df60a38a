/*
 * Models of which there are two versions, and models that are not in their worker's memory. The newer version gives another answer, so a job that asked
 * for one and was answered by the other shows; who asked for none takes either. A worker that is asked to load a cold one does so, and another
 * may have to go for it, or it does not.
 */
#include <string.h>

#include "sim.h"

#define NEWER       7u
#define NEWER_ADDS  100u /* to the answer */
#define KIND_NEWER  3u
#define DIGEST_ADDS 40u
#define LOAD_US     30000u

static bool has_newer(const char *name)
{
    return strcmp(name, "quick") == 0 || strcmp(name, "twin") == 0;
}

void models_draw(struct sim *sim)
{
    bool versions = sim_world(sim, 20), cold = sim_world(sim, 15);
    sim->has.versions = versions && !sim->has.gentle;
    sim->has.cold = cold && !sim->has.gentle;
}

void models_begin(struct sim *sim, struct sim_worker *worker)
{
    worker->cold = sim->has.cold ? sim_world_draw(sim, 8) : 0;
    if (sim->has.versions && sim_world(sim, 40))
        worker->kind = KIND_NEWER;
}

void models_offers(const struct sim *sim, const struct sim_worker *worker, struct wire_model *models, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (worker->kind == KIND_NEWER && has_newer(models[i].name)) {
            models[i].version = NEWER;
            models[i].digest = (uint8_t)(models[i].digest + DIGEST_ADDS);
        }
        models[i].load_us = sim->has.cold ? LOAD_US : 0;
        models[i].not_ready = models[i].not_ready || (worker->cold >> i & 1 && models[i].sequence_idle_us == 0);
    }
}

bool models_change(struct sim *sim, struct sim_worker *worker)
{
    if (sim->has.cold && sim_world(sim, 40))
        worker->cold = sim_world_draw(sim, 8);
    else if (sim->has.versions && sim_world(sim, 60))
        worker->kind = worker->kind == KIND_NEWER ? 0 : KIND_NEWER;
    else
        return false;
    return true;
}

/* As worker/models/orders.c: what is asked for becomes warm, which an update tells. That of a frozen host is lost with it. */
void models_warm(struct sim *sim, struct sim_worker *worker)
{
    uint32_t was = worker->cold;
    if (!sim->has.cold || was == 0 || sim_world(sim, 30))
        return;                             /* it could not be loaded */
    worker->cold &= sim_world_draw(sim, 8); /* some of them; one of those that were here may go */
    if (sim_world(sim, 30))
        worker->cold |= 1u << sim_world_draw(sim, 3);
    if (worker->cold != was)
        worker_tell(sim, worker);
}

bool models_mend(struct sim_worker *worker)
{
    bool changed = worker->cold != 0 || worker->kind != 0;
    worker->cold = worker->kind = 0;
    return changed;
}

void models_submit(struct sim *sim, struct sim_job *job, const char *model)
{
    if (!sim->has.versions || job->chain || job->steps || !has_newer(model))
        return;
    uint32_t drawn = sim_world_draw(sim, 10);
    if (drawn == 0) {
        job->version = 1;
    } else if (drawn == 1 && !sim->has.detached) { /* a kept one might wait for ever */
        job->version = NEWER;
        job->answer = job->other = (uint8_t)(job->fill + NEWER_ADDS);
    } else {
        job->other = (uint8_t)(job->fill + NEWER_ADDS);
    }
    sim->counts.versioned++;
}

uint8_t models_run(const struct sim_held *held, uint8_t value)
{
    return held->said.version == NEWER ? (uint8_t)(value + NEWER_ADDS) : value;
}

#define DIGEST_FIELD 19u /* ResultMeta.model_digest */
#define DIGEST_BYTES 16u
#define TWIN_DIGEST  3u /* staff.c */

/* What a worker ran it says itself: a run may be older than the broker that adopts it, and of the other version. */
size_t models_sign(const struct sim_held *held, uint8_t *meta, size_t bytes)
{
    static uint64_t twin;
    if (twin == 0)
        twin = frame_name_hash("twin");
    if (held->model != twin)
        return bytes;
    meta[bytes++] = (uint8_t)((DIGEST_FIELD << 3 | 2u) & 0x7F) | 0x80;
    meta[bytes++] = (uint8_t)((DIGEST_FIELD << 3 | 2u) >> 7);
    meta[bytes++] = DIGEST_BYTES;
    memset(meta + bytes, held->said.version == NEWER ? TWIN_DIGEST + DIGEST_ADDS : TWIN_DIGEST, DIGEST_BYTES);
    return bytes + DIGEST_BYTES;
}
