/*
 * sequence_internal.h - what sequence.c (sequences and their jobs under way) and sequence_admit.c (which job may be the next of one) share.
 * Threads: owner.
 */
#ifndef SEQUENCE_INTERNAL_H
#define SEQUENCE_INTERNAL_H

#include "sequence.h"

#define SEQUENCE_REASON_BYTES 192u

struct sequence {
    struct table_node by_key;
    TAILQ_ENTRY(sequence) in_all;
    struct session *session; /* ends them before it goes */
    uint32_t tenant;
    uint64_t client, id;
    char *model;
    uint64_t version;
    uint64_t worker;          /* uuid; 0 = no job of it was given to one */
    struct effect moves;      /* EFFECT_SEQUENCE_MOVES */
    enum pen_status failed;   /* since its effect was posted: how the first job that did not end well ended */
    bool advanced, last_done; /* the job under way has ended; it was the one that ends the sequence */
    struct job *current;
    struct job_list waiting;
    uint64_t first_job, last_job; /* sequence numbers of the one that began it and of the newest */
    uint64_t idle_us, due_us;
    uint32_t due_place;
    bool ended;
    enum pen_status status; /* ended: what its jobs are told */
    char reason[SEQUENCE_REASON_BYTES];
};
TAILQ_HEAD(sequence_list, sequence);

struct sequences {
    struct table by_key;
    struct sequence_list all, ended; /* open ones; those that are told why, oldest first */
    struct heap due;                 /* those that nobody works on */
    uint64_t count, open;
    uint32_t by_tenant[TENANTS_MAX]; /* open */
};

/* NULL: there is none, not even one that has ended. client: uuid of its session; model: by name, whatever the version. */
struct sequence *sequence_find(const struct sequences *sequences, uint64_t client, uint64_t id, const char *model);
/* In `us` from now it is closed for silence, or forgotten if it has ended, unless this is called again. */
void sequence_due_set(struct broker *broker, struct sequence *sequence, uint64_t us);
/* Jobs that wait are told; one that runs is left to end by itself. Nothing happens to one that has ended. why: a clause for people. */
void sequence_close(struct broker *broker, struct sequence *sequence, enum pen_status status, const char *why);
/* Frees it. No job of it may be left. */
void sequence_forget(struct sequences *sequences, struct sequence *sequence);

#endif
