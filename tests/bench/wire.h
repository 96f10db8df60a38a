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

#include "frame.h"

#define WIRE_HEADER_MAX (FRAME_ENVELOPE_BYTES + FRAME_CONTROL_BYTES_MAX)

/* Prints the sentence and exits with 1. */
__attribute__((noreturn, format(printf, 1, 2))) void wire_die(const char *format, ...);

/* Envelope and meta (may be NULL) in one frame; sets env->meta_bytes. `more`: frames follow. */
void wire_send(void *socket, struct envelope *env, const ProtobufCMessage *meta, int more);
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
