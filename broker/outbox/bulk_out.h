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
    uint32_t numbers;  /* given to outs so far */
    uint64_t moved_us; /* last chunk, credit, or begin of a first out */
};

struct transfer_link *transfer_link_of(struct broker *broker, struct transfer_end *end); /* made when there is none */
void transfer_out_free(struct transfer_link *link, struct transfer_out *out);

/* The message's frames should go as chunks to this end. */
bool transfer_wanted(const struct broker *broker, const struct transfer_end *end, const struct shared_message *shared);
/* So many are on their way to it already that another must wait. */
bool transfer_busy(const struct transfer_end *end);
/* Anything is. */
bool transfer_sends(const struct transfer_end *end);
/* Begins one and writes its number into `header`, which becomes a copy. False without memory. */
bool transfer_begin(struct broker *broker, struct transfer_end *end, struct job_id id, struct shared_message *shared,
                    zmq_msg_t *header);
/* The job's answer is here, or it is not wanted: what was not sent of it stays. True: there was something of it. */
bool transfer_forget(struct transfer_end *end, struct job_id id);

#endif
