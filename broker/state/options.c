#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "address.h"
#include "endpoints.h"
#include "metrics.h"
#include "redis_tls.h"
#include "fair_queue.h"

#define AT(field) offsetof(struct options, field)
#define KIB       1024
#define MIB       (1024 * KIB)
#define GIB       (1024ll * MIB)
#define MS        1000ll
#define SECOND    1000000ll
#define HOUR      (3600 * SECOND)

static const struct setting table[] = {
    {"listen-clients", SETTING_TEXT, AT(listen_clients), "tcp://127.0.0.1:5550", NULL, 0, 0, NULL,
     "where clients connect; port * lets the system choose"},
    {"listen-workers", SETTING_TEXT, AT(listen_workers), "tcp://127.0.0.1:5551", NULL, 0, 0, NULL,
     "where workers connect"},
    {"http", SETTING_TEXT, AT(http), "auto", NULL, 0, 0, NULL,
     "metrics, health and the dashboard: an address such as 127.0.0.1:8002, auto (that one if it is free) or none"},
    {"http-preview", SETTING_FLAG, AT(http_preview), NULL, NULL, 0, 0, NULL,
     "the dashboard shows the last pictures that clients sent, and what models found on them: they are users' data, "
     "and whoever reaches --http sees them"},
    {"key", SETTING_TEXT, AT(key), "", NULL, 0, 0, NULL,
     "key file of `penstock keygen`: connections are encrypted, and only the keys of --keys come in"},
    {"keys", SETTING_TEXT, AT(keys), "", NULL, 0, 0, NULL,
     "who may come in: lines of KEY NAME ROLES [tenant=T] [rate=N] [bytes=SIZE] [share=PERCENT]; read again when it "
     "changes"},
    {"audit-log", SETTING_TEXT, AT(audit_log), "", NULL, 0, 0, NULL,
     "file that gets a line for each action of an administrator; the log has them in any case"},
    {"usage-dir", SETTING_TEXT, AT(usage_dir), "", NULL, 0, 0, NULL,
     "folder that gets a file per hour with what each tenant has used of each model, as JSON lines"},
    {"usage-every", SETTING_DURATION, AT(usage_every_us), "10s", NULL, 100 * MS, HOUR, NULL,
     "how often lines are added to that file; a broker that is killed loses what came since"},
    {"usage-keep", SETTING_DURATION, AT(usage_keep_us), "2160h", NULL, 0, 10 * 365 * 24 * HOUR, NULL,
     "age at which such files are removed; 0 = never"},
    {"allow-remote", SETTING_FLAG, AT(allow_remote), NULL, NULL, 0, 0, NULL,
     "listen on addresses beyond loopback without keys: nothing is encrypted or authenticated, so only behind a "
     "firewall"},
    {"cache", SETTING_TEXT, AT(cache_text), "memory:64MiB", NULL, 0, 0, NULL,
     "result cache: memory:<bytes>, none, or in Redis: redis://host:port/db, cluster://host:port,host:port,..., "
     "sentinel://host:port,.../master/db; with TLS rediss://, clusters://, sentinels://"},
    {"redis-password-file", SETTING_TEXT, AT(redis_password_file), "", NULL, 0, 0, NULL,
     "file with the password of Redis, or `user password`; only its owner may read it; read again at each connection"},
    {"redis-replicas", SETTING_INT, AT(redis_replicas), "1", "replicas", 0, 16, NULL,
     "cluster:// and sentinel://: so many replicas must have a detached job, its result or a label before it counts as "
     "kept, so that a failover does not lose it; 0 = none is waited for"},
    {"redis-ca", SETTING_TEXT, AT(redis_ca), "", NULL, 0, 0, NULL,
     "TLS to Redis: PEM file of the authorities that sign its certificates; none = the system's"},
    {"redis-certificate", SETTING_TEXT, AT(redis_certificate), "", NULL, 0, 0, NULL,
     "TLS to Redis: PEM file of the broker's own certificate, for servers that ask for one"},
    {"redis-key", SETTING_TEXT, AT(redis_key), "", NULL, 0, 0, NULL,
     "TLS to Redis: PEM file of that certificate's key; none = it is in --redis-certificate"},
    {"cache-ttl", SETTING_DURATION, AT(cache_ttl_us), "1h", NULL, 0, 365 * 24 * HOUR, NULL,
     "age at which a cached result is forgotten; 0 = never"},
    {"cache-namespace", SETTING_TEXT, AT(cache_namespace), "penstock", NULL, 0, 0, NULL, "prefix of the keys in Redis"},
    {"cache-deadline", SETTING_DURATION, AT(cache_deadline_us), "5ms", NULL, 100, SECOND, NULL,
     "longest wait for Redis before a job goes on without it"},
    {"cache-value-bytes", SETTING_BYTES, AT(cache_value_bytes), "1MiB", "bytes", 1, GIB, NULL,
     "largest result that is stored in Redis"},
    {"queue-limit", SETTING_INT, AT(queue_limit), "100000", "jobs", 1, 100000000, NULL,
     "waiting jobs per model and version; beyond it clients are told BUSY"},
    {"queue-bytes", SETTING_BYTES, AT(queue_bytes), "1GiB", "bytes", 1, 1024 * GIB, NULL,
     "bytes of all waiting jobs; beyond it clients are told BUSY"},
    {"memory-limit", SETTING_BYTES, AT(memory_limit), "0", "bytes", 0, 1024 * GIB, NULL,
     "memory that the broker may have; near it, or near the limit of its process or control group, clients are told "
     "BUSY; 0 = those limits alone"},
    {"max-job-bytes", SETTING_BYTES, AT(max_job_bytes), "256MiB", "bytes", 1, 64 * GIB, NULL, "largest job"},
    {"max-frame-bytes", SETTING_BYTES, AT(max_frame_bytes), "256MiB", "bytes", 64 * KIB, 64 * GIB, NULL,
     "largest frame on the wire; a peer that sends a larger one is disconnected"},
    {"digest-first", SETTING_BYTES, AT(digest_first), "64KiB", "bytes", 0, 64 * GIB, NULL,
     "where there is a cache and --bulk-from is not 0: clients may announce payloads above this, so that a known "
     "digest is answered without them; 0 = off"},
    {"peer-bytes", SETTING_BYTES, AT(peer_bytes), "256MiB", "bytes", 4 * KIB, 1024 * GIB, NULL,
     "replies that one client may leave unread before they are held back"},
    {"bulk-from", SETTING_BYTES, AT(bulk_from), "1MiB", "bytes", 0, 64 * GIB, NULL,
     "payloads of more bytes travel in chunks on a connection of their own, so that small jobs pass them; 0 = none do"},
    {"sealed-from", SETTING_BYTES, AT(sealed_from), "128KiB", "bytes", 0, 64 * GIB, NULL,
     "payloads of more bytes travel as sealed memory between processes of this host, by a descriptor, so that nobody "
     "copies them; 0 = none do"},
    {"bulk-clients", SETTING_TEXT, AT(bulk_clients), "none", NULL, 0, 0, NULL,
     "where clients connect for chunks, tcp:// at the host of --listen-clients: a thread that gives way to all others "
     "carries them then; none = at --listen-clients"},
    {"bulk-workers", SETTING_TEXT, AT(bulk_workers), "none", NULL, 0, 0, NULL,
     "the same for workers; none = at --listen-workers"},
    {"heartbeat", SETTING_DURATION, AT(heartbeat_us), "1s", NULL, 10 * MS, 600 * SECOND, NULL,
     "silence after which a sign of life is sent"},
    {"liveness", SETTING_DURATION, AT(liveness_us), "2s", NULL, 20 * MS, HOUR, NULL,
     "silence after which a peer is given up"},
    {"grace", SETTING_DURATION, AT(grace_us), "1s", NULL, 0, HOUR, NULL,
     "how long a client's jobs outlive its connection"},
    {"worker-wait", SETTING_DURATION, AT(worker_wait_us), "10s", NULL, 0, HOUR, NULL,
     "how long jobs of a model whose last worker has gone wait for another"},
    {"wake-wait", SETTING_DURATION, AT(wake_wait_us), "0", NULL, 0, 24 * HOUR, NULL,
     "for pools that an autoscaler ends and starts: how long jobs of a known model wait for its first worker, and the "
     "broker is ready without one; 0 = as --worker-wait says"},
    {"remember-models", SETTING_DURATION, AT(remember_us), "24h", NULL, 0, 720 * HOUR, NULL,
     "with --wake-wait: how long a model is known after its last worker has gone"},
    {"restart-wait", SETTING_DURATION, AT(restart_wait_us), "2s", NULL, 0, HOUR, NULL,
     "after the start: how long jobs wait that are here before any worker, or sent again by a client that was here "
     "before"},
    {"replies-bytes", SETTING_BYTES, AT(replies_bytes), "64MiB", "bytes", 0, 1024 * GIB, NULL,
     "replies kept until their clients acknowledge them"},
    {"replies-age", SETTING_DURATION, AT(replies_age_us), "30s", NULL, 0, HOUR, NULL,
     "age at which a kept reply is forgotten"},
    {"max-attempts", SETTING_INT, AT(max_attempts), "3", "workers", 1, 100, NULL,
     "workers that may be lost with a job before it is answered WORKER_LOST; the last time it is alone on a worker, "
     "and "
     "goes into quarantine when that is lost too"},
    {"journal", SETTING_TEXT, AT(journal), "", NULL, 0, 0, NULL,
     "file for detached jobs: each is accepted when it is there and synced; no other broker knows them, in Redis "
     "all do"},
    {"journal-bytes", SETTING_BYTES, AT(journal_bytes), "1GiB", "bytes", 4 * KIB, 1024 * GIB, NULL,
     "largest journal; it is written anew, without what is void, when that is more than half"},
    {"detached", SETTING_TEXT, AT(detached), "auto", NULL, 0, 0, NULL,
     "where detached jobs are kept: a place in Redis as for --cache, journal, none, or auto: the Redis of --cache if "
     "there is one, else the journal. With Redis and a journal, the journal while Redis is gone"},
    {"detached-lease", SETTING_DURATION, AT(detached_lease_us), "5s", NULL, SECOND, HOUR, NULL,
     "detached jobs in Redis: how long after a broker's last sign of life another one takes its jobs"},
    {"detached-bytes", SETTING_BYTES, AT(detached_bytes), "1GiB", "bytes", 4 * KIB, 1024 * GIB, NULL,
     "detached jobs in Redis: bytes of all requests and results; beyond it clients are told BUSY"},
    {"detached-ttl", SETTING_DURATION, AT(detached_ttl_us), "24h", NULL, SECOND, 365 * 24 * HOUR, NULL,
     "how long detached jobs and their results are kept at most"},
    {"quarantine-age", SETTING_DURATION, AT(quarantine_age_us), "1h", NULL, 0, 365 * 24 * HOUR, NULL,
     "how long jobs equal to one in quarantine are refused; 0 = they are not"},
    {"hedge", SETTING_FLAG, AT(hedge), NULL, NULL, 0, 0, NULL,
     "a job that takes longer than 95 of 100 is run a second time on an idle worker; the first answer counts"},
    {"explain-jobs", SETTING_INT, AT(explain_jobs), "1024", "jobs", 0, 1000000, NULL,
     "ended jobs that `penstock explain` can still explain"},
    {"refuse-late", SETTING_FLAG, AT(refuse_late), "true", NULL, 0, 0, NULL,
     "a job that should be done later than its deadline by more than a quarter of it is refused at once"},
    {"tenant-weight", SETTING_LIST, AT(tenant_weights), NULL, NULL, 0, 0, NULL,
     "NAME=N: the tenant gets N times the share of one without, 1 to 1000 (may be repeated)"},
    {"neighbours", SETTING_TEXT, AT(neighbours), "", NULL, 0, 0, NULL,
     "other brokers of the pool, as clients reach them, separated by commas: a busy broker sends new clients there, "
     "and "
     "one that drains its waiting jobs; this broker itself may be in the list"},
    {"busy-jobs", SETTING_INT, AT(busy_jobs), "0", "jobs", 0, 100000000, NULL,
     "jobs of clients, waiting and running, with which this broker is busy; 0 = jobs make it never busy"},
    {"busy-clients", SETTING_INT, AT(busy_clients), "0", "clients", 0, 65536, NULL, "the same for connected clients"},
    {"drain-delay", SETTING_DURATION, AT(drain_delay_us), "0", NULL, 0, HOUR, NULL,
     "after SIGTERM: how long new jobs are still taken; then they wait in their clients for the broker that comes "
     "next"},
    {"drain-timeout", SETTING_DURATION, AT(drain_timeout_us), "30s", NULL, 0, HOUR, NULL,
     "after that: how long jobs may take to finish"},
    {"spin", SETTING_DURATION, AT(spin_us), "150us", NULL, 0, 10 * MS, NULL,
     "busy wait before sleeping, while that pays and there is more than one processor; 0 = off"},
    {"wake-slice", SETTING_DURATION, AT(wake_slice_us), "100us", NULL, 0, 100000, NULL,
     "slices of processor time asked of the kernel for threads that pass messages on: they need not wait for those "
     "that "
     "compute (Linux 6.12 on); 0 = the kernel's own"},
    {"digest", SETTING_CHOICE, AT(digest_text), "auto", NULL, 0, 0, "auto|xxh3|sha256",
     "request digest asked of clients; xxh3 can be forged: auto = sha256 where there are several identities (--keys)"},
    {"log-level", SETTING_CHOICE, AT(log_level_text), "info", NULL, 0, 0, "debug|info|warn|error",
     "least important lines that are logged"},
    {"log-format", SETTING_CHOICE, AT(log_format), "text", NULL, 0, 0, "text|json", "form of the log lines on stderr"},
    {"trace-sample", SETTING_INT, AT(trace_sample), "100", "jobs", 0, 1000000000, NULL,
     "keep the trace of one of so many jobs; 0 = only of those that ask, and of the slowest and failed ones"},
    {"trace-keep", SETTING_INT, AT(trace_keep), "256", "traces", 0, METRICS_KEPT_MAX, NULL,
     "traces kept for `penstock trace`, besides the last, the slowest and the failed 32"},
    {"trace-slow", SETTING_DURATION, AT(trace_slow_us), "0", NULL, 0, HOUR, NULL,
     "keep the trace of every job that takes longer; 0 = off"},
    {"trace-otlp", SETTING_TEXT, AT(trace_otlp), "none", NULL, 0, 0, NULL,
     "send kept traces to an OpenTelemetry collector: http://HOST:PORT[/v1/traces] (OTLP, JSON)"},
    {"ready-fd", SETTING_INT, AT(ready_fd), "-1", NULL, -1, 1024, NULL,
     "descriptor that gets the line with the addresses instead of stdout"},
    {NULL, SETTING_FLAG, 0, NULL, NULL, 0, 0, NULL, NULL},
};

/* PENSTOCK_KEY may be the key of a client. It is this program's key when the list of keys is set under its old name,
   too. */
static bool is_brokers_key(const char *value)
{
    (void)value;
    return getenv("PENSTOCK_KEYS") != NULL;
}

/* Names that `penstock` or the worker use for something else; PENSTOCK_BROKER_KEY is the public key, for those
   programs. */
static const struct setting_variable variables[] = {
    {"key", "PENSTOCK_BROKER_KEY_FILE", is_brokers_key},
    {"detached-ttl", "PENSTOCK_BROKER_DETACHED_TTL", NULL},
    {"config", "PENSTOCK_BROKER_CONFIG", NULL},
    {.setting = NULL},
};

static const struct settings_program program = {
    .name = "penstock-broker",
    .usage = "penstock-broker [options]",
    .about = "Takes jobs from clients, gives them to workers, answers from the cache, and loses none.\n"
             "When it listens it prints one line: evt=listening clients=<endpoint> workers=<endpoint> http=<address> "
             "pid=<pid>.",
    .after =
        "SIGTERM or SIGINT drains: no new jobs, the others finish, exit. A second signal exits at once.\n"
        "SIGUSR1 and SIGUSR2 make the log more and less talkative; `penstock log-level` names a level.\n"
        "\n"
        "Exit codes: 0 drained; 1 failed, at the start or later; 2 bad options; 3 an address cannot be listened on; 4 "
        "ended by a second signal.\n"
        "\n"
        "Example: penstock-broker --cache redis://127.0.0.1:6379/0 --queue-limit 1000",
    .table = table,
    .variables = variables,
};

/*
 * tcp://127.x, tcp://localhost, tcp://[::1] and ipc:// stay on this machine. Not tcp://127.0.0.1:0;0.0.0.0:5550, which libzmq reads as
 * "from;to" and listens on what is behind the semicolon.
 */
static bool is_local(const char *endpoint)
{
    static const char *const local[] = {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "tcp://lo:", "ipc://"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        if (strncasecmp(endpoint, local[i], strlen(local[i])) == 0)
            return true;
    }
    return false;
}

static enum pen_status check_endpoint(const struct options *options, const char *flag, const char *endpoint,
                                      struct pen_error *reterr)
{
    if (strncasecmp(endpoint, "tcp://", 6) == 0 ? strchr(endpoint, ';') != NULL
                                                : strncasecmp(endpoint, "ipc://", 6) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s %.200s: it must be one tcp://address:port or ipc://path",
                             flag, endpoint);
    if (!endpoint_port_fits(endpoint))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s %.200s: a port is a number from 1 to 65535, or * (the system chooses)", flag,
                             endpoint);
    if (options->allow_remote || *options->key || is_local(endpoint))
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_DENIED,
                         "%s %s can be reached from other machines, and nothing on it is encrypted or authenticated; "
                         "add --key and --keys, or --allow-remote when a firewall keeps strangers out",
                         flag, endpoint);
}

static enum pen_status check_bulk(const struct options *options, const char *flag, const char *endpoint,
                                  struct pen_error *reterr)
{
    if (strcmp(endpoint, "none") == 0)
        return PEN_OK;
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s %.200s: it must be none or tcp://address:port, because peers are told its port", flag,
                             endpoint);
    return check_endpoint(options, flag, endpoint, reterr);
}

/* A name would have to be looked up: only numbers, which also say whether they are local. */
static enum pen_status check_http(const struct options *options, struct pen_error *reterr)
{
    const char *address = options->http;
    if (strcmp(address, "auto") == 0 || strcmp(address, "none") == 0)
        return PEN_OK;
    struct sockaddr_storage socket_address;
    socklen_t size;
    enum pen_status status = address_parse(address, &socket_address, &size, reterr);
    if (status != PEN_OK || options->allow_remote || address_host_local(address))
        return status;
    return pen_error_set(reterr, PEN_ERR_DENIED,
                         "--http %s can be reached from other machines, and nobody is asked for a password there; add "
                         "--allow-remote when a firewall keeps strangers out",
                         address);
}

static enum pen_status check_weights(const struct options *options, struct pen_error *reterr)
{
    for (size_t i = 0; i < options->tenant_weights.count; i++) {
        if (fair_weight_parse(options->tenant_weights.items[i], NULL) == 0)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "--tenant-weight %s: it must be NAME=N with N from 1 to %u, such as acme=3",
                                 options->tenant_weights.items[i], FAIR_WEIGHT_MAX);
    }
    return PEN_OK;
}

/* Handed-over sockets: their addresses are checked as if the settings had named them. */
static enum pen_status take_inherited(struct options *options, struct pen_error *reterr)
{
    struct inherited *sockets = &options->inherited;
    enum pen_status status = inherited_take(sockets, reterr);
    bool known = true;
    if (status == PEN_OK && sockets->clients >= 0)
        known &= inherited_endpoint(sockets->clients, options->inherited_clients, sizeof options->inherited_clients);
    if (status == PEN_OK && sockets->workers >= 0)
        known &= inherited_endpoint(sockets->workers, options->inherited_workers, sizeof options->inherited_workers);
    if (status == PEN_OK && sockets->http >= 0)
        known &= inherited_endpoint(sockets->http, options->inherited_http, sizeof options->inherited_http) &&
                 strncmp(options->inherited_http, "tcp://", 6) == 0;
    if (!known)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a socket that was handed over is neither TCP nor a Unix socket with a path (http: TCP)");
    if (options->inherited_clients[0])
        options->listen_clients = options->inherited_clients;
    if (options->inherited_workers[0])
        options->listen_workers = options->inherited_workers;
    if (options->inherited_http[0])
        options->http = options->inherited_http + strlen("tcp://");
    return status;
}

static enum pen_status check_keys(const struct options *options, struct pen_error *reterr)
{
    if ((*options->key != '\0') != (*options->keys != '\0'))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--key and --keys go together: the broker's own key, and who may come in");
    return PEN_OK;
}

/* Decides where detached jobs are kept: *detached_redis is set for Redis; *journal is emptied when the journal is
   not used. */
static enum pen_status check_detached(struct options *options, struct pen_error *reterr)
{
    const char *where = options->detached;
    struct pen_error error = {.status = PEN_OK};
    if (strcmp(where, "none") == 0)
        options->journal = "";
    if (strcmp(where, "auto") == 0 && options->cache.kind == CACHE_REDIS)
        options->detached_redis = options->cache;
    if (strcmp(where, "journal") == 0 && !*options->journal)
        return pen_error_set(reterr, PEN_ERR_INVALID, "--detached journal needs --journal FILE");
    if (strcmp(where, "auto") == 0 || strcmp(where, "none") == 0 || strcmp(where, "journal") == 0)
        return PEN_OK;
    if (!redis_place_is(where))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--detached %.200s is not understood; expected auto, none, journal or a place in Redis as "
                             "for --cache, such as redis://host:port/db",
                             where);
    options->detached_redis = (struct cache_options){.kind = CACHE_REDIS, .redis = options->cache.redis};
    if (redis_place_parse(where, &options->detached_redis.redis, &error) != PEN_OK)
        return pen_error_set(reterr, error.status, "--detached %s", error.text);
    return PEN_OK;
}

/* What belongs to each place in Redis besides its address; before the places of --detached are made of it. */
static enum pen_status check_redis(struct options *options, struct pen_error *reterr)
{
    struct redis_place *place = &options->cache.redis;
    place->replicas = (int)options->redis_replicas;
    place->ca = options->redis_ca;
    place->certificate = options->redis_certificate;
    place->key = options->redis_key;
    return *options->redis_password_file ? redis_password_read(options->redis_password_file, place, reterr) : PEN_OK;
}

/* The files of TLS are read at the start, and are of use only with TLS. A brace in a key tells a cluster which part of
   it decides about its node, and the broker has its own. */
static enum pen_status check_places(const struct options *options, struct pen_error *reterr)
{
    const struct cache_options *all[] = {&options->cache, &options->detached_redis};
    bool tls = false, cluster = false;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < 2 && status == PEN_OK; i++) {
        bool redis = all[i]->kind == CACHE_REDIS;
        tls |= redis && all[i]->redis.tls;
        cluster |= redis && all[i]->redis.kind == REDIS_CLUSTER;
        status = redis && all[i]->redis.tls ? redis_tls_check(&all[i]->redis, reterr) : PEN_OK;
    }
    if (status == PEN_OK && !tls && (*options->redis_ca || *options->redis_certificate || *options->redis_key))
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "--redis-ca, --redis-certificate and --redis-key are for TLS: the place in Redis must begin "
            "with rediss://, clusters:// or sentinels://");
    if (status == PEN_OK && cluster && strpbrk(options->cache_namespace, "{}"))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "--cache-namespace %.100s: a Redis Cluster reads braces in a key as the part that decides "
                             "about its node; leave them out",
                             options->cache_namespace);
    return status;
}

static enum pen_status check(struct options *options, struct pen_error *reterr)
{
    struct collector_address collector;
    enum pen_status status = take_inherited(options, reterr);
    if (status == PEN_OK)
        status = check_endpoint(options, "--listen-clients", options->listen_clients, reterr);
    if (status == PEN_OK)
        status = check_endpoint(options, "--listen-workers", options->listen_workers, reterr);
    if (status == PEN_OK)
        status = check_bulk(options, "--bulk-clients", options->bulk_clients, reterr);
    if (status == PEN_OK)
        status = check_bulk(options, "--bulk-workers", options->bulk_workers, reterr);
    if (status == PEN_OK)
        status = check_http(options, reterr);
    if (status == PEN_OK)
        status = check_keys(options, reterr);
    if (status == PEN_OK && strcmp(options->trace_otlp, "none") != 0)
        status = address_collector(options->trace_otlp, &collector, reterr);
    if (status == PEN_OK && options->liveness_us <= options->heartbeat_us)
        status =
            pen_error_set(reterr, PEN_ERR_INVALID, "--liveness must be longer than --heartbeat: twice it is usual");
    if (status == PEN_OK)
        status = check_weights(options, reterr);
    if (status == PEN_OK)
        status = cache_parse(options->cache_text, &options->cache, reterr);
    if (status == PEN_OK)
        status = check_redis(options, reterr);
    if (status == PEN_OK)
        status = check_detached(options, reterr);
    if (status == PEN_OK)
        status = check_places(options, reterr);
    return status;
}

static void derive(struct options *options)
{
    bool several = strcmp(options->digest_text, "auto") == 0 && *options->keys;
    options->digest = several || strcmp(options->digest_text, "sha256") == 0 ? DIGEST_SHA256 : DIGEST_XXH3;
    options->cache.namespace = options->cache_namespace;
    options->cache.ttl_us = (uint64_t)options->cache_ttl_us;
    options->cache.deadline_us = (uint64_t)options->cache_deadline_us;
    if (options->cache.kind == CACHE_REDIS)
        options->cache.bytes_max = (uint64_t)options->cache_value_bytes;
    log_level_parse(options->log_level_text, &options->log_level);
}

enum pen_status options_load(int argc, char **argv, struct options *ret_options, enum settings_outcome *ret_outcome,
                             struct settings_store **ret_store, struct pen_error *reterr)
{
    *ret_options = (struct options){.listen_clients = NULL};
    enum pen_status status = settings_load(&(struct settings_call){&program, argc, argv, NULL, 0}, ret_options, NULL,
                                           ret_outcome, ret_store, reterr);
    if (status != PEN_OK || *ret_outcome == SETTINGS_EXIT)
        return status;
    status = check(ret_options, reterr);
    if (status != PEN_OK) {
        settings_free(*ret_store);
        *ret_store = NULL;
        return status;
    }
    derive(ret_options);
    return PEN_OK;
}
