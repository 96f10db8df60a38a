#include "loop.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "worker_handler.h"
#include "cluster.h"
#include "departure.h"
#include "detached.h"
#include "client_handler.h"
#include "logline.h"
#include "memory.h"
#include "neighbour_talk.h"
#include "large_block.h"
#include "metrics_post.h"
#include "notify.h"
#include "sealed_way.h"
#include "spin.h"
#include "urgency.h"

#define DRAIN_MESSAGES 256u           /* messages of one socket before the other gets its turn */
#define DRAIN_BYTES    (256u * 1024u) /* the same in bytes: chunks are copied */
#define SLOW_LOOK_US   1000u /* how often to look at signals, HTTP and keys while the broker is too busy to sleep */
#define LOSS_LOOK_US   250u  /* how often to look at the monitors: clients wait for the jobs of a lost worker */
#define KEYS_LOOK_US   1000000u
#define KEYS_TELL_US   60000000u /* between two lines about a list that cannot be read */
#define MANY_JOBS      10000u    /* after so many jobs since the last quiet time, more memory is given back */
#define BLOCKS_LOOK_US 500000u
#define SLEEP_US_MAX   250000u
#define IDLE_TRIM_US   2000000u /* after so much idle time since the last work, memory goes back to the system */

enum watched {
    WATCH_WORKERS,
    WATCH_CLIENTS,
    WATCH_WORKERS_LOST,
    WATCH_CLIENTS_LOST,
    WATCH_SIGNALS,
    WATCH_CACHE,
    WATCH_HTTP,
    WATCH_JOURNAL,
    WATCH_STREAMS,
    WATCH_SEALED,
    WATCH_COUNT
};

struct loop {
    struct broker *broker;
    struct pollfd fds[WATCH_COUNT + NEIGHBOURS_MAX];
    nfds_t fds_count;
    struct message message;
    bool workers_crowded, clients_crowded; /* the last time, more than one message was there at once */
    int signals;
    unsigned signals_seen;
    struct spin spins[2]; /* [0]: while there is no job; [1]: while there are some */
    uint64_t busy_us, looked_us, losses_us, keys_us, keys_told_us, blocks_us;
    uint64_t alive_us, alive_step_us; /* when the service manager is told next that the loop turns, and how often */
    uint64_t admitted;                /* jobs, so far */
    uint64_t admitted_trimmed;        /* the same, when memory was trimmed */
    bool worked;                      /* since memory was trimmed */
};

static unsigned cgroup_cpus(void)
{
    double quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    int fields = file ? fscanf(file, "%lf %lf", &quota, &period) : 0;
    if (file)
        fclose(file);
    return fields == 2 && period > 0 && quota >= 0 ? (unsigned)(quota / period) : 1024;
}

unsigned loop_cpus(void)
{
    cpu_set_t set;
    unsigned affinity = sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
    unsigned quota = cgroup_cpus();
    unsigned cpus = affinity < quota ? affinity : quota;
    return cpus ? cpus : 1;
}

static void worker_fd_lost(void *context, int fd)
{
    broker_hint_workers(context, fd);
}

static void client_fd_lost(void *context, int fd)
{
    broker_hint_clients(context, fd);
}

static void read_signals(struct loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            log_level_order(log_level_step(info.ssi_signo == SIGUSR1 ? 1 : -1), "signal");
            continue;
        }
        if (info.ssi_signo == SIGHUP && loop->signals_seen > 0)
            continue; /* a terminal that is closed may say it twice */
        loop->signals_seen++;
        if (loop->signals_seen == 1)
            broker_drain(loop->broker);
    }
}

/* Answers that are there at the same time leave together. Where messages come one by one, an answer does not even wait
   until the socket was asked for the next one. */
static unsigned drain_port(struct loop *loop, struct port *port, void (*handle)(struct broker *, struct message *),
                           bool *crowded)
{
    unsigned count = 0;
    uint64_t enough = port->bytes_in + DRAIN_BYTES;
    while (!port->dry && count < DRAIN_MESSAGES && port->bytes_in < enough && port_receive(port, &loop->message)) {
        handle(loop->broker, &loop->message);
        if (++count == 1 && !*crowded)
            departure_flush(loop->broker);
    }
    message_clear(&loop->message);
    departure_flush(loop->broker);
    if (count > 0)
        *crowded = count > 1;
    return count;
}

static unsigned drain_cache(struct loop *loop)
{
    uint64_t question;
    bool hit;
    struct cache_value value;
    unsigned count = 0;
    struct broker *broker = loop->broker;
    while (count < DRAIN_MESSAGES && cache_poll(broker->cache, broker->now_us, &question, &hit, &value)) {
        broker->now_us = broker->clock();
        client_lookup(broker, question, hit, &value);
        if (hit)
            shared_message_release(value.shared);
        count++;
    }
    return count;
}

/* Once a second. A file with errors changes nothing, but is logged. */
static void look_at_keys(struct loop *loop)
{
    struct broker *broker = loop->broker;
    struct pen_error error = {.status = PEN_OK};
    if (!broker->keyring || broker->now_us - loop->keys_us < KEYS_LOOK_US)
        return;
    loop->keys_us = broker->now_us;
    if (keyring_refresh(broker->keyring, &error)) {
        log_event(LOG_INFO, "keys_read", "file=%s keys=%u", broker->options->keys, keyring_count(broker->keyring));
        broker->keys_bad = false;
        broker_keys_changed(broker);
        return;
    }
    broker->keys_bad |= error.status != PEN_OK;
    if (error.status != PEN_OK && (error.status != PEN_ERR_IO || broker->now_us >= loop->keys_told_us)) {
        loop->keys_told_us = broker->now_us + KEYS_TELL_US; /* a file that cannot be read is tried at each look */
        log_event(LOG_ERROR, "keys_bad", "error=%s in_force=%s", error.text, "the last good list");
    }
}

/* Takes over labels that other brokers were told, or this one before its last start. */
static void look_at_cluster(struct broker *broker)
{
    char *orders = NULL;
    if (!cluster_hear(broker->cluster, &orders))
        return;
    uint32_t wrong = labels_replace(&broker->labels, orders);
    log_event(LOG_INFO, "labels_heard", "labels=%u passed_over=%u", broker->labels.count, wrong);
    free(orders);
}

/* Memory of large frames is kept for the next ones, for as long as an idle broker keeps any. */
static void look_at_blocks(struct loop *loop)
{
    if (loop->broker->now_us - loop->blocks_us < BLOCKS_LOOK_US)
        return;
    loop->blocks_us = loop->broker->now_us;
    large_block_trim(loop->broker->now_us, IDLE_TRIM_US);
}

static void look_for_losses(struct loop *loop)
{
    loop->losses_us = loop->broker->now_us;
    port_losses(loop->broker->workers, worker_fd_lost, loop->broker);
    port_losses(loop->broker->clients, client_fd_lost, loop->broker);
}

static void look_aside(struct loop *loop)
{
    loop->looked_us = loop->broker->now_us;
    look_for_losses(loop);
    read_signals(loop);
    if (loop->looked_us >= loop->alive_us) {
        notify_send("WATCHDOG=1");
        loop->alive_us = loop->looked_us + loop->alive_step_us;
    }
    look_at_keys(loop);
    look_at_cluster(loop->broker);
    look_at_blocks(loop);
    sealed_way_look(loop->broker);
    if (loop->broker->post) {
        post_beat(loop->broker->post, loop->broker->now_us);
        post_serve(loop->broker->post, loop->broker);
    }
}

/* Both sockets are asked again, whatever their descriptors say. */
static void ask_again(struct broker *broker)
{
    broker->workers->dry = broker->clients->dry = false;
}

/* One round: sends replies first. Returns how much was done: 0 = both sockets are dry. */
static unsigned turn(struct loop *loop)
{
    struct broker *broker = loop->broker;
    if (broker->fleet.ended > 0) /* it waits until the socket has nothing more */
        broker->workers->dry = false;
    unsigned count = drain_port(loop, broker->workers, worker_message, &loop->workers_crowded);
    count += drain_port(loop, broker->clients, client_message, &loop->clients_crowded);
    if (cache_socket(broker->cache))
        count += drain_cache(loop);
    neighbours_read(broker);
    broker->now_us = broker->clock();
    if (broker->now_us - loop->looked_us >= SLOW_LOOK_US)
        look_aside(loop);
    else if (broker->now_us - loop->losses_us >= LOSS_LOOK_US)
        look_for_losses(loop);
    if (broker->live > 0 || broker->stats.jobs_admitted != loop->admitted) { /* heartbeats are no work */
        loop->admitted = broker->stats.jobs_admitted;
        loop->busy_us = broker->now_us;
        loop->worked = true;
    }
    if (broker->schedule || broker->now_us >= broker_next_us(broker)) {
        broker_tick(broker);
        count++;
    }
    departure_flush(broker);
    return count;
}

static struct timespec sleep_time(const struct loop *loop)
{
    uint64_t now_us = loop->broker->now_us, next_us = broker_next_us(loop->broker);
    uint64_t us = next_us > now_us ? next_us - now_us : 0;
    if (us > SLEEP_US_MAX)
        us = SLEEP_US_MAX;
    return (struct timespec){.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
}

/* Tells clients at once what the journal or Redis has made durable. */
static void look_at_journal(struct loop *loop)
{
    if (loop->fds[WATCH_JOURNAL].revents || loop->fds[WATCH_STREAMS].revents)
        loop->broker->schedule = true; /* a tick comes next */
}

/* Those are asked whose descriptor says something; both, when the sleep has ended by itself. */
static void look_at_sockets(struct loop *loop, int ready)
{
    if (ready <= 0)
        ask_again(loop->broker);
    else if (loop->fds[WATCH_WORKERS].revents)
        loop->broker->workers->dry = false;
    if (ready > 0 && loop->fds[WATCH_CLIENTS].revents)
        loop->broker->clients->dry = false;
}

static void trim(struct loop *loop)
{
    if (!loop->worked || loop->broker->now_us - loop->busy_us < IDLE_TRIM_US) /* jobs that live keep it busy */
        return;
    if (loop->admitted - loop->admitted_trimmed >=
        MANY_JOBS) { /* memory that a burst used and a quiet time does not need */
        broker_settle(loop->broker);
        port_settle(loop->broker->clients);
        port_settle(loop->broker->workers);
        memory_settle();
    } else {
        malloc_trim(0);
    }
    loop->admitted_trimmed = loop->admitted;
    loop->worked = false;
}

/*
 * Sleeps on the sockets' descriptors with ppoll: zmq_poll would look at each socket twice (10 system calls a turn, 5 us
 * of a round trip), and it counts in milliseconds. These descriptors report changes, not states, so the loop must sleep
 * only right after a turn that found nothing.
 */
static enum pen_status sleep_until_event(struct loop *loop)
{
    struct timespec time = sleep_time(loop);
    int ready = ppoll(loop->fds, loop->fds_count, &time, NULL);
    if (ready < 0 && errno != EINTR)
        return PEN_ERR_IO;
    loop->broker->now_us = loop->broker->clock();
    look_at_sockets(loop, ready);
    if (ready > 0 && (loop->fds[WATCH_WORKERS_LOST].revents || loop->fds[WATCH_CLIENTS_LOST].revents ||
                      loop->fds[WATCH_SIGNALS].revents || loop->fds[WATCH_HTTP].revents))
        look_aside(loop);
    look_at_journal(loop);
    if (ready > 0 && loop->fds[WATCH_SEALED].revents)
        sealed_way_look(loop->broker);
    trim(loop);
    return PEN_OK;
}

static int descriptor(void *socket)
{
    int fd = -1;
    size_t bytes = sizeof fd;
    if (!socket || zmq_getsockopt(socket, ZMQ_FD, &fd, &bytes) != 0)
        return -1; /* ppoll ignores it */
    return fd;
}

static void watch(struct loop *loop)
{
    const struct broker *broker = loop->broker;
    int fds[WATCH_COUNT] = {
        [WATCH_WORKERS] = descriptor(broker->workers->socket),
        [WATCH_CLIENTS] = descriptor(broker->clients->socket),
        [WATCH_WORKERS_LOST] = descriptor(broker->workers->monitor),
        [WATCH_CLIENTS_LOST] = descriptor(broker->clients->monitor),
        [WATCH_SIGNALS] = loop->signals,
        [WATCH_CACHE] = descriptor(cache_socket(broker->cache)),
        [WATCH_JOURNAL] = detached_descriptor(broker->detached),
        [WATCH_STREAMS] = detached_redis_descriptor(broker->detached),
        [WATCH_HTTP] = broker->post ? post_descriptor(broker->post) : -1,
        [WATCH_SEALED] = sealed_way_descriptor(broker),
    };
    for (size_t i = 0; i < WATCH_COUNT; i++)
        loop->fds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    loop->fds_count = WATCH_COUNT;
    for (uint32_t i = 0; i < broker->neighbours.count; i++)
        loop->fds[loop->fds_count++] =
            (struct pollfd){.fd = descriptor(broker->neighbours.all[i].dealer.socket), .events = POLLIN};
}

enum pen_status loop_run(struct broker *broker, int signals)
{
    enum pen_status status = PEN_OK;
    struct loop loop = {.broker = broker, .signals = signals, .alive_step_us = notify_watchdog_us()};
    loop.alive_us = loop.alive_step_us == DEADLINE_NONE ? DEADLINE_NONE : 0;
    watch(&loop);
    departure_watch(broker);
    look_aside(&loop);
    for (size_t i = 0; i < 2; i++)
        spin_init(&loop.spins[i], loop_cpus() > 1 ? (uint64_t)broker->options->spin_us : 0);
    struct spin *spin = &loop.spins[0];
    while (status == PEN_OK && !broker_drained(broker)) {
        unsigned count = turn(&loop);
        if (count == 0 && !(broker->workers->dry && broker->clients->dry))
            count = turn(&loop); /* something was sent that does not count as work */
        if (loop.signals_seen > 1) {
            status = PEN_ERR_CANCELLED;
        } else if (count > 0) {
            spin_found(spin);
            spin = &loop.spins[broker->live > 0];
        } else if (spin_on(spin, broker->now_us)) {
            ask_again(broker);
            urgency_make_way(); /* yield: the message that we wait for may come from a process that waits for this processor */
        } else {
            broker->stats.busy_waits = loop.spins[0].tried + loop.spins[1].tried;
            status = sleep_until_event(&loop);
        }
    }
    message_fini(&loop.message);
    return status;
}
