/*
 * arrival_log.h - when jobs came: the last of them, while somebody writes them down (`penstock load --record`).
 *
 * Nothing is kept until somebody asks; nobody asks for ARRIVAL_LOG_FORGET_US: all is forgotten. A job counts once,
 * when it is admitted or answered from the cache; one that its client sends again after a lost connection does not.
 * Kept are time, model and sizes: no payload, no client, no tenant.
 * Threads: owner.
 */
#ifndef ARRIVAL_LOG_H
#define ARRIVAL_LOG_H

#include "admit.h"
#include "broker_state.h"

#define ARRIVAL_LOG_COUNT     65536u /* 2 MiB: three seconds of 20,000 jobs a second */
#define ARRIVAL_LOG_MODELS    256u   /* names; arrivals of further ones count as missed */
#define ARRIVAL_LOG_FORGET_US 60000000u

struct arrival_note {
    uint64_t at_us;            /* by the broker's clock */
    uint64_t bytes;            /* of the inputs */
    uint64_t deadline_us : 48; /* that the job came with; 0 = none */
    uint64_t model : 16;       /* index into the names */
    uint32_t rows;
    uint8_t priority;
};

struct arrival_log {
    uint64_t next;     /* number of the next arrival; those before it are kept, up to ARRIVAL_LOG_COUNT */
    uint64_t asked_us; /* when somebody asked last */
    uint64_t unnamed;  /* arrivals that are not kept, because there were too many models */
    char *names[ARRIVAL_LOG_MODELS];
    size_t names_count;
    struct arrival_note notes[ARRIVAL_LOG_COUNT]; /* number i is at i % ARRIVAL_LOG_COUNT */
};

/* Notes a job that was just judged, if somebody wants to know; bytes: of its inputs. */
void arrival_log_note(struct broker *broker, const struct envelope *env, const struct admission *admission,
                      uint64_t bytes);
/* The log, begun now if there is none; NULL without memory. Whoever asks keeps it alive. */
const struct arrival_log *arrival_log_ask(struct broker *broker);
/* The number of the first arrival that is still kept. */
uint64_t arrival_log_first(const struct arrival_log *log);
void arrival_log_free(struct arrival_log *log); /* NULL is fine */

#endif
