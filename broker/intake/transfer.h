/*
 * transfer.h - large payloads as credited chunks: transfers to and from sessions and workers (proto/PROTOCOL.md, "Large payloads").
 *
 * An announced job is not admitted before its last byte is here: until then it is an `in`, counted against --queue-bytes and freed with its
 * session. Its memory is taken when its turn comes to be granted credit: TRANSFER_OPEN_PEER at a time per connection, TRANSFER_OPEN_MAX over all clients.
 * What goes out shares the frames of its message; an `out` holds a reference to it.
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
void transfer_hub_fini(struct broker *broker);               /* before sessions and workers go */

/* ATTACH and CHUNK, which come over connections that never say hello. */
void transfer_message(struct broker *broker, struct port *port, struct message *message, const struct envelope *env);
/* CREDIT, over the ordinary connection. */
void transfer_credit(struct broker *broker, struct transfer_end *end, const struct envelope *env);

/* A SUBMIT whose payload is announced: takes the message's header. Refuses, or asks for the payload when its turn comes. */
void transfer_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message);
/* A whole SUBMIT that follows one whose payload is under way, in its sequence. True: it waits for that one, or was refused; its frames are taken. */
bool transfer_hold(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                   struct message *message);
/* It was cancelled while it came. True: there was one, it is answered. */
bool transfer_cancel(struct broker *broker, struct session *session, struct job_id id);
/* A RESULT whose payload is announced; the header is taken. False: it cannot be taken, *reterr says why; the job is to be answered so. Without a status in
 * *reterr the payload is to be declined and nothing else: another announcement of that job is under way for each run of it. */
bool transfer_result(struct broker *broker, struct worker *worker, const struct envelope *env, const uint8_t *meta,
                     zmq_msg_t *header, struct pen_error *reterr);
/* The payload of that announcement is not wanted. */
void transfer_decline(struct broker *broker, struct transfer_end *end, const struct envelope *env);

/* The peer's connection is lost, new, or no longer trusted: all its transfers end. It will begin them anew. */
void transfer_reset(struct broker *broker, struct transfer_end *end);
/* Replies are on their way to clients: a broker that drains waits for them. */
bool transfer_replies_pending(const struct broker *broker);
/* Transfers that do not move, announced jobs whose deadline has passed. */
void transfer_tick(struct broker *broker);
/* Redis has answered, or its time is over, for jobs whose payload waits for it (digest_first.h). */
void transfer_answered(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);
void transfer_asked_tick(struct broker *broker); /* sets asked_until_us anew */
/* Results whose payload found no memory ask for it again. */
void transfer_memory_tick(struct broker *broker);

/* A payload that came in chunks, as the message that it would have been in one piece. */
struct arrival {
    struct session *session; /* whose: one of the two */
    struct worker *worker;
    struct envelope env;    /* with what is left of the deadline */
    struct message message; /* without frames: a result that was given up, for there is no memory for it */
};
/* EFFECT_PAYLOAD_HERE: takes it out. The caller owns the message, and calls transfer_in_taken when it has gone where it goes. */
void transfer_in_take(struct broker *broker, struct effect *effect, struct arrival *ret_arrival);
/* The next ones: jobs behind it in its sequence, and those that waited for its place. */
void transfer_in_taken(struct broker *broker, const struct arrival *arrival);

#endif
