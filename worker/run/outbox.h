/*
 * outbox.h - results on their way from the slots to the network thread.
 *
 * A slot builds whole RESULT messages (packing protobuf there keeps the network thread free) and pushes them; the network thread takes and sends.
 * The list is lock-free; a wake (eventfd) is written only when the network thread has said that it sleeps.
 *
 * Threads: reply_* one-at-a-time per reply; outbox_push any; the rest owner - the network thread.
 */
#ifndef OUTBOX_H
#define OUTBOX_H

#include "inbox.h"
#include "job.pb-c.h"
#include "penstock/tensor.h"

/* Fields that are the same in every result of this worker. Texts are borrowed. */
struct identity {
    const char *worker, *backend, *device, *library, *isa, *build;
    enum precision precision;
};

/* One RESULT message under construction or waiting to be sent. */
struct reply {
    struct reply *next;
    struct link *link;         /* the broker that gets it: link.h */
    struct dispatch *finished; /* no slot touches these dispatches any more (queue_next): dispatch_finish */
    zmq_msg_t *frames;
    size_t frames_count, frames_room;
    struct job_id *jobs;
    size_t jobs_count, jobs_room;
    size_t bytes;
    uint64_t sealed_from; /* payloads of more bytes are put into sealed memory; 0 = none */
};

/* NULL without memory. Room is for the whole message: it does not grow. */
struct reply *reply_new(size_t jobs_room, size_t frames_room);
void reply_free(struct reply *reply); /* NULL is fine */

/* The outcome of one job. */
struct reply_group {
    enum pen_status status;
    enum precision precision;
    const struct digest *digest; /* NULL = none was asked for */
    const struct pen_tensor *outputs;
    size_t outputs_count;
};

/*
 * Appends one group: the result of `env`'s job. `meta` is filled by the caller except for outputs; payloads are copied once. NO_MEMORY or
 * TOO_LARGE (no room, meta above 64 KiB) leave the reply as it was.
 */
enum pen_status reply_add(struct reply *reply, const struct envelope *env, const struct reply_group *group,
                          Penstock__ResultMeta *meta, struct pen_error *reterr);

/* The same for a typed error with one sentence. debug_log: of a run in debug mode that failed; NULL = none. */
enum pen_status reply_add_error(struct reply *reply, const struct envelope *env, const struct identity *identity,
                                enum pen_status status, const char *text, const char *debug_log, uint64_t worker_us);

/* Sends and frees; -1 with errno when the socket refuses (the reply is freed all the same). */
int reply_send(struct reply *reply, void *socket);

struct outbox;
struct outbox *outbox_new(void);            /* NULL without memory or descriptors */
void outbox_free(struct outbox *outbox);    /* NULL is fine; drops replies that were not taken, not their dispatches */
int outbox_fd(const struct outbox *outbox); /* readable after a wake */

void outbox_push(struct outbox *outbox, struct reply *reply); /* keeps the reply */
struct reply *outbox_take_all(struct outbox *outbox);         /* gives a list, oldest first; NULL = empty */

/* The network thread is about to sleep. False: something has arrived since then, so it must not sleep. */
bool outbox_sleep(struct outbox *outbox);
void outbox_awake(struct outbox *outbox, bool signalled); /* after the sleep; signalled: the descriptor was readable */
void outbox_wake(struct outbox *outbox);                  /* Threads: any, and signal handlers */

#endif
