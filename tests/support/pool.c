#include "pool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define START_MS 30000
#define STOP_MS  30000
#define ARGS_MAX 48
#define PORTS    12000

struct args {
    const char *items[ARGS_MAX];
    size_t count;
};

static void args_add(struct args *args, const char *item)
{
    if (args->count + 1 >= ARGS_MAX) {
        support_fail("more than %d arguments", ARGS_MAX);
    }
    args->items[args->count++] = item;
    args->items[args->count] = NULL;
}

static void args_add_all(struct args *args, const char *const items[])
{
    for (size_t i = 0; items && items[i]; i++) {
        args_add(args, items[i]);
    }
}

static bool has(const char *const items[], const char *wanted)
{
    for (size_t i = 0; items && items[i]; i++) {
        if (strcmp(items[i], wanted) == 0) {
            return true;
        }
    }
    return false;
}

static void broker_start(struct pool *pool, const char *clients, const char *workers, const char *const extra[])
{
    struct args args = {0};
    args_add_all(&args, (const char *const[]){"penstock-broker", "--listen-clients", clients, "--listen-workers",
                                              workers, NULL});
    if (!has(extra, "--cache")) {
        args_add_all(&args, (const char *const[]){"--cache", "memory:16MiB", NULL});
    }
    args_add_all(&args, extra);
    pool->broker = process_start(args.items, NULL);
    if (!process_wait_text(pool->broker, "evt=listening", START_MS)) {
        support_fail("the broker does not listen; its log:\n%s", process_err(pool->broker));
    }
}

void pool_start(struct pool *pool, const char *const extra[])
{
    char clients[POOL_ENDPOINT_BYTES], workers[POOL_ENDPOINT_BYTES];
    memset(pool, 0, sizeof *pool);
    snprintf(clients, sizeof clients, "tcp://127.0.0.1:%d", port_free());
    snprintf(workers, sizeof workers, "tcp://127.0.0.1:%d", port_free());
    broker_start(pool, clients, workers, extra);
    if (!process_log_value(pool->broker, "evt=listening", "clients", pool->clients, sizeof pool->clients) ||
        !process_log_value(pool->broker, "evt=listening", "workers", pool->workers_endpoint,
                           sizeof pool->workers_endpoint)) {
        support_fail("the broker's evt=listening has no clients= and workers=:\n%s", process_err(pool->broker));
    }
}

void pool_restart_broker(struct pool *pool, const char *const extra[])
{
    process_free(pool->broker);
    broker_start(pool, pool->clients, pool->workers_endpoint, extra);
}

struct process *pool_start_worker(struct pool *pool, const char *backend, const char *models, const char *const extra[])
{
    if (pool->workers_count == POOL_WORKERS_MAX) {
        support_fail("more than %d workers", POOL_WORKERS_MAX);
    }
    struct args args = {0};
    args_add_all(&args,
                 (const char *const[]){pool->worker_program ? pool->worker_program : "penstock-worker", "--models",
                                       models ? models : POOL_DIGITS_MODELS, "--backend", backend, NULL});
    if (!has(extra, "--broker")) {
        args_add_all(&args, (const char *const[]){"--broker", pool->workers_endpoint, NULL});
    }
    if (!has(extra, "--slots")) {
        args_add_all(&args, (const char *const[]){"--slots", "1", NULL});
    }
    if (!has(extra, "--threads")) {
        args_add_all(&args, (const char *const[]){"--threads", "1", NULL});
    }
    args_add_all(&args, extra);
    return pool->workers[pool->workers_count++] = process_start(args.items, NULL);
}

size_t pool_add_worker(struct pool *pool, const char *backend, const char *models, const char *const extra[])
{
    struct process *worker = pool_start_worker(pool, backend, models, extra);
    if (!process_wait_text(worker, "evt=welcome", START_MS)) {
        support_fail("the %s worker is not ready; its log:\n%s", backend, process_err(worker));
    }
    return pool->workers_count - 1;
}

/* A program of ours that ended by itself, in a way that none should. */
static bool has_crashed(struct process *process)
{
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};
    int status = process_alive(process) ? 0 : process_wait(process, 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (status == 128 + signals[i]) {
            return true;
        }
    }
    return status != 0 && (strstr(process_err(process), "ERROR: AddressSanitizer") ||
                           strstr(process_err(process), ": runtime error: "));
}

void pool_check(const struct pool *pool)
{
    if (pool->broker && has_crashed(pool->broker)) {
        support_fail("the broker has crashed; its log:\n%s", process_err(pool->broker));
    }
}

static void stop_one(struct process *process, const char *what)
{
    if (process && process_alive(process)) {
        int status = process_stop(process, STOP_MS);
        if (status != 0 && status != 128 + SIGKILL &&
            status != 128 + SIGTERM) { /* the test's own signals may still be on their way */
            support_fail("%s ended with %d on SIGTERM (-1: not at all); its log:\n%s", what, status,
                         process_err(process));
        }
    }
    process_free(process);
}

void pool_stop(struct pool *pool)
{
    for (size_t i = 0; i < pool->workers_count; i++) {
        stop_one(pool->workers[i], "a worker");
    }
    pool_check(pool);
    stop_one(pool->broker, "the broker");
    memset(pool, 0, sizeof *pool);
}

int pool_cli(struct pool *pool, const char *verb, const char *const argv[], char **ret_out, char **ret_err)
{
    struct args args = {0};
    args_add_all(&args, (const char *const[]){"penstock", verb, "--broker", pool->clients, NULL});
    args_add_all(&args, argv);
    return process_run(args.items, 60000, ret_out, ret_err);
}

static int socket_bound(int family, const void *address, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, address, size) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool port_bindable(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket_bound(AF_INET, &address, sizeof address);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* For as long as this process lives no other test is given the port: the name of a socket that nobody calls. */
static bool port_claim(int port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "penstock-test-port-%d", port);
    return socket_bound(AF_UNIX, &address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) >=
           0;
}

/* The first of the ports that the system gives to whoever asks for any. */
static int ports_given_from(void)
{
    int first = 32768;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!file || fscanf(file, "%d", &first) != 1) {
        first = 32768;
    }
    if (file) {
        fclose(file);
    }
    return first > PORTS + 1024 ? first : 32768;
}

int port_free(void)
{
    static unsigned next;
    int first = ports_given_from() - PORTS;
    next = next ? next : (unsigned)getpid() * 37u + (unsigned)support_now_us() % 997u;
    for (int tries = 0; tries < PORTS; tries++) {
        int port = first + (int)(next++ % PORTS);
        if (port_claim(port) && port_bindable(port)) {
            return port;
        }
    }
    support_fail("no free loopback port from %d to %d", first, first + PORTS - 1);
}

struct process *redis_start(int *ret_port, const char *const extra[])
{
    for (int attempt = 0; attempt < 5; attempt++) { /* somebody else's program may have the port by now */
        char port[16];
        *ret_port = *ret_port > 0 ? *ret_port : port_free();
        snprintf(port, sizeof port, "%d", *ret_port);
        struct args args = {0};
        args_add_all(&args, (const char *const[]){"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                                                  "--appendonly", "no", "--daemonize", "no", "--dir", "/tmp", NULL});
        args_add_all(&args, extra);
        struct process *redis = process_start_path(args.items, NULL);
        if (process_wait_text(redis, "Ready to accept connections", START_MS)) {
            return redis;
        }
        if (attempt == 4) {
            support_fail("redis-server does not start: %s%s", process_out(redis), process_err(redis));
        }
        process_free(redis);
        *ret_port = 0;
    }
    return NULL;
}

char *redis_cli(int port, const char *const argv[])
{
    char port_text[16];
    snprintf(port_text, sizeof port_text, "%d", port);
    struct args args = {0};
    args_add_all(&args, (const char *const[]){"redis-cli", "-h", "127.0.0.1", "-p", port_text, NULL});
    args_add_all(&args, argv);
    struct process *cli = process_start_path(args.items, NULL);
    process_wait(cli, 10000);
    char *out = strdup(process_out(cli));
    process_free(cli);
    return out;
}
