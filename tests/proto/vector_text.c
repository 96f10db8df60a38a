/* vector_text.c - messages to text by protobuf-c's descriptors, so that no field can be forgotten. */
#include "vector_text.h"

#include "control.pb-c.h"
#include "frame.h"
#include "job.pb-c.h"
#include "job_meta.h"
#include "pack.h"
#include "tensor_codec.h"
#include "worker.pb-c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DATA_BYTES_SHOWN 64u
#define ARENA_BYTES      (16u * 1024u * 1024u)

const ProtobufCMessageDescriptor *meta_of_type(uint8_t type)
{
    static const ProtobufCMessageDescriptor *const metas[FRAME_TYPE_COUNT] = {
        [FRAME_CLIENT_HELLO] = &penstock__client_hello__descriptor,
        [FRAME_SUBMIT] = &penstock__job_meta__descriptor,
        [FRAME_CONTROL] = &penstock__control_request__descriptor,
        [FRAME_RESULT] = &penstock__result_meta__descriptor,
        [FRAME_CONTROL_REPLY] = &penstock__control_reply__descriptor,
        [FRAME_WELCOME] = &penstock__welcome__descriptor,
        [FRAME_WORKER_HELLO] = &penstock__worker_hello__descriptor,
        [FRAME_WORKER_UPDATE] = &penstock__worker_update__descriptor,
        [FRAME_HEARTBEAT] = &penstock__heartbeat__descriptor,
        [FRAME_NOTICE] = &penstock__job_notice__descriptor,
        [FRAME_NEIGHBOUR] = &penstock__neighbour_state__descriptor,
    };
    return type < FRAME_TYPE_COUNT ? metas[type] : NULL;
}

/* Short data as hex, long data as its size and hash. */
static void data_print(FILE *out, const uint8_t *data, size_t bytes)
{
    if (bytes > DATA_BYTES_SHOWN) {
        char text[DIGEST_TEXT_BYTES];
        struct digest_stream *stream = digest_new(DIGEST_SHA256);
        digest_update(stream, data, bytes);
        fprintf(out, "%zu bytes sha256 %s", bytes, digest_text(digest_final(stream), text));
        digest_free(stream);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        fprintf(out, "%02x", data[i]);
}

static void message_print(FILE *out, const ProtobufCMessage *message, const char *prefix);

/* One value at `at`. */
static void value_print(FILE *out, const ProtobufCFieldDescriptor *field, const void *at, const char *name)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        message_print(out, *(ProtobufCMessage *const *)at, name);
        return;
    }
    fprintf(out, "%s = ", name);
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        fprintf(out, "\"%s\"", *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        data_print(out, ((const ProtobufCBinaryData *)at)->data, ((const ProtobufCBinaryData *)at)->len);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        fprintf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        fprintf(out, "0x%016" PRIx64, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        fprintf(out, "%" PRId64, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        fputs(*(const protobuf_c_boolean *)at ? "true" : "false", out);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        fprintf(out, "%.9g", (double)*(const float *)at);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        fprintf(out, "%.17g", *(const double *)at);
        break;
    default:
        fprintf(out, "? (field type %d has no text: add it here)", (int)field->type);
    }
    fputc('\n', out);
}

static size_t value_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FLOAT:
        return sizeof(uint32_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8; /* 64-bit numbers and pointers */
    }
}

/* proto3: a field with its default value does not exist. */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const char zeros[8];
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return **(char *const *)at == '\0';
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len == 0;
    return memcmp(at, zeros, value_size(field)) == 0;
}

static void field_print(FILE *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                        const char *prefix)
{
    const char *at = (const char *)message + field->offset,
               *quantifier = (const char *)message + field->quantifier_offset;
    char name[256];
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        const char *items = *(const char *const *)at;
        for (size_t i = 0; i < *(const size_t *)quantifier; i++) {
            snprintf(name, sizeof name, "%s.%s[%zu]", prefix, field->name, i);
            value_print(out, field, items + i * value_size(field), name);
        }
        return;
    }
    snprintf(name, sizeof name, "%s.%s", prefix, field->name);
    bool chosen = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (chosen ? *(const uint32_t *)quantifier == field->id : !is_default(field, at))
        value_print(out, field, at, name);
}

static void message_print(FILE *out, const ProtobufCMessage *message, const char *prefix)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        field_print(out, message, &message->descriptor->fields[i], prefix);
}

/* Fields of the envelope only matter to a reader where they are not 0. */
static void envelope_print(FILE *out, const struct envelope *env)
{
    char job[JOB_ID_TEXT_BYTES], digest[DIGEST_TEXT_BYTES];
    fprintf(out, "version = %u.%u\ntype = %u %s\nflags = 0x%04x\n", env->major, env->minor, env->type,
            frame_type_name(env->type), env->flags);
    fprintf(out, "job = %s\ndigest = %s\n", job_id_text(env->job, job), digest_text(env->digest, digest));
    fprintf(out, "model_hash = 0x%016" PRIx64 "\nsequence_id = %" PRIu64 "\ndeadline_us = %" PRIu64 "\n",
            env->model_hash, env->sequence_id, env->deadline_us);
    fprintf(out, "tenant_hash = 0x%08" PRIx32 "\npriority = %u\nprecision = %u %s\n", env->tenant_hash, env->priority,
            env->precision, precision_name((enum precision)env->precision));
    fprintf(out, "status = %u %s\nframes = %u\nmeta_bytes = %" PRIu32 "\n", env->status,
            pen_status_name((enum pen_status)env->status), env->frames, env->meta_bytes);
    if (env->transfer)
        fprintf(out, "transfer = %" PRIu32 "\n", env->transfer);
}

struct group {
    struct envelope env;
    ProtobufCMessage *meta; /* NULL: the type has none */
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    size_t tensors_count;
};

static Penstock__TensorDesc ***descs_of(struct group *group, size_t *ret_count)
{
    if (group->env.type == FRAME_SUBMIT) {
        Penstock__JobMeta *job = (Penstock__JobMeta *)group->meta;
        *ret_count = job->n_inputs;
        return &job->inputs;
    }
    if (group->env.type == FRAME_RESULT) {
        Penstock__ResultMeta *result = (Penstock__ResultMeta *)group->meta;
        *ret_count = result->n_outputs;
        return &result->outputs;
    }
    return NULL;
}

/* Decodes the group that starts at frame `at`; `stage` says what the status is about. */
static enum pen_status group_decode(const struct vector *vector, size_t at, struct meta_arena *arena,
                                    struct group *group, const char **stage)
{
    const uint8_t *meta;
    struct raw_frame raw[VECTOR_FRAMES_MAX];
    *stage = "decode";
    enum pen_status status =
        envelope_decode(vector->frames[at].data, vector->frames[at].bytes, &group->env, &meta, NULL);
    const ProtobufCMessageDescriptor *descriptor = status == PEN_OK ? meta_of_type(group->env.type) : NULL;
    if (!descriptor)
        return status;
    *stage = "meta";
    group->meta = meta_unpack(arena, descriptor, meta, group->env.meta_bytes);
    if (!group->meta)
        return meta_refusal(arena, "", NULL);
    if (group->env.transfer)
        return PEN_OK; /* the tensors come as chunks */
    Penstock__TensorDesc ***descs = descs_of(group, &group->tensors_count);
    if (!descs)
        return PEN_OK;
    *stage = "tensors";
    size_t count = 0;
    for (; count < group->env.frames && at + 1 + count < vector->frames_count; count++)
        raw[count] = (struct raw_frame){vector->frames[at + 1 + count].data, vector->frames[at + 1 + count].bytes};
    return tensors_decode(*descs, group->tensors_count, raw, count,
                          group->env.type == FRAME_SUBMIT ? "input" : "output", group->tensors, NULL);
}

static void tensors_print(FILE *out, const struct group *group)
{
    for (size_t i = 0; i < group->tensors_count; i++) {
        const struct pen_tensor *tensor = &group->tensors[i];
        char shape[160];
        fprintf(out, "tensor \"%s\" = %s %s ", tensor->name, pen_dtype_name(tensor->dtype),
                pen_shape_text(tensor->dims, tensor->rank, shape, sizeof shape));
        data_print(out, tensor->data, tensor->bytes);
        fputc('\n', out);
    }
}

static void digests_print(FILE *out, const struct group *group, struct meta_arena *arena)
{
    static const char *const names[] = {[DIGEST_XXH3] = "xxh3", [DIGEST_SHA256] = "sha256"};
    for (int kind = DIGEST_XXH3; kind <= DIGEST_SHA256; kind++) {
        struct digest digest;
        char text[DIGEST_TEXT_BYTES];
        if (job_meta_digest((enum digest_kind)kind, (const Penstock__JobMeta *)group->meta, group->tensors, arena,
                            &digest) == PEN_OK)
            fprintf(out, "request_digest.%s = %s\n", names[kind], digest_text(digest, text));
    }
}

void frames_print(const struct vector *vector, FILE *out)
{
    struct meta_arena arena;
    meta_arena_init(&arena, ARENA_BYTES);
    for (size_t at = 0, index = 0; at < vector->frames_count; index++) {
        struct group group = {.meta = NULL};
        const char *stage;
        enum pen_status status = group_decode(vector, at, &arena, &group, &stage);
        fprintf(out, "group %zu\n", index);
        if (status == PEN_ERR_TOO_LARGE || strcmp(stage, "decode") != 0 || status == PEN_OK)
            envelope_print(out, &group.env);
        if (group.meta)
            message_print(out, group.meta, "meta");
        if (status == PEN_OK) {
            tensors_print(out, &group);
            if (group.env.type == FRAME_SUBMIT && !group.env.transfer)
                digests_print(out, &group, &arena);
        }
        fprintf(out, "%s = %s\n", stage, pen_status_name(status));
        if (status != PEN_OK)
            break;
        at += 1u + (group.env.transfer && group.env.type != FRAME_CHUNK ? 0 : group.env.frames);
    }
    meta_arena_fini(&arena);
}

/* The frames of a PACK, read and written again. */
static int pack_reencode(const struct vector_frame *frame)
{
    struct pack_writer writer = {0};
    struct pack_reader reader;
    struct pack_item item;
    struct envelope env;
    const uint8_t *meta;
    pack_limit(&writer, pack_bytes_taken(0));
    bool whole = envelope_decode(frame->data, frame->bytes, &env, &meta, NULL) == PEN_OK &&
                 pack_reader_open(&reader, meta, env.meta_bytes, NULL) == PEN_OK;
    while (whole && pack_next(&reader, &item)) {
        uint8_t *to = pack_frame(&writer, item.bytes, item.more);
        whole = to != NULL;
        if (whole)
            memcpy(to, item.data, item.bytes);
    }
    bool equal = whole && pack_seal(&writer) == frame->bytes;
    if (equal)
        writer.bytes[3] = frame->data[3]; /* the minor version: a writer says its own */
    equal = equal && memcmp(writer.bytes, frame->data, frame->bytes) == 0;
    pack_fini(&writer);
    return equal ? 0 : -1;
}

static int group_reencode(const struct vector *vector, size_t at, struct group *group)
{
    if (group->env.type == FRAME_PACK)
        return pack_reencode(&vector->frames[at]);
    Penstock__TensorDesc descs[FRAME_MAX_TENSORS], *pointers[FRAME_MAX_TENSORS];
    uint32_t order[FRAME_MAX_TENSORS];
    size_t frames = 0, ignored;
    Penstock__TensorDesc ***place = descs_of(group, &ignored);
    if (place) {
        tensors_encode(group->tensors, group->tensors_count, descs, pointers, order, &frames);
        *place = pointers;
    }
    size_t meta_bytes = group->meta ? protobuf_c_message_get_packed_size(group->meta) : 0,
           bytes = FRAME_ENVELOPE_BYTES + meta_bytes;
    uint8_t *header = malloc(bytes);
    if (!header)
        return -1;
    if (place)
        group->env.frames = (uint8_t)frames;
    group->env.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&group->env, header);
    if (group->meta)
        protobuf_c_message_pack(group->meta, header + FRAME_ENVELOPE_BYTES);
    bool equal = bytes == vector->frames[at].bytes && memcmp(header, vector->frames[at].data, bytes) == 0;
    for (size_t i = 0; i < frames && equal; i++)
        equal = group->tensors[order[i]].data == vector->frames[at + 1 + i].data;
    free(header);
    return equal ? 0 : -1;
}

int frames_reencode(const struct vector *vector)
{
    struct meta_arena arena;
    int failed = 0;
    meta_arena_init(&arena, ARENA_BYTES);
    for (size_t at = 0; at < vector->frames_count && !failed;) {
        struct group group = {.meta = NULL};
        const char *stage;
        failed = group_decode(vector, at, &arena, &group, &stage) != PEN_OK || group_reencode(vector, at, &group) != 0;
        at += 1u + group.env.frames;
    }
    meta_arena_fini(&arena);
    return failed ? -1 : 0;
}
