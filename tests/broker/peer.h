/*
 * peer.h - a client or worker on a real socket, as raw as a test needs it.
 *
 * Threads: owner. What goes wrong inside ends the test with a message.
 */
#ifndef TEST_PEER_H
#define TEST_PEER_H

#include <zmq.h>

#include "pool.h"
#include "wire.h"

struct peer {
    void *context, *socket;
};

/* One received message; frames are closed by the next receive. */
struct heard {
    struct envelope env;
    const uint8_t *meta;
    size_t count;
    zmq_msg_t frames[128];
};

void peer_open(struct peer *peer, const char *endpoint);
void peer_close(struct peer *peer);
/* Ends the connection as a killed process does. */
void peer_vanish(struct peer *peer);

void peer_send(struct peer *peer, struct envelope env, const void *meta, size_t bytes);
void peer_send_raw(struct peer *peer, const void *bytes, size_t size, bool more);
/* False when nothing comes in time. */
bool peer_hear(struct peer *peer, struct heard *heard, int timeout_ms);
/* The next message of that type; PINGs and heartbeats are answered on the way. False when none comes in time. */
bool peer_expect(struct peer *peer, struct heard *heard, enum frame_type type, int timeout_ms);
void heard_fini(struct heard *heard);

/* Hello and its WELCOME. */
void peer_client(struct peer *peer, const char *endpoint, uint64_t uuid);
void peer_worker(struct peer *peer, const char *endpoint, const struct wire_worker *worker);
void peer_submit(struct peer *peer, const struct wire_job *job);
/* Answers all groups of a SUBMIT with OK. Returns how many. */
size_t peer_answer(struct peer *peer, const struct heard *submit, uint64_t compute_us);

#endif
