/*
 * transfer_internal.h - what transfer.c (connections, what goes out) and transfer_in.c (what comes in) share. Threads: owner.
 */
#ifndef TRANSFER_INTERNAL_H
#define TRANSFER_INTERNAL_H

#include "broker_state.h"
#include "bulk_out.h"
#include "effect.h"
#include "transfer.h"

/* An announced payload. frames[0] of the message is the announcement, the others are there when it is open. */
struct transfer_in {
    TAILQ_ENTRY(transfer_in) in_link, in_waiting;
    struct effect here; /* EFFECT_PAYLOAD_HERE */
    struct transfer_link *link;
    struct envelope env;
    struct bulk run;
    struct message message;
    uint64_t since_us, moved_us;
    uint64_t tried_us,
        lacking_us;    /* a result: memory was asked for last; there was none since, 0 = there was no such time */
    uint64_t question; /* Redis was asked for its result, 0 = not, or it has answered */
    uint64_t after;    /* number of the job that it follows in its sequence, 0 = none (transfer_order.c) */
    bool open;         /* its memory is here and credit was given */
    bool blocked;      /* all of it is here, and the job before it is not */
    bool dropped;      /* a result that is given up: there is no memory for it */
};

/* CREDIT up to `until`, or with a status. */
void transfer_tell(struct broker *broker, struct transfer_end *end, struct job_id id, uint32_t number, uint64_t until,
                   enum pen_status status);
/* Asks the peer to begin anew: nothing of its transfers can be trusted any more. */
void transfer_upset(struct broker *broker, struct transfer_end *end, const char *reason);

/* A CHUNK that came over this link: taken into its place; one that is not the next upsets the connection. */
void transfer_in_chunk(struct broker *broker, struct transfer_link *link, struct message *message,
                       const struct envelope *env);
struct transfer_in *transfer_in_find(const struct transfer_link *link, struct job_id id); /* NULL: none */
/* Takes the header. A client's counts as waiting bytes from here on. NULL without memory. */
struct transfer_in *transfer_in_new(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                    const struct bulk *run, zmq_msg_t *header);
/*
 * A client's job, with whatever frames of it are there: takes them. link: NULL without memory. BUSY, with a sentence: its session has announced as many as
 * it may, or there is no memory.
 */
enum pen_status transfer_in_announce(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                     const struct bulk *run, struct message *message, struct transfer_in **ret_in,
                                     struct pen_error *reterr);
void transfer_in_free(struct broker *broker, struct transfer_in *in);
/* All is here, and what it had to wait for: its effect takes it to where it would have gone if it had come in one piece. False: its deadline has passed, it is gone. */
bool transfer_in_complete(struct broker *broker, struct transfer_in *in);

/* Its last byte is here. True: the job before it in its sequence is not, so it waits, and its place is another's. */
bool transfer_block(struct broker *broker, struct transfer_in *in);
/* Jobs of that session whose predecessor has come, or will not, go on. */
void transfer_follow(struct broker *broker, const struct session *session);

/* Grants credit to those whose turn it is: among all clients, or of this worker. */
void transfer_in_open(struct broker *broker, struct transfer_end *end);
/* Ends announced jobs whose deadline has passed. */
void transfer_in_tick(struct broker *broker, struct transfer_end *end);

#endif
