#include "load_replay.h"

#include <stdlib.h>
#include <string.h>

enum pen_status replay_open(struct replay *replay, const char *file, struct pen_error *reterr)
{
    replay->status = PEN_OK;
    replay->first_us = UINT64_MAX;
    return arrivals_open(file, &replay->reader, reterr);
}

void replay_close(struct replay *replay)
{
    for (size_t i = 0; i < REPLAY_SIZES_MAX; i++) {
        inputs_fini(&replay->sizes[i].inputs);
    }
    arrivals_close(&replay->reader);
}

static bool takes_pictures(const struct pen_model *model)
{
    for (size_t i = 0; i < model->inputs_count; i++) {
        if (model->inputs[i].pictures) {
            return true;
        }
    }
    return false;
}

static enum pen_status inputs_make(const struct replay *replay, struct replay_size *slot, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (*replay->image && takes_pictures(slot->model)) {
        status = inputs_add_file(&slot->inputs, slot->model, NULL, replay->image, reterr);
    }
    return status == PEN_OK ? inputs_generate_sized(&slot->inputs, slot->model, &slot->size, reterr) : status;
}

/* Those that were made already, else in the place of those that were not used for longest. */
static struct replay_size *size_of(struct replay *replay, const struct pen_model *model, const struct arrival *arrival)
{
    struct replay_size *oldest = &replay->sizes[0];
    for (size_t i = 0; i < REPLAY_SIZES_MAX; i++) {
        struct replay_size *slot = &replay->sizes[i];
        if (slot->used && slot->model == model && slot->size.rows == arrival->rows &&
            slot->size.bytes == arrival->bytes) {
            return slot;
        }
        oldest = slot->used < oldest->used ? slot : oldest;
    }
    inputs_fini(&oldest->inputs);
    *oldest = (struct replay_size){.model = model, .size = {.rows = arrival->rows, .bytes = arrival->bytes}};
    replay->status = inputs_make(replay, oldest, &replay->error);
    return replay->status == PEN_OK ? oldest : NULL;
}

/* The next arrival that becomes a job; NULL: the end, or replay->status says why. */
static const struct pen_model *arrival_take(struct replay *replay, struct arrival *ret_arrival)
{
    bool end = false;
    for (;;) {
        replay->status = arrivals_next(&replay->reader, ret_arrival, &end, &replay->error);
        if (replay->status != PEN_OK || end) {
            return NULL;
        }
        bool wanted = !replay->model || strcmp(replay->model, ret_arrival->model) == 0;
        const struct pen_model *model = wanted ? model_find(replay->models, ret_arrival->model, 0) : NULL;
        if (model) {
            return model;
        }
        replay->skipped++;
        if (wanted) {
            snprintf(replay->missing, sizeof replay->missing, "%s", ret_arrival->model);
        }
    }
}

bool replay_next(void *context, struct load_due *ret_due)
{
    struct replay *replay = context;
    struct arrival arrival;
    const struct pen_model *model = arrival_take(replay, &arrival);
    struct replay_size *slot = model ? size_of(replay, model, &arrival) : NULL;
    if (!slot) {
        return false;
    }
    replay->first_us = replay->first_us == UINT64_MAX ? arrival.at_us : replay->first_us;
    slot->used = ++replay->taken;
    replay->now = replay->job;
    replay->now.model = model->name;
    replay->now.inputs = slot->inputs.tensors;
    replay->now.inputs_count = slot->inputs.count;
    replay->now.priority = arrival.priority ? arrival.priority : replay->job.priority;
    replay->now.deadline_us = arrival.deadline_us ? arrival.deadline_us : replay->job.deadline_us;
    *ret_due = (struct load_due){.at_us = (uint64_t)((double)(arrival.at_us - replay->first_us) / replay->speed),
                                 .job = &replay->now};
    return true;
}
