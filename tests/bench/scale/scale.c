/*
 * scale.c - the broker's real core with thousands of workers and clients, in simulated time: what grows how.
 *
 *     bench_scale [JOBS [WORKERS CLIENTS [BROKERS]]]
 *
 * Messages are real (envelopes, metas), the network and the engines are not: a message takes 50 us, a job `EXEC_US` on a slot, and the clock jumps
 * from event to event. What is measured for real is the broker: processor time per job and the longest single turn. Each client submits, waits
 * for its answer, thinks, and submits again; thinking is chosen so that workers would be busy for LOAD of their time.
 *
 * Several brokers know each other (--neighbours). Each has its share of the workers. All clients come to the first three of them, within a second, and go where these
 * send them (join.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scale.h"
#include "client_handler.h"
#include "logline.h"
#include "worker_handler.h"

struct simulation sim;

static uint64_t sim_clock(void)
{
    return sim.now_us;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* what others on this machine take does not count */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t random_next(void)
{
    sim.seed = sim.seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return sim.seed >> 33;
}

void die(const char *what)
{
    fprintf(stderr, "bench_scale: %s\n", what);
    exit(1);
}

/* ---- what will happen: a binary heap by time ---- */

static void event_push(const struct event *event)
{
    if (sim.heap_count == sim.heap_room) {
        sim.heap_room = sim.heap_room ? 2 * sim.heap_room : 65536;
        sim.heap = realloc(sim.heap, sim.heap_room * sizeof *sim.heap);
        if (!sim.heap)
            die("no memory for events");
    }
    size_t at = sim.heap_count++;
    for (; at > 0 && sim.heap[(at - 1) / 2].at_us > event->at_us; at = (at - 1) / 2)
        sim.heap[at] = sim.heap[(at - 1) / 2];
    sim.heap[at] = *event;
}

static struct event event_take(void)
{
    struct event first = sim.heap[0], last = sim.heap[--sim.heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim.heap_count)
            break;
        child += child + 1 < sim.heap_count && sim.heap[child + 1].at_us < sim.heap[child].at_us;
        if (sim.heap[child].at_us >= last.at_us)
            break;
        sim.heap[at] = sim.heap[child];
        at = child;
    }
    sim.heap[at] = last;
    return first;
}

void event_in(uint64_t us, enum event_kind kind, uint32_t who)
{
    event_push(&(struct event){.at_us = sim.now_us + us, .kind = kind, .who = who});
}

/* ---- what the broker sends ---- */

static bool side_begin(struct port *port, uint32_t peer)
{
    struct side *side = (struct side *)port;
    side->event.who = peer;
    side->event.broker = side->broker;
    side->raws = 0;
    side->type = FRAME_TYPE_COUNT;
    return true;
}

static void side_group(struct side *side, zmq_msg_t *frame)
{
    struct envelope env;
    const uint8_t *meta;
    if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) != PEN_OK)
        die("the broker sent an envelope that cannot be read");
    if (side->type == FRAME_SUBMIT)
        die("the broker made a batch of a model that has none");
    side->type = env.type;
    if (env.type == FRAME_WELCOME && side == &sim.brokers[side->broker].to_clients)
        join_welcome(side, &env, meta);
    if (env.type == FRAME_NEIGHBOUR || env.type == FRAME_RESUME)
        join_heard(side, frame);
    side->status = env.status;
    side->raws = env.frames;
    side->event.job = env.job;
}

static void side_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows)
{
    bool more = follows == FRAME_MORE;
    struct side *side = (struct side *)port;
    if (side->raws > 0)
        side->raws--;
    else
        side_group(side, frame);
    zmq_msg_close(frame);
    if (more)
        return;
    side->event.at_us = sim.now_us + NETWORK_US;
    if (side->type == FRAME_WELCOME && side->event.kind == EVENT_WELCOME) {
        event_push(&side->event);
    } else if (side->type == FRAME_SUBMIT) {
        side->event.kind = EVENT_ARRIVE;
        event_push(&side->event);
    } else if (side->type == FRAME_RESULT) {
        side->event.kind = EVENT_ANSWER;
        sim.failed += side->status != PEN_OK;
        event_push(&side->event);
    }
}

/* ---- what the broker hears ---- */

void hear(uint32_t number, void (*handle)(struct broker *, struct message *), uint32_t peer,
          const struct envelope *from, const void *meta, size_t bytes)
{
    struct broker *broker = &sim.brokers[number].broker;
    struct message message = {.peer = peer};
    struct envelope env = *from;
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + bytes) != 0)
        die("no memory for a message");
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, zmq_msg_data(&frame));
    if (bytes)
        memcpy((uint8_t *)zmq_msg_data(&frame) + FRAME_ENVELOPE_BYTES, meta, bytes);
    message_add(&message, &frame);
    uint64_t begin = cpu_ns();
    handle(broker, &message);
    if (broker->schedule || sim.now_us >= broker_next_us(broker))
        broker_tick(broker);
    uint64_t ns = cpu_ns() - begin;
    sim.broker_ns += ns;
    sim.turn_ns_most = ns > sim.turn_ns_most ? ns : sim.turn_ns_most;
    message_fini(&message);
}

static void say(uint32_t number, void (*handle)(struct broker *, struct message *), uint32_t peer, enum frame_type type,
                const void *meta, size_t bytes)
{
    struct envelope env = envelope_make(type);
    hear(number, handle, peer, &env, meta, bytes);
}

static void on_submit(uint32_t who)
{
    struct sim_client *client = &sim.clients[who];
    if (sim.submitted == sim.jobs)
        return;
    sim.submitted++;
    if (client->sequence > 0) {
        struct envelope ack = envelope_make(FRAME_ACK);
        ack.job = (struct job_id){client->uuid, client->sequence};
        hear(client->broker, client_message, who, &ack, NULL, 0);
    }
    struct envelope env = wire_job_envelope(&sim.job);
    env.job = (struct job_id){client->uuid, ++client->sequence};
    client->submitted_us = sim.now_us;
    hear(client->broker, client_message, who, &env, sim.meta, sim.meta_bytes);
}

static void run_next(uint32_t who)
{
    struct sim_worker *worker = &sim.workers[who];
    uint64_t us = EXEC_US * (90 + random_next() % 21) / 100; /* within 10 % */
    worker->busy_us += us;
    event_in(us, EVENT_DONE, who);
}

static void on_arrive(const struct event *event)
{
    struct sim_worker *worker = &sim.workers[event->who];
    if (worker->count == QUEUE_MAX)
        die("a worker was sent more than its credit allows");
    worker->queue[worker->count++] = *event;
    if (worker->count == 1)
        run_next(event->who);
}

static void on_done(uint32_t who)
{
    uint8_t meta[512];
    struct sim_worker *worker = &sim.workers[who];
    struct envelope env = envelope_make(FRAME_RESULT);
    size_t bytes = wire_result(meta, 1, "xnnpack", PRECISION_F32, EXEC_US, NULL);
    env.job = worker->queue[0].job;
    memmove(worker->queue, worker->queue + 1, --worker->count * sizeof worker->queue[0]);
    if (worker->count)
        run_next(who);
    hear(worker->broker, worker_message, who, &env, meta, bytes);
}

static void on_answer(const struct event *event)
{
    struct sim_client *client = &sim.clients[event->who];
    sim.twice += event->job.sequence <= client->answered;
    client->answered = event->job.sequence;
    sim.answered++;
    histogram_add(&sim.latency, sim.now_us - client->submitted_us);
    event_in(sim.think_us / 2 + random_next() % (sim.think_us + 1), EVENT_SUBMIT, event->who);
}

static void on_beat(uint32_t who)
{
    bool client = who >= WORKERS_MOST;
    if (client)
        say(sim.clients[who - WORKERS_MOST].broker, client_message, who - WORKERS_MOST, FRAME_PONG, NULL, 0);
    else
        say(sim.workers[who].broker, worker_message, who, FRAME_HEARTBEAT, NULL, 0);
    event_in(BEAT_US, EVENT_BEAT, who);
}

/* ---- the pool ---- */

static void side_open(struct side *side, uint32_t broker)
{
    side->port = (struct port){.begin = side_begin, .part = side_part};
    side->broker = broker;
}

static void hello_workers(void)
{
    static const struct wire_model model = {.name = "m",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .max_batch = 0,
                                            .warm_us = EXEC_US,
                                            .digest = 9};
    uint8_t meta[WIRE_META_BYTES];
    char name[32];
    for (uint32_t i = 0; i < sim.workers_count; i++) {
        snprintf(name, sizeof name, "worker-%u", i);
        struct wire_worker worker = {.uuid = i + 1, .name = name, .slots = 1, .models = &model, .models_count = 1};
        sim.workers[i].broker = i % sim.brokers_count;
        say(sim.workers[i].broker, worker_message, i, FRAME_WORKER_HELLO, meta, wire_worker_hello(meta, &worker));
        event_in(random_next() % BEAT_US, EVENT_BEAT, i);
    }
}

static void broker_open(uint32_t number)
{
    struct sim_broker *one = &sim.brokers[number];
    if (broker_init(&one->broker, &sim.options, NULL, sim_clock) != PEN_OK)
        die("no memory to start");
    side_open(&one->to_clients, number);
    side_open(&one->to_workers, number);
    one->broker.clients = &one->to_clients.port;
    one->broker.workers = &one->to_workers.port;
    join_neighbours(number);
}

/* The broker that has something to do first. */
static struct broker *first_due(void)
{
    struct broker *first = &sim.brokers[0].broker;
    for (uint32_t i = 1; i < sim.brokers_count; i++) {
        struct broker *next = &sim.brokers[i].broker;
        if (broker_next_us(next) < broker_next_us(first))
            first = next;
    }
    return first;
}

static void step(void)
{
    struct broker *due = first_due();
    uint64_t next_us = broker_next_us(due);
    if (next_us < sim.heap[0].at_us) {
        sim.now_us = next_us > sim.now_us ? next_us : sim.now_us;
        uint64_t begin = cpu_ns();
        broker_tick(due);
        sim.broker_ns += cpu_ns() - begin;
        return;
    }
    struct event event = event_take();
    sim.now_us = event.at_us;
    switch (event.kind) {
    case EVENT_SUBMIT:
        on_submit(event.who);
        break;
    case EVENT_ARRIVE:
        on_arrive(&event);
        break;
    case EVENT_DONE:
        on_done(event.who);
        break;
    case EVENT_BEAT:
        on_beat(event.who);
        break;
    case EVENT_ANSWER:
        on_answer(&event);
        break;
    case EVENT_HELLO:
        join_hello(event.who);
        break;
    case EVENT_WELCOME:
        join_welcomed(&event);
        break;
    }
}

static void pool_open(uint64_t jobs, uint32_t workers, uint32_t clients, uint32_t brokers)
{
    char *argv[] = {(char *)(uintptr_t) "bench_scale", (char *)(uintptr_t) "--cache=none",
                    (char *)(uintptr_t) "--restart-wait=0"};
    enum settings_outcome outcome;
    static struct settings_store *store; /* the options' texts live as long as the program */
    struct pen_error error = {.status = PEN_OK};
    sim = (struct simulation){.now_us = 1000000,
                              .jobs = jobs,
                              .workers_count = workers,
                              .clients_count = clients,
                              .seed = 7,
                              .brokers_count = brokers};
    /* A client's cycle is EXEC + thinking; all clients together keep LOAD of the workers busy. */
    double cycle_us = (double)clients * EXEC_US / ((double)workers * LOAD);
    sim.think_us = cycle_us > 2 * EXEC_US ? (uint64_t)cycle_us - EXEC_US : EXEC_US;
    sim.workers = calloc(workers, sizeof *sim.workers);
    sim.clients = calloc(clients, sizeof *sim.clients);
    if (!sim.workers || !sim.clients || options_load(3, argv, &sim.options, &outcome, &store, &error) != PEN_OK)
        die("no memory to start");
    sim.options.busy_clients = brokers > 1 ? clients / brokers : 0;
    for (uint32_t i = 0; i < brokers; i++)
        broker_open(i);
    sim.job =
        (struct wire_job){.id = {1, 1}, .model = "m", .dims = {1, 4}, .fill = 1, .no_cache = true, .no_digest = true};
    size_t raw_bytes;
    sim.meta_bytes = wire_job(sim.meta, &sim.job, &raw_bytes);
    hello_workers();
    join_clients();
    while (sim.joined < clients)
        step();
    sim.broker_ns = sim.turn_ns_most = 0; /* from here on */
    sim.first_us = sim.now_us;
    for (uint32_t i = 0; i < clients; i++)
        event_in(random_next() % (sim.think_us + 1), EVENT_SUBMIT, i);
}

static void pool_close(void)
{
    for (uint32_t i = 0; i < sim.brokers_count; i++)
        broker_fini(&sim.brokers[i].broker);
    free(sim.workers);
    free(sim.clients);
    free(sim.heap);
}

static uint64_t workers_lost(void)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < sim.brokers_count; i++)
        lost += sim.brokers[i].broker.stats.workers_lost;
    return lost;
}

static bool run(uint64_t jobs, uint32_t workers, uint32_t clients, uint32_t brokers)
{
    uint64_t busy_us = 0, begin = cpu_ns();
    uint32_t used = 0;
    pool_open(jobs, workers, clients, brokers);
    while (sim.answered < sim.jobs)
        step();
    for (uint32_t i = 0; i < workers; i++) {
        busy_us += sim.workers[i].busy_us;
        used += sim.workers[i].busy_us > 0;
    }
    double seconds = (double)(sim.now_us - sim.first_us) / 1e6;
    double busy = (double)busy_us / 1e6 / (seconds * workers);
    bool good = sim.failed == 0 && sim.twice == 0 && workers_lost() == 0 && used == workers && join_even();
    printf("workers %4u clients %5u jobs %7" PRIu64
           "  %7.0f jobs/s  slots busy %3.0f %%  latency p50 %5.1f ms p99 %5.1f ms  "
           "broker %5.2f us/job, longest turn %5.2f ms, so at most %6.0f jobs/s a broker  rss %3.0f MiB  cpu %4.1f s  "
           "failed "
           "%" PRIu64 " twice %" PRIu64 " unused workers %u\n",
           workers, clients, sim.answered, (double)sim.answered / seconds, 100 * busy,
           (double)histogram_quantile_us(&sim.latency, 0.5) / 1e3,
           (double)histogram_quantile_us(&sim.latency, 0.99) / 1e3, (double)sim.broker_ns / 1e3 / (double)sim.answered,
           (double)sim.turn_ns_most / 1e6, 1e9 / ((double)sim.broker_ns / (double)sim.answered),
           (double)stats_rss_bytes() / 1048576.0, (double)(cpu_ns() - begin) / 1e9, sim.failed, sim.twice,
           workers - used);
    if (brokers > 1)
        join_print();
    fflush(stdout);
    pool_close();
    return good;
}

int main(int argc, char **argv)
{
    uint64_t jobs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    log_setup("bench_scale", LOG_ERROR, false);
    if (argc > 3) {
        unsigned long workers = strtoul(argv[2], NULL, 10), clients = strtoul(argv[3], NULL, 10);
        unsigned long brokers = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
        if (brokers < 1 || brokers > BROKERS_MOST || workers < brokers || workers > brokers * WORKERS_EACH ||
            clients < brokers || clients > brokers * CLIENTS_EACH || jobs < 1)
            die("usage: bench_scale [JOBS [WORKERS CLIENTS [BROKERS]]], at most 10 brokers, 1000 workers and 10000 "
                "clients for each");
        return !run(jobs, (uint32_t)workers, (uint32_t)clients, (uint32_t)brokers);
    }
    bool good = run(jobs / 10, 10, 100, 1);
    good &= run(jobs / 10, 100, 1000, 1);
    good &= run(jobs, WORKERS_EACH, CLIENTS_EACH, 1);
    good &= run(jobs, WORKERS_MOST, CLIENTS_MOST, BROKERS_MOST);
    return !good;
}
