#include "desk_bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "bulk.h"
#include "client_handler.h"

static void say(struct desk *desk, enum desk_end end, uint32_t peer, struct envelope env, const void *meta,
                size_t bytes)
{
    if (end == DESK_WORKER)
        desk_say_worker(desk, peer, env, meta, bytes);
    else
        desk_say_client(desk, peer, env, meta, bytes, 0);
}

struct sent *desk_client_bulk(struct desk *desk, uint32_t peer, uint64_t uuid, const char *tenant)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t bytes = wire_client_hello_bulk(meta, uuid, tenant);
    desk_say_client(desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
    struct sent *welcome = desk_next(&desk->clients, FRAME_WELCOME);
    if (!welcome || welcome->env.status != PEN_OK)
        abort();
    return welcome;
}

void desk_attach(struct desk *desk, enum desk_end end, uint32_t peer, uint64_t uuid)
{
    struct envelope env = envelope_make(FRAME_ATTACH);
    env.job.client = uuid;
    say(desk, end, peer, env, NULL, 0);
}

void desk_announce(struct desk *desk, uint32_t peer, const struct wire_job *job, uint32_t number)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, job, &raw_bytes);
    struct envelope env = wire_job_envelope(job);
    env.transfer = number;
    env.frames = 1;
    desk_say_client(desk, peer, env, meta, bytes, 0);
}

void desk_announce_frames(struct desk *desk, uint32_t peer, struct job_id id, uint8_t frames, size_t bytes,
                          uint32_t number)
{
    uint8_t meta[4096];
    char names[DESK_FRAMES_MAX][12];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc descs[DESK_FRAMES_MAX], *pointers[DESK_FRAMES_MAX];
    int64_t dims[] = {1, (int64_t)bytes};
    struct envelope env = envelope_make(FRAME_RESULT);
    if (frames > DESK_FRAMES_MAX)
        abort();
    for (uint32_t i = 0; i < frames; i++) {
        penstock__tensor_desc__init(&descs[i]);
        snprintf(names[i], sizeof names[i], "y%.0u", i); /* nothing for 0 */
        descs[i].name = names[i];
        descs[i].dtype = PEN_DTYPE_U8;
        descs[i].n_dims = 2;
        descs[i].dims = dims;
        descs[i].frame = i + 1;
        descs[i].bytes = bytes;
        pointers[i] = &descs[i];
    }
    result.outputs = pointers;
    result.n_outputs = frames;
    result.backend = (char *)(uintptr_t) "xnnpack";
    env.job = id;
    env.frames = frames;
    env.transfer = number;
    desk_say_worker(desk, peer, env, meta, penstock__result_meta__pack(&result, meta));
}

void desk_announce_result(struct desk *desk, uint32_t peer, struct job_id id, size_t bytes, uint32_t number)
{
    desk_announce_frames(desk, peer, id, 1, bytes, number);
}

void desk_chunk(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number, uint64_t offset,
                size_t bytes)
{
    struct message message = {.peer = peer};
    struct envelope env = bulk_envelope(FRAME_CHUNK, id, number, offset);
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, zmq_msg_data(&frame));
    message_add(&message, &frame);
    zmq_msg_init_size(&frame, bytes);
    memset(zmq_msg_data(&frame), (int)(offset / BULK_CHUNK_BYTES) + 1, bytes);
    message_add(&message, &frame);
    if (end == DESK_WORKER)
        worker_message(&desk->broker, &message);
    else
        client_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

void desk_chunks(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number, uint64_t from,
                 uint64_t to)
{
    for (; from < to; from += BULK_CHUNK_BYTES)
        desk_chunk(desk, end, peer, id, number, from, to - from < BULK_CHUNK_BYTES ? to - from : BULK_CHUNK_BYTES);
}

void desk_credit(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number, uint64_t until)
{
    say(desk, end, peer, bulk_envelope(FRAME_CREDIT, id, number, until), NULL, 0);
}

size_t desk_count_to(struct side *side, enum frame_type type, uint32_t peer)
{
    size_t count = 0;
    for (; side->first < side->count; side->first++)
        count += side->sent[side->first]->env.type == type && side->sent[side->first]->peer == peer;
    return count;
}
