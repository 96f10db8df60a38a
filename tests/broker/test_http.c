/* Every page of the real program: metrics as promtool reads them, health under loss and under a wedged loop, events, caps. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http_get.h"
#include "keys.h"
#include "peer.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

static const struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1};

#define HTTP                                                                                                           \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        "--http", "127.0.0.1:*", "--heartbeat", "2s", "--liveness", "10s", NULL                                        \
    }

static void start(struct pool *pool, char *address, size_t bytes)
{
    pool_start(pool, HTTP);
    cr_assert(process_log_value(pool->broker, "evt=listening", "http", address, bytes));
}

static bool knows(const char *program)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return system(command) == 0;
}

Test(http, pages_answer_and_unknown_ones_are_404, .timeout = 60)
{
    struct pool pool;
    char address[64], *body;
    static const char *const there[] = {
        "/", "/style.css", "/app.js", "/metrics", "/api/state.json", "/v2/health/live", "/api/history/"};
    start(&pool, address, sizeof address);
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        cr_expect_eq(http_get(address, there[i], &body), 200, "%s", there[i]);
        cr_expect_gt(strlen(body), 0, "%s", there[i]);
        free(body);
    }
    static const char *const absent[] = {"/nothing",
                                         "/metrics/",
                                         "/../options.c",
                                         "/v2/models/",
                                         "/v2/models/echo",
                                         "/v2/models/%00/ready",
                                         "/v2/models/%/ready",
                                         "/api/history/m",
                                         "/api/history/m/versions/0",
                                         "/api/history/m/versions/1x"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        cr_expect_eq(http_get(address, absent[i], NULL), 404, "%s", absent[i]);
    pool_stop(&pool);
}

Test(http, ready_follows_the_last_capable_worker_within_a_heartbeat, .timeout = 60)
{
    struct pool pool;
    struct peer worker, second;
    char address[64];
    struct wire_worker two = one;
    two.uuid = 6;
    start(&pool, address, sizeof address);
    cr_expect_eq(http_get(address, "/v2/health/live", NULL), 200);
    cr_expect_eq(http_get(address, "/v2/health/ready", NULL), 503);
    cr_expect_eq(http_get(address, "/v2/models/echo/ready", NULL), 404);
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_worker(&second, pool.workers_endpoint, &two);
    http_await(address, "/v2/health/ready", 200, 10000);
    cr_expect_eq(http_get(address, "/v2/models/echo/ready", NULL), 200);
    cr_expect_eq(http_get(address, "/v2/models/ec%68o/versions/1/ready", NULL), 200);
    cr_expect_eq(http_get(address, "/v2/models/echo/versions/2/ready", NULL), 404);
    peer_vanish(&worker);
    for (int i = 0; i < 3; i++) { /* a silent worker would not count as ready either */
        peer_send(&second, envelope_make(FRAME_HEARTBEAT), NULL, 0);
        support_sleep_ms(50);
    }
    cr_expect_eq(http_get(address, "/v2/health/ready", NULL), 200, "one is left");
    peer_vanish(&second);
    unsigned long long us = http_await(address, "/v2/health/ready", 503, 20000);
    printf("not_ready_after_us=%llu\n", us);
    cr_expect_lt(us, (unsigned long long)support_slow(10000) * 1000, "some 300 ms; a busy machine adds to that");
    cr_expect_eq(http_get(address, "/v2/models/echo/ready", NULL), 503, "known, but nobody serves it");
    cr_expect_eq(http_get(address, "/v2/health/live", NULL), 200);
    pool_stop(&pool);
}

static void write_list(const char *path, const char *text)
{
    char other[96];
    snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    fputs(text, file);
    fclose(file);
    cr_assert_eq(rename(other, path), 0);
}

static void await_line(const char *address, const char *line)
{
    bool there = false;
    for (int i = 0; i < 100 && !there; i++) {
        char *body;
        http_get(address, "/metrics", &body);
        there = strstr(body, line) != NULL;
        free(body);
        support_sleep_ms(100);
    }
    cr_assert(there, "%s", line);
}

Test(http, damaged_list_of_keys_is_seen_in_the_metrics, .timeout = 60)
{
    struct pool pool;
    struct key_pair pair;
    char folder[] = "/tmp/penstock-http-XXXXXX", key[64], list[64], good[256], text[KEY_TEXT_BYTES], address[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(list, sizeof list, "%s/list", folder);
    cr_assert_eq(key_pair_new(&pair), PEN_OK);
    cr_assert_eq(key_file_write(key, &pair, NULL), PEN_OK);
    snprintf(good, sizeof good, "%s alice submit\n", key_text(pair.public_key, text));
    write_list(list, good);
    pool_start(&pool, (const char *const[]){"--http", "127.0.0.1:*", "--key", key, "--keys", list, NULL});
    cr_assert(process_log_value(pool.broker, "evt=listening", "http", address, sizeof address));
    await_line(address, "penstock_keys_bad 0\n");
    write_list(list, "");
    await_line(address, "penstock_keys_bad 1\n");
    cr_expect(process_wait_text(pool.broker, "evt=keys_bad", support_slow(5000)));
    write_list(list, good);
    await_line(address, "penstock_keys_bad 0\n");
    pool_stop(&pool);
    unlink(key);
    unlink(list);
    rmdir(folder);
}

Test(http, draining_broker_is_not_ready_and_still_answers, .timeout = 60)
{
    struct pool pool;
    struct peer worker, client;
    struct heard work = {.count = 0};
    char address[64], *body;
    start(&pool, address, sizeof address);
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    peer_submit(&client, &(struct wire_job){.id = {0xC, 1}, .model = "echo"});
    cr_assert(peer_expect(&worker, &work, FRAME_SUBMIT, 5000));
    http_await(address, "/v2/health/ready", 200, 10000);
    process_signal(pool.broker, SIGTERM);
    http_await(address, "/v2/health/ready", 503, 10000);
    cr_expect_eq(http_get(address, "/metrics", &body), 200);
    cr_expect_not_null(strstr(body, "penstock_draining 1\n"));
    free(body);
    peer_answer(&worker, &work, 10);
    heard_fini(&work);
    peer_close(&client);
    peer_close(&worker);
    cr_expect_eq(process_wait(pool.broker, support_slow(10000)), 0, "a second signal would end it at once");
    pool_stop(&pool);
}

static bool told_in_time(unsigned long long us)
{
    return us > 1500000 && us < (unsigned long long)support_slow(3000) * 1000;
}

/* Only the loop's thread is stopped, as a wedged one is: the others go on. */
Test(http, wedged_loop_is_not_live_and_says_so_within_three_seconds, .timeout = 60)
{
    struct pool pool;
    char address[64], *body;
    start(&pool, address, sizeof address);
    pid_t loop = process_pid(pool.broker);
    cr_expect_eq(http_get(address, "/v2/health/live", NULL), 200);
    if (ptrace(PTRACE_SEIZE, loop, NULL, NULL) != 0)
        cr_skip("this system does not let a test stop a thread: %s", strerror(errno));
    cr_assert_eq(ptrace(PTRACE_INTERRUPT, loop, NULL, NULL), 0);
    waitpid(loop, NULL, __WALL);
    unsigned long long us = http_await(address, "/v2/health/live", 503, 20000);
    for (int again = 0; again < 3 && !told_in_time(us); again++) { /* a busy machine may hold either of them up */
        ptrace(PTRACE_CONT, loop, NULL, NULL);
        http_await(address, "/v2/health/live", 200, 10000);
        cr_assert_eq(ptrace(PTRACE_INTERRUPT, loop, NULL, NULL), 0);
        waitpid(loop, NULL, __WALL);
        us = http_await(address, "/v2/health/live", 503, 20000);
    }
    printf("not_live_after_us=%llu\n", us);
    cr_expect(told_in_time(us), "%llu", us);
    cr_expect_eq(http_get(address, "/v2/health/ready", &body), 503);
    cr_expect_not_null(strstr(body, "loop did not answer"), "%s", body);
    free(body);
    cr_expect_eq(http_get(address, "/metrics", NULL), 503);
    ptrace(PTRACE_DETACH, loop, NULL, NULL);
    http_await(address, "/v2/health/live", 200, 10000);
    cr_expect_eq(http_get(address, "/metrics", NULL), 200);
    pool_stop(&pool);
}

Test(http, promtool_finds_no_fault_in_the_metrics, .timeout = 60)
{
    struct pool pool;
    struct peer worker, client;
    struct heard heard = {.count = 0};
    char address[64], *body;
    if (!knows("promtool"))
        cr_skip("promtool is not installed (package prometheus)");
    start(&pool, address, sizeof address);
    peer_worker(&worker, pool.workers_endpoint, &one);
    peer_client(&client, pool.clients, 0xC);
    peer_submit(&client, &(struct wire_job){.id = {0xC, 1}, .model = "echo"});
    peer_submit(&client, &(struct wire_job){.id = {0xC, 2}, .model = "nobody's"});
    cr_assert(peer_expect(&worker, &heard, FRAME_SUBMIT, 5000));
    peer_answer(&worker, &heard, 50);
    cr_assert(peer_expect(&client, &heard, FRAME_RESULT, 5000));
    cr_assert_eq(http_get(address, "/metrics", &body), 200);
    cr_expect_not_null(strstr(body, "stage=\"compute\",le=\"0.00005\"} "));
    FILE *check = popen("promtool check metrics", "w");
    cr_assert_not_null(check);
    fputs(body, check);
    cr_expect_eq(pclose(check), 0, "promtool's complaints are above");
    free(body);
    heard_fini(&heard);
    peer_close(&client);
    peer_close(&worker);
    pool_stop(&pool);
}

Test(http, events_come_every_second_and_end_with_the_broker, .timeout = 60)
{
    struct pool pool;
    char address[64];
    start(&pool, address, sizeof address);
    int fd = http_connect(address);
    http_say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char *first = http_hear(fd, "\n\n", 10000);
    cr_expect_not_null(strstr(first, "text/event-stream"), "%s", first);
    cr_expect_not_null(strstr(first, "data: {\"software\""));
    free(first);
    uint64_t us = 0;
    for (int i = 0; i < 8 && !(us > 700000 && us < 1600000); i++) { /* a busy machine may hold one of them up */
        uint64_t start_us = support_now_us();
        char *next = http_hear(fd, "\n\n", 10000);
        us = support_now_us() - start_us;
        cr_expect_not_null(strstr(next, "data: {"));
        free(next);
    }
    cr_expect(us > 700000 && us < 1600000, "%llu us", (unsigned long long)us);
    pool_stop(&pool); /* readers do not hold up the end */
    close(fd);
}

Test(http, readers_of_events_do_not_lock_out_scrapes, .timeout = 60)
{
    struct pool pool;
    char address[64];
    int fds[40];
    start(&pool, address, sizeof address);
    for (size_t i = 0; i < 40; i++) {
        fds[i] = http_connect(address);
        http_say(fds[i], "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (size_t i = 0; i < 40; i++) /* each has its answer */
        free(http_hear(fds[i], "\r\n\r\n", 10000));
    cr_expect_eq(http_get(address, "/metrics", NULL), 200);
    cr_expect_eq(http_get(address, "/events", NULL), 503, "more than 32 are told so");
    for (size_t i = 0; i < 40; i++)
        close(fds[i]);
    pool_stop(&pool);
}

Test(http, refuses_what_it_should, .timeout = 60)
{
    struct pool pool;
    char address[64];
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", " 405 "},
        {"DELETE / HTTP/1.0\r\n\r\n", " 405 "},
        {"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", " 421 "},
        {"GET /metrics HTTP/1.1\r\nHost: 127.evil.example\r\n\r\n", " 421 "},
        {"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:80, evil.example\r\n\r\n", " 421 "},
        {"GET /metrics HTTP/1.1\r\n\r\n", " 400 "},
        {"GET /v2/health/live HTTP/1.1\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.0\r\n\r\n", " 200 "},
        {"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nHOST: 127.0.0.1\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost : evil.example\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", " 200 "},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", " 400 "},
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\n\r\n", " 400 "},
        {"HEAD /metrics HTTP/1.0\r\nHost: [::1]:99\r\n\r\n", " 200 "},
    };
    start(&pool, address, sizeof address);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = http_connect(address);
        http_say(fd, cases[i].request);
        char *answer = http_hear(fd, "\r\n\r\n", 2000);
        cr_expect_not_null(strstr(answer, cases[i].answer), "%s was answered %s", cases[i].request, answer);
        free(answer);
        close(fd);
    }
    int fd = http_connect(address);
    char big[40000];
    memset(big, 'a', sizeof big);
    memcpy(big, "GET /", 5);
    big[sizeof big - 1] = '\0';
    http_say(fd, big);
    char *answer = http_hear(fd, NULL, 3000);
    cr_expect_null(strstr(answer, " 200 "));
    free(answer);
    close(fd);
    cr_expect_eq(http_get(address, "/v2/health/live", NULL), 200);
    pool_stop(&pool);
}

static int run(const char *const argv[], char *ret_text, size_t bytes)
{
    struct process *process = process_start(argv, NULL);
    int code = process_wait(process, 10000);
    snprintf(ret_text, bytes, "%s", process_err(process));
    process_free(process);
    return code;
}

Test(http, taken_port_is_said_in_one_sentence_and_none_switches_off, .timeout = 60)
{
    struct pool pool, silent;
    char address[64], text[4096];
    start(&pool, address, sizeof address);
    cr_expect_eq(run((const char *const[]){"penstock-broker", "--listen-clients", "tcp://127.0.0.1:*",
                                           "--listen-workers", "tcp://127.0.0.1:*", "--http", address, NULL},
                     text, sizeof text),
                 3);
    cr_expect_not_null(strstr(text, "it is taken, perhaps by another broker"), "%s", text);
    pool_start(&silent, (const char *const[]){"--http", "none", NULL});
    cr_assert(process_log_value(silent.broker, "evt=listening", "http", text, sizeof text));
    cr_expect_str_eq(text, "none");
    pool_stop(&silent);
    static const char *const bad[] = {"8002", "localhost:8002", "127.0.0.1:", "127.0.0.1:70000", "[::1:8002", "x:y"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_eq(run((const char *const[]){"penstock-broker", "--http", bad[i], NULL}, text, sizeof text), 2, "%s",
                     bad[i]);
        cr_expect_not_null(strstr(text, "is no address"), "%s", text);
    }
    cr_expect_eq(run((const char *const[]){"penstock-broker", "--http", "0.0.0.0:8002", NULL}, text, sizeof text), 2);
    cr_expect_not_null(strstr(text, "--allow-remote"), "%s", text);
    pool_stop(&pool);
}

/* By default the pages are a convenience: a broker whose default port is taken says so and serves. */
Test(http, default_port_taken_is_no_reason_to_end, .timeout = 60)
{
    struct pool first, second;
    char a[64], b[64];
    pool_start(&first, NULL);
    pool_start(&second, NULL);
    cr_assert(process_log_value(first.broker, "evt=listening", "http", a, sizeof a));
    cr_assert(process_log_value(second.broker, "evt=listening", "http", b, sizeof b));
    cr_expect(strcmp(a, "127.0.0.1:8002") == 0 || strcmp(a, "none") == 0, "%s", a);
    if (strcmp(b, "none") != 0) { /* whoever had it before has gone meanwhile; now it is ours */
        pool_stop(&first);
        first = second;
        pool_start(&second, NULL);
        cr_assert(process_log_value(second.broker, "evt=listening", "http", b, sizeof b));
    }
    cr_expect_str_eq(b, "none");
    cr_expect_not_null(strstr(process_err(second.broker), "evt=http_off"));
    pool_stop(&first);
    pool_stop(&second);
}
