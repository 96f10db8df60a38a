/*
 * Each part of the broker that begins with memory, a thread or a descriptor begins, works a little and ends, while its first allocation fails, then its second, and so on:
 * it says that it has not begun, or it works without what it lacks, and it loses no memory (sanitizers look). The linker leads allocations through lean.c.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include "audit.h"
#include "authenticator.h"
#include "cache.h"
#include "cluster.h"
#include "deadline.h"
#include "desk.h"
#include "detached.h"
#include "detached_entry.h"
#include "detached_shared.h"
#include "ensemble_run.h"
#include "fleet_order.h"
#include "folder.h"
#include "historian.h"
#include "http.h"
#include "http_patience.h"
#include "journal.h"
#include "keyring.h"
#include "lean.h"
#include "metrics.h"
#include "otlp.h"
#include "quarantine.h"
#include "sequence.h"
#include "single_flight.h"
#include "streams.h"

enum { TRIES = 200 };

#define KEY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct redis_place nowhere = {.seeds = {{"127.0.0.1", 1}}, .seeds_count = 1};
static struct pen_error error;

/* What was counted is not watched any more: an end may need memory, as that of a thread that is told to stop. */
static void enough(void)
{
    lean_fail_none();
}

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    cr_assert_not_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* life: true when the part began. It must begin when nothing fails, and something must have failed before. */
static void try_each(const char *name, bool (*life)(void))
{
    unsigned open = 0;
    for (unsigned long k = 1; k < TRIES; k++) {
        unsigned long failed = lean_failed();
        if (k > 1) /* the first may open what stays, such as the device of random numbers */
            cr_expect(k == 2 || descriptors() == open, "%s leaves a descriptor open", name);
        open = k > 1 ? descriptors() : 0;
        error = (struct pen_error){.status = PEN_OK};
        lean_watch(true);
        lean_fail_kth(k);
        bool begun = life();
        lean_watch(false);
        lean_fail_none();
        if (lean_failed() == failed) {
            cr_expect(begun && k > 1, "%s: %s", name, error.text);
            return;
        }
        cr_expect(begun || error.status == PEN_OK || strlen(error.text) > 10, "%s says why it cannot begin", name);
    }
    cr_expect_fail("%s allocates without end", name);
}

static bool is(enum pen_status status)
{
    cr_expect(status == PEN_OK || error.status == status, "what is told is what is returned");
    return status == PEN_OK;
}

/* ---- counters and pages -------------------------------------------------------------------------------------------- */

static bool metrics_live(void)
{
    struct metrics *metrics = metrics_new(1);
    if (!metrics)
        return false;
    bool kept = job_traces_ring_init(&metrics->kept, 8) == PEN_OK;
    cr_expect_eq(metrics->kept.room, kept ? 8u : 0u);
    struct job_trace trace = {.id = {1, 2}, .how = FINISH_COMPUTED, .total_us = 5};
    metrics_end(metrics, metrics_model(metrics, "a", 1), NULL, &trace, true);
    cr_expect_eq(metrics->kept.count, kept ? 1u : 0u);
    cr_expect_eq(metrics->recent.count, 1u);
    metrics_free(metrics);
    return kept;
}

static bool historian_live(void)
{
    struct post *post = post_new(clock_now_us);
    struct historian *historian = post ? historian_new(post) : NULL;
    struct writer writer = {.text = NULL};
    bool told = historian && historian_tell(historian, NULL, 0, &writer);
    enough();
    writer_fini(&writer);
    if (post)
        post_close(post);
    historian_free(historian);
    post_free(post);
    return told;
}

static bool patience_live(void)
{
    struct post *post = post_new(clock_now_us);
    struct patience *patience = post ? patience_new(post, 4) : NULL;
    if (patience)
        cr_expect_eq(patience_count(patience, 0).held, 0u);
    if (post)
        post_close(post);
    patience_free(patience);
    post_free(post);
    return patience;
}

static bool http_live(void)
{
    struct post *post = post_new(clock_now_us);
    struct http *http = NULL;
    bool begun = post && is(http_start("127.0.0.1:*", -1, true, post, NULL, &http, &error));
    cr_expect_eq(begun, http != NULL);
    if (begun)
        cr_expect(strncmp(http_address(http), "127.0.0.1:", 10) == 0 && atoi(http_address(http) + 10) > 0);
    http_stop(http);
    post_free(post);
    return begun;
}

static bool otlp_live(void)
{
    struct otlp *otlp = NULL;
    bool begun = is(otlp_new("http://127.0.0.1:1/v1/traces", &otlp, &error));
    cr_expect_eq(begun, otlp != NULL);
    otlp_free(otlp);
    return begun;
}

/* ---- store ---------------------------------------------------------------------------------------------------------- */

static bool streams_live(void)
{
    struct streams *streams = NULL;
    struct streams_options options = {.place = nowhere, .namespace = "test", .lease_us = 1000000};
    bool begun = is(streams_new(&options, &streams, &error));
    enough();
    cr_expect_eq(begun, streams != NULL);
    if (begun)
        cr_expect_geq(streams_descriptor(streams), 0);
    streams_free(streams);
    return begun;
}

static bool cluster_live(void)
{
    struct cluster *cluster = NULL;
    bool begun = is(cluster_new(&nowhere, "test", 7, &cluster, &error));
    cluster_tell(cluster, "model label 3");
    cr_expect_eq(cluster_brokers(cluster), 1u);
    cluster_free(cluster);
    return begun;
}

static bool cache_of(enum cache_kind kind)
{
    struct cache *cache = NULL;
    void *context = zmq_ctx_new();
    struct cache_options options = {
        .kind = kind, .bytes_max = 1 << 20, .redis = nowhere, .namespace = "test", .deadline_us = 1000};
    bool begun = is(cache_new(context, &options, &cache, &error));
    enough();
    cr_expect_eq(begun, cache != NULL);
    cr_expect_eq(cache_enabled(cache), begun);
    cache_free(cache);
    zmq_ctx_term(context);
    return begun;
}

/* The broker that keeps detached jobs in Redis; the broker itself begins with all memory it needs. */
static bool detached_redis_live(void)
{
    lean_watch(false);
    struct desk *desk = desk_new();
    desk->options.detached_redis.redis = nowhere;
    desk_open(desk);
    lean_watch(true);
    bool begun = is(detached_open_redis(&desk->broker, &error));
    enough();
    cr_expect_eq(detached_redis_descriptor(desk->broker.detached) >= 0, begun);
    desk_free(desk);
    return begun;
}

static bool memory_live(void)
{
    return cache_of(CACHE_MEMORY);
}

static bool redis_live(void)
{
    return cache_of(CACHE_REDIS);
}

static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];

static bool journal_live(void)
{
    struct journal *journal = NULL;
    struct journal_record record = {
        .type = JOURNAL_ACCEPTED, .id = {1, 2}, .expires_us = 5, .payload = (const uint8_t *)"text", .bytes = 4};
    uint64_t ticket = 0, first = 0, last = 0, until_us = clock_now_us() + 10000000;
    bool ok = false;
    if (!is(journal_open(path, 0, 1 << 20, &journal, &error)))
        return false;
    bool taken = is(journal_append(journal, &record, &ticket, &error));
    while (taken && !journal_poll(journal, &first, &last, &ok) && clock_now_us() < until_us)
        usleep(100);
    cr_expect(!taken || (ok && first == 1 && last == ticket), "what was taken is written once there is memory");
    journal_compact(journal, 1);
    while (journal_compacting(journal) && clock_now_us() < until_us)
        usleep(100);
    cr_expect_eq(journal_bytes(journal), taken ? JOURNAL_HEADER_BYTES + 4u : 0u, "it is not out of date at second 0");
    journal_free(journal);
    return taken;
}

/* ---- guards --------------------------------------------------------------------------------------------------------- */

static bool guards_live(void)
{
    struct keyring *keyring = NULL;
    struct audit *audit = NULL;
    struct authenticator *authenticator = NULL;
    void *context = zmq_ctx_new();
    uint8_t key[KEY_BYTES];
    memset(key, 0xaa, sizeof key);
    bool begun = is(keyring_new(path, &keyring, &error)) && is(audit_new("", &audit, &error)) &&
                 is(authenticator_start(context, keyring, &authenticator, &error));
    if (keyring)
        cr_expect(keyring_count(keyring) == 2 && keyring_knows(keyring, key));
    authenticator_stop(authenticator);
    audit_free(audit);
    keyring_free(keyring);
    zmq_ctx_term(context);
    return begun;
}

/* ---- small ones ----------------------------------------------------------------------------------------------------- */

static bool tables_live(void)
{
    struct table flights = {.count = 0};
    struct sequences *sequences = sequences_new();
    struct ensembles *ensembles = ensembles_new();
    struct fleet_orders *orders = fleet_orders_new();
    struct quarantine *quarantine = quarantine_new();
    struct detached_store *detached = detached_new();
    bool flown = single_flights_init(&flights) == PEN_OK;
    bool all = sequences && ensembles && orders && quarantine && detached && flown;
    if (flown)
        single_flights_fini(&flights);
    detached_free(detached);
    quarantine_free(quarantine);
    fleet_orders_free(orders);
    ensembles_free(ensembles);
    sequences_free(sequences);
    return all;
}

Test(beginnings, of_counters_and_pages, .timeout = 60)
{
    try_each("metrics", metrics_live);
    try_each("historian", historian_live);
    try_each("patience", patience_live);
    try_each("http", http_live);
    try_each("otlp", otlp_live);
}

Test(beginnings, of_what_redis_and_memory_keep, .timeout = 60)
{
    try_each("streams", streams_live);
    try_each("cluster", cluster_live);
    try_each("detached jobs in Redis", detached_redis_live);
    try_each("memory cache", memory_live);
    try_each("redis cache", redis_live);
}

Test(beginnings, of_the_journal, .timeout = 60)
{
    folder_new(folder);
    snprintf(path, sizeof path, "%s/journal", folder);
    try_each("journal", journal_live);
    folder_free(folder);
}

Test(beginnings, of_the_guards, .timeout = 60)
{
    static const char keys[] = KEY " alice submit\nbbbb"
                                   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
                                   " watcher observe\n";
    folder_new(folder);
    snprintf(path, sizeof path, "%s/keys", folder);
    file_write(path, keys, sizeof keys - 1);
    try_each("guards", guards_live);
    folder_free(folder);
}

Test(beginnings, of_tables)
{
    try_each("tables", tables_live);
}

/* A descriptor is what is missing: that is an error of its own, and all that was taken before is given back. */
Test(beginnings, without_descriptors)
{
    struct rlimit limit;
    struct streams *streams = NULL;
    struct cluster *cluster = NULL;
    struct http *http = NULL;
    struct post *post = post_new(clock_now_us);
    struct streams_options options = {.place = nowhere, .namespace = "test", .lease_us = 1000000};
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    bool lowered = setrlimit(RLIMIT_NOFILE, &none) == 0; /* Criterion needs descriptors to be told anything */
    struct post *other = post_new(clock_now_us);
    enum pen_status told[] = {streams_new(&options, &streams, &error),
                              cluster_new(&nowhere, "test", 7, &cluster, &error),
                              http_start("127.0.0.1:*", -1, true, post, NULL, &http, &error)};
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0 && lowered);
    cr_expect_null(other);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        cr_expect_eq(told[i], PEN_ERR_IO, "%zu: %s", i, pen_status_name(told[i]));
    cr_expect(!streams && !cluster && !http);
    post_free(post);
}

Test(beginnings, of_a_cache_are_told_from_its_text)
{
    static const struct {
        const char *text;
        enum pen_status status;
        const char *words;
    } cases[] = {{"rediss://", PEN_ERR_UNSUPPORTED, "has no TLS"},
                 {"rediss://host:1/2", PEN_ERR_UNSUPPORTED, "has no TLS"},
                 {"redis://a@host", PEN_ERR_INVALID, "takes no password"},
                 {"redis:/host", PEN_ERR_INVALID, "--cache"},
                 {"none", PEN_OK, ""},
                 {"memory:1MiB", PEN_OK, ""},
                 {"redis://host", PEN_OK, ""},
                 {"disk:5", PEN_ERR_INVALID, "--cache"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cache_options options;
        error = (struct pen_error){.status = PEN_OK};
        cr_expect_eq(cache_parse(cases[i].text, &options, &error), cases[i].status, "%s", cases[i].text);
        cr_expect(strstr(error.text, cases[i].words), "%s: %s", cases[i].text, error.text);
    }
}
