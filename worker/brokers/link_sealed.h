/*
 * link_sealed.h - payloads in sealed memory, from and to a broker on this host (proto/PROTOCOL.md, "On one host").
 *
 * Jobs come as views of memory that a client wrote; results go as memory that a slot wrote (outbox.c). When a result
 * cannot go so, its bytes go as those of any other result.
 * Threads: owner - the network thread.
 */
#ifndef LINK_SEALED_H
#define LINK_SEALED_H

#include "link.h"

/* Connects to the Unix socket that the broker names, if it names one. */
void link_sealed_welcome(struct link *link, const Penstock__Welcome *welcome);
/* Gives the jobs of a dispatch whose payloads came so their frames, and notes in it whether results may go so. A job
   whose memory cannot be taken fails the dispatch: UNAVAILABLE, and what comes later comes as bytes. frame_limit: bytes;
   0 = any. */
enum pen_status link_sealed_take(struct link *link, struct dispatch *dispatch, uint64_t frame_limit,
                                 struct pen_error *reterr);
/* Sends the sealed payloads of a reply ahead; only their headers are left in it. */
void link_sealed_send(struct link *link, struct reply *reply);

#endif
