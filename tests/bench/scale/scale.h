/*
 * scale.h - what the files of bench_scale share: the simulated pool, and its events.
 * Threads: owner.
 */
#ifndef SCALE_H
#define SCALE_H

#include <stdint.h>

#include "broker.h"
#include "histogram.h"
#include "wire.h"

#define EXEC_US      5000u
#define NETWORK_US   50u
#define LOAD         0.7
#define BEAT_US      800000u
#define QUEUE_MAX    16u /* messages that one worker holds: its credit is two */
#define BROKERS_MOST 10u
#define WORKERS_EACH 1000u /* of a broker */
#define CLIENTS_EACH 10000u
#define WORKERS_MOST (BROKERS_MOST * WORKERS_EACH)
#define CLIENTS_MOST (BROKERS_MOST * CLIENTS_EACH)

enum event_kind { EVENT_SUBMIT, EVENT_ARRIVE, EVENT_DONE, EVENT_BEAT, EVENT_ANSWER, EVENT_HELLO, EVENT_WELCOME };

struct event {
    uint64_t at_us;
    enum event_kind kind;
    uint32_t who, broker; /* broker: that has sent it; of a welcome: to which the client goes now */
    struct job_id job;    /* one per message: the model is not batched */
};

struct sim_worker {
    struct event queue[QUEUE_MAX]; /* [0] runs */
    uint32_t count, broker;
    uint64_t busy_us;
};

struct sim_client {
    uint64_t uuid, sequence, submitted_us, answered;
    uint32_t broker, followed;
};

/* A port that takes notes of the message that the broker writes. */
struct side {
    struct port port; /* first: the broker's callbacks lead back here */
    struct event event;
    uint32_t broker;
    uint32_t raws; /* raw frames that still belong to the group in hand */
    enum frame_type type;
    enum pen_status status;
};

/* What a broker has heard from another one and not read yet. */
struct sim_answer {
    uint8_t bytes[256];
    size_t count; /* 0 = nothing */
};

struct sim_broker {
    struct broker broker;
    struct side to_clients, to_workers;
    struct sim_answer answers[BROKERS_MOST];
    uint32_t clients; /* that have stayed */
};

struct simulation {
    uint64_t now_us;
    struct event *heap;
    size_t heap_count, heap_room;
    struct sim_worker *workers;
    struct sim_client *clients;
    uint32_t workers_count, clients_count;
    uint64_t jobs, submitted, answered, failed, twice;
    uint64_t think_us, seed;
    uint64_t broker_ns, turn_ns_most, first_us;
    struct histogram latency;
    struct sim_broker brokers[BROKERS_MOST];
    uint32_t brokers_count, joined;
    uint64_t moves; /* times that a client was sent to another broker */
    struct options options;
    uint8_t meta[WIRE_META_BYTES];
    size_t meta_bytes;
    struct wire_job job;
};

extern struct simulation sim;

_Noreturn void die(const char *what);
uint64_t random_next(void);
void event_in(uint64_t us, enum event_kind kind, uint32_t who);
/* A message comes to that broker. */
void hear(uint32_t number, void (*handle)(struct broker *, struct message *), uint32_t peer,
          const struct envelope *from, const void *meta, size_t bytes);

/* ---- join.c: brokers that know each other, and clients that come and are sent on ---- */
void join_neighbours(uint32_t number);
void join_clients(void); /* all will come within a second */
void join_hello(uint32_t who);
void join_welcome(struct side *side, const struct envelope *env, const uint8_t *meta); /* a broker says it */
void join_welcomed(const struct event *event);                                         /* a client hears it */
void join_heard(const struct side *side, zmq_msg_t *frame); /* a broker answers another one */
/* No broker has more clients than a tenth beyond its share. */
bool join_even(void);
void join_print(void);

#endif
