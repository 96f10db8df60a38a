/*
 * brokers.h - the links to all brokers of the list, and how the worker divides itself between them.
 *
 * Every broker knows the worker and sends it jobs. Each is told how much of the worker the others use (Heartbeat.elsewhere_us) and how many dispatches per
 * slot it may have outstanding: two, or one while another broker has work here, so that nobody's prefetched batch waits behind everybody else's.
 * Two entries that lead to the same broker are noticed by its uuid, and one of them rests.
 *
 * Threads: owner - the network thread.
 */
#ifndef BROKERS_H
#define BROKERS_H

#include "endpoints.h"
#include "link.h"

struct brokers {
    struct link_context context;
    struct endpoints endpoints;
    struct link links[ENDPOINTS_MAX];
    size_t count;
    uint32_t slots;
    uint64_t job_us;                 /* running mean of a job's execution */
    uint64_t jobs_before, us_before; /* the counters it was last computed from */
    uint64_t used_us[ENDPOINTS_MAX]; /* when there was last work of that broker here */
};

/*
 * Reads the list of brokers in options and asks the resolver. Takes `context->hello` over. held_jobs, held_bytes: caps over all brokers.
 * INVALID: the list is none.
 */
enum pen_status brokers_init(struct brokers *brokers, const struct link_context *context, uint32_t slots,
                             size_t held_jobs, size_t held_bytes, struct pen_error *reterr);
void brokers_close(struct brokers *brokers, int linger_ms); /* the sockets */
void brokers_fini(struct brokers *brokers);                 /* no slot may be running; fine when never initialised */

/* INVALID: an entry is no endpoint. */
enum pen_status brokers_connect(struct brokers *brokers, uint64_t now_us, struct pen_error *reterr);
/* A welcome came: a second link to the same broker gives way to the first. */
void brokers_welcomed(struct brokers *brokers, struct link *link, uint64_t now_us);
/* Reconnects after silence; sends heartbeats that are due or whose news cannot wait, with `common` as what is the same for all. */
void brokers_check(struct brokers *brokers, uint64_t now_us);
bool brokers_beat_due(struct brokers *brokers, const struct link *link, uint64_t now_us);
void brokers_beat(struct brokers *brokers, struct link *link, Penstock__Heartbeat *common, uint64_t now_us);
uint64_t brokers_next_us(const struct brokers *brokers);

/* A changed list of models comes into force (taken over); links without a welcome say hello with it at once. */
void brokers_hello_replace(struct brokers *brokers, struct hello *hello, uint64_t now_us);

size_t brokers_in_flight_jobs(const struct brokers *brokers);
size_t brokers_in_flight_dispatches(const struct brokers *brokers);
bool brokers_serving(const struct brokers *brokers); /* at least one has welcomed this worker */
/* True when every broker has refused this worker for good; *ret_exit_code of the first. */
bool brokers_refused(const struct brokers *brokers, int *ret_exit_code);

#endif
