/*
 * bulk_out.h - large payloads on their way out: announced with their header, sent as chunks when credit comes (intake/transfer.c).
 * Threads: owner.
 */
#ifndef BULK_OUT_H
#define BULK_OUT_H

#include "broker_state.h"
#include "bulk.h"

struct transfer_out {
    TAILQ_ENTRY(transfer_out) in_link;
    struct job_id id;
    struct bulk run;
    struct shared_message *shared; /* retained */
};
TAILQ_HEAD(transfer_outs, transfer_out);

/* The bulk connection of a session or worker, and what moves over it. */
struct transfer_link {
    struct table_node by_peer;
    TAILQ_ENTRY(transfer_link) in_hub;
    struct transfer_end *end;
    uint32_t peer;
    bool attached;
    struct transfer_ins ins;
    struct transfer_outs outs;
    uint32_t ins_count, ins_open, ins_blocked, outs_count;
    uint32_t numbers;  /* numbers given to outgoing transfers so far */
    uint64_t moved_us; /* when the last chunk or credit came, or the first outgoing transfer began */
};

struct transfer_link *transfer_link_of(struct broker *broker, struct transfer_end *end); /* made when missing */
void transfer_out_free(struct transfer_link *link, struct transfer_out *out);

/* A header is shared with the message that is kept: makes it a copy, to be written. False without memory. */
bool header_own(zmq_msg_t *header);

/* True when the message's frames should go to this peer as chunks. */
bool transfer_wanted(const struct broker *broker, const struct transfer_end *end, const struct shared_message *shared);
/* True when as many transfers go to this peer as may at a time: another one must wait. */
bool transfer_busy(const struct transfer_end *end);
/* True when any transfer goes to this peer. */
bool transfer_sends(const struct transfer_end *end);
/* Begins a transfer and writes its number into `header`, which becomes a copy. False without memory. */
bool transfer_begin(struct broker *broker, struct transfer_end *end, struct job_id id, struct shared_message *shared,
                    zmq_msg_t *header);
/* Ends the transfer of that job's payload, because the job was answered or is not wanted: the rest is not sent.
   True: there was such a transfer. */
bool transfer_forget(struct transfer_end *end, struct job_id id);

#endif
