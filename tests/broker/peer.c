#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void peer_open(struct peer *peer, const char *endpoint)
{
    int none = 0;
    peer->context = zmq_ctx_new();
    peer->socket = zmq_socket(peer->context, ZMQ_DEALER);
    zmq_setsockopt(peer->socket, ZMQ_LINGER, &none, sizeof none);
    if (zmq_connect(peer->socket, endpoint) != 0)
        support_fail("cannot connect to %s: %s", endpoint, zmq_strerror(errno));
}

void peer_close(struct peer *peer)
{
    zmq_close(peer->socket);
    zmq_ctx_term(peer->context);
    peer->socket = peer->context = NULL;
}

void peer_vanish(struct peer *peer)
{
    peer_close(peer); /* linger 0: the kernel closes the connection, nothing is said */
}

void peer_send_raw(struct peer *peer, const void *bytes, size_t size, bool more)
{
    if (zmq_send(peer->socket, bytes, size, more ? ZMQ_SNDMORE : 0) < 0)
        support_fail("zmq_send: %s", zmq_strerror(errno));
}

void peer_send(struct peer *peer, struct envelope env, const void *meta, size_t bytes)
{
    static uint8_t frame[FRAME_ENVELOPE_BYTES + FRAME_CONTROL_BYTES_MAX];
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, frame);
    if (bytes)
        memcpy(frame + FRAME_ENVELOPE_BYTES, meta, bytes);
    peer_send_raw(peer, frame, FRAME_ENVELOPE_BYTES + bytes, env.frames > 0);
}

void heard_fini(struct heard *heard)
{
    for (size_t i = 0; i < heard->count; i++)
        zmq_msg_close(&heard->frames[i]);
    heard->count = 0;
}

bool peer_hear(struct peer *peer, struct heard *heard, int timeout_ms)
{
    int more = 1;
    zmq_pollitem_t item = {.socket = peer->socket, .events = ZMQ_POLLIN};
    heard_fini(heard);
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return false;
    while (more) {
        zmq_msg_t *frame = &heard->frames[heard->count];
        if (heard->count == sizeof heard->frames / sizeof heard->frames[0])
            support_fail("the broker sent more frames than a test expects");
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, peer->socket, 0) < 0)
            support_fail("zmq_msg_recv: %s", zmq_strerror(errno));
        heard->count++;
        more = zmq_msg_more(frame);
    }
    struct pen_error error = {.status = PEN_OK};
    if (envelope_decode(zmq_msg_data(&heard->frames[0]), zmq_msg_size(&heard->frames[0]), &heard->env, &heard->meta,
                        &error) != PEN_OK)
        support_fail("the broker sent a bad envelope: %s", error.text);
    return true;
}

bool peer_expect(struct peer *peer, struct heard *heard, enum frame_type type, int timeout_ms)
{
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000;
    for (;;) {
        uint64_t now_us = support_now_us();
        if (now_us >= end_us || !peer_hear(peer, heard, (int)((end_us - now_us) / 1000 + 1)))
            return false;
        if (heard->env.type == type)
            return true;
        if (heard->env.type == FRAME_PING)
            peer_send(peer, envelope_make(FRAME_PONG), NULL, 0);
        else if (heard->env.type == FRAME_HEARTBEAT)
            peer_send(peer, envelope_make(FRAME_HEARTBEAT), NULL, 0);
    }
}

static void expect_welcome(struct peer *peer)
{
    struct heard heard = {.count = 0};
    if (!peer_expect(peer, &heard, FRAME_WELCOME, 5000) || heard.env.status != PEN_OK)
        support_fail("no WELCOME");
    heard_fini(&heard);
}

void peer_client(struct peer *peer, const char *endpoint, uint64_t uuid)
{
    uint8_t meta[WIRE_META_BYTES];
    peer_open(peer, endpoint);
    peer_send(peer, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, uuid, "", 0));
    expect_welcome(peer);
}

void peer_worker(struct peer *peer, const char *endpoint, const struct wire_worker *worker)
{
    uint8_t meta[WIRE_META_BYTES];
    peer_open(peer, endpoint);
    peer_send(peer, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, worker));
    expect_welcome(peer);
}

void peer_submit(struct peer *peer, const struct wire_job *job)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, job, &raw_bytes);
    peer_send(peer, wire_job_envelope(job), meta, bytes);
    if (!job->raw)
        return;
    void *raw = calloc(1, raw_bytes ? raw_bytes : 1);
    peer_send_raw(peer, raw, raw_bytes, false);
    free(raw);
}

size_t peer_answer(struct peer *peer, const struct heard *submit, uint64_t compute_us)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t answered = 0;
    for (size_t at = 0; at < submit->count;) {
        struct envelope env, result = envelope_make(FRAME_RESULT);
        const uint8_t *unused;
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&submit->frames[at];
        if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &unused, NULL) != PEN_OK)
            support_fail("a group that cannot be read");
        result.job = env.job;
        result.digest = env.digest;
        peer_send(peer, result, meta, wire_result(meta, 7, "xnnpack", PRECISION_F32, compute_us, NULL));
        at += 1u + env.frames;
        answered++;
    }
    return answered;
}
