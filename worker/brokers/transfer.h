/*
 * transfer.h - large payloads as credited chunks on a second connection to the broker (proto/PROTOCOL.md, "Large payloads").
 *
 * A dispatch whose payload is announced is held, but handed to a slot only when all of it is here. A result above the broker's limit is announced
 * and kept until the last of its chunks is sent; when the connection is lost before that, it waits like any result without a broker.
 *
 * Threads: owner - the network thread.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "bulk.h"
#include "bulk_context.h"
#include "inbox.h"
#include "outbox.h"

struct arrival;
struct departure;
struct link;

/* One broker's. */
struct transfers {
    void *socket;             /* the bulk connection; NULL until it is needed */
    struct bulk_way way;      /* its own, when the broker has a port for it */
    uint64_t from_bytes;      /* of results that the broker wants in chunks; 0 = none */
    struct arrival *arrivals; /* dispatches that are not complete */
    struct departure *departures;
    uint32_t numbers;  /* given to departures so far */
    uint64_t moved_us; /* last chunk that came */
    uint64_t again_us; /* a piece or a credit could not be sent: when to try again; 0 = none */
};

/* Some of its jobs' payloads are announced. */
bool transfer_announced(const struct dispatch *dispatch);
/* Adds the announced bytes to the dispatch's, as far as its metas make sense. */
enum pen_status transfer_measure(struct dispatch *dispatch, uint64_t frame_limit, struct pen_error *reterr);
/* Takes memory for what was measured and asks the broker for it. The dispatch is held by the link already. */
enum pen_status transfer_ask(struct link *link, struct dispatch *dispatch, uint64_t now_us, struct pen_error *reterr);
/* A CHUNK: a dispatch that is complete now, else NULL. INVALID: out of order, the connection is to be made anew. */
enum pen_status transfer_chunk(struct link *link, const struct message *message, uint64_t now_us,
                               struct dispatch **ret_complete);
/* The job is not wanted: its bytes are not waited for, their memory is freed. Gives its dispatch when nothing more is awaited. */
struct dispatch *transfer_cancel(struct link *link, const struct job *job);
/* A job whose deadline passed before all of its bytes came, NULL when there is none. */
struct job *transfer_late(const struct link *link, uint64_t now_us, struct dispatch **ret_dispatch);
uint64_t transfer_late_us(const struct link *link); /* when there may be one; DEADLINE_NONE */

/* Announces the groups of the reply that are large and gives what is left of it, NULL when nothing is. */
struct reply *transfer_depart(struct link *link, struct reply *reply);
/* A CREDIT: sends as far as it goes. */
void transfer_credit(struct link *link, const struct envelope *env, uint64_t now_us);
/* Sends what there was no memory for, when that is due: at transfer_again_us(), DEADLINE_NONE. */
void transfer_again(struct link *link, uint64_t now_us);
uint64_t transfer_again_us(const struct link *link);

/* A dispatch waits for chunks that have not come for `liveness_us`. */
bool transfer_stalled(const struct link *link, uint64_t now_us);
/* The connection goes: incomplete dispatches are freed and no longer held, results not sent are given back as a list. */
struct reply *transfer_reset(struct link *link);

#endif
