/*
 * transfer.h - large payloads as credited chunks: transfers to and from sessions and workers (proto/PROTOCOL.md, "Large
 * payloads").
 *
 * A job whose payload is announced is admitted when its last byte has come. Until then it is a `transfer_in`, counts
 * against --queue-bytes and is freed with its session. The broker allocates its memory when it grants credit: to
 * TRANSFER_OPEN_PEER transfers at a time per connection, and to TRANSFER_OPEN_MAX of all clients. A payload that goes
 * out shares the frames of its message, and its transfer holds a reference to that message.
 * Threads: owner.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "bulk.h"
#include "cache.h"
#include "frame.h"
#include "shared_message.h"
#include "port.h"
#include "table.h"
#include "bulk_out.h"
#include "transfer_end.h"

struct broker;

enum pen_status transfer_hub_init(struct transfer_hub *hub); /* NO_MEMORY */
void transfer_hub_fini(struct broker *broker);               /* call it before sessions and workers are freed */

/* ATTACH and CHUNK, which come over connections that never say hello. */
void transfer_message(struct broker *broker, struct port *port, struct message *message, const struct envelope *env);
/* CREDIT, over the ordinary connection. */
void transfer_credit(struct broker *broker, struct transfer_end *end, const struct envelope *env);

/* A SUBMIT whose payload is announced: takes the header of the message. Refuses the job, or asks for the payload
   when its turn comes. */
void transfer_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message);
/* A SUBMIT with its payload, whose predecessor in the sequence is still being transferred. True: it waits for that
   one, or was refused; its frames are taken. */
bool transfer_hold(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                   struct message *message);
/* Cancels a job whose payload is still coming. True: there was such a job, and it has been answered. */
bool transfer_cancel(struct broker *broker, struct session *session, struct job_id id);
/* A RESULT whose payload is announced; takes the header. False: the broker cannot take the payload. *reterr then has
   the error for the job. When *reterr has no status, the caller only declines this payload: each run of the job has
   its own announcement already. */
bool transfer_result(struct broker *broker, struct worker *worker, const struct envelope *env, const uint8_t *meta,
                     zmq_msg_t *header, struct pen_error *reterr);
/* Tells the peer that the payload of that announcement is not wanted. */
void transfer_decline(struct broker *broker, struct transfer_end *end, const struct envelope *env);

/* The peer's connection is lost, new, or no longer trusted: ends all its transfers. The peer begins them anew. */
void transfer_reset(struct broker *broker, struct transfer_end *end);
/* True while replies are being transferred to clients: a broker that drains waits for them. */
bool transfer_replies_pending(const struct broker *broker);
/* Handles transfers that have stopped moving, and announced jobs whose deadline has passed. */
void transfer_tick(struct broker *broker);
/* Redis has answered that question, or its time is over: goes on with the jobs that wait for it (digest_first.h). */
void transfer_answered(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);
void transfer_asked_tick(struct broker *broker); /* computes asked_until_us anew */
/* Asks for memory again for results that found none. */
void transfer_memory_tick(struct broker *broker);

/* A payload that came in chunks, as the message that it would have been in one piece. */
struct arrival {
    struct session *session; /* who sent it: one of the two is set */
    struct worker *worker;
    struct envelope env;    /* its deadline is the time that is left */
    struct message message; /* without frames: a result that was given up because there is no memory */
};
/* EFFECT_PAYLOAD_HERE: takes the arrival out. The caller then owns the message, and calls transfer_in_taken when it
   has handled it. */
void transfer_in_take(struct broker *broker, struct effect *effect, struct arrival *ret_arrival);
/* Lets others go on: the next jobs of its sequence, and transfers that waited for its place. */
void transfer_in_taken(struct broker *broker, const struct arrival *arrival);

#endif
