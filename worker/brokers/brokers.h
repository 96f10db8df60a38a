/*
 * brokers.h - the links to all brokers of the list, and how the worker divides itself between them.
 *
 * Every broker knows the worker and sends it jobs. The worker tells each broker how much the others use it
 * (Heartbeat.elsewhere_us), and how many dispatches per slot the broker may have outstanding: two, or one while another
 * broker has work here. So a broker's prefetched batch does not wait behind the batches of all others. When two entries
 * lead to the same broker, the worker sees the same uuid twice and leaves one of them closed.
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
    uint64_t jobs_before, us_before; /* the counters at the last computation */
    uint64_t used_us[ENDPOINTS_MAX]; /* when this worker last had work of that broker */
};

/*
 * Reads the list of brokers in options and asks the resolver. Takes `context->hello` over. held_jobs, held_bytes: caps over all brokers.
 * INVALID: the list is none.
 */
enum pen_status brokers_init(struct brokers *brokers, const struct link_context *context, uint32_t slots,
                             size_t held_jobs, size_t held_bytes, struct pen_error *reterr);
void brokers_close(struct brokers *brokers, int linger_ms); /* closes the sockets */
void brokers_fini(struct brokers *brokers); /* no slot may be running; fine when it was never initialised */

/* INVALID: an entry is no endpoint. */
enum pen_status brokers_connect(struct brokers *brokers, uint64_t now_us, struct pen_error *reterr);
/* A welcome came: a second link to the same broker gives way to the first. */
void brokers_welcomed(struct brokers *brokers, struct link *link, uint64_t now_us);
/* Reconnects after silence. Sends the heartbeats that are due or have urgent news; `common` has what is the same in
   all of them. */
void brokers_check(struct brokers *brokers, uint64_t now_us);
bool brokers_beat_due(struct brokers *brokers, const struct link *link, uint64_t now_us);
void brokers_beat(struct brokers *brokers, struct link *link, Penstock__Heartbeat *common, uint64_t now_us);
uint64_t brokers_next_us(const struct brokers *brokers);

/* Takes over a hello with a changed list of models; links without a welcome send it at once. */
void brokers_hello_replace(struct brokers *brokers, struct hello *hello, uint64_t now_us);

size_t brokers_in_flight_jobs(const struct brokers *brokers);
size_t brokers_in_flight_dispatches(const struct brokers *brokers);
bool brokers_serving(const struct brokers *brokers); /* at least one has welcomed this worker */
/* True when every broker has refused this worker for good; *ret_exit_code is that of the first refusal. */
bool brokers_refused(const struct brokers *brokers, int *ret_exit_code);

#endif
