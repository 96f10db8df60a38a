#include "otlp.h"

#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "logline.h"
#include "mutex.h"
#include "trace_write.h"

#define BATCH_MAX    64u
#define PERIOD_S     1
#define IO_S         2             /* for each of connecting, sending, the answer */
#define ANSWER_BYTES (64u * 1024u) /* read of an answer at most */

/* A trace with its model, version, backend and precision as text. */
struct record {
    struct job_trace trace;
    char model[METRICS_NAME_BYTES], backend[32];
    const char *precision;
    uint64_t version;
    int64_t unix_offset_us;
};

struct otlp {
    struct collector_address to;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    struct record *queue; /* [OTLP_QUEUE_MAX], a ring */
    uint32_t first, count;
    struct record batch[BATCH_MAX]; /* the thread's */
    _Atomic uint64_t exported, dropped, failures;
};

/* ---- one request ---- */

static int connect_to(const struct otlp *otlp)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    struct timeval limit = {.tv_sec = IO_S};
    int fd = -1;
    if (getaddrinfo(otlp->to.host, otlp->to.port, &hints, &all) != 0)
        return -1;
    for (struct addrinfo *at = all; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* counts for connect, too */
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(all);
    return fd;
}

static bool send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

/* The status of the answer, 0 without one. Reads the rest as well, so that the collector is not cut off while it
   writes. */
static int read_status(int fd)
{
    char line[64], rest[4096];
    size_t used = 0, more = 0;
    int status = 0;
    while (used < 12) { /* "HTTP/1.1 200" */
        ssize_t got = recv(fd, line + used, sizeof line - 1 - used, 0);
        if (got <= 0)
            return 0;
        used += (size_t)got;
    }
    line[used] = '\0';
    for (ssize_t got = 1; got > 0 && more < ANSWER_BYTES; more += (size_t)(got > 0 ? got : 0))
        got = recv(fd, rest, sizeof rest, 0);
    return sscanf(line, "HTTP/1.%*d %d", &status) == 1 ? status : 0;
}

static int post(const struct otlp *otlp, const struct writer *body)
{
    char head[sizeof otlp->to.host + sizeof otlp->to.path + 256];
    int fd = connect_to(otlp), status = 0;
    if (fd < 0)
        return 0;
    int bytes = snprintf(head, sizeof head,
                         "POST %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                         "Connection: close\r\n\r\n",
                         otlp->to.path, otlp->to.host, otlp->to.port, body->used);
    if (send_all(fd, head, (size_t)bytes) && send_all(fd, body->text, body->used))
        status = read_status(fd);
    close(fd);
    return status;
}

/* ---- the thread ---- */

static void record_fini(struct record *record)
{
    trace_layers_release(record->trace.layers);
    record->trace.layers = NULL;
}

static void send_batch(struct otlp *otlp, uint32_t count)
{
    struct trace_view views[BATCH_MAX];
    struct writer writer = {.text = NULL};
    for (uint32_t i = 0; i < count; i++) {
        const struct record *from = &otlp->batch[i];
        views[i] = (struct trace_view){.trace = &from->trace,
                                       .model = from->model,
                                       .version = from->version,
                                       .backend = from->backend,
                                       .precision = from->precision,
                                       .unix_offset_us = from->unix_offset_us};
    }
    trace_write(TRACE_OTLP, views, count, &writer);
    int status = writer.failed ? 0 : post(otlp, &writer);
    writer_fini(&writer);
    if (status >= 200 && status < 300) {
        atomic_fetch_add(&otlp->exported, count);
    } else {
        atomic_fetch_add(&otlp->failures, 1);
        atomic_fetch_add(&otlp->dropped, count);
        log_event(LOG_WARN, "traces_lost", "count=%u collector=%s:%s http_status=%d", count, otlp->to.host,
                  otlp->to.port, status);
    }
    for (uint32_t i = 0; i < count; i++)
        record_fini(&otlp->batch[i]);
}

static uint32_t take_batch(struct otlp *otlp)
{
    uint32_t count = otlp->count < BATCH_MAX ? otlp->count : BATCH_MAX;
    for (uint32_t i = 0; i < count; i++)
        otlp->batch[i] = otlp->queue[(otlp->first + i) % OTLP_QUEUE_MAX];
    otlp->first = (otlp->first + count) % OTLP_QUEUE_MAX;
    otlp->count -= count;
    return count;
}

/* Waits until there is a full batch, the period is over, or the end has come. */
static void wait_for_some(struct otlp *otlp)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PERIOD_S;
    int error = 0;
    while (!otlp->ending && otlp->count < BATCH_MAX && error == 0)
        error = pthread_cond_timedwait(&otlp->changed, &otlp->lock, &until);
}

static void *otlp_main(void *context)
{
    struct otlp *otlp = context;
    mutex_take(&otlp->lock);
    for (;;) {
        wait_for_some(otlp);
        uint32_t count = take_batch(otlp);
        bool ending = otlp->ending;
        mutex_give(&otlp->lock);
        if (count)
            send_batch(otlp, count);
        mutex_take(&otlp->lock);
        if (ending)
            break; /* one last batch */
    }
    mutex_give(&otlp->lock);
    return NULL;
}

/* ---- life ---- */

enum pen_status otlp_new(const char *url, struct otlp **ret_otlp, struct pen_error *reterr)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    struct collector_address to;
    enum pen_status status = address_collector(url, &to, reterr);
    struct otlp *otlp = status == PEN_OK ? calloc(1, sizeof *otlp) : NULL;
    if (status != PEN_OK)
        return status;
    if (otlp)
        otlp->queue = calloc(OTLP_QUEUE_MAX, sizeof otlp->queue[0]);
    if (!otlp || !otlp->queue) {
        free(otlp);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for --trace-otlp");
    }
    otlp->to = to;
    mutex_init(&otlp->lock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&otlp->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all); /* signals go to the loop */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&otlp->thread, NULL, otlp_main, otlp);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        pthread_cond_destroy(&otlp->changed);
        mutex_fini(&otlp->lock);
        free(otlp->queue);
        free(otlp);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no thread for --trace-otlp: %s", strerror(error));
    }
    *ret_otlp = otlp;
    return PEN_OK;
}

void otlp_free(struct otlp *otlp)
{
    if (!otlp)
        return;
    mutex_take(&otlp->lock);
    otlp->ending = true;
    pthread_cond_signal(&otlp->changed);
    mutex_give(&otlp->lock);
    pthread_join(otlp->thread, NULL);
    while (otlp->count > 0) {
        uint32_t count = take_batch(otlp);
        for (uint32_t i = 0; i < count; i++)
            record_fini(&otlp->batch[i]);
    }
    pthread_cond_destroy(&otlp->changed);
    mutex_fini(&otlp->lock);
    free(otlp->queue);
    free(otlp);
}

/* ---- the loop ---- */

void otlp_push(struct otlp *otlp, const struct job_trace *trace, const struct model_tally *model,
               const struct series_tally *series, int64_t unix_offset_us)
{
    mutex_take(&otlp->lock); /* the thread holds it for copies of 64 records at most */
    if (otlp->count == OTLP_QUEUE_MAX) {
        atomic_fetch_add(&otlp->dropped, 1);
    } else {
        struct record *record = &otlp->queue[(otlp->first + otlp->count++) % OTLP_QUEUE_MAX];
        record->trace = *trace;
        trace_layers_keep(record->trace.layers);
        snprintf(record->model, sizeof record->model, "%s", model->name);
        snprintf(record->backend, sizeof record->backend, "%s", series ? series->backend : "");
        record->precision = series ? precision_name(series->precision) : "";
        record->version = model->version;
        record->unix_offset_us = unix_offset_us;
        if (otlp->count == 1 || otlp->count == BATCH_MAX)
            pthread_cond_signal(&otlp->changed);
    }
    mutex_give(&otlp->lock);
}

void otlp_report(struct otlp *otlp, struct otlp_report *ret_report)
{
    *ret_report = (struct otlp_report){.exported = atomic_load(&otlp->exported),
                                       .dropped = atomic_load(&otlp->dropped),
                                       .failures = atomic_load(&otlp->failures)};
}
