#include "cascade_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "dispatch.h"
#include "explain.h"
#include "states.h"

#define ARENA_BYTES (16u * 1024u * 1024u) /* the unpacked metas of one cascade: at most 17 of 64 KiB each */

struct cascades *cascades_new(void)
{
    struct cascades *cascades = calloc(1, sizeof *cascades);
    if (!cascades || table_init(&cascades->by_number) != PEN_OK) {
        free(cascades);
        return NULL;
    }
    cascades->uuid = random_u64();
    return cascades;
}

void cascades_free(struct cascades *cascades)
{
    if (!cascades)
        return;
    table_fini(&cascades->by_number);
    free(cascades);
}

struct cascade *cascade_find(const struct cascades *cascades, uint64_t number)
{
    struct table_node *node =
        table_first(&cascades->by_number, table_hash(&cascades->by_number, cascades->uuid, number));
    for (; node; node = table_next(&cascades->by_number, node)) {
        struct cascade *cascade = table_entry(node, struct cascade, by_number);
        if (cascade->number == number)
            return cascade;
    }
    return NULL;
}

static void cascade_free(struct broker *broker, struct cascade *cascade)
{
    states_give_bytes(broker, cascade->bytes);
    effect_drop(&cascade->moves);
    if (cascade->number)
        table_remove(&broker->cascades->by_number, &cascade->by_number);
    for (size_t i = 0; i < SCRIPT_STEPS_MAX; i++)
        parcel_release(cascade->steps[i].reply);
    parcel_release(cascade->source);
    script_release(cascade->script);
    meta_arena_fini(&cascade->arena);
    free(cascade);
}

/* Its job has been answered, or runs anew. The record goes with its effect, and with it those steps that are jobs still. */
static void cascade_release(struct broker *broker, struct job *job)
{
    job->cascade->job = NULL;
    effect_post(&broker->effects, &job->cascade->moves, EFFECT_ENSEMBLE_MOVES);
    job->cascade = NULL;
}

bool cascade_is_own(const struct cascade *cascade)
{
    return job_id_equal(cascade->origin, cascade->job->id);
}

/* ---- what is told of it --------------------------------------------------------------------------------------------------------------- */

static const char *cascade_text(const struct job *job, char *text, size_t bytes)
{
    const struct cascade *cascade = job->cascade;
    size_t used = (size_t)snprintf(text, bytes, "No worker has all of its models, so its steps run as jobs:");
    for (size_t i = 0; i < script_steps(cascade->script) && used < bytes; i++) {
        const struct job *own = cascade->steps[i].job;
        const char *where = cascade->steps[i].told.state == EXPLAINED_DONE ? "is done"
                            : !own                                         ? "waits for others"
                            : own->state == JOB_DISPATCHED                 ? "runs on "
                                                                           : "waits for a worker";
        int n = snprintf(text + used, bytes - used, "%s step %u (%.64s) %s%.64s", i ? "," : "",
                         cascade->script->steps[i].number, cascade->script->steps[i].model, where,
                         own && own->state == JOB_DISPATCHED ? own->dispatch->worker->hello->name : "");
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static size_t cascade_explain(const struct broker *broker, const struct job *job, struct explained_step *ret_steps)
{
    const struct cascade *cascade = job->cascade;
    size_t count = script_steps(cascade->script);
    for (size_t i = 0; i < count; i++) {
        ret_steps[i] = cascade->steps[i].told;
        if (cascade->steps[i].job)
            explain_step_job(&ret_steps[i], cascade->steps[i].job, cascade->steps[i].job->dispatch, broker->now_us);
    }
    return count;
}

/* ---- begin ---------------------------------------------------------------------------------------------------------------------------- */

static void put_input(struct cascade *cascade, const struct letter_tensor *input)
{
    for (size_t i = 0; i < cascade->script->inputs_count; i++) {
        uint32_t tensor = cascade->script->inputs[i];
        if (strcmp(cascade->script->tensors[tensor], input->view.name) == 0)
            cascade->flows[tensor] = *input;
    }
}

/* What the caller gave, as the first flows. */
static bool read_request(struct cascade *cascade)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct envelope env;
    Penstock__JobMeta *meta = letter_open(cascade->source, &cascade->arena, &penstock__job_meta__descriptor, &env);
    if (!meta || meta->n_inputs > FRAME_MAX_TENSORS ||
        letter_tensors(cascade->source, meta->inputs, meta->n_inputs, tensors, NULL) != PEN_OK)
        return false;
    cascade->request = meta;
    for (size_t i = 0; i < meta->n_inputs; i++) {
        cascade->inputs[i] =
            (struct letter_tensor){.view = tensors[i], .parcel = cascade->source, .frame = meta->inputs[i]->frame};
        put_input(cascade, &cascade->inputs[i]);
    }
    return true;
}

static struct cascade *cascade_new(struct job *job)
{
    struct cascade *cascade = calloc(1, sizeof *cascade);
    if (!cascade)
        return NULL;
    cascade->job = job;
    cascade->origin = job->id;
    cascade->source = parcel_retain(job->request);
    cascade->script = script_retain(job->lane->model->script);
    meta_arena_init(&cascade->arena, ARENA_BYTES);
    for (size_t i = 0; i < script_steps(cascade->script); i++)
        explain_step_init(&cascade->steps[i].told, cascade->script->steps[i].number, cascade->script->steps[i].model);
    return cascade;
}

/* From those that wait to those that run. */
static void take(struct broker *broker, struct cascade *cascade, struct job *job)
{
    states_wait_no_more(broker, job);
    states_run(job, JOB_STEPS);
    job->cascade = cascade;
    job->attempts++;
    cascade->job = job;
}

/* No worker has it whole, and all of its steps are served. */
static bool may_begin(const struct broker *broker, const struct model *model, const struct demand *demand)
{
    return model->script && !model_served(model, demand) &&
           cascade_served(&broker->models, &broker->labels, model, demand);
}

static bool cascade_begin(struct broker *broker, struct job *job)
{
    if (!may_begin(broker, job->lane->model, &job->lane->demand))
        return false;
    struct cascade *cascade = cascade_new(job);
    if (!cascade)
        return false;
    if (!read_request(cascade)) {
        cascade_free(broker, cascade);
        return false;
    }
    cascade->number = ++broker->cascades->count;
    table_insert(&broker->cascades->by_number, &cascade->by_number,
                 table_hash(&broker->cascades->by_number, broker->cascades->uuid, cascade->number));
    take(broker, cascade, job);
    cascade->bytes = parcel_bytes(cascade->source); /* stays ours until the end */
    states_hold_bytes(broker, cascade->bytes);
    effect_post(&broker->effects, &cascade->moves, EFFECT_ENSEMBLE_MOVES);
    return true;
}

/* ---- end ------------------------------------------------------------------------------------------------------------------------------- */

void cascade_stop(struct broker *broker, struct cascade *cascade)
{
    if (cascade->over)
        return;
    cascade->over = true;
    states_run_no_more(cascade->job);
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        struct cascade_step *step = &cascade->steps[i];
        if (!step->job)
            continue;
        explain_step_job(&step->told, step->job, step->job->dispatch, broker->now_us);
        step->told.state = EXPLAINED_STOPPED;
    }
    effect_post(&broker->effects, &cascade->moves, EFFECT_ENSEMBLE_MOVES);
}

/* What is left of it when it is over. */
static void end_steps(struct broker *broker, struct cascade *cascade)
{
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        if (cascade->steps[i].job)
            answer_error(broker, cascade->steps[i].job, PEN_ERR_CANCELLED, "the job that it is a step of has ended");
    }
    if (!cascade->job)
        cascade_free(broker, cascade);
}

void cascade_moves(struct broker *broker, struct effect *effect)
{
    struct cascade *cascade = effect_of(effect, struct cascade, moves);
    if (cascade->over)
        end_steps(broker, cascade);
    else
        cascade_go_on(broker, cascade);
}

void cascade_run_again(struct broker *broker, struct cascade *cascade)
{
    struct job *job = cascade->job;
    cascade_stop(broker, cascade);
    cascade_release(broker, job);
    states_set(job, JOB_QUEUED); /* in no lane */
    job->front = true;
    states_wait(broker, job);
    dispatch_queue(broker, job);
}

void cascade_fail(struct broker *broker, struct cascade *cascade, size_t index, enum pen_status status,
                  const char *text)
{
    char named[PEN_ERROR_TEXT_BYTES];
    struct job *job = cascade->job;
    const struct script_step *step = &cascade->script->steps[index];
    cascade->steps[index].told.state = EXPLAINED_FAILED;
    if (!cascade_is_own(cascade)) {
        cascade_run_again(broker, cascade);
        return;
    }
    snprintf(named, sizeof named, "step %u (model '%.128s') of '%.128s': %.600s", step->number, step->model,
             job->lane->model->name, text);
    cascade_stop(broker, cascade);
    if (status != PEN_ERR_WORKER_LOST) /* what ended workers is not tried on more of them */
        answer_apart(broker, job);
    answer_error(broker, job, status, named);
}

/* ---- for somebody else ----------------------------------------------------------------------------------------------------------------- */

/* To the client, turn and deadline of that whole, wherever the step is. */
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

static void cascade_moved(struct broker *broker, struct job *job)
{
    struct cascade *cascade = job->cascade;
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        if (cascade->steps[i].job)
            step_move(broker, cascade->steps[i].job, job);
    }
}

/* A twin of it takes over what runs. */
static void cascade_pass(struct broker *broker, struct job *from, struct job *to)
{
    struct cascade *cascade = from->cascade;
    from->cascade = NULL;
    states_run_no_more(from);
    states_set(from, JOB_QUEUED); /* in no lane */
    take(broker, cascade, to);
    cascade_moved(broker, to);
}

static void cascade_leave(struct broker *broker, struct job *job, struct job *next)
{
    if (next)
        cascade_pass(broker, job, next);
    else
        cascade_stop(broker, job->cascade);
}

static void cascade_raise(struct broker *broker, struct job *job, uint8_t priority)
{
    struct cascade *cascade = job->cascade;
    job->priority = priority;
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        if (cascade->steps[i].job)
            dispatch_raise(broker, cascade->steps[i].job, priority);
    }
}

const struct job_course cascade_course = {
    .name = "ensemble",
    .begin = cascade_begin,
    .leave = cascade_leave,
    .raise = cascade_raise,
    .moved = cascade_moved,
    .release = cascade_release,
    .text = cascade_text,
    .explain = cascade_explain,
};

/* ---- waiting ones ---------------------------------------------------------------------------------------------------------------------- */

/* All of a lane's jobs begin; false: there is no memory for one. */
static bool lane_begin(struct broker *broker, struct lane *lane)
{
    struct job *job;
    bool room = true;
    lane->users++; /* outlive the loop */
    while (room && (job = lane_head(lane)) != NULL) {
        size_t before = lane->count;
        lane_remove(lane, job);
        dispatch_queue(broker, job);
        room = lane->count < before;
    }
    lane_release(lane);
    return room;
}

void cascade_look(struct broker *broker)
{
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&broker->models.active); lane; lane = next) {
        next = TAILQ_NEXT(lane, in_active);
        if (!may_begin(broker, lane->model, &lane->demand))
            continue;
        if (!lane_begin(broker, lane))
            return;                                 /* those that wait are looked at again in the next beat */
        next = TAILQ_FIRST(&broker->models.active); /* lists have changed: once more from the start */
    }
}
