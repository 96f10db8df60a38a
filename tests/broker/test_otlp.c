/* Traces on their way to a collector: a batch at a time, counted as it ends; what cannot be sent is dropped and counted. The collector is a thread of this test. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "otlp.h"
#include "process.h"

#define BATCH 64u /* METRICS.md: batches leave once a second, or when so many wait */

static struct collector {
    int door;
    char url[64];
    const char *answer; /* NULL: it is read when `go` is set, and answered with 200 */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go, slowly; /* slowly: the answer comes byte by byte */
    unsigned requests, traces;
    char head[512];
} collector = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned times(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* One request: its head, and as much body as that says. malloc'd. */
static char *read_request(int fd)
{
    size_t used = 0, room = 1u << 20;
    char *text = calloc(1, room);
    for (;;) {
        const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (body && length && used >= (size_t)(body + 4 - text) + strtoul(length + 16, NULL, 10))
            return text;
        ssize_t got = recv(fd, text + used, room - 1 - used, 0);
        if (got <= 0)
            return text;
        used += (size_t)got;
    }
}

static void serve(int fd)
{
    pthread_mutex_lock(&collector.lock);
    while (!collector.answer && !collector.go)
        pthread_cond_wait(&collector.changed, &collector.lock);
    pthread_mutex_unlock(&collector.lock);
    char *text = read_request(fd);
    const char *answer = collector.answer ? collector.answer : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    pthread_mutex_lock(&collector.lock);
    collector.requests++;
    collector.traces += times(text, "\"penstock.job\""); /* one root span each */
    snprintf(collector.head, sizeof collector.head, "%.200s", text);
    pthread_mutex_unlock(&collector.lock);
    size_t length = strlen(answer), step = collector.slowly ? 1 : length;
    for (size_t at = 0; at < length; at += step) {
        (void)!write(fd, answer + at, step);
        if (collector.slowly)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* so that it is read alone */
    }
    free(text);
}

static void *collect(void *context)
{
    (void)context;
    for (int fd; (fd = accept(collector.door, NULL, NULL)) >= 0; close(fd))
        serve(fd);
    return NULL;
}

static void open_collector(const char *answer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    collector.answer = answer;
    collector.door = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(collector.door, (struct sockaddr *)&at, bytes) == 0 && listen(collector.door, 8) == 0);
    cr_assert(getsockname(collector.door, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(collector.url, sizeof collector.url, "http://127.0.0.1:%u/v1/traces", ntohs(at.sin_port));
    cr_assert(pthread_create(&collector.thread, NULL, collect, NULL) == 0);
}

static void close_collector(void)
{
    shutdown(collector.door, SHUT_RDWR);
    pthread_join(collector.thread, NULL);
    close(collector.door);
}

static struct otlp *open_otlp(void)
{
    struct otlp *otlp = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert(otlp_new(collector.url, &otlp, &error) == PEN_OK, "%s", error.text);
    return otlp;
}

static void push(struct otlp *otlp, unsigned count)
{
    static const struct model_tally model = {.name = "plain", .version = 1};
    for (unsigned i = 0; i < count; i++)
        otlp_push(otlp, &(struct job_trace){.id = {7, i + 1}, .total_us = 1000, .ended_us = 5000}, &model, NULL, 0);
}

static struct otlp_report report_when(struct otlp *otlp, uint64_t ended)
{
    struct otlp_report report;
    for (int i = 0; i < 1000; i++) {
        otlp_report(otlp, &report);
        if (report.exported + report.dropped >= ended)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return report;
}

Test(otlp, a_full_batch_leaves_at_once_and_the_rest_at_the_end)
{
    open_collector("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    struct otlp_report report = report_when(otlp, BATCH);
    cr_expect(report.exported == BATCH && report.dropped == 0 && report.failures == 0, "%llu",
              (unsigned long long)report.exported);
    push(otlp, 3);
    otlp_free(otlp);
    close_collector();
    cr_expect_eq(collector.traces, BATCH + 3, "%u", collector.traces);
    cr_expect(strncmp(collector.head, "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:", 40) == 0, "%s", collector.head);
    cr_expect(strstr(collector.head, "Content-Type: application/json\r\n"));
}

/* From the last trace of a batch to its arrival, when the thread waits for it. */
static uint64_t last_one_us(void)
{
    open_collector("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH - 1);
    support_sleep_ms(50);
    uint64_t begun_us = support_now_us();
    push(otlp, 1);
    report_when(otlp, BATCH);
    uint64_t took_us = support_now_us() - begun_us;
    otlp_free(otlp);
    close_collector();
    return took_us;
}

/* The period is a second; of some tries on a busy machine one is quick. */
Test(otlp, the_trace_that_fills_a_batch_sends_it)
{
    uint64_t took_us = UINT64_MAX;
    for (int i = 0; i < 6 && took_us > 400000; i++)
        took_us = last_one_us();
    cr_expect_leq(took_us, 400000);
}

Test(otlp, what_a_collector_refuses_is_dropped_and_counted)
{
    open_collector("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    struct otlp_report report = report_when(otlp, BATCH);
    cr_expect(report.exported == 0 && report.dropped == BATCH && report.failures == 1);
    otlp_free(otlp);
    close_collector();
}

Test(otlp, an_answer_that_is_no_http_is_a_refusal)
{
    open_collector("nonsense, not HTTP at all");
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    struct otlp_report report = report_when(otlp, BATCH);
    cr_expect(report.exported == 0 && report.dropped == BATCH && report.failures == 1);
    otlp_free(otlp);
    close_collector();
}

Test(otlp, a_collector_that_is_away_costs_traces_alone)
{
    open_collector("");
    close_collector();
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    struct otlp_report report = report_when(otlp, BATCH);
    cr_expect(report.exported == 0 && report.dropped == BATCH && report.failures == 1);
    otlp_free(otlp);
}

Test(otlp, what_waits_is_bounded)
{
    open_collector(NULL);
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the thread has that batch, and waits for the answer */
    push(otlp, OTLP_QUEUE_MAX + BATCH + 10);
    struct otlp_report report;
    otlp_report(otlp, &report);
    cr_expect(report.dropped >= 10 && report.dropped <= BATCH + 10, "%llu", (unsigned long long)report.dropped);
    uint64_t dropped = report.dropped, all = OTLP_QUEUE_MAX + 2 * BATCH + 10;
    pthread_mutex_lock(&collector.lock);
    collector.go = true;
    pthread_cond_broadcast(&collector.changed);
    pthread_mutex_unlock(&collector.lock);
    report = report_when(otlp, all);
    cr_expect(report.exported == all - dropped && report.dropped == dropped && report.failures == 0);
    otlp_free(otlp);
    close_collector();
    cr_expect_eq(collector.traces, report.exported);
}

Test(otlp, an_answer_may_come_byte_by_byte)
{
    int on = 1;
    collector.slowly = true;
    open_collector("HTTP/1.1 200 OK\r\n\r\n");
    setsockopt(collector.door, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets inherit it */
    struct otlp *otlp = open_otlp();
    push(otlp, BATCH);
    struct otlp_report report = report_when(otlp, BATCH);
    cr_expect(report.exported == BATCH && report.dropped == 0 && report.failures == 0);
    otlp_free(otlp);
    close_collector();
}
