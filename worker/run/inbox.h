/*
 * inbox.h - whole messages from the broker, and dispatches made of them.
 *
 * A message is checked before it costs anything: frames per message, groups, whether envelopes and frames match, bytes
 * held. A malformed message is dropped and counted; the connection goes on.
 *
 * Threads: owner - the network thread. A dispatch is lent to one slot between handoff and its last reply; `state` and
 * `cancelled` of its jobs are the only fields both touch meanwhile.
 */
#ifndef INBOX_H
#define INBOX_H

#include <stdatomic.h>
#include <zmq.h>

#include "frame.h"

#define INBOX_FRAMES_MAX (FRAME_MAX_GROUPS * (1u + FRAME_MAX_TENSORS))

enum job_state { JOB_WAITING, JOB_RUNNING, JOB_ANSWERED };

/* With which others a decoded job may share a batch, and how long it may wait for them. */
struct joining {
    const struct link *link;     /* one message answers a batch, so all its jobs are of one broker */
    uint64_t model_hash;         /* of the job's envelope */
    struct digest model;         /* of the model as it is served */
    uint32_t rows;               /* 0: it joins no others */
    uint32_t rows_most;          /* of a batch, by what was measured */
    uint64_t ready_us, until_us; /* when it was decoded; the latest time at which its batch begins if a slot is free */
};

/* One group of a dispatch. */
struct job {
    struct envelope env;
    uint64_t received_us;      /* as the dispatch's */
    uint64_t deadline_us;      /* absolute, DEADLINE_NONE = none */
    const uint8_t *meta;       /* env.meta_bytes of protobuf, inside the header frame */
    uint32_t first_frame;      /* index in the dispatch's frames; env.frames of them */
    struct pictures *pictures; /* decoded files of an input; owned; NULL: none, or not decoded yet */
    struct uncut *uncut;       /* the decoded picture of a step with crop; the same */
    atomic_int state;          /* enum job_state: the thread that moves it on from WAITING answers the job */
    atomic_bool cancelled;     /* while it runs: nobody wants it any more */
};

struct link;
struct pictures;

struct dispatch {
    struct dispatch *next, *previous; /* in the list of held dispatches; network thread */
    struct link *link;                /* the broker that sent it and gets the answers */
    struct dispatch *queue_next;      /* handoff, or decoders; what a slot takes together, and a reply has finished */
    size_t decode_next, decode_left;  /* decoders: the next job to look at, and jobs that are not done */
    struct dispatch *parts;           /* [jobs_count] its jobs one by one, behind the decoders; owned; NULL: none */
    size_t parts_left;                /* parts that are not finished; network thread */
    struct dispatch *whole;           /* this is a part: it borrows the job and the frames; NULL: it is none */
    struct joining joining;           /* of a part */
    uint64_t received_us;
    uint64_t sealed_from; /* results of more bytes go into sealed memory: its broker is on this host; 0 = none */
    size_t bytes;
    struct job *jobs;
    size_t jobs_count;
    zmq_msg_t *frames;
    size_t frames_count;
};

/* A message as received: valid until the next inbox_receive. */
struct message {
    zmq_msg_t *frames;
    size_t frames_count;
    size_t bytes;
    struct envelope env; /* of the first group */
    const uint8_t *meta;
};

struct inbox;
struct inbox *inbox_new(void);        /* NULL without memory */
void inbox_free(struct inbox *inbox); /* NULL is fine */

/*
 * Takes one message from the socket without waiting. UNAVAILABLE: there is none. CORRUPT, VERSION, TOO_LARGE: there was
 * one, which was dropped; the sentence says why. NO_MEMORY: the same, for the rest of a PACK. The messages of a PACK
 * come one by one: the socket must stay the same until inbox_holds() is false.
 */
enum pen_status inbox_receive(struct inbox *inbox, void *socket, struct message *ret_message, struct pen_error *reterr);

bool inbox_holds(const struct inbox *inbox); /* messages of a PACK are left */
void inbox_drop(struct inbox *inbox);        /* drops these, because their connection has ended */

/* Makes a dispatch of a SUBMIT message, taking its frames. Gives *ret_dispatch. */
enum pen_status inbox_dispatch(struct inbox *inbox, struct message *message, uint64_t now_us,
                               struct dispatch **ret_dispatch, struct pen_error *reterr);
void dispatch_free(struct dispatch *dispatch); /* NULL is fine; with its parts */

/* Makes the parts of a dispatch. Without memory it has none. Threads: the network thread, before others know of the dispatch. */
void dispatch_split(struct dispatch *dispatch);
/* A slot has finished with it: the whole dispatch when that is finished now, else NULL. */
struct dispatch *dispatch_finish(struct dispatch *dispatch);

#endif
