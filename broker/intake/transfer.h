/*
 * transfer.h - large payloads as credited chunks: transfers to and from sessions and workers (proto/README.md, "Large payloads").
 *
 * An announced job is not admitted before its last byte is here: until then it is an `in`, counted against --queue-bytes and freed with its
 * session. Its memory is taken when its turn comes to be granted credit: TRANSFER_OPEN_PEER at a time per connection, TRANSFER_OPEN_MAX over all clients.
 * What goes out shares the frames of its parcel; an `out` holds a reference to it.
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
#include "parcel.h"
#include "port.h"
#include "table.h"
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

/* The parcel's frames should go as chunks to this end. */
bool transfer_wanted(const struct broker *broker, const struct transfer_end *end, const struct parcel *parcel);
/* So many are on their way to it already that another must wait. */
bool transfer_busy(const struct transfer_end *end);
/* Anything is. */
bool transfer_sends(const struct transfer_end *end);
/* Begins one and writes its number into `header`, which becomes a copy. False without memory. */
bool transfer_begin(struct broker *broker, struct transfer_end *end, struct job_id id, struct parcel *parcel,
                    zmq_msg_t *header);
/* The job's answer is here, or it is not wanted: what was not sent of it stays. True: there was something of it. */
bool transfer_forget(struct transfer_end *end, struct job_id id);

/* The peer's connection is lost, new, or no longer trusted: all its transfers end. It will begin them anew. */
void transfer_reset(struct broker *broker, struct transfer_end *end);
/* Replies are on their way to clients: a broker that drains waits for them. */
bool transfer_replies_pending(const struct broker *broker);
/* Transfers that do not move, announced jobs whose deadline has passed. */
void transfer_tick(struct broker *broker);
/* Redis has answered, or its time is over, for jobs whose payload waits for it (early.h). */
void transfer_answered(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value);
void transfer_asked_tick(struct broker *broker); /* sets asked_until_us anew */
/* Results whose payload found no memory ask for it again. */
void transfer_memory_tick(struct broker *broker);

#endif
