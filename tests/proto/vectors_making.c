#include "vectors_making.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor_codec.h"

struct making making;
uint8_t making_payload[MAKING_PAYLOAD_BYTES];

void making_begin(const char *about)
{
    memset(&making.vector, 0, sizeof making.vector);
    snprintf(making.vector.about, sizeof making.vector.about, "%s", about);
    making.vector.canonical = true;
}

void making_end(const char *name)
{
    char path[4096];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s.vec", making.folder, name);
    FILE *out = open_memstream(&making.vector.expect, &bytes);
    frames_print(&making.vector, out);
    fclose(out);
    if (access(path, F_OK) == 0)
        printf("kept %s\n", path);
    else if (vector_write(path, &making.vector) != 0)
        making.failures++;
    else
        printf("wrote %s\n", path);
    vector_fini(&making.vector);
}

/* An envelope with every field filled that the type uses. */
struct envelope making_example(enum frame_type type)
{
    struct envelope env = envelope_make(type);
    if (type == FRAME_SUBMIT || type == FRAME_RESULT || type == FRAME_CANCEL || type == FRAME_ACK)
        env.job = (struct job_id){0x0123456789ABCDEFu, 7};
    if (type == FRAME_SUBMIT) {
        env.flags = FRAME_FLAG_NO_CACHE | FRAME_FLAG_RESENT;
        env.model_hash = frame_name_hash("digits");
        env.tenant_hash = (uint32_t)frame_name_hash("lab");
        env.sequence_id = 99;
        env.deadline_us = 1500000;
        env.priority = 3;
        env.precision = PRECISION_F32;
    }
    return env;
}

void making_header(struct envelope env, const ProtobufCMessage *meta)
{
    size_t meta_bytes = meta ? protobuf_c_message_get_packed_size(meta) : 0;
    uint8_t *bytes = malloc(FRAME_ENVELOPE_BYTES + meta_bytes);
    if (!bytes)
        abort();
    env.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&env, bytes);
    if (meta)
        protobuf_c_message_pack(meta, bytes + FRAME_ENVELOPE_BYTES);
    vector_add(&making.vector, bytes, FRAME_ENVELOPE_BYTES + meta_bytes);
    free(bytes);
}

/* One group: SUBMIT or RESULT with tensors. */
void making_group(struct envelope env, ProtobufCMessage *meta, const struct pen_tensor *tensors, size_t count)
{
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    size_t frames;
    tensors_encode(tensors, count, descs, pointers, order, &frames);
    if (env.type == FRAME_SUBMIT) {
        ((Penstock__JobMeta *)meta)->n_inputs = count;
        ((Penstock__JobMeta *)meta)->inputs = pointers;
    } else {
        ((Penstock__ResultMeta *)meta)->n_outputs = count;
        ((Penstock__ResultMeta *)meta)->outputs = pointers;
    }
    env.frames = (uint8_t)frames;
    making_header(env, meta);
    for (size_t i = 0; i < frames; i++)
        vector_add(&making.vector, tensors[order[i]].data, tensors[order[i]].bytes);
}

Penstock__JobMeta making_job(void)
{
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    meta.model = "digits";
    return meta;
}

const struct pen_tensor making_image = {"image", PEN_DTYPE_U8, 4, {1, 1, 4, 4}, making_payload, 16};
