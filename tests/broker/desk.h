/*
 * desk.h - a broker on a table: its real logic between two ports that only take notes, and a clock that a test turns.
 *
 * Threads: owner. Everything sent is kept in order per side and taken by the test.
 */
#ifndef TEST_DESK_H
#define TEST_DESK_H

#include "broker.h"
#include "wire.h"

#define DESK_SENT_MAX 4096

struct sent {
    uint32_t peer;
    uint64_t number, at_us; /* in the order of both sides; the desk's clock */
    size_t count;
    zmq_msg_t frames[8 * 2 + 64];
    struct envelope env; /* of the first header */
    const uint8_t *meta;
};

struct side {
    struct port port; /* first: the broker's callbacks lead back here */
    struct sent *sent[DESK_SENT_MAX];
    size_t first, count;
    uint64_t total;    /* messages ever sent, forgotten ones too */
    uint32_t gone[16]; /* peers whose connection is lost */
    size_t gone_count;
    bool in_message;
    bool forget; /* what was sent is thrown away when there is no more room: for fuzzing */
};

struct desk {
    struct options options;
    struct broker broker;
    struct side clients, workers; /* what the broker sent to them */
    struct cache *cache;
    const char *user; /* the key of clients, as their connection says it; NULL = none */
};

/* A desk with a memory cache and default settings; change `desk->options` before desk_open. */
struct desk *desk_new(void);
void desk_open(struct desk *desk);
void desk_free(struct desk *desk);

void desk_wait(struct desk *desk, uint64_t us); /* turns the clock in steps and runs what is due */
void desk_run(struct desk *desk);               /* runs what is due now */

void desk_say_client(struct desk *desk, uint32_t peer, struct envelope env, const void *meta, size_t bytes,
                     size_t raw_bytes);
void desk_say_worker(struct desk *desk, uint32_t peer, struct envelope env, const void *meta, size_t bytes);

/* Fills an empty message with `count` frames of these sizes, one behind the other in `bytes`. */
void desk_frames(struct message *message, uint32_t peer, const uint8_t *bytes, const size_t *sizes, size_t count);

/* Shorthands: the hello and its WELCOME (checked). */
void desk_client(struct desk *desk, uint32_t peer, uint64_t uuid);
void desk_worker(struct desk *desk, uint32_t peer, const struct wire_worker *worker);
void desk_submit(struct desk *desk, uint32_t peer, const struct wire_job *job);
/* The worker answers one job with OK and this value; the digest is what an honest worker computes from `job`. */
void desk_result(struct desk *desk, uint32_t peer, struct job_id id, uint8_t digest, uint8_t value);
void desk_result_status(struct desk *desk, uint32_t peer, struct job_id id, enum pen_status status,
                        uint64_t compute_us);
void desk_cancel(struct desk *desk, uint32_t peer, struct job_id id);
/* A question of `penstock` (CONTROL), and the next answer to one: NULL = none has come; ret_status may be NULL; free with protobuf-c. */
void desk_question(struct desk *desk, uint32_t peer, const char *verb, const char *argument);
Penstock__ControlReply *desk_answer(struct desk *desk, enum pen_status *ret_status);
/* Both, from client 1; it must be answered at once. */
Penstock__ControlReply *desk_ask(struct desk *desk, const char *verb, const char *argument,
                                 enum pen_status *ret_status);

/* The next message of that type to that side, skipping others; NULL = none. Borrowed until the desk is freed. */
struct sent *desk_next(struct side *side, enum frame_type type);
size_t desk_pending(const struct side *side, enum frame_type type); /* how many of it wait */
/* Jobs in a dispatch. */
size_t sent_groups(const struct sent *sent);
struct job_id sent_job(const struct sent *sent, size_t group);
/* The unpacked meta; free with protobuf-c. */
Penstock__ResultMeta *sent_result(const struct sent *sent);

/* From now on sends to that peer fail, as when its connection is gone. */
void side_lose(struct side *side, uint32_t peer);

#endif
