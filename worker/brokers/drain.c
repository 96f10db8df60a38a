/* drain.c - DRAIN and PING to every broker, then the last results, then GOODBYE. */
#include "drain.h"

#include <inttypes.h>
#include <unistd.h>

#include "logline.h"
#include "notify.h"
#include "words.h"

#define BARRIER_WAIT_US 1000000u /* a broker that does not answer PING */

/* The PONG comes after all that the broker sent before it read the DRAIN. */
void drain_say(struct link *link)
{
    link_send(link, FRAME_DRAIN);
    link->drain_ping = link_ping(link);
}

void drain_begin(struct serve *serve, uint64_t now_us, const char *why)
{
    if (serve->draining)
        return;
    size_t jobs = brokers_in_flight_jobs(serve->brokers);
    log_event(LOG_INFO, "drain", "reason=%s held_jobs=%zu", why, jobs);
    serve->draining = true;
    serve->drain_us = now_us;
    notify_send("STOPPING=1\nSTATUS=draining: %zu %s still held", jobs, words_plural(jobs, "job is", "jobs are"));
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (serve->brokers->links[i].state == LINK_SERVING)
            drain_say(&serve->brokers->links[i]);
}

/*
 * True when nothing is held for that broker, nothing waits to be sent to it, and nothing can be on its way from it. A
 * broker that cannot be reached gets a moment to come back. After that its results are given up, because its clients
 * must ask again anyway.
 */
static bool link_drained(const struct serve *serve, const struct link *link, uint64_t now_us)
{
    bool gone = link->state != LINK_SERVING && now_us - serve->drain_us > BARRIER_WAIT_US;
    if (link->in_flight.dispatches > 0 || (!gone && (link->unsent || link->transfers.departures)))
        return false;
    bool read = link->drain_ping != 0 && link->pongs >= link->drain_ping;
    return read || link->state != LINK_SERVING || now_us - serve->drain_us > BARRIER_WAIT_US;
}

static bool all_drained(const struct serve *serve, uint64_t now_us)
{
    for (size_t i = 0; i < serve->brokers->count; i++)
        if (!link_drained(serve, &serve->brokers->links[i], now_us))
            return false;
    return true;
}

static void goodbye(const struct serve *serve)
{
    for (size_t i = 0; i < serve->brokers->count; i++) {
        struct link *link = &serve->brokers->links[i];
        if (link->unsent)
            log_event(LOG_WARN, "results_left", "broker=%s bytes=%zu reason=\"it cannot be reached\"", link->endpoint,
                      link->unsent_bytes);
        link_send(link, FRAME_GOODBYE);
    }
}

/* Returns -1 to go on, else the exit code. */
int drain_check(struct serve *serve, uint64_t now_us)
{
    if (!serve->draining)
        return -1;
    if (all_drained(serve, now_us)) {
        goodbye(serve);
        serve->drained = true;
        const struct stats *stats = serve->stats;
        log_event(LOG_INFO, "drained",
                  "jobs_done=%" PRIu64 " jobs_failed=%" PRIu64 " batches=%" PRIu64 " prepared=%" PRIu64
                  " rows_filled=%" PRIu64,
                  (uint64_t)atomic_load(&stats->jobs_done), (uint64_t)atomic_load(&stats->jobs_failed),
                  (uint64_t)atomic_load(&stats->batches), (uint64_t)atomic_load(&stats->prepared),
                  (uint64_t)atomic_load(&stats->rows_filled));
        return WORKER_EXIT_OK;
    }
    if (now_us - serve->drain_us < (uint64_t)serve->options->drain_timeout_us)
        return -1;
    log_event(LOG_ERROR, "drain_timeout", "held_jobs=%zu error=%s", brokers_in_flight_jobs(serve->brokers),
              "jobs still run after the time for draining: they are left to other workers");
    _exit(WORKER_EXIT_FAILED); /* their slots cannot be joined */
}
