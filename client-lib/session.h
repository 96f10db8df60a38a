/*
 * session.h - the client's side of the protocol: hello, welcome, heartbeats, acknowledgements, and sending again after a loss.
 *
 * States and timeouts: proto/PROTOCOL.md, "A client's life". All calls need the client's lock and the socket (core.h).
 * Threads: owner.
 */
#ifndef SESSION_H
#define SESSION_H

#include "core.h"

void session_init(struct session *session);
/* Chooses the broker to begin with: each client another, so that they spread over the list. */
void session_spread(struct pen_client *client);

/* Everything whose time has come: connect, reconnect, PING, ACK, deadlines, giving up. */
void session_tick(struct pen_client *client, uint64_t now_us);
/* When session_tick has something to do next. */
uint64_t session_next_us(struct pen_client *client);

/* Sends what waits: jobs, cancellations, questions. Only when welcomed. */
void session_flush(struct pen_client *client, uint64_t now_us);

/* A message that is no RESULT. */
void session_message(struct pen_client *client, const struct incoming *in, uint64_t now_us);
/* A RESULT: takes the result, made with result_from(). */
void session_result(struct pen_client *client, const struct incoming *in, struct pen_result *result, uint64_t now_us);
/* A message that could not be read. */
void session_garbage(struct pen_client *client, const struct pen_error *error);

/* The connection is gone: all unanswered jobs go out again on a new socket. */
void session_lost(struct pen_client *client, uint64_t now_us);

/* Stops a job that was not sent, or tells the broker. */
void session_cancel(struct pen_client *client, struct pen_job *job);

/* What went wrong on the way to a welcome; "" = nothing known. */
const char *session_trouble(const struct pen_client *client);

/* Says goodbye and closes the socket. */
void session_end(struct pen_client *client);

#endif
