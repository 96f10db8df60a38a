/* Each option reaches what it governs, or is refused with a sentence. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "peer.h"
#include "redis_tls.h"

static struct settings_store *store;

static enum pen_status load(struct options *options, struct pen_error *error, const char *const argv[], int argc)
{
    enum settings_outcome outcome;
    return options_load(argc, (char **)(uintptr_t)argv, options, &outcome, &store, error);
}

/* The places whose files of TLS were looked at. */
static struct redis_place looked_at[2];
static size_t looks, looks_fine = 2;

enum pen_status __wrap_redis_tls_check(const struct redis_place *place, struct pen_error *reterr);
enum pen_status __wrap_redis_tls_check(const struct redis_place *place, struct pen_error *reterr)
{
    cr_assert_lt(looks, 2);
    looked_at[looks++] = *place;
    return looks <= looks_fine ? PEN_OK : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "look %zu", looks);
}

/* A build without TLS refuses places that have it: here each build takes them. */
enum pen_status __real_redis_place_parse(const char *text, struct redis_place *place, struct pen_error *reterr);
enum pen_status __wrap_redis_place_parse(const char *text, struct redis_place *place, struct pen_error *reterr);
enum pen_status __wrap_redis_place_parse(const char *text, struct redis_place *place, struct pen_error *reterr)
{
    char plain[128];
    const char *end = strstr(text, "s://");
    bool tls = end != NULL && strncmp(text, "redis://", 8) != 0;
    snprintf(plain, sizeof plain, "%.*s%s", tls ? (int)(end - text) : 0, text, tls ? end + 1 : text);
    enum pen_status status = __real_redis_place_parse(plain, place, reterr);
    place->tls = tls;
    return status;
}

static const char *const every_flag[] = {"x",
                                         "--listen-clients=tcp://127.0.0.1:1",
                                         "--listen-workers=ipc:///tmp/w",
                                         "--http=127.0.0.1:9",
                                         "--allow-remote",
                                         "--cache=redis://h:5/2",
                                         "--redis-replicas=3",
                                         "--cache-ttl=7s",
                                         "--cache-namespace=n",
                                         "--cache-deadline=9ms",
                                         "--cache-value-bytes=3KiB",
                                         "--queue-limit=11",
                                         "--queue-bytes=12KiB",
                                         "--memory-limit=31MiB",
                                         "--max-job-bytes=13KiB",
                                         "--max-frame-bytes=128KiB",
                                         "--bulk-from=14KiB",
                                         "--sealed-from=18KiB",
                                         "--bulk-clients=tcp://127.0.0.1:2",
                                         "--bulk-workers=tcp://127.0.0.1:3",
                                         "--digest-first=17KiB",
                                         "--peer-bytes=15KiB",
                                         "--heartbeat=20ms",
                                         "--liveness=50ms",
                                         "--grace=18ms",
                                         "--worker-wait=19ms",
                                         "--replies-bytes=20KiB",
                                         "--replies-age=21s",
                                         "--max-attempts=5",
                                         "--explain-jobs=6",
                                         "--no-refuse-late",
                                         "--tenant-weight=acme=3",
                                         "--tenant-weight=lab=2",
                                         "--drain-delay=22ms",
                                         "--drain-timeout=23ms",
                                         "--neighbours=tcp://n:1,tcp://n:2",
                                         "--busy-jobs=24",
                                         "--busy-clients=25",
                                         "--spin=24us",
                                         "--wake-slice=240us",
                                         "--digest=sha256",
                                         "--log-level=warn",
                                         "--log-format=json",
                                         "--trace-sample=25",
                                         "--http-preview",
                                         "--trace-keep=26",
                                         "--trace-slow=27ms",
                                         "--trace-otlp=http://127.0.0.1:4318",
                                         "--ready-fd=7",
                                         "--journal=/tmp/j",
                                         "--journal-bytes=28KiB",
                                         "--detached=redis://k:6/3",
                                         "--detached-lease=29s",
                                         "--detached-bytes=30KiB",
                                         "--detached-ttl=31s"};

Test(options, every_flag_reaches_its_field)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(load(&o, &error, every_flag, sizeof every_flag / sizeof every_flag[0]), PEN_OK, "%s", error.text);
    cr_expect_str_eq(o.listen_clients, "tcp://127.0.0.1:1");
    cr_expect_str_eq(o.listen_workers, "ipc:///tmp/w");
    cr_expect_str_eq(o.http, "127.0.0.1:9");
    cr_expect(o.allow_remote);
    cr_expect(o.http_preview);
    cr_expect_eq(o.cache.kind, CACHE_REDIS);
    cr_expect_eq(o.cache.redis.seeds[0].port, 5);
    cr_expect_eq(o.cache.redis.database, 2);
    cr_expect_eq(o.cache.redis.replicas, 3);
    cr_expect_eq(o.detached_redis.redis.replicas, 3);
    cr_expect_eq(o.cache.ttl_us, 7000000);
    cr_expect_str_eq(o.cache.namespace, "n");
    cr_expect_eq(o.cache.deadline_us, 9000);
    cr_expect_eq(o.cache.bytes_max, 3072);
    cr_expect_eq(o.queue_limit, 11);
    cr_expect_eq(o.queue_bytes, 12 * 1024);
    cr_expect_eq(o.memory_limit, 31 * 1024 * 1024);
    cr_expect_eq(o.max_job_bytes, 13 * 1024);
    cr_expect_eq(o.max_frame_bytes, 128 * 1024);
    cr_expect_eq(o.bulk_from, 14 * 1024);
    cr_expect_eq(o.sealed_from, 18 * 1024);
    cr_expect_str_eq(o.bulk_clients, "tcp://127.0.0.1:2");
    cr_expect_str_eq(o.bulk_workers, "tcp://127.0.0.1:3");
    cr_expect_eq(o.digest_first, 17 * 1024);
    cr_expect_eq(o.peer_bytes, 15 * 1024);
    cr_expect_eq(o.heartbeat_us, 20000);
    cr_expect_eq(o.liveness_us, 50000);
    cr_expect_eq(o.grace_us, 18000);
    cr_expect_eq(o.worker_wait_us, 19000);
    cr_expect_eq(o.replies_bytes, 20 * 1024);
    cr_expect_eq(o.replies_age_us, 21000000);
    cr_expect_eq(o.max_attempts, 5);
    cr_expect_eq(o.explain_jobs, 6);
    cr_expect_not(o.refuse_late);
    cr_expect_eq(o.tenant_weights.count, 2);
    cr_expect_str_eq(o.tenant_weights.items[1], "lab=2");
    cr_expect_eq(o.drain_delay_us, 22000);
    cr_expect_eq(o.drain_timeout_us, 23000);
    cr_expect_str_eq(o.neighbours, "tcp://n:1,tcp://n:2");
    cr_expect_eq(o.busy_jobs, 24);
    cr_expect_eq(o.busy_clients, 25);
    cr_expect_eq(o.spin_us, 24);
    cr_expect_eq(o.wake_slice_us, 240);
    cr_expect_eq(o.digest, DIGEST_SHA256);
    cr_expect_eq(o.log_level, LOG_WARN);
    cr_expect_str_eq(o.log_format, "json");
    cr_expect_eq(o.trace_sample, 25);
    cr_expect_eq(o.trace_keep, 26);
    cr_expect_eq(o.trace_slow_us, 27000);
    cr_expect_str_eq(o.trace_otlp, "http://127.0.0.1:4318");
    cr_expect_eq(o.ready_fd, 7);
    cr_expect_str_eq(o.journal, "/tmp/j");
    cr_expect_eq(o.journal_bytes, 28 * 1024);
    cr_expect_eq(o.detached_redis.kind, CACHE_REDIS);
    cr_expect_str_eq(o.detached_redis.redis.seeds[0].host, "k");
    cr_expect_eq(o.detached_redis.redis.seeds[0].port, 6);
    cr_expect_eq(o.detached_redis.redis.database, 3);
    cr_expect_eq(o.detached_lease_us, 29000000);
    cr_expect_eq(o.detached_bytes, 30 * 1024);
    cr_expect_eq(o.detached_ttl_us, 31000000);
    settings_free(store);
}

Test(options, detached_jobs_have_a_place)
{
    static const struct {
        const char *argv[4];
        enum pen_status status;
        bool redis, journal;
    } rows[] = {{{"x"}, PEN_OK, false, false},
                {{"x", "--cache=redis://h"}, PEN_OK, true, false},
                {{"x", "--cache=redis://h", "--journal=j"}, PEN_OK, true, true},
                {{"x", "--cache=redis://h", "--journal=j", "--detached=journal"}, PEN_OK, false, true},
                {{"x", "--cache=redis://h", "--journal=j", "--detached=none"}, PEN_OK, false, false},
                {{"x", "--detached=redis://h"}, PEN_OK, true, false},
                {{"x", "--detached=journal"}, PEN_ERR_INVALID, false, false},
                {{"x", "--detached=memory:1MiB"}, PEN_ERR_INVALID, false, false},
                {{"x", "--cache=cluster://h,k:2"}, PEN_OK, true, false},
                {{"x", "--detached=sentinel://h/pool"}, PEN_OK, true, false},
                {{"x", "--detached=sentinel://h"}, PEN_ERR_INVALID, false, false},
                {{"x", "--cache=redis://h", "--redis-ca=f"}, PEN_ERR_INVALID, false, false},
                {{"x", "--cache=cluster://h", "--cache-namespace=a}"}, PEN_ERR_INVALID, false, false},
                {{"x", "--cache=redis://h", "--cache-namespace=a}"}, PEN_OK, true, false},
                {{"x", "--detached=redis"}, PEN_ERR_INVALID, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct options o;
        struct pen_error error = {.status = PEN_OK};
        int argc = 0;
        while (argc < 4 && rows[i].argv[argc])
            argc++;
        cr_expect_eq(load(&o, &error, rows[i].argv, argc), rows[i].status, "row %zu: %s", i, error.text);
        if (rows[i].status != PEN_OK)
            continue;
        cr_expect_eq(o.detached_redis.kind == CACHE_REDIS, rows[i].redis, "row %zu", i);
        cr_expect_eq(*o.journal != '\0', rows[i].journal, "row %zu", i);
        settings_free(store);
    }
}

/* Whoever can forge a digest can have his answer given to others of his tenant. */
static const char *const tls_flags[] = {"x",
                                        "--cache=clusters://h",
                                        "--detached=rediss://k",
                                        "--redis-ca=ca.pem",
                                        "--redis-certificate=own.pem",
                                        "--redis-key=own.key",
                                        "--redis-replicas=2"};
enum { TLS_FLAGS = sizeof tls_flags / sizeof *tls_flags };

Test(options, files_of_tls_are_those_of_each_place)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(load(&o, &error, tls_flags, TLS_FLAGS), PEN_OK, "%s", error.text);
    cr_assert_eq(looks, 2);
    for (size_t i = 0; i < 2; i++) {
        cr_expect_str_eq(looked_at[i].seeds[0].host, i == 0 ? "h" : "k");
        cr_expect_str_eq(looked_at[i].ca, "ca.pem");
        cr_expect_str_eq(looked_at[i].certificate, "own.pem");
        cr_expect_str_eq(looked_at[i].key, "own.key");
        cr_expect_eq(looked_at[i].replicas, 2);
    }
    settings_free(store);
}

Test(options, files_of_tls_that_cannot_be_read_are_told)
{
    for (looks_fine = 0; looks_fine < 2; looks_fine++) {
        struct options o;
        struct pen_error error = {.status = PEN_OK};
        looks = 0;
        store = NULL;
        cr_expect_eq(load(&o, &error, tls_flags, TLS_FLAGS), PEN_ERR_NOT_FOUND);
        cr_expect_eq(looks, looks_fine + 1);
        cr_expect_null(store);
    }
}

Test(options, files_of_tls_need_a_place_with_tls)
{
    static const struct {
        const char *argv[4];
        enum pen_status status;
        size_t looks;
    } rows[] = {{{"x", "--cache=redis://h", "--redis-ca=f"}, PEN_ERR_INVALID, 0},
                {{"x", "--cache=redis://h", "--redis-certificate=f"}, PEN_ERR_INVALID, 0},
                {{"x", "--cache=redis://h", "--redis-key=f"}, PEN_ERR_INVALID, 0},
                {{"x", "--redis-key=f"}, PEN_ERR_INVALID, 0},
                {{"x", "--cache=redis://h", "--detached=rediss://k", "--redis-ca=f"}, PEN_OK, 1},
                {{"x", "--cache=rediss://h", "--detached=none", "--redis-ca=f"}, PEN_OK, 1},
                {{"x", "--cache=rediss://h"}, PEN_OK, 2},
                {{"x", "--detached=cluster://h", "--cache-namespace=a{"}, PEN_ERR_INVALID, 0},
                {{"x", "--cache=cluster://h", "--detached=none", "--cache-namespace={"}, PEN_ERR_INVALID, 0},
                {{"x", "--cache=sentinel://h/pool", "--cache-namespace={"}, PEN_OK, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct options o;
        struct pen_error error = {.status = PEN_OK};
        int argc = 0;
        while (argc < 4 && rows[i].argv[argc])
            argc++;
        looks = 0;
        cr_expect_eq(load(&o, &error, rows[i].argv, argc), rows[i].status, "row %zu: %s", i, error.text);
        cr_expect_eq(looks, rows[i].looks, "row %zu", i);
        if (rows[i].status == PEN_OK)
            settings_free(store);
    }
}

Test(options, the_password_of_redis_comes_from_a_file)
{
    char path[] = "/tmp/penstock-password-XXXXXX", flag[64];
    const char *const argv[] = {"x", "--cache=redis://h", "--detached=redis://k", flag};
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, "secret\n", 7), 7);
    close(fd);
    snprintf(flag, sizeof flag, "--redis-password-file=%s", path);
    cr_assert_eq(load(&o, &error, argv, 4), PEN_OK, "%s", error.text);
    cr_expect_str_eq(o.cache.redis.password, "secret");
    cr_expect_str_eq(o.detached_redis.redis.password, "secret");
    cr_expect_str_eq(o.detached_redis.redis.seeds[0].host, "k");
    settings_free(store);
    unlink(path);
    cr_expect_neq(load(&o, &error, argv, 4), PEN_OK);
}

Test(options, several_identities_get_digests_that_cannot_be_forged)
{
    struct options o;
    enum settings_outcome outcome;
    struct pen_error error = {.status = PEN_OK};
    static const struct {
        const char *argv[7];
        int argc;
        enum digest_kind digest;
    } cases[] = {{{"x"}, 1, DIGEST_XXH3},
                 {{"x", "--key", "/k", "--keys", "/l"}, 5, DIGEST_SHA256},
                 {{"x", "--key", "/k", "--keys", "/l", "--digest", "xxh3"}, 7, DIGEST_XXH3},
                 {{"x", "--digest", "sha256"}, 3, DIGEST_SHA256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(options_load(cases[i].argc, (char **)cases[i].argv, &o, &outcome, &store, &error), PEN_OK, "%s",
                     error.text);
        cr_expect_eq(o.digest, cases[i].digest, "case %zu", i);
        settings_free(store);
    }
}

Test(options, addresses_beyond_loopback_need_a_word)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    static const char *const bad[] = {"tcp://*:5550", "tcp://0.0.0.0:5550", "tcp://eth0:5550", "tcp://10.0.0.1:1",
                                      "tcp://[::]:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *argv[] = {"x", "--listen-clients", bad[i]};
        cr_expect_eq(load(&o, &error, argv, 3), PEN_ERR_DENIED, "%s", bad[i]);
        cr_expect_not_null(strstr(error.text, "--allow-remote"));
    }
}

/* libzmq reads "tcp://from;to" and listens on `to`. */
Test(options, one_address_cannot_hide_behind_another)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    static const char *const bad[] = {"tcp://127.0.0.1:1;0.0.0.0:1",
                                      "tcp://0.0.0.0:1;127.0.0.1:1",
                                      "tcp://127.0.0.1:99999",
                                      "inproc://x",
                                      "udp://127.0.0.1:1",
                                      "127.0.0.1:1",
                                      ""};
    static const char *const flags[] = {"--listen-clients", "--listen-workers"};
    for (size_t i = 0; i < 2 * sizeof bad / sizeof bad[0]; i++) {
        const char *argv[] = {"x", flags[i % 2], bad[i / 2], "--allow-remote"};
        cr_expect_eq(load(&o, &error, argv, 4), PEN_ERR_INVALID, "%s", bad[i / 2]);
        cr_expect_not_null(strstr(error.text, flags[i % 2]));
    }
    const char *chunks[] = {"x", "--bulk-clients", "tcp://127.0.0.1:2;0.0.0.0:2"};
    cr_expect_eq(load(&o, &error, chunks, 3), PEN_ERR_INVALID);
}

Test(options, addresses_for_chunks_are_tcp_and_checked_like_the_others)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    static const char *const flags[] = {"--bulk-clients", "--bulk-workers"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const char *remote[] = {"x", flags[i], "tcp://0.0.0.0:5552"}, *unix_socket[] = {"x", flags[i], "ipc:///tmp/b"};
        cr_expect_eq(load(&o, &error, remote, 3), PEN_ERR_DENIED);
        cr_expect_not_null(strstr(error.text, flags[i]));
        cr_expect_eq(load(&o, &error, unix_socket, 3), PEN_ERR_INVALID);
        cr_expect_not_null(strstr(error.text, flags[i]));
    }
}

Test(options, tenant_weights_have_a_form)
{
    struct options o;
    static const char *const bad[] = {"acme", "=3", "acme=", "acme=0", "acme=1001", "acme=3x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pen_error error = {.status = PEN_OK};
        const char *argv[] = {"x", "--tenant-weight", bad[i]};
        cr_expect_eq(load(&o, &error, argv, 3), PEN_ERR_INVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(error.text, "NAME=N"), "%s", error.text);
    }
}

Test(options, a_collector_is_an_address)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    static const char *const bad[] = {"https://c:4318",    "c:4318",     "http://c",       "http://:4318",
                                      "http://c:4318 /v1", "http://c:0", "http://c:65536", "http://c:4318x",
                                      "http://c:4318/a b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *argv[] = {"x", "--trace-otlp", bad[i]};
        cr_expect_eq(load(&o, &error, argv, 3), PEN_ERR_INVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(error.text, "http://HOST:PORT"));
    }
    const char *argv[] = {"x", "--trace-otlp", "http://[::1]:4318/v1/traces"};
    cr_expect_eq(load(&o, &error, argv, 3), PEN_OK, "%s", error.text);
    settings_free(store);
}

/* Whoever writes 30 means seconds; microseconds would end jobs at once. */
Test(options, a_time_has_a_unit)
{
    struct options o;
    struct pen_error error = {.text = ""};
    cr_expect_eq(load(&o, &error, (const char *const[]){"x", "--drain-timeout=30"}, 2), PEN_ERR_INVALID);
    cr_expect_not_null(strstr(error.text, "30 what? write 30s"), "%s", error.text);
    cr_expect_eq(load(&o, &error, (const char *const[]){"x", "--drain-delay=0"}, 2), PEN_OK, "%s", error.text);
}

Test(options, liveness_must_exceed_the_heartbeat)
{
    struct options o;
    struct pen_error error = {.status = PEN_OK};
    static const char *const argv[] = {"x", "--heartbeat", "2s", "--liveness", "2s"};
    cr_assert_eq(load(&o, &error, argv, 5), PEN_ERR_INVALID);
}
