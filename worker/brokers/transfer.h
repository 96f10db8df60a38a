/*
 * transfer.h - large payloads as credited chunks on a second connection to the broker (proto/PROTOCOL.md, "Large
 * payloads").
 *
 * The worker holds a dispatch whose payload is announced, but hands it to a slot only when all bytes have come. It
 * announces a result above the broker's limit and keeps it until the last chunk is sent. When the connection is lost
 * before that, the result waits like any result without a broker.
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

/* The transfers of one broker. */
struct transfers {
    void *socket;             /* the bulk connection; NULL until it is needed */
    struct bulk_way way;      /* the way to the broker's own port for bulk connections, when it has one */
    uint64_t from_bytes;      /* the broker wants results of this size or more in chunks; 0 = none */
    struct arrival *arrivals; /* dispatches whose bytes have not all come */
    struct departure *departures;
    uint32_t numbers;  /* numbers given to outgoing transfers so far */
    uint64_t moved_us; /* when the last chunk came */
    uint64_t again_us; /* a piece or a credit could not be sent: try again then; 0 = nothing to do */
};

/* True when payloads of some of its jobs are announced. */
bool transfer_announced(const struct dispatch *dispatch);
/* Adds the announced bytes to those of the dispatch, as far as its metas are well formed. */
enum pen_status transfer_measure(struct dispatch *dispatch, uint64_t frame_limit, struct pen_error *reterr);
/* Takes memory for what was measured and asks the broker for it. The dispatch is held by the link already. */
enum pen_status transfer_ask(struct link *link, struct dispatch *dispatch, uint64_t now_us, struct pen_error *reterr);
/* A CHUNK came. Returns the dispatch when that completes it, else NULL. INVALID: the chunk is out of order; make the
   connection anew. */
enum pen_status transfer_chunk(struct link *link, const struct message *message, uint64_t now_us,
                               struct dispatch **ret_complete);
/* The job is not wanted: stops waiting for its bytes and frees their memory. Returns its dispatch when none of its
   jobs waits for bytes any more. */
struct dispatch *transfer_cancel(struct link *link, const struct job *job);
/* A job whose deadline passed before all of its bytes came, NULL when there is none. */
struct job *transfer_late(const struct link *link, uint64_t now_us, struct dispatch **ret_dispatch);
uint64_t transfer_late_us(const struct link *link); /* when there may be one; DEADLINE_NONE */

/* Announces the large groups of the reply and returns the rest of the reply, NULL when nothing is left. */
struct reply *transfer_depart(struct link *link, struct reply *reply);
/* A CREDIT came: sends as many bytes as it allows. */
void transfer_credit(struct link *link, const struct envelope *env, uint64_t now_us);
/* Tries again to send what found no memory, when that is due: at transfer_again_us(), DEADLINE_NONE. */
void transfer_again(struct link *link, uint64_t now_us);
uint64_t transfer_again_us(const struct link *link);

/* True when a dispatch has waited for chunks for `liveness_us` and none has come. */
bool transfer_stalled(const struct link *link, uint64_t now_us);
/* The connection is closed: frees incomplete dispatches, which are no longer held, and returns a list of the results
   that were not sent. */
struct reply *transfer_reset(struct link *link);

#endif
