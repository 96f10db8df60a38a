/*
 * transfer_internal.h - what transfer.c (connections, what goes out) and transfer_in.c (what comes in) share. Threads: owner.
 */
#ifndef TRANSFER_INTERNAL_H
#define TRANSFER_INTERNAL_H

#include "broker_state.h"
#include "bulk_out.h"
#include "effect.h"
#include "transfer.h"

/* An announced payload. frames[0] of the message is the announcement; the other frames exist once it is open. */
struct transfer_in {
    TAILQ_ENTRY(transfer_in) in_link, in_waiting;
    struct effect here; /* EFFECT_PAYLOAD_HERE */
    struct transfer_link *link;
    struct envelope env;
    struct bulk run;
    struct message message;
    uint64_t since_us, moved_us;
    uint64_t tried_us, lacking_us; /* a result: when it last asked for memory in vain; 0 = it did not */
    uint64_t question;             /* the question to Redis for its result; 0 = none, or Redis has answered */
    uint64_t after;                /* number of the job that it follows in its sequence, 0 = none (transfer_order.c) */
    bool open;                     /* its memory is allocated and credit was granted */
    bool blocked;                  /* all bytes have come, but the job before it in its sequence has not */
    bool dropped;                  /* a result that was given up because there is no memory for it */
};

/* Sends a CREDIT up to `until`, or one with an error status. */
void transfer_tell(struct broker *broker, struct transfer_end *end, struct job_id id, uint32_t number, uint64_t until,
                   enum pen_status status);
/* Asks the peer to begin all its transfers anew, because none of them can be trusted any more. */
void transfer_upset(struct broker *broker, struct transfer_end *end, const char *reason);

/* A CHUNK came over this link: copies it to its place. A chunk that is not the next one makes the peer begin anew
   (transfer_upset). */
void transfer_in_chunk(struct broker *broker, struct transfer_link *link, struct message *message,
                       const struct envelope *env);
struct transfer_in *transfer_in_find(const struct transfer_link *link, struct job_id id); /* NULL: none */
/* Makes a transfer and takes the header. A client's transfer counts as waiting bytes from here on. NULL without
   memory. */
struct transfer_in *transfer_in_new(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                    const struct bulk *run, const zmq_msg_t *header);
/*
 * A client's job with the frames that have come: takes them. link: NULL without memory. BUSY, with a sentence: its
 * session has announced as many jobs as it may, or there is no memory.
 */
enum pen_status transfer_in_announce(struct broker *broker, struct transfer_link *link, const struct envelope *env,
                                     const struct bulk *run, struct message *message, struct transfer_in **ret_in,
                                     struct pen_error *reterr);
void transfer_in_free(struct broker *broker, struct transfer_in *in);
/* All bytes and its predecessor have come: posts the effect that handles it like a message in one piece. False: its
   deadline has passed, and it was freed. */
bool transfer_in_complete(struct broker *broker, struct transfer_in *in);

/* The last byte has come. True: the job before it in its sequence has not come yet, so this one waits, and another
   transfer gets its place. */
bool transfer_block(struct broker *broker, struct transfer_in *in);
/* Goes on with jobs of that session whose predecessor has come, or will not come. */
void transfer_follow(struct broker *broker, const struct session *session);

/* Grants credit to the transfers whose turn it is, of all clients or of this worker. */
void transfer_in_open(struct broker *broker, struct transfer_end *end);
/* Ends announced jobs whose deadline has passed. */
void transfer_in_tick(struct broker *broker, struct transfer_end *end);

#endif
