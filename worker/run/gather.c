/* gather.c - joins the rows of many jobs in one buffer, and splits them again. */
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
    ret_batch->bound = ret_batch->rows;
    return first != NULL;
}

void gather_shapes(const struct batch *batch, struct pen_tensor *ret_shapes)
{
    const struct served *served = batch->served;
    for (size_t i = 0; i < served->inputs_count; i++) {
        const struct pen_tensor *wire = &batch->tasks[0]->inputs[i];
        ret_shapes[i] = served->network_inputs[i];
        for (uint32_t d = 0; d < wire->rank; d++)
            ret_shapes[i].dims[d] = wire->dims[d];
        if ((int)i == served->pixels_input && !served->preprocess.nhwc) { /* [n, h, w, c] -> [n, c, h, w] */
            ret_shapes[i].dims[1] = served->preprocess.channels;
            ret_shapes[i].dims[2] = served->preprocess.height;
            ret_shapes[i].dims[3] = served->preprocess.width;
        }
        if (served->max_batch_size > 0)
            ret_shapes[i].dims[0] = batch->bound;
        ret_shapes[i].data = NULL;
        ret_shapes[i].bytes = 0;
    }
}

/* Filling rows repeat the last row, because the network must be able to handle that one anyway. */
static void rows_fill(const struct batch *batch, uint8_t *to, size_t used)
{
    size_t row = used / batch->rows;
    for (uint32_t i = batch->rows; i < batch->bound; i++, used += row)
        memcpy(to + used, to + used - row, row);
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
        size_t bytes = pixels ? from->bytes * batch->served->preprocess.element_bytes : from->bytes;
        if (bytes > room - used || (bytes > 0 && !to))
            return pen_error_set(reterr, PEN_ERR_INTERNAL, "input '%s' needs more than the %zu bytes that were bound",
                                 from->name, room);
        if (pixels)
            preprocess_run(&batch->served->preprocess, from->data, (size_t)from->dims[0], to + used);
        else if (bytes > 0)
            memcpy(to + used, from->data, bytes);
        used += bytes;
    }
    if (used / batch->rows * batch->bound > room)
        return pen_error_set(reterr, PEN_ERR_INTERNAL, "an input of %zu bytes has no room for its filling rows", room);
    if (used > 0)
        rows_fill(batch, to, used);
    return PEN_OK;
}

enum pen_status gather_inputs(struct pen_session *session, const struct batch *batch, struct pen_error *reterr)
{
    struct pen_tensor shapes[SERVED_TENSORS_MAX];
    gather_shapes(batch, shapes);
    enum pen_status status = pen_session_bind(session, shapes, batch->served->inputs_count, reterr);
    for (size_t i = 0; status == PEN_OK && i < batch->served->inputs_count; i++)
        status = input_write(session, batch, i, reterr);
    return status;
}

/* One job alone takes the outputs as they are. */
static bool whole(const struct batch *batch)
{
    return batch->count <= 1 && batch->bound == batch->rows;
}

bool gather_can_split(const struct batch *batch, const struct pen_tensor *outputs, size_t count)
{
    if (whole(batch))
        return true;
    for (size_t i = 0; i < count; i++)
        if (outputs[i].rank == 0 || outputs[i].dims[0] != (int64_t)batch->bound ||
            outputs[i].bytes % batch->bound != 0 || outputs[i].dtype == PEN_DTYPE_STRING)
            return false;
    return true;
}

struct pen_tensor gather_cut(const struct batch *batch, size_t index, uint32_t first_row,
                             const struct pen_tensor *output)
{
    struct pen_tensor view = *output;
    if (whole(batch))
        return view;
    size_t row = output->bytes / batch->bound;
    view.dims[0] = batch->tasks[index]->rows;
    view.bytes = row * batch->tasks[index]->rows;
    view.data = view.bytes ? (const uint8_t *)output->data + row * first_row : NULL;
    return view;
}

size_t gather_split(const struct batch *batch, size_t index, uint32_t first_row, const struct pen_tensor *outputs,
                    size_t count, struct pen_tensor *ret_views)
{
    size_t views = 0;
    for (size_t i = 0; i < count && i < SERVED_TENSORS_MAX; i++) {
        if (!(batch->tasks[index]->outputs & UINT64_C(1) << i))
            continue;
        struct pen_tensor *view = &ret_views[views++];
        *view = gather_cut(batch, index, first_row, &outputs[i]);
        if (!view->name)
            view->name = batch->served->outputs[i].name;
    }
    return views;
}
