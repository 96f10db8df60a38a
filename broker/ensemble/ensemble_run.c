#include "ensemble_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "dispatch.h"
#include "explain.h"
#include "states.h"

#define ARENA_BYTES (16u * 1024u * 1024u) /* the unpacked metas of one ensemble run: at most 17 of 64 KiB each */

struct ensembles *ensembles_new(void)
{
    struct ensembles *ensembles = calloc(1, sizeof *ensembles);
    if (!ensembles || table_init(&ensembles->by_number) != PEN_OK) {
        free(ensembles);
        return NULL;
    }
    ensembles->uuid = random_u64();
    return ensembles;
}

void ensembles_free(struct ensembles *ensembles)
{
    if (!ensembles)
        return;
    table_fini(&ensembles->by_number);
    free(ensembles);
}

struct ensemble_run *ensemble_find(const struct ensembles *ensembles, uint64_t number)
{
    struct table_node *node =
        table_first(&ensembles->by_number, table_hash(&ensembles->by_number, ensembles->uuid, number));
    for (; node; node = table_next(&ensembles->by_number, node)) {
        struct ensemble_run *ensemble = table_entry(node, struct ensemble_run, by_number);
        if (ensemble->number == number)
            return ensemble;
    }
    return NULL;
}

static void ensemble_free(struct broker *broker, struct ensemble_run *ensemble)
{
    PEN_ASSERT(!ensemble->job || ensemble->number == 0, "the record of a run goes after its job");
    states_give_bytes(broker, ensemble->bytes);
    effect_drop(&ensemble->moves);
    if (ensemble->number)
        table_remove(&broker->ensembles->by_number, &ensemble->by_number);
    for (size_t i = 0; i < ENSEMBLE_PLAN_STEPS_MAX; i++)
        shared_message_release(ensemble->steps[i].reply);
    shared_message_release(ensemble->source);
    ensemble_plan_release(ensemble->plan);
    meta_arena_fini(&ensemble->arena);
    free(ensemble);
}

/* The job has been answered, or runs anew. The record is freed by its effect, together with the steps that are still
   jobs. */
static void ensemble_release(struct broker *broker, struct job *job)
{
    PEN_ASSERT(job->ensemble->job == job && job->ensemble->over, "a run is let go when it is over, by its own job");
    job->ensemble->job = NULL;
    effect_post(&broker->effects, &job->ensemble->moves, EFFECT_ENSEMBLE_MOVES);
    job->ensemble = NULL;
}

bool ensemble_is_own(const struct ensemble_run *ensemble)
{
    return job_id_equal(ensemble->origin, ensemble->job->id);
}

/* ---- what is told of it --------------------------------------------------------------------------------------------------------------- */

static const char *ensemble_text(const struct job *job, char *text, size_t bytes)
{
    const struct ensemble_run *ensemble = job->ensemble;
    size_t used = (size_t)snprintf(text, bytes, "No worker has all of its models, so its steps run as jobs:");
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan) && used < bytes; i++) {
        const struct job *own = ensemble->steps[i].job;
        const char *where = ensemble->steps[i].told.state == EXPLAINED_DONE ? "is done"
                            : !own                                          ? "waits for others"
                            : own->state == JOB_DISPATCHED                  ? "runs on "
                                                                            : "waits for a worker";
        int n = snprintf(text + used, bytes - used, "%s step %u (%.64s) %s%.64s", i ? "," : "",
                         ensemble->plan->steps[i].number, ensemble->plan->steps[i].model, where,
                         own && own->state == JOB_DISPATCHED ? own->dispatch->worker->hello->name : "");
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static size_t ensemble_explain(const struct broker *broker, const struct job *job, struct explained_step *ret_steps)
{
    const struct ensemble_run *ensemble = job->ensemble;
    size_t count = ensemble_plan_steps(ensemble->plan);
    for (size_t i = 0; i < count; i++) {
        ret_steps[i] = ensemble->steps[i].told;
        if (ensemble->steps[i].job)
            explain_step_job(&ret_steps[i], ensemble->steps[i].job, ensemble->steps[i].job->dispatch, broker->now_us);
    }
    return count;
}

/* ---- begin ---------------------------------------------------------------------------------------------------------------------------- */

static void put_input(struct ensemble_run *ensemble, const struct group_tensor *input)
{
    for (size_t i = 0; i < ensemble->plan->inputs_count; i++) {
        uint32_t tensor = ensemble->plan->inputs[i];
        if (strcmp(ensemble->plan->tensors[tensor], input->view.name) == 0)
            ensemble->flows[tensor] = *input;
    }
}

/* The whole's inputs are the first flows. */
static bool read_request(struct ensemble_run *ensemble)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct envelope env;
    Penstock__JobMeta *meta = group_open(ensemble->source, &ensemble->arena, &penstock__job_meta__descriptor, &env);
    if (!meta || meta->n_inputs > FRAME_MAX_TENSORS ||
        group_tensors(ensemble->source, meta->inputs, meta->n_inputs, tensors, NULL) != PEN_OK)
        return false;
    ensemble->request = meta;
    for (size_t i = 0; i < meta->n_inputs; i++) {
        ensemble->inputs[i] =
            (struct group_tensor){.view = tensors[i], .shared = ensemble->source, .frame = meta->inputs[i]->frame};
        put_input(ensemble, &ensemble->inputs[i]);
    }
    return true;
}

static struct ensemble_run *ensemble_new(struct job *job)
{
    struct ensemble_run *ensemble = calloc(1, sizeof *ensemble);
    if (!ensemble)
        return NULL;
    ensemble->job = job;
    ensemble->origin = job->id;
    ensemble->source = shared_message_retain(job->request);
    ensemble->plan = ensemble_plan_retain(job->lane->model->plan);
    meta_arena_init(&ensemble->arena, ARENA_BYTES);
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++)
        explain_step_init(&ensemble->steps[i].told, ensemble->plan->steps[i].number, ensemble->plan->steps[i].model);
    return ensemble;
}

/* Moves the job from the waiting ones to the running ones. */
static void take(struct broker *broker, struct ensemble_run *ensemble, struct job *job)
{
    PEN_ASSERT(!ensemble->over, "a run that is over belongs to nobody");
    states_wait_no_more(broker, job);
    states_run(job, JOB_STEPS);
    job->ensemble = ensemble;
    job->attempts++;
    ensemble->job = job;
}

/* True when no worker has the whole ensemble and each step has a worker. */
static bool may_begin(const struct broker *broker, const struct model *model, const struct demand *demand)
{
    return model->plan && !model_served(model, demand) &&
           ensemble_served(&broker->models, &broker->labels, model, demand);
}

static bool ensemble_begin(struct broker *broker, struct job *job)
{
    if (!may_begin(broker, job->lane->model, &job->lane->demand))
        return false;
    struct ensemble_run *ensemble = ensemble_new(job);
    if (!ensemble)
        return false;
    if (!read_request(ensemble)) {
        ensemble_free(broker, ensemble);
        return false;
    }
    ensemble->number = ++broker->ensembles->count;
    table_insert(&broker->ensembles->by_number, &ensemble->by_number,
                 table_hash(&broker->ensembles->by_number, broker->ensembles->uuid, ensemble->number));
    take(broker, ensemble, job);
    ensemble->bytes = shared_message_bytes(ensemble->source); /* ours until the end */
    states_hold_bytes(broker, ensemble->bytes);
    effect_post(&broker->effects, &ensemble->moves, EFFECT_ENSEMBLE_MOVES);
    return true;
}

/* ---- end ------------------------------------------------------------------------------------------------------------------------------- */

void ensemble_stop(struct broker *broker, struct ensemble_run *ensemble)
{
    if (ensemble->over)
        return;
    PEN_ASSERT(ensemble->job && ensemble->job->state == JOB_STEPS, "what is stopped has run for a job in steps");
    ensemble->over = true;
    states_run_no_more(ensemble->job);
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        struct ensemble_step *step = &ensemble->steps[i];
        if (!step->job)
            continue;
        explain_step_job(&step->told, step->job, step->job->dispatch, broker->now_us);
        step->told.state = EXPLAINED_STOPPED;
    }
    effect_post(&broker->effects, &ensemble->moves, EFFECT_ENSEMBLE_MOVES);
}

/* Ends the steps that are left when the run is over. */
static void end_steps(struct broker *broker, struct ensemble_run *ensemble)
{
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        if (ensemble->steps[i].job)
            answer_error(broker, ensemble->steps[i].job, PEN_ERR_CANCELLED, "the job that it is a step of has ended");
    }
    if (!ensemble->job)
        ensemble_free(broker, ensemble);
}

bool ensemble_moves(struct broker *broker, struct effect *effect)
{
    struct ensemble_run *ensemble = effect_of(effect, struct ensemble_run, moves);
    if (ensemble->over)
        end_steps(broker, ensemble);
    else
        ensemble_go_on(broker, ensemble);
    return false; /* the job may be freed */
}

void ensemble_run_again(struct broker *broker, struct ensemble_run *ensemble)
{
    struct job *job = ensemble->job;
    ensemble_stop(broker, ensemble);
    ensemble_release(broker, job);
    states_set(job, JOB_QUEUED); /* in no lane */
    job->front = true;
    states_wait(broker, job);
    dispatch_queue(broker, job);
}

void ensemble_fail(struct broker *broker, struct ensemble_run *ensemble, size_t index, enum pen_status status,
                   const char *text)
{
    char named[PEN_ERROR_TEXT_BYTES];
    struct job *job = ensemble->job;
    const struct ensemble_plan_step *step = &ensemble->plan->steps[index];
    ensemble->steps[index].told.state = EXPLAINED_FAILED;
    if (!ensemble_is_own(ensemble)) {
        ensemble_run_again(broker, ensemble);
        return;
    }
    snprintf(named, sizeof named, "step %u (model '%.128s') of '%.128s': %.600s", step->number, step->model,
             job->lane->model->name, text);
    ensemble_stop(broker, ensemble);
    if (status != PEN_ERR_WORKER_LOST) /* a request that ended workers is not tried on more of them */
        answer_apart(broker, job);
    answer_error(broker, job, status, named);
}

/* ---- for somebody else ----------------------------------------------------------------------------------------------------------------- */

/* Gives the step the client, turn and deadline of the whole, whatever state it is in. */
static void step_move(struct broker *broker, struct job *own, const struct job *to)
{
    bool waits = own->lane_place != 0;
    if (waits)
        lane_remove(own->lane, own);
    if (own->session != to->session) {
        session_remove(own->session, own);
        session_add(to->session, own);
    }
    own->deadline_us = to->deadline_us;
    own->arrival = to->arrival;
    if (waits)
        dispatch_queue(broker, own);
}

static void ensemble_moved(struct broker *broker, struct job *job)
{
    struct ensemble_run *ensemble = job->ensemble;
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        if (ensemble->steps[i].job)
            step_move(broker, ensemble->steps[i].job, job);
    }
}

/* An identical job takes the run over. */
static void ensemble_pass(struct broker *broker, struct job *from, struct job *to)
{
    struct ensemble_run *ensemble = from->ensemble;
    from->ensemble = NULL;
    states_run_no_more(from);
    states_set(from, JOB_QUEUED); /* in no lane */
    take(broker, ensemble, to);
    ensemble_moved(broker, to);
}

static void ensemble_leave(struct broker *broker, struct job *job, struct job *next)
{
    if (next)
        ensemble_pass(broker, job, next);
    else
        ensemble_stop(broker, job->ensemble);
}

static void ensemble_raise(struct broker *broker, struct job *job, uint8_t priority)
{
    struct ensemble_run *ensemble = job->ensemble;
    job->priority = priority;
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        if (ensemble->steps[i].job)
            dispatch_raise(broker, ensemble->steps[i].job, priority);
    }
}

const struct job_course ensemble_course = {
    .name = "ensemble",
    .begin = ensemble_begin,
    .leave = ensemble_leave,
    .raise = ensemble_raise,
    .moved = ensemble_moved,
    .release = ensemble_release,
    .text = ensemble_text,
    .explain = ensemble_explain,
};

/* ---- waiting ones ---------------------------------------------------------------------------------------------------------------------- */

/*
 * Begins waiting jobs in steps, a batch at a time. Jobs that have begun still refer to their lane, so the lane exists
 * until one finds no memory: that one waits on, and is tried again at the next beat.
 */
bool ensemble_lane(struct broker *broker, struct effect *effect)
{
    struct lane *lane = effect_of(effect, struct lane, look);
    struct job *job;
    if (!may_begin(broker, lane->model, &lane->demand))
        return true;
    for (size_t left = LANE_BATCH; left > 0 && (job = lane_head(lane)) != NULL; left--) {
        lane_remove(lane, job);
        if (!ensemble_begin(broker, job)) {
            dispatch_queue(broker, job);
            return false;
        }
    }
    if (lane->count > 0)
        effect_post_again(&broker->effects, effect);
    return false;
}
