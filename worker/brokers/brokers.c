/* brokers.c - a fixed array of links, and what needs more than one of them. */
#include "brokers.h"

#include "deadline.h"

#include <inttypes.h>

#define CREDIT_ALONE    2u /* dispatches per slot: one runs, one is prefetched */
#define CREDIT_SHARED   1u
#define USED_FOR_US     1000000u /* after its last job a broker counts as using the worker for this long */
#define NEWS_STEP_US    50000u   /* between heartbeats that only tell of a changed credit */
#define DUPLICATE_US    300000000u
#define MEAN_JOBS_LEAST 4u

enum pen_status brokers_init(struct brokers *brokers, const struct link_context *context, uint32_t slots,
                             size_t held_jobs, size_t held_bytes, struct pen_error *reterr)
{
    enum pen_status status = endpoints_parse(context->options->broker, &brokers->endpoints, reterr);
    brokers->context = *context;
    brokers->slots = slots;
    if (status != PEN_OK)
        return status;
    status = endpoints_resolve(&brokers->endpoints, ENDPOINT_NAMES_REPLACED, reterr);
    if (status != PEN_OK)
        return status;
    brokers->count = brokers->endpoints.count;
    for (size_t i = 0; i < brokers->count; i++)
        link_init(&brokers->links[i], &brokers->context, brokers->endpoints.texts[i], held_jobs,
                  held_bytes / brokers->count);
    return PEN_OK;
}

void brokers_close(struct brokers *brokers, int linger_ms)
{
    for (size_t i = 0; i < brokers->count; i++)
        link_close(&brokers->links[i], linger_ms);
}

void brokers_fini(struct brokers *brokers)
{
    for (size_t i = 0; i < brokers->count; i++)
        link_fini(&brokers->links[i]);
    endpoints_fini(&brokers->endpoints);
    hello_free(brokers->context.hello);
    brokers->context.hello = NULL;
    brokers->count = 0;
}

enum pen_status brokers_connect(struct brokers *brokers, uint64_t now_us, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < brokers->count && status == PEN_OK; i++)
        status = link_connect(&brokers->links[i], now_us, reterr);
    return status;
}

void brokers_welcomed(struct brokers *brokers, struct link *link, uint64_t now_us)
{
    for (size_t i = 0; i < brokers->count; i++) {
        const struct link *other = &brokers->links[i];
        if (other == link || other->state != LINK_SERVING || other->broker_uuid != link->broker_uuid)
            continue;
        log_event(LOG_WARN, "broker_twice", "broker=%s same_as=%s", link->endpoint, other->endpoint);
        link_park(link, now_us + DUPLICATE_US);
        /* the broker took the newer connection for this worker's only one: the older one says hello again */
        link_resume(&brokers->links[i], now_us);
        return;
    }
}

void brokers_check(struct brokers *brokers, uint64_t now_us)
{
    for (size_t i = 0; i < brokers->count; i++)
        link_check(&brokers->links[i], now_us);
}

/* ---- sharing ----------------------------------------------------------------------------------------------------------------------- */

static bool used_by_others(struct brokers *brokers, const struct link *link, uint64_t now_us)
{
    bool used = false;
    for (size_t i = 0; i < brokers->count; i++) {
        if (brokers->links[i].in_flight.dispatches > 0)
            brokers->used_us[i] = now_us;
        bool recently = brokers->used_us[i] != 0 && now_us - brokers->used_us[i] < USED_FOR_US;
        used |= &brokers->links[i] != link && recently && brokers->links[i].state == LINK_SERVING;
    }
    return used;
}

static uint32_t credit_now(struct brokers *brokers, const struct link *link, uint64_t now_us)
{
    return used_by_others(brokers, link, now_us) ? CREDIT_SHARED : CREDIT_ALONE;
}

bool brokers_beat_due(struct brokers *brokers, const struct link *link, uint64_t now_us)
{
    if (link->state != LINK_SERVING)
        return false;
    if (now_us >= link_beat_due_us(link))
        return true;
    return brokers->count > 1 && now_us >= link->beat_us + NEWS_STEP_US &&
           credit_now(brokers, link, now_us) != link->credit_told;
}

static void mean_update(struct brokers *brokers)
{
    uint64_t jobs = atomic_load(&brokers->context.stats->jobs_done);
    uint64_t us = atomic_load(&brokers->context.stats->compute_us);
    if (jobs < brokers->jobs_before + MEAN_JOBS_LEAST)
        return;
    uint64_t mean_us = (us - brokers->us_before) / (jobs - brokers->jobs_before);
    brokers->job_us = brokers->jobs_before == 0 ? mean_us : (brokers->job_us + mean_us) / 2;
    brokers->jobs_before = jobs;
    brokers->us_before = us;
}

void brokers_beat(struct brokers *brokers, struct link *link, Penstock__Heartbeat *common, uint64_t now_us)
{
    mean_update(brokers);
    common->credit = link->credit_told = credit_now(brokers, link, now_us);
    common->elsewhere_us = (brokers_in_flight_jobs(brokers) - link->in_flight.jobs) * brokers->job_us / brokers->slots;
    link_heartbeat(link, common, now_us);
}

uint64_t brokers_next_us(const struct brokers *brokers)
{
    uint64_t next_us = DEADLINE_NONE;
    for (size_t i = 0; i < brokers->count; i++) {
        uint64_t one_us = link_next_us(&brokers->links[i]);
        next_us = one_us < next_us ? one_us : next_us;
    }
    return next_us;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

void brokers_hello_replace(struct brokers *brokers, struct hello *hello, uint64_t now_us)
{
    hello_free(brokers->context.hello);
    brokers->context.hello = hello;
    for (size_t i = 0; i < brokers->count; i++) {
        if (brokers->links[i].state == LINK_HELLO)
            link_reconnect(&brokers->links[i], now_us);
    }
}

size_t brokers_in_flight_jobs(const struct brokers *brokers)
{
    size_t jobs = 0;
    for (size_t i = 0; i < brokers->count; i++)
        jobs += brokers->links[i].in_flight.jobs;
    return jobs;
}

size_t brokers_in_flight_dispatches(const struct brokers *brokers)
{
    size_t dispatches = 0;
    for (size_t i = 0; i < brokers->count; i++)
        dispatches += brokers->links[i].in_flight.dispatches;
    return dispatches;
}

bool brokers_serving(const struct brokers *brokers)
{
    for (size_t i = 0; i < brokers->count; i++)
        if (brokers->links[i].state == LINK_SERVING)
            return true;
    return false;
}

bool brokers_refused(const struct brokers *brokers, int *ret_exit_code)
{
    for (size_t i = 0; i < brokers->count; i++)
        if (brokers->links[i].state != LINK_REFUSED)
            return false;
    *ret_exit_code = brokers->links[0].exit_code;
    return brokers->count > 0;
}
