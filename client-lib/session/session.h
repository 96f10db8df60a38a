/*
 * session.h - the client's side of the protocol: what a broker's messages change, what waits to be sent, what is cancelled.
 *
 * States and timeouts: proto/PROTOCOL.md, "A client's life"; timers.h has the latter. All calls need the client's lock and the socket (core.h).
 * Threads: owner.
 */
#ifndef SESSION_H
#define SESSION_H

#include "core.h"

/* Sends what waits: jobs, cancellations, questions. Only when welcomed. */
void session_flush(struct pen_client *client, uint64_t now_us);

/* A message that is no RESULT and no CHUNK. */
void session_message(struct pen_client *client, const struct incoming *in, uint64_t now_us);
/* A RESULT: takes the result, made with result_from(). */
void session_result(struct pen_client *client, const struct incoming *in, struct pen_result *result, uint64_t now_us);
/* Of a large result: its announcement, or a CHUNK. True: that was its last byte; *ret_whole is the RESULT, the caller's to finish. */
bool session_part(struct pen_client *client, struct incoming *in, uint64_t now_us, struct incoming *ret_whole);
/* A message that could not be read. */
void session_garbage(struct pen_client *client, const struct pen_error *error);

/* Stops a job that was not sent, or tells the broker. */
void session_cancel(struct pen_client *client, struct pen_job *job);

#endif
