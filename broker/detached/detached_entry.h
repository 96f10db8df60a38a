/*
 * detached_entry.h - one detached job as this broker knows it, and where they all are: by id, by state, by the end of their time.
 *
 * The insides of the detached store (detached.h), shared by its files: detached_run.c runs entries, detached_file.c keeps them in the journal, detached_shared.c in
 * Redis. Threads: owner.
 */
#ifndef DETACHED_ENTRY_H
#define DETACHED_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "broker_state.h"
#include "detached.h"
#include "detached_watch.h"
#include "owner.h"

enum entry_state {
    ENTRY_ACCEPTING, /* the journal, or Redis, does not have it yet */
    ENTRY_WAITING,   /* for a worker */
    ENTRY_RUNNING,   /* a job of the broker like any other */
    ENTRY_DONE,
    ENTRY_STATES
};

struct entry {
    struct table_node by_id;
    TAILQ_ENTRY(entry) in_state;
    struct job_id id;
    enum entry_state state;
    bool shared; /* in Redis, or on its way there; else in the journal */
    struct owner owner;
    const struct tenant *tenant;
    struct identity *identity;      /* whose quota its request counts in; NULL: nobody's */
    struct shared_message *request; /* until it is done */
    struct shared_message *reply;   /* when it is done */
    enum pen_status status;
    uint32_t expiry_place;
    uint64_t ticket;       /* of the record that is on its way; 0 = none */
    uint64_t expires_us;   /* wall clock */
    uint64_t since_us;     /* in this state */
    uint64_t record_bytes; /* of its last record in the journal */
    bool unwritten;        /* its result is not in the journal */
    uint64_t accepted_us;  /* by our clock, of one that was here before us: when it would have been */
    uint32_t attempts;     /* times that it began */
};
TAILQ_HEAD(entry_list, entry);

struct shared;

struct detached_store {
    struct journal *journal; /* NULL = none */
    int journal_lock;        /* the journal is ours while this is open; -1 = none */
    struct shared *shared;   /* what is in Redis; NULL = nothing is */
    struct table by_id;
    struct entry_list lists[ENTRY_STATES];
    struct heap expiry;
    struct watches watches; /* clients that wait */
    uint64_t count, look_us;
    uint64_t live_bytes, unwritten; /* of the journal: bytes that count; results to write again */
    uint64_t compact_us;            /* it is not written anew before */
    uint64_t dealt;                 /* the last ticket that the journal has dealt with */
    uint64_t (*wall)(void);         /* microseconds since 1970 */
};

struct detached_store *detached_new(void); /* NULL without memory */

struct entry *entry_find(const struct detached_store *detached, struct job_id id);
/* WAITING or, as a fresh one, ACCEPTING; NULL beyond DETACHED_JOBS_MAX or without memory. */
struct entry *entry_new(struct detached_store *detached, struct job_id id, const struct tenant *tenant,
                        uint64_t expires_us, enum entry_state state);
void entry_move(struct detached_store *detached, struct entry *entry, enum entry_state state, uint64_t now_us);
void entry_free(struct detached_store *detached, struct entry *entry);
/* The request is not needed any more: its bytes, and the quota that they took, are given back. */
void entry_drop_request(struct entry *entry);

/* Refuses a message of the client's, or tells those who wait for the entry what became of it. */
void detached_refuse(struct broker *broker, struct session *session, const struct envelope *env, enum pen_status status,
                     const char *text);
void detached_tell(struct broker *broker, struct entry *entry);

/* Gives a waiting entry to the broker as a job (detached_run.c). */
void detached_run(struct broker *broker, struct entry *entry);
/* It has ended with this reply (given), here or for good reasons without a run. */
void detached_settle(struct broker *broker, struct entry *entry, struct shared_message *reply, enum pen_status status);

/* What a detached job's meta says of its keeping. */
struct wishes {
    uint64_t ttl_us;
    char model[256];
    struct owner owner;
};

/* A request's end in the journal; what it has made durable is told. */
enum pen_status detached_keep(struct broker *broker, struct entry *entry, struct pen_error *reterr);

/* Hands a record of the entry to the journal (detached_file.c). */
enum pen_status detached_record(struct detached_store *detached, struct entry *entry, unsigned type,
                                struct pen_error *reterr);
/* What the journal has done since the last look. */
void detached_file_tick(struct broker *broker);
void detached_file_look(struct broker *broker); /* once a second: a file that is mostly void is written anew */
void detached_unwritten(struct detached_store *detached, struct entry *entry, bool unwritten);

#endif
