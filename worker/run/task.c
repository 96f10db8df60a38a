/* task.c - turns a header frame and its tensor frames into checked inputs. */
#include "task.h"

#include "deadline.h"
#include "task_crop.h"
#include "pictures.h"
#include "job_meta.h"

#include <inttypes.h>
#include <string.h>

static void *arena_take(struct meta_arena *arena, size_t count, size_t size)
{
    size_t bytes = (count ? count : 1) * size;
    void *memory = arena->allocator.alloc(arena->allocator.allocator_data, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static enum pen_status no_room(const struct meta_arena *arena, struct pen_error *reterr)
{
    return task_lacks(arena, "metas", reterr);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------------------------ */

static bool dims_fit(const struct pen_tensor *sig, const struct pen_tensor *t)
{
    if (sig->rank != t->rank)
        return false;
    for (uint32_t i = 0; i < sig->rank; i++)
        if (sig->dims[i] >= 0 && sig->dims[i] != t->dims[i])
            return false;
    return true;
}

static enum pen_status input_check(const struct served *served, const struct pen_tensor *sig,
                                   const struct pen_tensor *t, uint32_t *rows, struct pen_error *reterr)
{
    char got[128], want[128];
    if (t->dtype != sig->dtype)
        return pen_error_set(reterr, PEN_ERR_DTYPE, "input '%s' is %s, model '%s' takes %s", sig->name,
                             pen_dtype_name(t->dtype), served->name, pen_dtype_name(sig->dtype));
    if (!dims_fit(sig, t))
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' is %s, model '%s' takes %s", sig->name,
                             pen_shape_text(t->dims, t->rank, got, sizeof got), served->name,
                             pen_shape_text(sig->dims, sig->rank, want, sizeof want));
    if (served->max_batch_size == 0)
        return PEN_OK;
    if (t->dims[0] < 1 || t->dims[0] > (int64_t)served->max_batch_size)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' has %" PRId64 " rows, model '%s' takes 1 to %u",
                             sig->name, t->dims[0], served->name, served->max_batch_size);
    if (*rows != 0 && *rows != (uint32_t)t->dims[0])
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input '%s' has %" PRId64 " rows, another input has %u", sig->name,
                             t->dims[0], *rows);
    *rows = (uint32_t)t->dims[0];
    return PEN_OK;
}

static enum pen_status missing_input(const struct served *served, uint64_t seen, struct pen_error *reterr)
{
    for (size_t i = 0; i < served->inputs_count; i++)
        if (!((seen | served->hidden_inputs) & UINT64_C(1) << i))
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "input '%s' of model '%s' is missing",
                                 served->inputs[i].name, served->name);
    return PEN_OK;
}

enum pen_status task_match_inputs(const struct served *served, const struct pen_tensor *tensors, size_t count,
                                  struct pen_tensor *inputs, uint32_t *ret_rows, struct pen_error *reterr)
{
    uint64_t seen = 0;
    uint32_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        int index = served_input(served, tensors[i].name);
        if (index < 0)
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%s' has no input '%s'%s%s", served->name,
                                 tensors[i].name, served->inputs_count == 1 ? "; its input is " : "",
                                 served->inputs_count == 1 ? served->inputs[0].name : "");
        if (served->hidden_inputs & UINT64_C(1) << index)
            return pen_error_set(reterr, PEN_ERR_INVALID, "input '%s' of model '%s' is state: it is kept, not sent",
                                 tensors[i].name, served->name);
        enum pen_status status = input_check(served, &served->inputs[index], &tensors[i], &rows, reterr);
        if (status != PEN_OK)
            return status;
        inputs[index] = tensors[i];
        seen |= UINT64_C(1) << index;
    }
    enum pen_status status = missing_input(served, seen, reterr);
    if (status == PEN_OK)
        *ret_rows = rows ? rows : 1;
    return status;
}

/* ---- outputs, parameters --------------------------------------------------------------------------------------------------- */

static enum pen_status outputs_choose(struct task *task, const Penstock__JobMeta *meta, struct pen_error *reterr)
{
    if (meta->n_outputs == 0) {
        task->outputs = ~task->served->hidden_outputs;
        return PEN_OK;
    }
    for (size_t i = 0; i < meta->n_outputs; i++) {
        int index = served_output(task->served, meta->outputs[i]);
        if (index < 0 || task->served->hidden_outputs & UINT64_C(1) << index)
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model '%s' has no output '%.255s'", task->served->name,
                                 meta->outputs[i]);
        task->outputs |= UINT64_C(1) << index;
    }
    return PEN_OK;
}

static enum pen_status parameters_read(struct task *task, const Penstock__JobMeta *meta, struct pen_error *reterr)
{
    if (meta->top_k > CLASSES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "top_k %u: at most %u classes can be told", meta->top_k,
                             CLASSES_MAX);
    task->top_k = meta->top_k;
    if (meta->n_parameters > 64)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%zu parameters, at most 64 are allowed", meta->n_parameters);
    for (size_t i = 0; i < meta->n_parameters; i++) {
        const Penstock__Parameter *p = meta->parameters[i];
        if (strcmp(p->name, "labels") != 0)
            continue;
        if (p->value_case != PENSTOCK__PARAMETER__VALUE_INTEGER || p->integer < 0 || p->integer > TASK_LABELS_MAX)
            return pen_error_set(reterr, PEN_ERR_INVALID, "parameter 'labels' must be an integer from 0 to %u",
                                 TASK_LABELS_MAX);
        task->labels = (uint32_t)p->integer;
    }
    return PEN_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

/* The digest of the bytes that will run; the one in the envelope is not trusted. */
static enum pen_status digest_make(struct task *task, struct meta_arena *arena, const Penstock__JobMeta *meta,
                                   const struct pen_tensor *tensors, struct pen_error *reterr)
{
    uint16_t flags = task->job->env.flags;
    if (!(flags & FRAME_FLAG_DIGEST))
        return PEN_OK;
    enum digest_kind kind = flags & FRAME_FLAG_DIGEST_SHA256 ? DIGEST_SHA256 : DIGEST_XXH3;
    enum pen_status status = job_meta_digest(kind, meta, tensors, arena, &task->digest);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "the request's digest cannot be computed: %s", pen_status_name(status));
    task->digested = true;
    return PEN_OK;
}

/* Those that a decoder has made, if it was by this model's steps. Else this thread makes them, into *own. */
static const struct pictures *pictures_of(const struct task *task, const struct pen_tensor *files,
                                          struct pictures **own)
{
    const struct pictures *made = task->job->pictures;
    if (made && digest_equal(made->model, task->served->digest))
        return made;
    pictures_free(*own);
    *own = pictures_prepare(task->served, files, NULL, 0, clock_now_us());
    return *own;
}

enum pen_status task_pictures(struct task *task, struct pen_tensor *tensors, size_t count, struct pictures **own,
                              struct pen_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        struct pen_tensor *tensor = &tensors[i];
        if (!pictures_carried(task->served, served_input(task->served, tensor->name), tensor))
            continue;
        const struct pictures *pictures = pictures_of(task, tensor, own);
        if (!pictures)
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to decode a picture");
        if (pictures->status != PEN_OK)
            return pen_error_set(reterr, pictures->status, "%s", pictures->text);
        const char *name = tensor->name;
        *tensor = pictures->tensor;
        tensor->name = name;
        task->maps = pictures->maps;
        task->decode_us = pictures->took_us;
        return PEN_OK; /* a model has one such input */
    }
    return PEN_OK;
}

enum pen_status task_tensors(const struct dispatch *dispatch, const struct job *job, const Penstock__JobMeta *meta,
                             struct pen_tensor *ret_tensors, struct pen_error *reterr)
{
    struct raw_frame raw[FRAME_MAX_TENSORS];
    for (size_t i = 0; i < job->env.frames; i++) {
        zmq_msg_t *frame = &dispatch->frames[job->first_frame + i];
        raw[i] = (struct raw_frame){.data = zmq_msg_data(frame), .bytes = zmq_msg_size(frame)};
    }
    return tensors_decode(meta->inputs, meta->n_inputs, raw, job->env.frames, "input", ret_tensors, reterr);
}

static enum pen_status tensors_open(struct task *task, struct meta_arena *arena, const struct dispatch *dispatch,
                                    const Penstock__JobMeta *meta, struct pen_error *reterr)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    enum pen_status status = task_tensors(dispatch, task->job, meta, tensors, reterr);
    if (status != PEN_OK)
        return status;
    size_t places = meta->crop ? FRAME_MAX_TENSORS : task->served->inputs_count;
    task->inputs = arena_take(arena, places, sizeof *task->inputs);
    if (!task->inputs)
        return no_room(arena, reterr);
    status = digest_make(task, arena, meta, tensors, reterr); /* of the inputs as they came */
    if (status == PEN_OK && meta->crop)
        status = task_crop_open(task, meta->crop, tensors, meta->n_inputs, reterr);
    if (status == PEN_OK)
        status = task_pictures(task, tensors, meta->n_inputs, &task->job->pictures, reterr);
    return status == PEN_OK
               ? task_match_inputs(task->served, tensors, meta->n_inputs, task->inputs, &task->rows, reterr)
               : status;
}

static enum pen_status model_find(struct task *task, struct catalog *catalog, const Penstock__JobMeta *meta,
                                  struct pen_error *reterr)
{
    enum pen_status status = catalog_take(catalog, meta->model, meta->version, &task->served);
    if (status == PEN_OK)
        return PEN_OK;
    if (status == PEN_ERR_UNAVAILABLE)
        return pen_error_set(reterr, status, "this worker has model '%.255s' on disk and not in memory now",
                             meta->model);
    if (meta->version != 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "this worker has no model '%.255s' of version %" PRIu64,
                             meta->model, meta->version);
    return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "this worker has no model '%.255s'", meta->model);
}

/* The last of all checks, because a failure from here on ends the sequence. */
static enum pen_status state_take(struct task *task, struct states *states, uint64_t after, struct pen_error *reterr)
{
    const struct served *served = task->served;
    const struct envelope *env = &task->job->env;
    if (served->states_count == 0)
        return PEN_OK;
    if (env->sequence_id == 0 || !states)
        return pen_error_set(reterr, PEN_ERR_INVALID, "model '%s' keeps state: its jobs belong to sequences",
                             served->name);
    if (task->rows != 1)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "a job of a sequence has one row, this one has %u", task->rows);
    enum pen_status status = states_open(states, served, env, after, clock_now_us(), &task->state, reterr);
    if (status != PEN_OK)
        return status;
    task->states = states;
    for (size_t i = 0; i < served->states_count; i++) {
        struct pen_tensor *input = &task->inputs[served->states[i].input];
        *input = served->states[i].tensor;
        input->data = state_data(task->state, i);
    }
    return PEN_OK;
}

/* Whether the worker takes such jobs at all is the slot's question. */
static enum pen_status debug_allowed(const struct served *served, struct pen_error *reterr)
{
    if (served->config.plan)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "model '%s' is an ensemble: run the models of its steps in debug mode", served->name);
    if (served->states_count > 0)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "model '%s' keeps state between jobs: debug mode runs independent jobs only",
                             served->name);
    return PEN_OK;
}

enum pen_status task_open(struct catalog *catalog, struct states *states, struct meta_arena *arena,
                          const struct dispatch *dispatch, struct job *job, struct task *ret_task,
                          struct pen_error *reterr)
{
    *ret_task = (struct task){.job = job};
    if (job->env.meta_bytes > FRAME_META_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the job's meta has %u bytes, at most %u are allowed",
                             job->env.meta_bytes, FRAME_META_BYTES_MAX);
    const Penstock__JobMeta *meta = meta_unpack(arena, &penstock__job_meta__descriptor, job->meta, job->env.meta_bytes);
    if (!meta && arena->starved)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the worker has no memory for the job's meta");
    if (!meta)
        return meta_refusal(arena, "the job's meta is no JobMeta, or needs too much memory", reterr);
    ret_task->debug = meta->debug;
    ret_task->layers = meta->trace >= 2 && !meta->debug; /* the log has them */
    ret_task->traceparent = meta->traceparent;
    enum pen_status status = model_find(ret_task, catalog, meta, reterr);
    if (status == PEN_OK)
        status = tensors_open(ret_task, arena, dispatch, meta, reterr);
    if (status == PEN_OK)
        status = outputs_choose(ret_task, meta, reterr);
    if (status == PEN_OK)
        status = parameters_read(ret_task, meta, reterr);
    if (status == PEN_OK && meta->debug)
        status = debug_allowed(ret_task->served, reterr);
    if (status == PEN_OK && ret_task->served->config.plan && !ret_task->cut)
        status = chain_new(catalog, ret_task->served, &ret_task->chain, reterr);
    if (status == PEN_OK)
        status = state_take(ret_task, states, meta->sequence_after, reterr);
    if (status != PEN_OK)
        task_close(ret_task);
    return status;
}

void task_close(struct task *task)
{
    if (task->state) /* not kept: the job failed, and its sequence with it */
        state_close_last(task->states, task->state, clock_now_us());
    task->state = NULL;
    chain_free(task->served, task->chain);
    if (task->cut)
        served_free(task->served);
    else if (task->served)
        served_release(task->served);
    task->chain = NULL;
    task->served = NULL;
}

bool task_joins(const struct task *a, const struct task *b)
{
    if (a->debug || b->debug || a->served != b->served || a->served->max_batch_size == 0 || a->served->strings)
        return false;
    for (size_t i = 0; i < a->served->inputs_count; i++)
        for (uint32_t d = 1; d < a->inputs[i].rank; d++)
            if (a->inputs[i].dims[d] != b->inputs[i].dims[d])
                return false;
    return true;
}

enum pen_status task_lacks(const struct meta_arena *arena, const char *what, struct pen_error *reterr)
{
    if (arena->starved)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the worker has no memory for the %s of this dispatch", what);
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the %s of this dispatch need more memory than a slot grants",
                         what);
}
