/*
 * main.c - penstock-gateway: settings, sockets, the loop, and an orderly end. Exit codes: --help.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "deadline.h"
#include "gateway.h"
#include "gateway_options.h"
#include "grpc_health.h"
#include "grpc_routes.h"
#include "grpc_server.h"
#include "local_host.h"
#include "logline.h"
#include "notify.h"
#include "routes.h"
#include "version.h"

enum exit_code { EXIT_DRAINED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LISTEN = 3, EXIT_SIGNAL = 4 };

#define TURN_MS          250
#define QUESTIONS        4 /* threads that wait for the broker */
#define ORDERS           2
#define TOKENS_US        1000000u
#define KEPT_BLOCK_BYTES (8 << 20)
#define KEPT_BYTES       (64 << 20)
#define DESCRIPTORS_OWN  256u /* beside connections */

struct program {
    struct gateway gateway;
    struct gateway_options options;
    struct session_pool_options sessions;
    int signals;
    bool ending, at_once;
    uint64_t end_us, tokens_us, refresh_us;
};

/* Blocked before any thread starts, so that all threads inherit it. */
static int block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC) : -1;
}

/* Bodies come and go: what one leaves serves the next, instead of being faulted in page by page again (a quarter of the processor time
   of 600 KB bodies, tests/bench/gateway.sh). */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

/* One descriptor per connection: as many as the system grants. */
static void raise_descriptors(const struct gateway_options *options)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < (rlim_t)options->connections + DESCRIPTORS_OWN)
        log_event(LOG_WARN, "few_descriptors", "limit=%llu connections=%lld reason=%s",
                  (unsigned long long)limit.rlim_max, (long long)options->connections,
                  "fewer connections than --connections can be open at once (ulimit -n)");
}

static unsigned under_way(const struct gateway *gateway)
{
    return http_server_under_way(gateway->server) + (gateway->grpc ? grpc_server_under_way(gateway->grpc) : 0);
}

static void on_signal(void *arg)
{
    struct program *program = arg;
    struct signalfd_siginfo info;
    if (read(program->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    program->at_once = program->ending;
    if (program->ending)
        return;
    log_event(LOG_INFO, "draining", "signal=%s under_way=%u", strsignal((int)info.ssi_signo),
              under_way(&program->gateway));
    notify_send("STOPPING=1");
    program->ending = program->gateway.draining = true;
    program->end_us = clock_now_us() + (uint64_t)program->options.drain_us;
    http_server_drain(program->gateway.server);
    if (program->gateway.grpc)
        grpc_server_drain(program->gateway.grpc);
}

static bool watch(void *context, int fd, void (*ready)(void *arg), void *arg)
{
    return http_server_watch(context, fd, ready, arg);
}

/* ---- construction ---- */

static enum pen_status open_server(struct program *program, int fd, struct pen_error *reterr)
{
    const struct gateway_options *options = &program->options;
    const struct http_server_options server = {.fd = fd,
                                               .connections_max = (unsigned)options->connections,
                                               .address_max = (unsigned)options->connections_per_address,
                                               .head_max = (size_t)options->max_head,
                                               .body_max = (size_t)options->max_body,
                                               .head_us = (uint64_t)options->head_us,
                                               .idle_us = (uint64_t)options->idle_us,
                                               .on_request = routes_take,
                                               .context = &program->gateway};
    if (http_server_new(&server, &program->gateway.server) != PEN_OK ||
        !http_server_watch(program->gateway.server, program->signals, on_signal, program))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or descriptor to start");
    return PEN_OK;
}

static enum pen_status open_grpc(struct program *program, int fd, struct pen_error *reterr)
{
    const struct gateway_options *options = &program->options;
    struct gateway *gateway = &program->gateway;
    const struct grpc_server_options server = {.fd = fd,
                                               .connections_max = (unsigned)options->connections,
                                               .address_max = (unsigned)options->connections_per_address,
                                               .streams_max = (unsigned)options->streams,
                                               .head_max = (size_t)options->max_head,
                                               .message_max = (size_t)options->max_body,
                                               .idle_us = (uint64_t)options->idle_us,
                                               .streams = grpc_routes_stream,
                                               .on_request = grpc_routes_take,
                                               .context = gateway};
    if (fd < 0)
        return PEN_OK;
    if (grpc_server_new(&server, &gateway->grpc) != PEN_OK ||
        !http_server_watch(gateway->server, grpc_server_fd(gateway->grpc), grpc_server_ready, gateway->grpc))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or descriptor to start");
    return PEN_OK;
}

static enum pen_status open_offloads(struct gateway *gateway, unsigned threads, struct pen_error *reterr)
{
    struct offload **const all[] = {&gateway->compute, &gateway->questions, &gateway->orders};
    const unsigned counts[] = {threads, QUESTIONS, ORDERS};
    for (size_t i = 0; i < 3; i++)
        if (offload_new(counts[i], all[i]) != PEN_OK ||
            !http_server_watch(gateway->server, offload_fd(*all[i]), offload_dispatch, *all[i]))
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or no thread to start");
    return PEN_OK;
}

static enum pen_status open_sessions(struct program *program, struct pen_error *reterr)
{
    struct gateway *gateway = &program->gateway;
    const struct gateway_options *options = &program->options;
    program->sessions = (struct session_pool_options){.endpoint = options->broker,
                                                      .tenant = options->tenant,
                                                      .broker_key = options->broker_key,
                                                      .region_rule = options->region_rule,
                                                      .watch = watch,
                                                      .context = gateway->server};
    gateway->sessions = session_pool_new(&program->sessions);
    gateway->usage = usage_new();
    gateway->traces = trace_rules_new();
    if (!gateway->sessions || !gateway->usage || !gateway->traces)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to start");
    return session_pool_get(gateway->sessions, options->key, &gateway->own, reterr);
}

static enum pen_status open_all(struct program *program, int fd, int grpc_fd, struct pen_error *reterr)
{
    struct gateway *gateway = &program->gateway;
    const struct gateway_options *options = &program->options;
    gateway->cors = options->cors;
    gateway->local_only = !options->allow_remote && host_is_local(options->http);
    gateway->body_max = (size_t)options->max_body;
    gateway->order_us = options->order_us;
    gateway->refresh_us = (uint64_t)options->refresh_us;
    gateway->started_us = clock_now_us();
    hold_budget_set((size_t)options->body_memory);
    enum pen_status status = open_server(program, fd, reterr);
    if (status == PEN_OK)
        status = open_grpc(program, grpc_fd, reterr);
    if (status == PEN_OK)
        status = open_offloads(gateway, (unsigned)options->threads, reterr);
    return status == PEN_OK ? open_sessions(program, reterr) : status;
}

/* Requests first: what they wait for is still there. */
static void close_all(struct gateway *gateway)
{
    grpc_server_free(gateway->grpc);
    http_server_free(gateway->server);
    offload_free(gateway->compute);
    offload_free(gateway->questions);
    offload_free(gateway->orders);
    session_pool_free(gateway->sessions);
    trace_rules_free(gateway->traces);
    usage_free(gateway->usage);
    tokens_free(gateway->tokens);
}

/* ---- running ---- */

static void look_at_tokens(struct program *program, uint64_t now_us)
{
    struct pen_error error = {.status = PEN_OK};
    if (!program->gateway.tokens || now_us - program->tokens_us < TOKENS_US)
        return;
    program->tokens_us = now_us;
    if (tokens_refresh(program->gateway.tokens, &error) != PEN_OK)
        log_event(LOG_WARN, "tokens_kept", "reason=%s", error.text);
}

static void look_at_pool(struct program *program, uint64_t now_us)
{
    uint64_t age_us = program->gateway.refresh_us < 1000000u ? 1000000u : program->gateway.refresh_us;
    if (now_us - program->refresh_us < age_us && program->refresh_us != 0)
        return;
    program->refresh_us = now_us;
    routes_refresh(&program->gateway);
}

static void announce(const struct program *program, int fd, int grpc_fd)
{
    char address[LISTEN_TEXT_BYTES], grpc[LISTEN_TEXT_BYTES] = "none";
    const char *form = program->options.json
                           ? "{\"evt\":\"listening\",\"http\":\"%s\",\"grpc\":\"%s\",\"broker\":\"%s\",\"pid\":%ld}\n"
                           : "evt=listening http=%s grpc=%s broker=%s pid=%ld\n";
    listen_text(fd, address);
    if (grpc_fd >= 0)
        listen_text(grpc_fd, grpc);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    printf(form, address, grpc, program->options.broker, (long)getpid());
#pragma GCC diagnostic pop
    fflush(stdout);
    log_event(LOG_INFO, "listening", "http=%s grpc=%s broker=%s version=%s", address, grpc, program->options.broker,
              PENSTOCK_VERSION);
    notify_send("READY=1\nSTATUS=http %s, grpc %s, broker %s", address, grpc, program->options.broker);
    if (program->options.allow_remote && !program->gateway.tokens)
        log_event(LOG_WARN, "remote_allowed", "reason=%s",
                  "nobody is asked who they are; keep strangers out by a firewall or a proxy");
}

static bool goes_on(const struct program *program, uint64_t now_us)
{
    return !program->ending || (!program->at_once && under_way(&program->gateway) > 0 && now_us < program->end_us);
}

static int loop(struct program *program)
{
    uint64_t beat_us = notify_watchdog_us(), beaten_us = 0, now_us = clock_now_us();
    while (goes_on(program, now_us)) {
        http_server_turn(program->gateway.server, TURN_MS);
        session_pool_turn_end(program->gateway.sessions);
        now_us = clock_now_us();
        if (program->gateway.grpc)
            grpc_server_look(program->gateway.grpc, now_us);
        grpc_health_look(&program->gateway);
        look_at_tokens(program, now_us);
        look_at_pool(program, now_us);
        if (beat_us != UINT64_MAX && now_us - beaten_us >= beat_us) {
            beaten_us = now_us;
            notify_send("WATCHDOG=1");
        }
    }
    unsigned left = under_way(&program->gateway);
    log_event(LOG_INFO, "stopped", "under_way=%u", left);
    return left ? EXIT_SIGNAL : EXIT_DRAINED;
}

static int fail(int code, const struct pen_error *error)
{
    fprintf(stderr, "penstock-gateway: %s\n", error->text);
    return code;
}

static bool is_usage(enum pen_status status)
{
    return status == PEN_ERR_INVALID || status == PEN_ERR_DENIED || status == PEN_ERR_CORRUPT || status == PEN_ERR_IO;
}

static int run(struct program *program)
{
    struct pen_error error = {.status = PEN_OK};
    int fd = -1, grpc_fd = -1, code;
    if (*program->options.tokens && tokens_new(program->options.tokens, &program->gateway.tokens, &error) != PEN_OK)
        return fail(EXIT_USAGE, &error);
    if (listen_at(program->options.http, &fd, &error) != PEN_OK)
        return fail(error.status == PEN_ERR_INVALID ? EXIT_USAGE : EXIT_LISTEN, &error);
    if (strcmp(program->options.grpc, "none") != 0 && listen_at(program->options.grpc, &grpc_fd, &error) != PEN_OK)
        return fail(error.status == PEN_ERR_INVALID ? EXIT_USAGE : EXIT_LISTEN, &error);
    if (open_all(program, fd, grpc_fd, &error) == PEN_OK) {
        announce(program, fd, grpc_fd);
        code = loop(program);
    } else {
        code = fail(is_usage(error.status) ? EXIT_USAGE : EXIT_FAILED, &error);
    }
    close_all(&program->gateway);
    return code;
}

int main(int argc, char **argv)
{
    static struct program program;
    struct pen_error error = {.status = PEN_OK};
    struct settings_store *store = NULL;
    enum settings_outcome outcome = SETTINGS_RUN;
    size_t none = 0;
    enum log_level level = LOG_INFO;
    if (settings_load(&(struct settings_call){&gateway_program, argc, argv, NULL, 0}, &program.options, &none, &outcome,
                      &store, &error) != PEN_OK)
        return fail(EXIT_USAGE, &error);
    if (outcome == SETTINGS_EXIT) {
        settings_free(store);
        return 0;
    }
    int code = EXIT_FAILED;
    if (gateway_options_check(&program.options, &error) != PEN_OK) {
        code = fail(EXIT_USAGE, &error);
    } else {
        log_level_parse(program.options.log_level, &level);
        log_setup("gateway", level, strcmp(program.options.log_format, "json") == 0);
        raise_descriptors(&program.options);
        keep_memory();
        program.signals = block_signals();
        code = program.signals < 0 ? EXIT_FAILED : run(&program);
    }
    settings_free(store);
    return code;
}
