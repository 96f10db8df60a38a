/*
 * parcels.h - payloads in sealed memory, to and from a broker on this host (proto/PROTOCOL.md, "On one host").
 *
 * A job's inputs are copied into sealed memory when it is made (state/job_new.h), and a descriptor goes ahead of the message. When that cannot be, the same
 * bytes are sent like any others.
 * Threads: under the client's lock.
 */
#ifndef PARCELS_H
#define PARCELS_H

#include "core.h"
#include "worker.pb-c.h"

/* Connects to the Unix socket that the broker names, if it names one. */
void parcels_welcome(struct pen_client *client, const Penstock__Welcome *welcome);
void parcels_reset(struct pen_client *client); /* the connection has gone */
/* The broker forgot us after sealed payloads: when that happens again and again, they go as bytes. */
void parcels_upset(struct pen_client *client);

/* Inputs of more bytes may be put into sealed memory now; 0 = none. */
uint64_t parcels_from(struct pen_client *client);
/* Sends the job. False: its inputs do not lie in sealed memory, or it must go otherwise. */
bool parcels_submit(struct pen_client *client, struct pen_job *job, struct envelope env);
void parcels_answered(struct pen_client *client, const struct pen_job *job); /* its result is here */

/* A RESULT whose payload lies in sealed memory. True: *ret_in is the whole result, the caller's to finish. False: it cannot be taken; the connection is made
   anew, and the broker sends it again. */
bool parcels_result(struct pen_client *client, struct incoming *in, struct incoming *ret_in);

#endif
