/* slot_steps.c - what comes after the model: a job's outputs through the steps of its model's answer. */
#include "slot_internal.h"

#include "map.h"

static struct answer_work *work_of(struct slot *slot)
{
    for (unsigned attempt = 0; !slot->answers; attempt++)
        if (!(slot->answers = answer_work_new()))
            slot_memory_wait(attempt);
    return slot->answers;
}

/* From the input's pixels to the picture's. */
static struct answer_map map_of(const struct picture_map *map)
{
    return (struct answer_map){
        .width = map->width,
        .height = map->height,
        .m = {1 / map->scale_x, 0, -map->offset_x / map->scale_x, 0, 1 / map->scale_y, -map->offset_y / map->scale_y}};
}

/* The maps of the task's rows, in its dispatch's memory; NULL: it brought a plain tensor. */
static const struct answer_map *maps_of(struct slot *slot, const struct task *task, bool *ret_full)
{
    ProtobufCAllocator *memory = &slot->work->arena.allocator;
    *ret_full = false;
    if (task->places)
        return task->places;
    struct answer_map *maps = task->maps ? memory->alloc(memory->allocator_data, task->rows * sizeof *maps) : NULL;
    *ret_full = task->maps && !maps;
    for (uint32_t i = 0; maps && i < task->rows; i++)
        maps[i] = map_of(&task->maps[i]);
    return maps;
}

enum pen_status slot_answer_steps(struct slot *slot, const struct batch *batch, size_t index,
                                  const struct run_outputs *run, struct pen_tensor *ret_tensors, size_t *ret_count,
                                  struct pen_error *reterr)
{
    struct pen_tensor cut[SERVED_TENSORS_MAX];
    const struct served *served = batch->served;
    struct answer_job job = {.outputs = cut, .rows = batch->tasks[index]->rows};
    for (; job.count < run->count && job.count < SERVED_TENSORS_MAX; job.count++)
        cut[job.count] = gather_cut(batch, index, run->first_row, &run->list[job.count]);
    bool full = false;
    job.maps = maps_of(slot, batch->tasks[index], &full);
    if (full)
        return task_lacks(&slot->work->arena, "maps", reterr);
    (void)answer_outputs(served->answer, ret_count);
    return answer_run(served->answer, work_of(slot), &job, ret_tensors, reterr);
}
