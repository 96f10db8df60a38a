/*
 * Any bytes as the meta of any message, with raw frames behind the metas of jobs. First byte: message type; second: number of raw frames;
 * then two bytes for the size of each frame, whose bytes are the end of the input.
 */
#include "frame.h"
#include "job.pb-c.h"
#include "job_meta.h"
#include "tensor_codec.h"
#include "vector_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte of a view must be readable: the sanitizer sees to it. */
static void touch(const struct pen_tensor *tensors, size_t count)
{
    static volatile uint8_t sink;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = tensors[i].data;
        if (strlen(tensors[i].name) > 255)
            abort();
        for (size_t at = 0; at < tensors[i].bytes; at++)
            sink = (uint8_t)(sink ^ bytes[at]);
    }
}

static size_t frames_take(const uint8_t **data, size_t *size, struct raw_frame frames[FRAME_MAX_TENSORS])
{
    size_t count = *size ? **data % 5 : 0;
    if (*size < 1 + 2 * count)
        return 0;
    const uint8_t *sizes = *data + 1;
    *data += 1 + 2 * count;
    *size -= 1 + 2 * count;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)sizes[2 * i] | (size_t)(sizes[2 * i + 1] & 15) << 8;
        bytes = bytes > *size ? *size : bytes;
        *size -= bytes;
        frames[i] = (struct raw_frame){*data + *size, bytes};
    }
    return count;
}

static void job_check(uint8_t type, void *message, const struct raw_frame *frames, size_t frames_count,
                      struct meta_arena *arena)
{
    static struct pen_tensor tensors[FRAME_MAX_TENSORS];
    Penstock__JobMeta *job = message;
    Penstock__ResultMeta *result = message;
    bool is_job = type == FRAME_SUBMIT;
    size_t count = is_job ? job->n_inputs : result->n_outputs;
    struct pen_error error = {.status = PEN_OK};
    struct digest digest;
    if (tensors_decode(is_job ? job->inputs : result->outputs, count, frames, frames_count, "tensor", tensors,
                       &error) != PEN_OK)
        return;
    touch(tensors, count);
    if (is_job)
        job_meta_digest(DIGEST_XXH3, job, tensors, arena, &digest);
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    size_t raw = 0;
    tensors_encode(tensors, count, descs, pointers, order, &raw);
    struct raw_frame again[FRAME_MAX_TENSORS];
    for (size_t i = 0; i < raw; i++)
        again[i] = (struct raw_frame){tensors[order[i]].data, tensors[order[i]].bytes};
    static struct pen_tensor back[FRAME_MAX_TENSORS];
    if (tensors_decode(pointers, count, again, raw, "tensor", back, &error) != PEN_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct meta_arena arena;
    struct raw_frame frames[FRAME_MAX_TENSORS];
    if (size < 1)
        return 0;
    uint8_t type = data[0] % FRAME_TYPE_COUNT;
    const ProtobufCMessageDescriptor *descriptor = meta_of_type(type);
    if (!descriptor)
        return 0;
    if (!arena.limit)
        meta_arena_init(&arena, 1024 * 1024);
    data++;
    size--;
    size_t frames_count = frames_take(&data, &size, frames);
    void *message = meta_unpack(&arena, descriptor, data, size);
    if (arena.total > arena.limit)
        abort();
    if (message && (type == FRAME_SUBMIT || type == FRAME_RESULT))
        job_check(type, message, frames, frames_count, &arena);
    meta_arena_reset(&arena);
    return 0;
}
