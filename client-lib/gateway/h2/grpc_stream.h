/*
 * grpc_stream.h - one call: its life and time, the headers and messages that come, and the answers that go.
 * Threads: owner - the server's.
 */
#ifndef GRPC_STREAM_H
#define GRPC_STREAM_H

#include "grpc_state.h"

/* ---- grpc_turn.c: the row of turns ---- */

struct grpc_turn *turn_add(struct grpc_stream *stream); /* the last of the row; NULL without memory */
bool turn_is_free(const struct grpc_stream *stream);    /* may another message be given? */
void turn_done(struct grpc_turn *turn);                 /* its handler has it no more */
void turn_end(struct grpc_turn *turn, enum grpc_code code, const char *text); /* so, too, and the call ends behind it */
/* The first turn that has something to say, or waits for its handler; those that are done are taken from the row. NULL: none; stream->over may say more. */
struct grpc_turn *turn_first(struct grpc_stream *stream);
void turns_drop(struct grpc_stream *stream); /* handlers are told, answers released */
/* The call ends with that; turns are dropped. */
void stream_finish(struct grpc_stream *stream, enum grpc_code code, const char *text);
void stream_ready(struct grpc_stream *stream); /* stream_deliver is called soon */

/* ---- grpc_out.c: one message ---- */

struct grpc_out *out_new(struct grpc_answer *answer); /* NULL without memory, or beyond what a length can say */
void out_free(struct grpc_out *out);                  /* releases it */
/* Up to `bytes` of what is left as to[0..room); *ret_count of them. How many bytes they are. */
size_t out_gather(const struct grpc_out *out, size_t bytes, struct iovec *to, size_t room, size_t *ret_count);
void out_advance(struct grpc_out *out, size_t bytes);

/* ---- grpc_reply.c ---- */

void stream_refuse(struct grpc_stream *stream, const char *status, const char *text); /* in HTTP: it is no gRPC */
void stream_reset(struct grpc_stream *stream);                                        /* without trailers */
/* Behind all that is to be said, the call ends with that; no message is taken any more. */
void stream_fault(struct grpc_stream *stream, enum grpc_code code, const char *text);
/* At once. Where a message is on its way the stream is reset, for it cannot be taken back. */
void stream_stop(struct grpc_stream *stream, enum grpc_code code, const char *text);
/* There may be something to say: an answer, or the end. */
void stream_pump(struct grpc_stream *stream);
/* So many bytes of the first answer are sent, or kept to be sent. */
void stream_advance(struct grpc_stream *stream, size_t bytes);

/* ---- grpc_head.c ---- */

void stream_header(struct grpc_stream *stream, const char *name, size_t name_bytes, const char *value, size_t bytes);
void stream_opened(struct grpc_stream *stream);

/* ---- grpc_receive.c ---- */

void stream_data(struct grpc_stream *stream, const uint8_t *data, size_t bytes);
void stream_peer_ended(struct grpc_stream *stream);
void stream_deliver(struct grpc_stream *stream); /* what is there for its handler */
void stream_forget_input(struct grpc_stream *stream);

/* ---- grpc_stream.c ---- */

struct grpc_stream *stream_new(struct grpc_connection *connection, int32_t id); /* NULL without memory */
void stream_close(struct grpc_stream *stream);                                  /* its handler is told; frees it */
void stream_look(struct grpc_stream *stream, uint64_t now_us);

#endif
