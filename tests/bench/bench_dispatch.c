/*
 * bench_dispatch.c - what one job costs the broker's own logic, with few and many jobs queued, few and many workers.
 *
 *     bench_dispatch [--workers N] [--queued N] [--jobs N]
 *
 * The real broker core between two ports that only take notes: no sockets, no system calls. Each turn a worker answers its oldest message, the broker sends it
 * the next job, and a client submits one more, so that the queue keeps its length. Prints the processor time per turn (median over slices) and the memory per
 * queued job of 1 KiB. dispatch_cost.sh runs the corners, counts instructions with callgrind, and prints the ratios.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker_handler.h"
#include "desk.h"
#include "client_handler.h"

#define WORKERS_MOST  1000u
#define HELD_MOST     128u
#define PAYLOAD_BYTES 1024
#define SLICES        20u
#define EXEC_US       1000u
#define CLIENT        1u
#define CLIENT_UUID   7u

struct note_port {
    struct port port; /* first: the callbacks lead back here */
    uint32_t peer;
    bool header;
};

/* What a worker holds: a ring of job ids. */
struct holder {
    struct job_id jobs[HELD_MOST];
    unsigned first, count;
};

static struct options options;
static struct broker broker;
static struct note_port clients, workers;
static struct holder holders[WORKERS_MOST + 1]; /* by peer, from 1 */
static uint64_t clock_us = 1000000;
static uint64_t sequence;
static uint64_t answered;

static uint64_t bench_clock(void)
{
    return clock_us;
}

static bool note_begin(struct port *port, uint32_t peer)
{
    struct note_port *note = (struct note_port *)(void *)port;
    note->peer = peer;
    note->header = true;
    return true;
}

static void client_part(struct port *port, zmq_msg_t *frame, bool more)
{
    (void)more;
    struct note_port *note = (struct note_port *)(void *)port;
    struct envelope env;
    if (note->header &&
        envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &(const uint8_t *){0}, NULL) == PEN_OK)
        answered += env.type == FRAME_RESULT;
    note->header = false;
    zmq_msg_close(frame);
}

static void worker_part(struct port *port, zmq_msg_t *frame, bool more)
{
    (void)more;
    struct note_port *note = (struct note_port *)(void *)port;
    struct envelope env;
    const uint8_t *meta;
    struct holder *holder = &holders[note->peer];
    if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) == PEN_OK &&
        env.type == FRAME_SUBMIT) {
        if (holder->count == HELD_MOST)
            abort();
        holder->jobs[(holder->first + holder->count++) % HELD_MOST] = env.job;
    }
    zmq_msg_close(frame);
}

static void message_build(struct message *message, uint32_t peer, struct envelope env, const uint8_t *meta,
                          size_t bytes)
{
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + bytes);
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, zmq_msg_data(&frame));
    memcpy((uint8_t *)zmq_msg_data(&frame) + FRAME_ENVELOPE_BYTES, meta, bytes);
    message->peer = peer;
    message_add(message, &frame);
}

static void hear(void (*handle)(struct broker *, struct message *), uint32_t peer, struct envelope env,
                 const uint8_t *meta, size_t bytes)
{
    static struct message message;
    message_build(&message, peer, env, meta, bytes);
    handle(&broker, &message);
    message_clear(&message);
}

static void setup(uint32_t workers_count)
{
    static struct wire_model model = {.name = "bench",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = EXEC_US * 10,
                                      .digest = 9,
                                      .dim = PAYLOAD_BYTES};
    uint8_t *meta = malloc(WIRE_META_BYTES);
    struct cache *cache = NULL;
    char *argv[] = {(char *)(uintptr_t) "penstock-broker", (char *)(uintptr_t) "--queue-limit",
                    (char *)(uintptr_t) "10000000",        (char *)(uintptr_t) "--queue-bytes",
                    (char *)(uintptr_t) "100GiB",          NULL};
    enum settings_outcome outcome;
    struct settings_store *store;
    struct pen_error error = {.status = PEN_OK};
    if (!meta || options_load(5, argv, &options, &outcome, &store, &error) != PEN_OK)
        abort();
    log_setup("bench", LOG_ERROR, false);
    if (cache_new(NULL, &options.cache, &cache, NULL) != PEN_OK ||
        broker_init(&broker, &options, cache, bench_clock) != PEN_OK)
        abort();
    clients.port = (struct port){.begin = note_begin, .part = client_part};
    workers.port = (struct port){.begin = note_begin, .part = worker_part};
    broker.clients = &clients.port;
    broker.workers = &workers.port;
    hear(client_message, CLIENT, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, CLIENT_UUID, "", 0));
    for (uint32_t i = 1; i <= workers_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker-%u", i);
        struct wire_worker worker = {.uuid = 1000 + i, .name = name, .slots = 1, .models = &model, .models_count = 1};
        hear(worker_message, i, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &worker));
    }
    broker_tick(&broker);
    free(meta);
}

static uint8_t submit_meta[WIRE_META_BYTES], result_meta[WIRE_META_BYTES];
static size_t result_bytes;

static void submit_one(void)
{
    struct wire_job job = {.id = {.client = CLIENT_UUID, .sequence = ++sequence},
                           .model = "bench",
                           .dims = {1, PAYLOAD_BYTES},
                           .no_digest = true,
                           .no_cache = true};
    size_t raw_bytes, bytes = wire_job(submit_meta, &job, &raw_bytes);
    hear(client_message, CLIENT, wire_job_envelope(&job), submit_meta, bytes);
}

static void answer_one(uint32_t peer)
{
    struct holder *holder = &holders[peer];
    struct envelope env = envelope_make(FRAME_RESULT);
    if (holder->count == 0)
        return;
    env.job = holder->jobs[holder->first++ % HELD_MOST];
    holder->first %= HELD_MOST;
    holder->count--;
    hear(worker_message, peer, env, result_meta, result_bytes);
}

/* The client acknowledges now and then, as a real one does. */
static void acknowledge(void)
{
    struct envelope env = envelope_make(FRAME_ACK);
    env.job = (struct job_id){.client = CLIENT_UUID, .sequence = answered};
    hear(client_message, CLIENT, env, submit_meta, 0);
}

static void heartbeats(uint32_t workers_count)
{
    for (uint32_t i = 1; i <= workers_count; i++)
        hear(worker_message, i, envelope_make(FRAME_HEARTBEAT), result_meta, 0);
    hear(client_message, CLIENT, envelope_make(FRAME_PING), result_meta, 0);
}

static double cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct figures {
    double job_us, bytes_per_job;
};

static struct figures run(uint32_t workers_count, uint64_t queued, uint64_t jobs)
{
    double slices[SLICES];
    struct figures cost = {0};
    uint64_t turn = 0;
    setup(workers_count);
    result_bytes = wire_result(result_meta, 1, "xnnpack", PRECISION_F32, EXEC_US * 10, NULL);
    for (uint32_t i = 0; i < 2 * workers_count; i++) /* what the workers hold */
        submit_one();
    broker_tick(&broker);
    size_t before = mallinfo2().uordblks;
    for (uint64_t i = 0; i < queued; i++)
        submit_one();
    broker_tick(&broker);
    cost.bytes_per_job = queued ? (double)(mallinfo2().uordblks - before) / (double)queued : 0;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        double start = cpu_us();
        for (uint64_t i = 0; i < jobs / SLICES; i++, turn++) {
            clock_us += EXEC_US * 10 / workers_count + 1;
            answer_one((uint32_t)(turn % workers_count) + 1);
            submit_one();
            broker_tick(&broker);
            if (turn % 64 == 63)
                acknowledge();
        }
        slices[slice] = (cpu_us() - start) / (double)(jobs / SLICES);
        heartbeats(workers_count);
    }
    qsort(slices, SLICES, sizeof slices[0], by_value);
    cost.job_us = slices[SLICES / 2];
    return cost;
}

static int one(uint32_t workers_count, uint64_t queued, uint64_t jobs)
{
    struct figures cost = run(workers_count, queued, jobs);
    printf("workers %u queued %" PRIu64 " jobs %" PRIu64 " answered %" PRIu64
           " us_per_job %.3f bytes_per_queued_job %.0f\n",
           workers_count, queued, jobs, answered, cost.job_us, cost.bytes_per_job);
    return answered + jobs / 100 >= jobs ? 0 : 1;
}

int main(int argc, char **argv)
{
    uint64_t workers_count = 10, queued = 10, jobs = 100000;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--workers") == 0 && value >= 1 && value <= WORKERS_MOST)
            workers_count = value;
        else if (strcmp(argv[i], "--queued") == 0)
            queued = value;
        else if (strcmp(argv[i], "--jobs") == 0 && value >= SLICES)
            jobs = value;
        else
            return fprintf(stderr, "usage: bench_dispatch [--workers 1..1000] [--queued N] [--jobs N>=20]\n"), 2;
    }
    return one((uint32_t)workers_count, queued, jobs);
}
