/* slot_crop.c - a step of an ensemble that runs once for each object that an earlier step found, on a square cut out of the picture around it. */
#include "slot_internal.h"

#include "cutout.h"

#include <stdlib.h>

#define CROPS_MAX GATHER_TASKS_MAX

/* What the step works on: its tensors, and the picture. */
struct cropping {
    struct task *whole;
    size_t index;
    const struct ensemble_plan_step *step;
    const struct served *model;
    struct picture picture; /* RGB, upright */
    bool lent;              /* the picture is the job's */
    const struct pen_tensor *boxes, *points;
    size_t count;
    uint8_t *data; /* the cut-outs, one row of the model's input each */
};

static const struct pen_tensor *flow_of(const struct cropping *c, size_t link)
{
    return &c->whole->chain->flows[c->step->inputs[link].tensor];
}

static void *take(struct slot *slot, size_t bytes)
{
    ProtobufCAllocator *memory = &slot->work->arena.allocator;
    return memory->alloc(memory->allocator_data, bytes ? bytes : 1);
}

/* ---- the picture ---- */

/* Decoded by a decoder's thread, if it was by this model's limits; else here. */
static enum pen_status picture_open(struct cropping *c, struct pen_error *reterr)
{
    const struct uncut *uncut = c->whole->job->uncut;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    c->lent = uncut && digest_equal(uncut->model, c->model->digest);
    if (c->lent) {
        c->picture = uncut->picture;
        c->whole->decode_us += uncut->took_us;
        return PEN_OK;
    }
    enum pen_status status = cutout_file(flow_of(c, 0), &bytes, &size, reterr);
    return status == PEN_OK ? cutout_open(bytes, size, c->model, &c->picture, reterr) : status;
}

/* ---- where the objects are ---- */

static enum pen_status objects_find(struct cropping *c, struct pen_error *reterr)
{
    const struct ensemble_plan_crop *crop = &c->step->crop;
    const struct pen_tensor *count = flow_of(c, crop->first + 1);
    c->boxes = flow_of(c, crop->first);
    c->points = crop->turned ? flow_of(c, crop->first + 2) : NULL;
    if (c->boxes->dtype != PEN_DTYPE_F32 || c->boxes->rank != 3 || c->boxes->dims[0] != 1 || c->boxes->dims[2] != 4 ||
        count->dtype != PEN_DTYPE_I32 || count->bytes != sizeof(int32_t))
        return pen_error_set(reterr, PEN_ERR_SHAPE, "crop needs boxes f32 [1, n, 4] and count i32 [1]");
    if (c->points &&
        (c->points->dtype != PEN_DTYPE_F32 || c->points->rank != 4 || c->points->dims[1] != c->boxes->dims[1] ||
         c->points->dims[3] != 3 || c->points->dims[2] <= crop->from || c->points->dims[2] <= crop->to))
        return pen_error_set(reterr, PEN_ERR_SHAPE, "crop needs points f32 [1, n, points, 3] that level names");
    int32_t found = *(const int32_t *)count->data;
    int64_t most = c->boxes->dims[1] < CROPS_MAX ? c->boxes->dims[1] : CROPS_MAX;
    c->count = found < 0 ? 0 : found < most ? (size_t)found : (size_t)most;
    return PEN_OK;
}

/* ---- tasks ---- */

static size_t row_bytes(const struct served *model)
{
    const struct picture_steps *steps = model->config.picture.steps;
    return (size_t)steps->width * steps->height * steps->channels * steps->element_bytes;
}

static enum pen_status data_open(struct cropping *c, struct pen_error *reterr)
{
    size_t row = row_bytes(c->model);
    if (row > CHAIN_BYTES_MAX / c->count)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%zu cut-outs of %zu bytes are more than %u", c->count, row,
                             CHAIN_BYTES_MAX);
    c->data = malloc(row * c->count);
    return c->data ? PEN_OK
                   : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu cut-outs of %zu bytes", c->count, row);
}

static struct pen_tensor input_of(const struct served *model, void *data)
{
    struct pen_tensor input = model->network_inputs[model->files_input];
    const struct picture_steps *steps = model->config.picture.steps;
    input.dims[0] = 1;
    input.dims[1] = steps->nchw ? steps->channels : steps->height;
    input.dims[2] = steps->nchw ? steps->height : steps->width;
    input.dims[3] = steps->nchw ? steps->width : steps->channels;
    input.data = data;
    input.bytes = row_bytes(model);
    return input;
}

static enum pen_status task_cut(struct slot *slot, const struct cropping *c, size_t part, struct task *ret_task,
                                struct pen_error *reterr)
{
    const struct picture_steps *steps = c->model->config.picture.steps;
    struct answer_map *map = take(slot, sizeof *map);
    struct pen_tensor *inputs = map ? take(slot, sizeof *inputs) : NULL;
    uint8_t *data = c->data + part * row_bytes(c->model);
    if (!inputs)
        return task_lacks(&slot->work->arena, "cut-outs", reterr);
    const float *points = c->points ? (const float *)c->points->data + part * (size_t)c->points->dims[2] * 3 : NULL;
    *map = cutout_map(&c->step->crop, (const float *)c->boxes->data + part * 4, points, &c->picture, steps->width,
                      steps->height);
    cutout_sample(&c->picture, map, c->model, data);
    *inputs = input_of(c->model, data);
    *ret_task = (struct task){.job = c->whole->job,
                              .served = c->whole->chain->steps[c->index],
                              .whole = c->whole,
                              .step = c->index,
                              .outputs = UINT64_MAX,
                              .layers = c->whole->layers,
                              .traceparent = c->whole->traceparent,
                              .inputs = inputs,
                              .rows = 1,
                              .places = map,
                              .part = (uint32_t)part,
                              .parts = (uint32_t)c->count};
    return PEN_OK;
}

/* Parts may end in any order: tensors are dropped when the last one by number is kept, so they run in their order. */
static void tasks_run(struct slot *slot, const struct cropping *c)
{
    struct batch batch;
    while (gather_compose(slot->steps, c->count, &batch)) {
        if (atomic_load(&c->whole->job->state) == JOB_ANSWERED) /* a part before it failed */
            return;
        slot_batch_run(slot, &batch);
    }
}

void slot_crop_run(struct slot *slot, struct task *whole, size_t index)
{
    struct pen_error error = {0};
    struct cropping c = {.whole = whole,
                         .index = index,
                         .step = &whole->served->config.plan->steps[index],
                         .model = whole->chain->steps[index]};
    const struct task place = {.job = whole->job, .whole = whole, .step = index};
    enum pen_status status = objects_find(&c, &error);
    if (status == PEN_OK && c.count == 0)
        status = chain_keep_part(whole->served, whole->chain, index, 0, 0, NULL, 0, &error);
    if (status == PEN_OK && c.count > 0)
        status = picture_open(&c, &error);
    if (status == PEN_OK && c.count > 0)
        status = data_open(&c, &error);
    for (size_t i = 0; i < c.count && status == PEN_OK; i++)
        status = task_cut(slot, &c, i, &slot->steps[i], &error);
    if (!c.lent)
        cutout_close(&c.picture);
    if (status == PEN_OK)
        tasks_run(slot, &c);
    else
        slot_task_error(slot, &place, status, error.text);
    free(c.data);
}
