/* transfer_result.c - results whose payload is announced by a worker: taken, declined, or left over when their run ended otherwise. */
#include "transfer_internal.h"

#include "broker_state.h"
#include "bulk.h"
#include "fleet.h"
#include "headroom.h"
#include "job.pb-c.h"
#include "tensor_codec.h"
#include "transfer.h"

/* How many runs of that job a worker holds. */
static uint32_t runs_of(const struct worker *worker, struct job_id id)
{
    const struct dispatch *dispatch;
    uint32_t runs = 0;
    TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
    {
        for (uint32_t i = 0; i < dispatch->count; i++)
            runs += !dispatch->slots[i].answered && job_id_equal(dispatch->slots[i].id, id);
    }
    return runs;
}

static uint32_t announced_of(const struct transfer_link *link, struct job_id id, const struct transfer_in *before)
{
    const struct transfer_in *in;
    uint32_t count = 0;
    TAILQ_FOREACH(in, &link->ins, in_link)
    {
        if (in == before)
            break;
        count += job_id_equal(in->env.job, id);
    }
    return count;
}

/* Frees announced results that are left over because another result, perhaps without a payload, has ended their run. */
static void drop_surplus(struct broker *broker, struct worker *worker, struct transfer_link *link)
{
    for (struct transfer_in *in = TAILQ_FIRST(&link->ins), *next; in; in = next) {
        next = TAILQ_NEXT(in, in_link);
        if (announced_of(link, in->env.job, in) < runs_of(worker, in->env.job))
            continue;
        transfer_tell(broker, link->end, in->env.job, in->run.number, 0, PEN_ERR_CANCELLED);
        transfer_in_free(broker, in);
    }
    transfer_in_open(broker, link->end);
}

bool transfer_result(struct broker *broker, struct worker *worker, const struct envelope *env, const uint8_t *meta,
                     zmq_msg_t *header, struct pen_error *reterr)
{
    struct bulk run;
    meta_arena_reset(&broker->arena);
    Penstock__ResultMeta *result =
        meta_unpack(&broker->arena, &penstock__result_meta__descriptor, meta, env->meta_bytes);
    enum pen_status status =
        result
            ? bulk_expect(&run, env->transfer, result->outputs, result->n_outputs, env->frames,
                          (uint64_t)broker->options->max_frame_bytes, (uint64_t)broker->options->max_job_bytes, reterr)
            : meta_refusal(&broker->arena, "a result's meta is no ResultMeta (proto/job.proto)", reterr);
    struct transfer_link *link = status == PEN_OK ? transfer_link_of(broker, &worker->transfers) : NULL;
    if (link && link->ins_count >= worker->jobs)
        drop_surplus(broker, worker, link);
    if (link && link->ins_count >= worker->jobs)
        return false; /* each run has its announcement: each one that is kept belongs to a run */
    if (status == PEN_OK && (!link || !transfer_in_new(broker, link, env, &run, header)))
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory for the result");
    if (status == PEN_OK) {
        headroom_answer(broker->headroom, run.total, broker->now_us);
        transfer_in_open(broker, &worker->transfers);
    }
    return status == PEN_OK;
}

void transfer_decline(struct broker *broker, struct transfer_end *end, const struct envelope *env)
{
    transfer_tell(broker, end, env->job, env->transfer, 0, PEN_ERR_CANCELLED);
}
