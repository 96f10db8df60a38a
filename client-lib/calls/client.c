/* client.c - a session's life: options, connect, wait, free. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client_ref.h"
#include "connection.h"
#include "deadline.h"
#include "drive.h"
#include "finish.h"
#include "job.h"
#include "keeper.h"
#include "timers.h"
#include "version.h"

#define NAME_BYTES_MAX 255u

const char *pen_precision_name(unsigned precision)
{
    return precision_name(precision);
}

const char *pen_client_version(void)
{
    return PENSTOCK_VERSION;
}

void pen_client_options_init(struct pen_client_options *options, size_t struct_bytes)
{
    const struct pen_client_options defaults = {
        .endpoint = "tcp://127.0.0.1:5550",
        .name = "client",
        .unreachable_us = 10000000,
        .jobs_max = 4096,
        .bytes_max = UINT64_C(1) << 30,
        .frame_bytes_max = UINT64_C(256) << 20,
        .spin_us = 50,
    };
    memset(options, 0, struct_bytes);
    memcpy(options, &defaults, struct_bytes < sizeof defaults ? struct_bytes : sizeof defaults);
    options->struct_bytes = struct_bytes;
}

/* Fields that a caller built against an older header does not have get their defaults. */
static struct pen_client_options options_known(const struct pen_client_options *options)
{
    struct pen_client_options known;
    pen_client_options_init(&known, sizeof known);
    if (options) {
        memcpy(&known, options, options->struct_bytes < sizeof known ? options->struct_bytes : sizeof known);
    }
    return known;
}

static bool texts_good(const char *endpoint, const char *name, const char *tenant)
{
    return endpoint && strnlen(name, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX &&
           strnlen(tenant, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX;
}

/* Spinning steals the CPU from the very peer we wait for when there is only one. */
static bool several_cpus(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

static enum pen_status client_new(const struct pen_client_options *o, struct pen_client **ret_client,
                                  struct pen_error *reterr)
{
    bool has_tenant = o->tenant && *o->tenant && strcmp(o->tenant, "default") != 0;
    const char *name = o->name ? o->name : "";
    if (!texts_good(o->endpoint, name, has_tenant ? o->tenant : "")) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "endpoint, name and tenant must be texts; name and tenant of at most %u bytes.",
                             NAME_BYTES_MAX);
    }
    struct pen_client *c = calloc(1, sizeof *c);
    if (!c) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a client.");
    }
    atomic_init(&c->references, 1);
    atomic_init(&c->nudged, false);
    pthread_mutex_init(&c->lock, NULL);
    c->finished_fd = -1;
    c->finished_tail = &c->finished;
    c->ordered_tail = &c->ordered;
    c->endpoint = strndup(o->endpoint, ENDPOINTS_BYTES_MAX + 1);
    c->name = strdup(name);
    c->tenant = has_tenant ? strdup(o->tenant) : NULL;
    c->unreachable_us = o->unreachable_us > 0 ? o->unreachable_us : 0;
    c->tell_drain = o->tell_drain;
    c->stays = o->stays;
    c->grace_us = o->grace_us;
    c->bytes_max = o->bytes_max;
    c->jobs_max = o->jobs_max;
    spin_init(&c->spin, several_cpus() ? o->spin_us : 0);
    pending_init(&c->pending);
    session_init(&c->session);
    if (!c->endpoint || !c->name || (has_tenant && !c->tenant)) {
        client_release(c);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a client.");
    }
    enum pen_status status = endpoints_parse(c->endpoint, &c->brokers, reterr);
    if (status != PEN_OK) {
        client_release(c);
        return status;
    }
    *ret_client = c;
    return PEN_OK;
}

/* Opens a socket to each broker here, so that a malformed endpoint is told at once. */
static enum pen_status endpoints_check(struct pen_client *c, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < c->brokers.count && status == PEN_OK; i++) {
        status = link_open(&c->link, c->brokers.texts[i], reterr);
        link_close(&c->link, 0);
    }
    return status;
}

static enum pen_status client_start(struct pen_client *c, uint64_t frame_bytes_max, const struct key_set *keys,
                                    struct pen_error *reterr)
{
    enum pen_status status = link_init(&c->link, frame_bytes_max, c->jobs_max, reterr);
    if (status != PEN_OK) {
        return status;
    }
    c->link.keys = *keys;
    status = endpoints_check(c, reterr);
    if (status == PEN_OK) {
        status = endpoints_resolve(&c->brokers, ENDPOINT_NAMES_KEPT, reterr);
    }
    if (status == PEN_OK) {
        connection_spread(c);
        pthread_mutex_lock(&c->lock);
        timers_run(c, clock_now_us());
        pthread_mutex_unlock(&c->lock);
        status = keeper_start(c, reterr);
    }
    if (status != PEN_OK) {
        link_fini(&c->link);
    }
    return status;
}

enum pen_status pen_client_connect(const struct pen_client_options *options, pen_client **ret_client,
                                   struct pen_error *reterr)
{
    struct pen_client_options o = options_known(options);
    struct pen_client *c = NULL;
    struct key_set keys;
    enum pen_status status = key_set_read(o.key_file, o.broker_key, &keys, reterr);
    if (status == PEN_OK) {
        status = client_new(&o, &c, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    status = client_start(c, o.frame_bytes_max, &keys, reterr);
    key_pair_wipe(&keys.own);
    if (status != PEN_OK) {
        client_release(c);
        return status;
    }
    if (o.connect_timeout_us > 0) {
        status = pen_client_wait_ready(c, o.connect_timeout_us, reterr);
        if (status != PEN_OK) {
            pen_client_free(c);
            return status;
        }
    }
    *ret_client = c;
    return PEN_OK;
}

enum pen_status pen_client_wait_ready(pen_client *c, int64_t timeout_us, struct pen_error *reterr)
{
    uint64_t limit = timeout_us < 0 ? DEADLINE_NONE : clock_now_us() + (uint64_t)timeout_us;
    pthread_mutex_lock(&c->lock);
    drive_until(c, &c->session.settled, limit);
    enum pen_status status = c->session.state == SESSION_READY     ? PEN_OK
                             : c->session.state == SESSION_REFUSED ? c->session.refusal.status
                                                                   : PEN_ERR_UNAVAILABLE;
    if (status == PEN_ERR_UNAVAILABLE && c->session.state == SESSION_HELLO) {
        const char *trouble = connection_trouble(c);
        pen_error_set(reterr, status, "no broker answers at %s%s%s; is penstock-broker running there?", c->endpoint,
                      *trouble ? ": " : "", trouble);
    } else if (status != PEN_OK) {
        pen_error_set(reterr, status, "%s", c->session.refusal.text);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

void pen_client_free(pen_client *c)
{
    if (!c) {
        return;
    }
    keeper_stop(c);
    pthread_mutex_lock(&c->lock);
    connection_end(c);
    drive_changed(c);
    struct pen_job *job;
    while ((job = finish_take(c)) != NULL) {
        job_release(job); /* never the last reference of the client: the handle's is still ours */
    }
    pthread_mutex_unlock(&c->lock);
    link_fini(&c->link);
    pen_client_models_free(c->known);
    c->known = NULL;
    client_release(c);
}

void pen_client_counters(pen_client *c, struct pen_client_counters *ret_counters, size_t struct_bytes)
{
    pthread_mutex_lock(&c->lock);
    struct pen_client_counters counters = c->counters;
    counters.jobs_pending = c->pending.count;
    pthread_mutex_unlock(&c->lock);
    memset(ret_counters, 0, struct_bytes);
    memcpy(ret_counters, &counters, struct_bytes < sizeof counters ? struct_bytes : sizeof counters);
}
