/* gather.c - rows of many jobs side by side in one buffer, and apart again. */
#include "gather.h"

#include <string.h>

bool gather_compose(struct task *tasks, size_t count, struct batch *ret_batch)
{
    struct task *first = NULL;
    *ret_batch = (struct batch){0};
    for (size_t i = 0; i < count; i++) {
        struct task *task = &tasks[i];
        if (task->taken)
            continue;
        if (!first)
            ret_batch->served = (first = task)->served;
        else if (!task_joins(first, task) || ret_batch->rows + task->rows > first->served->max_batch_size)
            continue;
        task->taken = true;
        ret_batch->tasks[ret_batch->count++] = task;
        ret_batch->rows += task->rows;
    }
    return first != NULL;
}

/* What the engine is to be bound to: the network's dtypes, the first task's dims, the batch's rows. */
static void network_shapes(const struct batch *batch, struct pen_tensor *shapes)
{
    const struct served *served = batch->served;
    for (size_t i = 0; i < served->inputs_count; i++) {
        const struct pen_tensor *wire = &batch->tasks[0]->inputs[i];
        shapes[i] = served->network_inputs[i];
        for (uint32_t d = 0; d < wire->rank; d++)
            shapes[i].dims[d] = wire->dims[d];
        if ((int)i == served->pixels_input && !served->preprocess.nhwc) { /* u8 [n, h, w, c] -> f32 [n, c, h, w] */
            shapes[i].dims[1] = served->preprocess.channels;
            shapes[i].dims[2] = served->preprocess.height;
            shapes[i].dims[3] = served->preprocess.width;
        }
        if (served->max_batch_size > 0)
            shapes[i].dims[0] = batch->rows;
        shapes[i].data = NULL;
        shapes[i].bytes = 0;
    }
}

/* Writes input `index` of all tasks one behind the other. */
static enum pen_status input_write(struct pen_session *session, const struct batch *batch, size_t index,
                                   struct pen_error *reterr)
{
    size_t room = 0, used = 0;
    uint8_t *to = pen_session_input(session, index, &room);
    bool pixels = (int)index == batch->served->pixels_input;
    for (size_t i = 0; i < batch->count; i++) {
        const struct pen_tensor *from = &batch->tasks[i]->inputs[index];
        size_t bytes = pixels ? from->bytes * sizeof(float) : from->bytes;
        if (bytes > room - used || (bytes > 0 && !to))
            return pen_error_set(reterr, PEN_ERR_INTERNAL, "input '%s' needs more than the %zu bytes that were bound",
                                 from->name, room);
        if (pixels)
            preprocess_run(&batch->served->preprocess, from->data, (size_t)from->dims[0], (float *)(void *)(to + used));
        else if (bytes > 0)
            memcpy(to + used, from->data, bytes);
        used += bytes;
    }
    return PEN_OK;
}

enum pen_status gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr)
{
    struct pen_tensor shapes[SERVED_TENSORS_MAX];
    network_shapes(batch, shapes);
    enum pen_status status = pen_session_bind(session, shapes, batch->served->inputs_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < batch->served->inputs_count; i++)
        status = input_write(session, batch, i, reterr);
    return status;
}

bool gather_can_split(const struct batch *batch, const struct pen_tensor *outputs, size_t count)
{
    if (batch->count <= 1)
        return true;
    for (size_t i = 0; i < count; i++)
        if (outputs[i].rank == 0 || outputs[i].dims[0] != (int64_t)batch->rows || outputs[i].bytes % batch->rows != 0 ||
            outputs[i].dtype == PEN_DTYPE_STRING)
            return false;
    return true;
}

size_t gather_split(const struct batch *batch, size_t index, uint32_t first_row, const struct pen_tensor *outputs,
                    size_t count, struct pen_tensor *ret_views)
{
    const struct task *task = batch->tasks[index];
    size_t views = 0;
    for (size_t i = 0; i < count && i < SERVED_TENSORS_MAX; i++) {
        if (!(task->outputs & UINT64_C(1) << i))
            continue;
        struct pen_tensor *view = &ret_views[views++];
        *view = outputs[i];
        if (batch->count > 1) {
            size_t row = outputs[i].bytes / batch->rows;
            view->dims[0] = task->rows;
            view->bytes = row * task->rows;
            view->data = view->bytes ? (const uint8_t *)outputs[i].data + row * first_row : NULL;
        }
        if (!view->name)
            view->name = batch->served->outputs[i].name;
    }
    return views;
}
