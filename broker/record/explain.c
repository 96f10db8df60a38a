#include "explain.h"

#include <stdlib.h>
#include <string.h>

#include "broker_state.h"
#include "explain_internal.h"
#include "metrics_record.h"

/* ---- the ring ---------------------------------------------------------------------------------------------------------------------- */

enum pen_status explain_init(struct explain_ring *ring, size_t capacity)
{
    *ring = (struct explain_ring){.capacity = capacity};
    if (capacity && !(ring->entries = calloc(capacity, sizeof *ring->entries)))
        return PEN_ERR_NO_MEMORY;
    return PEN_OK;
}

void explain_fini(struct explain_ring *ring)
{
    for (size_t i = 0; ring->entries && i < ring->capacity; i++)
        free(ring->entries[i].steps);
    free(ring->entries);
    ring->entries = NULL;
}

void explain_text(char *to, size_t room, const char *from)
{
    size_t length = strnlen(from, room - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Everything but the error of the job as it is now. */
void explained_describe(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                        uint64_t compute_us, struct explained *e)
{
    const struct model *model = job->lane->model;
    e->id = job->id;
    explain_text(e->model, sizeof e->model, model->name);
    e->version = model->version;
    e->tenant = job->session->tenant;
    e->tenant_serial = e->tenant->serial;
    e->priority = job->priority;
    e->attempts = job->attempts;
    e->alone = job->alone;
    e->exact = job->lane->demand.exact;
    e->reason = CLOSE_NONE;
    e->worker[0] = e->backend[0] = e->error[0] = '\0';
    e->jobs = e->rows = 0;
    e->cached = e->followed = false;
    e->expect_us = 0;
    e->compute_us = compute_us;
    e->total_us = e->queue_us = broker->now_us - job->admitted_us;
    e->decision.count = e->decision.capable = 0;
    e->steps = NULL;
    e->steps_count = 0;
    if (job->state == JOB_STEPS && !dispatch)
        e->reason = CLOSE_STEPS;
    if (!dispatch)
        return;
    explain_text(e->worker, sizeof e->worker, dispatch->worker->hello->name);
    explain_text(e->backend, sizeof e->backend, dispatch->offer ? dispatch->offer->meta->backend : "");
    e->reason = dispatch->reason;
    e->jobs = dispatch->count;
    e->rows = dispatch->rows;
    e->queue_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us - job->admitted_us : 0;
    e->expect_us = dispatch->expect_us;
    e->followed = job->attempts == 0;
    e->decision = dispatch->decision;
}

static struct explained *next_entry(struct explain_ring *ring)
{
    struct explained *e = &ring->entries[ring->next];
    free(e->steps);
    e->steps = NULL;
    ring->next = ring->next + 1 < ring->capacity ? ring->next + 1 : 0;
    return e;
}

/* Without memory the explanation has no steps. */
static void keep_steps(const struct broker *broker, const struct job *job, struct explained *e)
{
    struct explained_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    size_t count = job->state == JOB_STEPS ? job_course(broker, job)->explain(broker, job, steps) : 0;
    e->steps = count ? malloc(count * sizeof *steps) : NULL;
    e->steps_count = e->steps ? count : 0;
    if (e->steps)
        memcpy(e->steps, steps, count * sizeof *steps);
}

void explain_end(struct broker *broker, const struct job *job, enum pen_status status, const struct ending *ending)
{
    if (broker->explain.capacity == 0)
        return;
    struct explained *e = next_entry(&broker->explain);
    explained_describe(broker, job, ending->dispatch, ending->group ? ending->group->facts.compute_us : 0, e);
    keep_steps(broker, job, e);
    e->status = (uint8_t)status;
    e->cached = ending->how == FINISH_CACHED;
    e->followed = ending->how == FINISH_COALESCED;
    if (ending->text)
        explain_text(e->error, sizeof e->error, ending->text);
}

void explain_short(struct broker *broker, const struct session *session, struct job_id id, const char *model,
                   enum pen_status status, const char *text)
{
    if (broker->explain.capacity == 0)
        return;
    struct explained *e = next_entry(&broker->explain);
    *e = (struct explained){.id = id,
                            .tenant = session->tenant,
                            .tenant_serial = session->tenant->serial,
                            .status = (uint8_t)status,
                            .cached = text == NULL};
    explain_text(e->model, sizeof e->model, model);
    if (text)
        explain_text(e->error, sizeof e->error, text);
}

const struct explained *explained_find(const struct explain_ring *ring, struct job_id id)
{
    const struct explained *found = NULL;
    for (size_t i = 0; i < ring->capacity; i++) {
        size_t at = (ring->next + i) % ring->capacity; /* oldest first: the newest of a repeated id counts */
        const struct explained *e = &ring->entries[at];
        if (e->tenant && e->tenant->serial == e->tenant_serial && job_id_equal(e->id, id))
            found = e;
    }
    return found;
}
