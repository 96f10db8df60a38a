#include "preview_record.h"

#include <stdio.h>
#include <string.h>

#include "group_builder.h"
#include "preview.h"

#define ARENA_BYTES (1u << 20) /* one meta of 64 KiB */

/* The name of the model's input that takes files, in the form told last; NULL: it takes none. */
static const char *picture_input(const struct model *model)
{
    const struct signature *signature = model->forms.rows[model->forms.newest].signature;
    for (size_t i = 0; signature && i < signature->inputs_count; i++)
        if (signature->inputs[i].pictures)
            return signature->inputs[i].name;
    return NULL;
}

/* The first text of a STRING tensor, or all bytes of another one. False: there is none. */
static bool first_element(const struct pen_tensor *tensor, size_t *ret_at, size_t *ret_bytes)
{
    const uint8_t *b = tensor->data;
    *ret_at = 0;
    *ret_bytes = tensor->bytes;
    if (tensor->dtype != PEN_DTYPE_STRING)
        return tensor->bytes > 0;
    if (tensor->bytes < 4)
        return false;
    *ret_at = 4;
    *ret_bytes = b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    return *ret_bytes > 0 && *ret_bytes <= tensor->bytes - 4;
}

/* A frame that could not be made may not be closed, so it is made beside the part's own empty one. */
static bool copy_make(const uint8_t *bytes, size_t size, struct preview_part *ret_part)
{
    zmq_msg_t copy;
    if (zmq_msg_init_size(&copy, size) != 0)
        return false;
    memcpy(zmq_msg_data(&copy), bytes, size);
    zmq_msg_move(&ret_part->frame, &copy);
    zmq_msg_close(&copy);
    ret_part->at = 0;
    return true;
}

/* The first element of the tensor `name`, as bytes of the message's frame, which is shared. */
static bool part_of(const struct shared_message *shared, Penstock__TensorDesc *const *descs, size_t count,
                    const char *name, struct preview_part *ret_part)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    size_t i = 0, at = 0;
    if (count > FRAME_MAX_TENSORS || group_tensors(shared, descs, count, tensors, NULL) != PEN_OK)
        return false;
    while (i < count && strcmp(tensors[i].name, name) != 0)
        i++;
    if (i == count || descs[i]->frame >= shared->count || !first_element(&tensors[i], &at, &ret_part->bytes))
        return false;
    if (descs[i]->frame == 0) /* inline: the view is in the arena */
        return copy_make((const uint8_t *)tensors[i].data + at, ret_part->bytes, ret_part);
    shared_message_frame(shared, descs[i]->frame, &ret_part->frame);
    ret_part->at = at;
    return true;
}

static bool picture_part(const struct job *job, const char *name, struct meta_arena *arena,
                         struct preview_part *ret_part)
{
    struct envelope env;
    Penstock__JobMeta *meta = group_open(job->request, arena, &penstock__job_meta__descriptor, &env);
    return meta && part_of(job->request, meta->inputs, meta->n_inputs, name, ret_part);
}

static bool answer_part(const struct shared_message *reply, struct meta_arena *arena, struct preview_part *ret_part)
{
    struct envelope env;
    Penstock__ResultMeta *meta = group_open(reply, arena, &penstock__result_meta__descriptor, &env);
    for (size_t i = 0; meta && i < meta->n_outputs; i++)
        if (strcmp(meta->outputs[i]->name, "answer") == 0 && meta->outputs[i]->dtype == PEN_DTYPE_STRING)
            return part_of(reply, meta->outputs, meta->n_outputs, "answer", ret_part);
    return false;
}

static void keep(struct broker *broker, const struct job *job, const struct shared_message *reply, const char *input)
{
    struct meta_arena arena;
    struct preview preview = {.job = job->id, .version = job->lane->model->version, .ended_us = broker->now_us};
    snprintf(preview.model, sizeof preview.model, "%s", job->lane->model->name);
    zmq_msg_init(&preview.picture.frame);
    zmq_msg_init(&preview.answer.frame);
    meta_arena_init(&arena, ARENA_BYTES);
    if (answer_part(reply, &arena, &preview.answer) && picture_part(job, input, &arena, &preview.picture))
        preview.type = preview_type(preview_bytes(&preview.picture), preview.picture.bytes);
    meta_arena_fini(&arena);
    if (preview.type)
        previews_keep(broker->previews, &preview);
    else
        preview_fini(&preview);
}

void record_preview(struct broker *broker, const struct job *job, const struct shared_message *reply)
{
    const struct model *model = job->lane->model;
    const char *input = broker->previews ? picture_input(model) : NULL;
    if (input && !headroom_short(broker->headroom) &&
        previews_due(broker->previews, model->name, model->version, broker->now_us))
        keep(broker, job, reply, input);
}
