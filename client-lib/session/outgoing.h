/*
 * outgoing.h - what a session sends: plain messages, jobs that wait, cancellations.
 *
 * All calls need the client's lock and the socket (core.h). Threads: owner.
 */
#ifndef OUTGOING_H
#define OUTGOING_H

#include "core.h"

/* Of that type, in this client's name. */
struct envelope outgoing_envelope(const struct pen_client *client, enum frame_type type);
/* A message without a meta. False: there was no memory for it, or no socket; it is to be said again. */
bool outgoing_plain(struct pen_client *client, struct envelope env, uint64_t now_us);

/* Sends the jobs that were not sent yet, oldest first, until the socket takes no more; those that the broker would not take end with an error. */
void outgoing_jobs(struct pen_client *client, uint64_t now_us);
/* Asks the broker to stop the jobs that are marked. */
void outgoing_cancels(struct pen_client *client, uint64_t now_us);

#endif
