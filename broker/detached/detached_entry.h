/*
 * detached_entry.h - one detached job as this broker knows it, and the tables that find it: by id, by state, by the end
 * of its time.
 *
 * The insides of the detached store (detached.h), shared by its files: detached_run.c runs entries, detached_file.c
 * keeps them in the journal, detached_shared.c in Redis. Threads: owner.
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
    ENTRY_ACCEPTING, /* not in the journal or in Redis yet */
    ENTRY_WAITING,   /* waits for a worker */
    ENTRY_RUNNING,   /* runs as a job of the broker like any other */
    ENTRY_DONE,
    ENTRY_STATES
};

struct entry {
    struct table_node by_id;
    TAILQ_ENTRY(entry) in_state;
    struct job_id id;
    enum entry_state state;
    bool shared; /* kept in Redis, or on its way there; else kept in the journal */
    struct owner owner;
    const struct tenant *tenant;
    struct identity *identity;      /* the identity whose quota counts the request; NULL: none */
    struct shared_message *request; /* NULL when the job is done */
    struct shared_message *reply;   /* NULL until the job is done */
    enum pen_status status;
    uint32_t expiry_place;
    uint64_t ticket;       /* ticket of its record that the journal is writing; 0 = none */
    uint64_t expires_us;   /* wall clock */
    uint64_t since_us;     /* since when it is in this state */
    uint64_t record_bytes; /* size of its last record in the journal */
    bool unwritten;        /* its result is not in the journal yet */
    uint64_t accepted_us;  /* accepted at this time of our clock; also computed for a job from before our start */
    uint32_t attempts;     /* how often a broker began to run it */
};
TAILQ_HEAD(entry_list, entry);

struct shared;

struct detached_store {
    struct journal *journal; /* NULL = none */
    int journal_lock;        /* lock on the journal, held while this descriptor is open; -1 = none */
    struct shared *shared;   /* the jobs in Redis; NULL = Redis is not used */
    struct table by_id;
    struct entry_list lists[ENTRY_STATES];
    struct heap expiry;
    struct watches watches; /* clients that wait for results */
    uint64_t count, look_us;
    uint64_t live_bytes, unwritten; /* in the journal: bytes that still count; results to be written again */
    uint64_t compact_us;            /* do not rewrite the journal before this time */
    uint64_t dealt;                 /* the last ticket that the journal has finished, well or badly */
    uint64_t (*wall)(void);         /* microseconds since 1970 */
};

struct detached_store *detached_new(void); /* NULL without memory */

struct entry *entry_find(const struct detached_store *detached, struct job_id id);
/* Makes an entry: WAITING, or ACCEPTING for a new job. NULL beyond DETACHED_JOBS_MAX or without memory. */
struct entry *entry_new(struct detached_store *detached, struct job_id id, const struct tenant *tenant,
                        uint64_t expires_us, enum entry_state state);
void entry_move(struct detached_store *detached, struct entry *entry, enum entry_state state, uint64_t now_us);
void entry_free(struct detached_store *detached, struct entry *entry);
/* Frees the request, which is not needed any more, and gives back the quota that it used. */
void entry_drop_request(struct entry *entry);

/* Tells the clients that wait for the entry how it ended. */
void detached_tell(struct broker *broker, struct entry *entry);

/* Submits a waiting entry to the broker as a job (detached_run.c). */
void detached_run(struct broker *broker, struct entry *entry);
/* Ends the entry with this reply, which it takes. The job may have ended without a run. */
void detached_settle(struct broker *broker, struct entry *entry, struct shared_message *reply, enum pen_status status);

/* How long and for whom a detached job is kept, as its meta says. */
struct wishes {
    uint64_t ttl_us;
    char model[256];
    struct owner owner;
};

/* Keeps an ACCEPTING entry in the journal and not in Redis; the client is answered when the record is durable. */
enum pen_status detached_keep(struct broker *broker, struct entry *entry, struct pen_error *reterr);

/* Gives the journal a record of the entry (detached_file.c). */
enum pen_status detached_record(struct detached_store *detached, struct entry *entry, unsigned type,
                                struct pen_error *reterr);
/* Handles what the journal has finished since the last call. */
void detached_file_tick(struct broker *broker);
void detached_file_look(struct broker *broker); /* once a second: rewrites a file that is mostly void records */
void detached_unwritten(struct detached_store *detached, struct entry *entry, bool unwritten);

#endif
