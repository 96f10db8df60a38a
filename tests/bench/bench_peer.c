/*
 * bench_peer SYSTEM PORT BYTES WINDOW JOBS - jobs of BYTES bytes through another job system and back from a worker that echoes them, WINDOW under way.
 * bench_peer SYSTEM PORT BYTES fill JOBS   - JOBS jobs that nobody takes; says `filled` and waits for the end of its input.
 *
 * SYSTEM: gearmand, beanstalkd, redis-list, redis-streams, nats. Client and worker speak its own protocol over loopback TCP as tersely as it allows; the worker is a
 * child process. Prints what bench_client prints.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "deadline.h"
#include "peer_link.h"
#include "wire.h"

#define WORKER_START_US 200000 /* NATS drops what nobody listens for yet */
#define TAKE_AT_ONCE    64     /* jobs, where the system can give several */

struct run {
    struct peer_link *out, *in; /* the client's: jobs go, answers come; one connection where the system allows it */
    uint8_t *payload;
    size_t bytes;
    size_t answers;      /* read by the last receive */
    uint64_t unanswered; /* acknowledgements that have not been read from `out` */
};

struct peer {
    const char *name;
    void (*open)(struct run *run, int port);
    void (*submit)(struct run *run, uint64_t number);
    void (*receive)(struct run *run); /* waits for an answer or several */
    void (*work)(int port, size_t bytes);
    void (*fill)(struct run *run, uint64_t number); /* NULL: it does not queue */
};

/* ---- gearmand: binary packets, one job a turn for the worker ---- */

enum {
    CAN_DO = 1,
    PRE_SLEEP = 4,
    NOOP = 6,
    SUBMIT = 7,
    CREATED = 8,
    GRAB = 9,
    NO_JOB = 10,
    ASSIGN = 11,
    COMPLETE = 13,
    SUBMIT_BG = 18
};

static void gear_put(struct peer_link *link, uint32_t type, const void *head, size_t head_bytes, const void *data,
                     size_t bytes)
{
    uint32_t words[2] = {htonl(type), htonl((uint32_t)(head_bytes + bytes))};
    peer_put(link, "\0REQ", 4);
    peer_put(link, words, sizeof words);
    peer_put(link, head, head_bytes);
    peer_put(link, data, bytes);
}

static uint32_t gear_take(struct peer_link *link, uint8_t **ret_data, size_t *ret_bytes)
{
    uint32_t words[2];
    memcpy(words, peer_take(link, 12) + 4, sizeof words);
    *ret_bytes = ntohl(words[1]);
    *ret_data = peer_take(link, *ret_bytes);
    return ntohl(words[0]);
}

static void gear_open(struct run *run, int port)
{
    run->out = run->in = peer_connect(port);
}

static void gear_job(struct run *run, uint32_t type, uint64_t number)
{
    char head[40] = "null";
    int unique = snprintf(head + 5, sizeof head - 5, "%" PRIu64, number);
    gear_put(run->out, type, head, (size_t)unique + 6, run->payload, run->bytes);
}

static void gear_submit(struct run *run, uint64_t number)
{
    gear_job(run, SUBMIT, number);
}

static void gear_receive(struct run *run)
{
    uint8_t *data;
    size_t bytes;
    run->answers = 0;
    while (run->answers == 0 || peer_more(run->in)) {
        run->answers += gear_take(run->in, &data, &bytes) == COMPLETE;
    }
}

static void gear_fill(struct run *run, uint64_t number)
{
    uint8_t *data;
    size_t bytes;
    gear_job(run, SUBMIT_BG, number);
    peer_flush(run->out);
    gear_take(run->in, &data, &bytes);
}

static void gear_work(int port, size_t job_bytes)
{
    struct peer_link *link = peer_connect(port);
    uint8_t *data, *copy = malloc(job_bytes + 256);
    size_t bytes;
    gear_put(link, CAN_DO, "null", 4, "", 0);
    gear_put(link, GRAB, "", 0, "", 0);
    for (;;) {
        peer_flush(link);
        uint32_t type = gear_take(link, &data, &bytes);
        if (type == ASSIGN) { /* handle, function, payload: the answer is handle, payload */
            size_t handle = strlen((char *)data) + 1, function = strlen((char *)data + handle) + 1;
            memcpy(copy, data, handle);
            memcpy(copy + handle, data + handle + function, bytes - handle - function);
            gear_put(link, COMPLETE, copy, bytes - function, "", 0);
            gear_put(link, GRAB, "", 0, "", 0);
        } else if (type == NO_JOB) {
            gear_put(link, PRE_SLEEP, "", 0, "", 0);
        } else if (type == NOOP) {
            gear_put(link, GRAB, "", 0, "", 0);
        }
    }
}

/* ---- beanstalkd: a tube for jobs, a tube for answers ---- */

static void bean_put(struct peer_link *link, const void *data, size_t bytes)
{
    peer_printf(link, "put 0 0 60 %zu\r\n", bytes);
    peer_put(link, data, bytes);
    peer_put(link, "\r\n", 2);
}

static void bean_open(struct run *run, int port)
{
    run->out = peer_connect(port);
    run->in = peer_connect(port);
    peer_printf(run->out, "use jobs\r\n");
    peer_flush(run->out);
    peer_line(run->out);
    peer_printf(run->in, "watch answers\r\nignore default\r\nreserve\r\n");
    peer_flush(run->in);
    peer_line(run->in);
    peer_line(run->in);
}

static void bean_submit(struct run *run, uint64_t number)
{
    (void)number;
    bean_put(run->out, run->payload, run->bytes);
    run->unanswered++;
}

static void bean_receive(struct run *run)
{
    uint64_t id = 0;
    size_t bytes = 0;
    while (run->unanswered > TAKE_AT_ONCE) {
        peer_line(run->out);
        run->unanswered--;
    }
    char *line = peer_line(run->in);
    if (strncmp(line, "DELETED", 7) == 0) {
        line = peer_line(run->in);
    }
    if (sscanf(line, "RESERVED %" SCNu64 " %zu", &id, &bytes) != 2) {
        wire_die("bench_peer: beanstalkd says %s", line);
    }
    peer_take(run->in, bytes + 2);
    peer_printf(run->in, "delete %" PRIu64 "\r\nreserve\r\n", id);
    peer_flush(run->in);
    run->answers = 1;
}

static void bean_fill(struct run *run, uint64_t number)
{
    (void)number;
    bean_put(run->out, run->payload, run->bytes);
    peer_flush(run->out);
    peer_line(run->out);
}

static void bean_work(int port, size_t job_bytes)
{
    struct peer_link *link = peer_connect(port);
    uint8_t *copy = malloc(job_bytes);
    peer_printf(link, "watch jobs\r\nignore default\r\nuse answers\r\nreserve\r\n");
    for (;;) {
        uint64_t id;
        size_t bytes;
        peer_flush(link);
        char *line = peer_line(link);
        if (sscanf(line, "RESERVED %" SCNu64 " %zu", &id, &bytes) != 2) {
            continue; /* what the commands before it answer */
        }
        memcpy(copy, peer_take(link, bytes + 2), bytes);
        bean_put(link, copy, bytes);
        peer_printf(link, "delete %" PRIu64 "\r\nreserve\r\n", id);
    }
}

/* ---- Redis: a list, or a stream with a consumer group; answers in a list ---- */

static void redis_text(struct peer_link *link, const void *bytes, size_t size)
{
    peer_printf(link, "$%zu\r\n", size);
    peer_put(link, bytes, size);
    peer_put(link, "\r\n", 2);
}

static void redis_open(struct run *run, int port)
{
    run->out = peer_connect(port);
    run->in = peer_connect(port);
    peer_printf(run->in, "BLMPOP 0 1 answers LEFT COUNT %d\r\n", TAKE_AT_ONCE);
    peer_flush(run->in);
}

static void list_submit(struct run *run, uint64_t number)
{
    (void)number;
    peer_printf(run->out, "*3\r\n$5\r\nRPUSH\r\n$4\r\njobs\r\n");
    redis_text(run->out, run->payload, run->bytes);
    run->unanswered++;
}

static void stream_submit(struct run *run, uint64_t number)
{
    (void)number;
    peer_printf(run->out, "*5\r\n$4\r\nXADD\r\n$4\r\njobs\r\n$1\r\n*\r\n$1\r\nd\r\n");
    redis_text(run->out, run->payload, run->bytes);
    run->unanswered++;
}

static void pass_over(void *context, const uint8_t *bytes, size_t size)
{
    (void)context;
    (void)bytes;
    (void)size;
}

static void count_answer(void *context, const uint8_t *bytes, size_t size)
{
    struct run *run = context;
    (void)bytes;
    run->answers += size == run->bytes;
}

static void redis_receive(struct run *run)
{
    while (run->unanswered > TAKE_AT_ONCE) {
        peer_resp(run->out, pass_over, NULL);
        run->unanswered--;
    }
    run->answers = 0;
    peer_resp(run->in, count_answer, run);
    peer_printf(run->in, "BLMPOP 0 1 answers LEFT COUNT %d\r\n", TAKE_AT_ONCE);
    peer_flush(run->in);
}

static void list_fill(struct run *run, uint64_t number)
{
    list_submit(run, number);
    peer_flush(run->out);
    peer_resp(run->out, pass_over, NULL);
}

static void stream_fill(struct run *run, uint64_t number)
{
    stream_submit(run, number);
    peer_flush(run->out);
    peer_resp(run->out, pass_over, NULL);
}

struct echo {
    struct peer_link *back;
    size_t bytes;
    unsigned count, ids;
    char id[TAKE_AT_ONCE][48];
};

static void echo_text(void *context, const uint8_t *bytes, size_t size)
{
    struct echo *echo = context;
    if (size == echo->bytes) {
        peer_printf(echo->back, "*3\r\n$5\r\nRPUSH\r\n$7\r\nanswers\r\n");
        redis_text(echo->back, bytes, size);
        echo->count++;
    } else if (memchr(bytes, '-', size) && size < 48 && echo->ids < TAKE_AT_ONCE) {
        snprintf(echo->id[echo->ids++], 48, "%.*s", (int)size, (const char *)bytes);
    }
}

static void echo_settle(struct echo *echo, unsigned answers)
{
    peer_flush(echo->back);
    for (; answers > 0; answers--) {
        peer_resp(echo->back, pass_over, NULL);
    }
}

static void list_work(int port, size_t bytes)
{
    struct peer_link *link = peer_connect(port);
    struct echo echo = {.back = peer_connect(port), .bytes = bytes};
    for (;;) {
        peer_printf(link, "BLMPOP 0 1 jobs LEFT COUNT %d\r\n", TAKE_AT_ONCE);
        peer_flush(link);
        echo.count = 0;
        peer_resp(link, echo_text, &echo);
        echo_settle(&echo, echo.count);
    }
}

static void stream_work(int port, size_t bytes)
{
    struct peer_link *link = peer_connect(port);
    struct echo echo = {.back = peer_connect(port), .bytes = bytes};
    peer_printf(link, "XGROUP CREATE jobs workers 0 MKSTREAM\r\n");
    peer_flush(link);
    peer_line(link); /* OK, or that it is there already */
    for (;;) {
        peer_printf(link, "XREADGROUP GROUP workers one COUNT %d BLOCK 0 STREAMS jobs >\r\n", TAKE_AT_ONCE);
        peer_flush(link);
        echo.count = echo.ids = 0;
        peer_resp(link, echo_text, &echo);
        for (unsigned i = 0; i < echo.ids; i++) {
            peer_printf(echo.back, "XACK jobs workers %s\r\nXDEL jobs %s\r\n", echo.id[i], echo.id[i]);
        }
        echo_settle(&echo, echo.count + 2 * echo.ids);
    }
}

/* ---- NATS: request and reply, nothing is queued or tracked ---- */

static void nats_open_link(struct peer_link **ret_link, int port, const char *subject)
{
    *ret_link = peer_connect(port);
    peer_line(*ret_link); /* INFO */
    peer_printf(*ret_link, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB %s 1\r\nPING\r\n", subject);
    peer_flush(*ret_link);
    while (strcmp(peer_line(*ret_link), "PONG") != 0) {
    }
}

static void nats_publish(struct peer_link *link, const char *to, const void *data, size_t bytes)
{
    peer_printf(link, "PUB %s %zu\r\n", to, bytes);
    peer_put(link, data, bytes);
    peer_put(link, "\r\n", 2);
}

/* The size of the next message's payload, which follows. */
static size_t nats_next(struct peer_link *link)
{
    for (;;) {
        char *line = peer_line(link);
        if (strncmp(line, "MSG ", 4) == 0) {
            return strtoul(strrchr(line, ' '), NULL, 10);
        }
        if (strcmp(line, "PING") == 0) {
            peer_printf(link, "PONG\r\n");
        }
    }
}

static void nats_open(struct run *run, int port)
{
    nats_open_link(&run->out, port, "answers");
    run->in = run->out;
}

static void nats_submit(struct run *run, uint64_t number)
{
    (void)number;
    nats_publish(run->out, "jobs answers", run->payload, run->bytes);
}

static void nats_receive(struct run *run)
{
    run->answers = 0;
    while (run->answers == 0 || peer_more(run->in)) {
        peer_take(run->in, nats_next(run->in) + 2);
        run->answers++;
    }
}

static void nats_work(int port, size_t job_bytes)
{
    struct peer_link *link;
    uint8_t *copy = malloc(job_bytes + 2);
    nats_open_link(&link, port, "jobs");
    for (;;) {
        size_t bytes = nats_next(link);
        memcpy(copy, peer_take(link, bytes + 2), bytes);
        nats_publish(link, "answers", copy, bytes);
        if (!peer_more(link)) {
            peer_flush(link);
        }
    }
}

/* ---- the run ---- */

static const struct peer peers[] = {
    {"gearmand", gear_open, gear_submit, gear_receive, gear_work, gear_fill},
    {"beanstalkd", bean_open, bean_submit, bean_receive, bean_work, bean_fill},
    {"redis-list", redis_open, list_submit, redis_receive, list_work, list_fill},
    {"redis-streams", redis_open, stream_submit, redis_receive, stream_work, stream_fill},
    {"nats", nats_open, nats_submit, nats_receive, nats_work, NULL},
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Answers are taken to come in the order of the jobs: exact at window 1, the mean at any. */
static void measure(const struct peer *peer, struct run *run, uint64_t window, uint64_t jobs)
{
    uint64_t all = jobs + jobs / 10, warm = jobs / 10, sent = 0, done = 0, begin_us = clock_now_us();
    uint64_t *sent_us = calloc(all, sizeof *sent_us), *trip_us = calloc(all, sizeof *trip_us);
    if (!sent_us || !trip_us) {
        wire_die("bench_peer: no memory for %" PRIu64 " jobs", all);
    }
    while (done < all) {
        while (sent < all && sent - done < window) {
            sent_us[sent] = clock_now_us();
            peer->submit(run, sent++);
        }
        peer_flush(run->out);
        peer->receive(run);
        for (uint64_t now_us = clock_now_us(); run->answers > 0 && done < sent; run->answers--, done++) {
            trip_us[done] = now_us - sent_us[done];
        }
    }
    double seconds = (double)(clock_now_us() - begin_us) * 1e-6;
    qsort(trip_us + warm, jobs, sizeof *trip_us, by_value);
    printf("{\"jobs\":%" PRIu64 ",\"p50_us\":%" PRIu64 ",\"p90_us\":%" PRIu64 ",\"p99_us\":%" PRIu64
           ",\"jobs_per_s\":%.0f,\"errors\":0}\n",
           jobs, trip_us[warm + jobs / 2], trip_us[warm + jobs * 9 / 10], trip_us[warm + jobs * 99 / 100],
           (double)all / seconds);
    free(sent_us);
    free(trip_us);
}

static pid_t worker_start(const struct peer *peer, int port, size_t bytes)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        peer->work(port, bytes);
    }
    usleep(WORKER_START_US);
    return child;
}

int main(int argc, char **argv)
{
    const struct peer *peer = NULL;
    for (size_t i = 0; argc == 6 && i < sizeof peers / sizeof *peers; i++) {
        peer = strcmp(argv[1], peers[i].name) == 0 ? &peers[i] : peer;
    }
    if (!peer) {
        wire_die("usage: bench_peer gearmand|beanstalkd|redis-list|redis-streams|nats PORT BYTES WINDOW|fill JOBS");
    }
    int port = atoi(argv[2]);
    struct run run = {.bytes = strtoul(argv[3], NULL, 10)};
    uint64_t window = strtoull(argv[4], NULL, 10), jobs = strtoull(argv[5], NULL, 10);
    run.payload = calloc(1, run.bytes + 1);
    if (!run.payload || jobs < 10 || run.bytes < 64) {
        wire_die("bench_peer: BYTES must be at least 64, JOBS at least 10");
    }
    memset(run.payload, 'x', run.bytes);
    peer->open(&run, port);
    if (strcmp(argv[4], "fill") == 0) {
        for (uint64_t i = 0; peer->fill && i < jobs; i++) {
            peer->fill(&run, i);
        }
        printf(peer->fill ? "filled\n" : "does not queue\n");
        fflush(stdout);
        return getchar() == 'x';
    }
    pid_t worker = worker_start(peer, port, run.bytes);
    measure(peer, &run, window ? window : 1, jobs);
    kill(worker, SIGKILL);
    return 0;
}
