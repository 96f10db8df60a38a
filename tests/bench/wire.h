/*
 * wire.h - our frames with as little as possible around them, for the bench client and the echo worker.
 *
 * Threads: owner.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include <stdbool.h>
#include <zmq.h>

#include "frame.h"
#include "pack.h"

#define WIRE_HEADER_MAX (FRAME_ENVELOPE_BYTES + FRAME_CONTROL_BYTES_MAX)

/* Prints the sentence and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void wire_die(const char *format, ...);

/* Envelope and meta (may be NULL) in one frame; sets env->meta_bytes. `more`: frames follow. */
void wire_send(void *socket, struct envelope *env, const ProtobufCMessage *meta, int more);
/* The same without further frames, into the pack; pack_limit 0: at once. What waits is sent by wire_flush(). */
void wire_send_packed(void *socket, struct pack_writer *going, struct envelope *env, const ProtobufCMessage *meta);
void wire_flush(void *socket, struct pack_writer *going);
/* What a hello says of packs: nothing with BENCH_PLAIN in the environment. */
uint32_t wire_pack_bytes(void);
/* The largest PACK that a WELCOME allows; 0 with BENCH_PLAIN. */
uint32_t wire_pack_allowed(const struct envelope *env, const uint8_t *meta);

/* A PACK that is being read. */
struct wire_pack {
    bool open;
    zmq_msg_t frame;
    struct pack_reader reader;
};
/* Takes the message if it is a PACK. */
bool wire_pack_take(struct wire_pack *pack, zmq_msg_t *message);
/* The next frame of it; false: that was all, and it is closed. */
bool wire_pack_next(struct wire_pack *pack, struct pack_item *ret_item);

/* A frame of its own copy. */
void wire_send_bytes(void *socket, const void *bytes, size_t size, int more);
/* True when the message just received has further frames. */
int wire_more(void *socket);
/* Receives and drops what is left of a message. */
void wire_drop_rest(void *socket);
/* A DEALER connected to `endpoint`, without limits of its own. */
void *wire_dealer(void *context, const char *endpoint);

/* CURVE when the environment has BENCH_KEY (a key file) and BENCH_BROKER_KEY; `server`: the key file is the socket's own. */
void wire_curve(void *socket, int server);

#endif
