/*
 * main.c - penstock-broker: options, sockets, the loop, and an orderly end. Exit codes: --help.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "audit.h"
#include "broker.h"
#include "cluster.h"
#include "deadline.h"
#include "detached.h"
#include "http.h"
#include "logline.h"
#include "loop.h"
#include "memory.h"
#include "memory_source.h"
#include "neighbour_talk.h"
#include "notify.h"
#include "otlp.h"
#include "parcel_door.h"
#include "urgency.h"
#include "usage_file.h"
#include "version.h"
#include "authenticator.h"

enum exit_code { EXIT_DRAINED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LISTEN = 3, EXIT_SIGNAL = 4 };

#define LINGER_MS       2000  /* time for the last replies to be sent */
#define NAMED_LOOKS     2000u /* a millisecond apart */
#define DESCRIPTORS_MIN 64u
#define HOUR_US         3600000000LL
#define START_BYTES     (24u << 20) /* below the limits of mappings: stacks of two threads, and the reserve */

/* Raises the limit of descriptors as far as the system allows, because each connection needs one. With fewer than a
   few dozen, libzmq ends the program while it opens its own. */
static enum pen_status raise_descriptors(struct pen_error *reterr)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return PEN_OK;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_max >= DESCRIPTORS_MIN)
        return PEN_OK;
    return pen_error_set(
        reterr, PEN_ERR_NO_MEMORY,
        "the limit of open files is %llu (ulimit -n); a broker needs %u, and one more for each connection",
        (unsigned long long)limit.rlim_max, DESCRIPTORS_MIN);
}

/* Blocked before any thread starts, so that libzmq's and the cache's threads inherit it. */
static int block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup: it stays ignored */
        sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* at its size limit the journal shall get an error from write(2), not end the process */
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* NULL: bulk connections use the ordinary address. */
static const char *apart(const char *setting)
{
    return strcmp(setting, "none") == 0 ? NULL : setting;
}

static bool any_apart(const struct options *options)
{
    return apart(options->bulk_clients) || apart(options->bulk_workers);
}

/* A thread has its name from its first run on; libzmq's threads have been started by now. */
static bool lower_bulk_thread(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    bool refused;
    for (unsigned look = 0; look < NAMED_LOOKS; look++) {
        if (urgency_give_way_named(PORT_BULK_THREAD, &refused) > 0)
            return !refused;
        nanosleep(&pause, NULL);
    }
    return false;
}

static enum pen_status open_ports(struct broker *broker, void *context, struct pen_error *reterr)
{
    const struct options *options = broker->options;
    struct port_options ask = {.endpoint = options->listen_clients,
                               .bulk_endpoint = apart(options->bulk_clients),
                               .fd = options->inherited.clients,
                               .monitor_name = "inproc://monitor-clients",
                               .frame_bytes_max = options->max_frame_bytes,
                               .heartbeat_us = (uint64_t)options->heartbeat_us,
                               .liveness_us = (uint64_t)options->liveness_us,
                               .zap_domain = AUTHENTICATOR_DOMAIN_CLIENTS};
    struct key_pair key;
    if (*options->key && key_file_read(options->key, &key, reterr) != PEN_OK)
        return reterr->status;
    ask.key = *options->key ? &key : NULL;
    enum pen_status status = port_open(broker->clients, context, &ask, reterr);
    if (status != PEN_OK) {
        key_pair_wipe(&key);
        return status;
    }
    ask.zap_domain = AUTHENTICATOR_DOMAIN_WORKERS;
    ask.endpoint = options->listen_workers;
    ask.bulk_endpoint = apart(options->bulk_workers);
    ask.fd = options->inherited.workers;
    ask.monitor_name = "inproc://monitor-workers";
    status = port_open(broker->workers, context, &ask, reterr);
    key_pair_wipe(&key);
    if (status != PEN_OK)
        port_close(broker->clients, 0);
    else if (any_apart(options) && !lower_bulk_thread())
        log_event(LOG_WARN, "bulk_priority", "reason=%s", "the thread for large payloads cannot be told to give way");
    return status;
}

/* All brokers that know each other have one key pair, as their clients know one public key. */
static enum pen_status open_neighbours(struct broker *broker, void *context, struct pen_error *reterr)
{
    const struct options *options = broker->options;
    struct key_pair key;
    if (!*options->neighbours)
        return PEN_OK;
    if (*options->key && key_file_read(options->key, &key, reterr) != PEN_OK)
        return reterr->status;
    enum pen_status status = neighbours_open(broker, context, *options->key ? &key : NULL, reterr);
    key_pair_wipe(&key);
    return status;
}

/* Opens the list of keys and the audit log, before any port is open. */
static enum pen_status guards_open(struct broker *broker, void *context, struct authenticator **ret_authenticator,
                                   struct pen_error *reterr)
{
    const struct options *options = broker->options;
    enum pen_status status = audit_new(options->audit_log, &broker->audit, reterr);
    if (status == PEN_OK && *options->keys)
        status = keyring_new(options->keys, &broker->keyring, reterr);
    if (status == PEN_OK && broker->keyring)
        status = authenticator_start(context, broker->keyring, ret_authenticator, reterr);
    return status;
}

static void announce(const struct broker *broker, const char *http)
{
    char clients[256] = "", workers[256] = "", line[640];
    int fd = broker->options->ready_fd >= 0 ? (int)broker->options->ready_fd : STDOUT_FILENO;
    port_endpoint(broker->clients, clients, sizeof clients);
    port_endpoint(broker->workers, workers, sizeof workers);
    int bytes = snprintf(line, sizeof line, "evt=listening clients=%s workers=%s http=%s pid=%ld\n", clients, workers,
                         http, (long)getpid());
    log_event(LOG_INFO, "listening", "clients=%s workers=%s http=%s cache=%s version=%s", clients, workers, http,
              broker->options->cache_text, PENSTOCK_VERSION);
    if (bytes > 0 && write(fd, line, (size_t)bytes) < 0)
        log_event(LOG_WARN, "ready_line_lost", "fd=%d error=%s", fd, strerror(errno));
    notify_send("READY=1\nSTATUS=clients %s, workers %s, pages %s", clients, workers, http);
    if (broker->options->allow_remote && !broker->keyring)
        log_event(LOG_WARN, "remote_allowed", "reason=%s",
                  "connections are neither encrypted nor authenticated; keep strangers out by a firewall");
}

static void end_at_once(int signal)
{
    (void)signal;
    _exit(EXIT_SIGNAL);
}

/* Now only the last replies are still being sent, and threads wait for Redis: a further signal ends the program at
   once. */
static void end_at_next_signal(void)
{
    struct sigaction action = {.sa_handler = end_at_once};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int serve(struct broker *broker, const char *http, int signals)
{
    memory_settle();
    announce(broker, http);
    enum pen_status status = loop_run(broker, signals);
    int linger_ms = status == PEN_OK ? LINGER_MS : 0;
    log_event(LOG_INFO, "stopped", "status=%s", pen_status_name(status));
    if (status == PEN_ERR_CANCELLED)
        _exit(EXIT_SIGNAL);
    end_at_next_signal();
    port_close(broker->clients, linger_ms);
    port_close(broker->workers, linger_ms);
    return status == PEN_OK ? EXIT_DRAINED : EXIT_FAILED;
}

/* By default the pages are optional: without them the broker serves all the same. When --http names an address,
   failing to open it is an error. */
static enum pen_status start_http(struct broker *broker, struct http **ret_http, struct pen_error *reterr)
{
    const char *address = broker->options->http;
    bool automatic = strcmp(address, "auto") == 0;
    struct pen_error error = {.status = PEN_OK};
    if (strcmp(address, "none") == 0)
        return PEN_OK;
    broker->post = post_new(clock_now_us);
    if (!broker->post)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or no descriptor for --http");
    broker->previews = broker->options->http_preview ? previews_new() : NULL; /* without memory none are shown */
    enum pen_status status =
        http_start(automatic ? HTTP_ADDRESS_DEFAULT : address, broker->options->inherited.http,
                   !broker->options->allow_remote, broker->post, broker->previews, ret_http, &error);
    if (status == PEN_OK || automatic) {
        if (status != PEN_OK)
            log_event(LOG_WARN, "http_off", "reason=%s", error.text);
        return PEN_OK;
    }
    *reterr = error;
    return status;
}

/* Without it payloads travel as bytes. */
static void open_door(struct broker *broker, struct parcel_door *door)
{
    struct pen_error error = {.status = PEN_OK};
    if (broker->options->sealed_from == 0)
        return;
    if (parcel_door_open(door, &error) == PEN_OK)
        broker->transfers.door = door;
    else
        log_event(LOG_WARN, "sealed_off", "reason=%s", error.text);
}

static int fail(int code, const struct pen_error *error)
{
    fprintf(stderr, "penstock-broker: %s\n", error->text);
    return code;
}

/* Before the first thread: libzmq ends the program when one cannot be started. */
static enum pen_status watch_memory(struct broker *broker, struct headroom *headroom, struct memory_files *files,
                                    struct pen_error *reterr)
{
    struct memory_source source;
    memory_source_init(files, (uint64_t)broker->options->memory_limit, &source);
    headroom_init(headroom, &source, clock_now_us());
    broker->headroom = headroom;
    return headroom_check(headroom, START_BYTES, reterr);
}

/* The start has allocated what it needs: the rest is for jobs. */
static enum pen_status memory_left(struct headroom *headroom, struct pen_error *reterr)
{
    struct memory_source source = headroom->source;
    headroom_init(headroom, &source, clock_now_us());
    return headroom_check(headroom, 0, reterr);
}

/* In the Redis of the results, or in that of the detached jobs when it is the only one. */
static enum pen_status open_cluster(struct broker *broker, struct pen_error *reterr)
{
    const struct options *options = broker->options;
    const struct cache_options *redis = options->cache.kind == CACHE_REDIS ? &options->cache : &options->detached_redis;
    if (redis->kind != CACHE_REDIS)
        return PEN_OK;
    return cluster_new(&redis->redis, options->cache.namespace, broker->uuid, &broker->cluster, reterr);
}

static int run(const struct options *options, void *context, int signals)
{
    static struct broker broker; /* large scratch arrays: not on the stack */
    struct port clients = {.socket = NULL}, workers = {.socket = NULL};
    struct pen_error error = {.status = PEN_OK};
    struct cache *cache = NULL;
    struct http *http = NULL;
    struct authenticator *authenticator = NULL;
    struct headroom headroom;
    struct memory_files files = {.statm = -1};
    struct parcel_door door = {.fd = -1, .watch = -1};
    int code = EXIT_FAILED;
    if (broker_init(&broker, options, NULL, clock_now_us) != PEN_OK) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory to start");
        return fail(code, &error);
    }
    broker.clients = &clients;
    broker.workers = &workers;
    open_door(&broker, &door);
    if (watch_memory(&broker, &headroom, &files, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    else if (guards_open(&broker, context, &authenticator, &error) != PEN_OK)
        code = fail(EXIT_USAGE, &error);
    else if (open_ports(&broker, context, &error) != PEN_OK)
        code = fail(EXIT_LISTEN, &error);
    else if (cache_new(context, &options->cache, &cache, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    else
        broker.cache = cache;
    if (error.status == PEN_OK && *options->journal && detached_open(&broker, options->journal, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    if (error.status == PEN_OK && options->detached_redis.kind == CACHE_REDIS &&
        detached_open_redis(&broker, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    if (error.status == PEN_OK && open_cluster(&broker, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    if (error.status == PEN_OK && open_neighbours(&broker, context, &error) != PEN_OK)
        code = fail(EXIT_USAGE, &error);
    if (error.status == PEN_OK && start_http(&broker, &http, &error) != PEN_OK)
        code = fail(EXIT_LISTEN, &error);
    if (error.status == PEN_OK && *options->usage_dir &&
        usage_file_new(options->usage_dir, broker.uuid, (uint32_t)(options->usage_keep_us / HOUR_US),
                       &broker.usage_file, &error) != PEN_OK)
        code = fail(EXIT_USAGE, &error);
    broker.trace_push = otlp_push;
    if (error.status == PEN_OK && strcmp(options->trace_otlp, "none") != 0 &&
        otlp_new(options->trace_otlp, &broker.otlp, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    if (error.status == PEN_OK && memory_left(&headroom, &error) != PEN_OK)
        code = fail(EXIT_FAILED, &error);
    if (error.status == PEN_OK)
        code = serve(&broker, http ? http_address(http) : "none", signals);
    otlp_free(broker.otlp);
    broker.otlp = NULL;
    http_stop(http);
    post_free(broker.post);
    previews_free(broker.previews);
    broker.previews = NULL;
    port_close(&clients, 0);
    port_close(&workers, 0);
    neighbours_close(&broker);
    broker_fini(&broker);
    parcel_door_close(&door);
    usage_file_free(broker.usage_file);
    authenticator_stop(authenticator);
    keyring_free(broker.keyring);
    audit_free(broker.audit);
    cluster_free(broker.cluster);
    cache_free(cache);
    memory_source_fini(&files);
    return code;
}

int main(int argc, char **argv)
{
    static struct options options;
    struct settings_store *store = NULL;
    enum settings_outcome outcome = SETTINGS_RUN;
    struct pen_error error = {.status = PEN_OK};
    memory_tune();
    if (options_load(argc, argv, &options, &outcome, &store, &error) != PEN_OK)
        return fail(EXIT_USAGE, &error);
    if (outcome == SETTINGS_EXIT) {
        settings_free(store);
        return 0;
    }
    if (raise_descriptors(&error) != PEN_OK) {
        settings_free(store);
        return fail(EXIT_FAILED, &error);
    }
    log_setup("broker", options.log_level, strcmp(options.log_format, "json") == 0);
    int signals = block_signals(), code = EXIT_FAILED;
    urgency_ask((uint64_t)options.wake_slice_us); /* before libzmq's threads start: they inherit it */
    void *context = signals >= 0 ? zmq_ctx_new() : NULL;
    if (context) {
        zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 64);
        zmq_ctx_set(context, ZMQ_IO_THREADS, any_apart(&options) ? 2 : 1);
        code = run(&options, context, signals);
        zmq_ctx_term(context);
    }
    if (signals >= 0)
        close(signals);
    settings_free(store);
    return code;
}
