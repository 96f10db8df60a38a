/* torture_pool.c - the programs that are tortured: started, found dead, started again, ended. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"
#include "torture.h"

#define ARGS_MAX  32
#define WAIT_US   15000000u
#define SERVES_US 60000000u /* a worker warms up, on a busy machine too */
#define ASK_US    3000000u

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

static bool port_open(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return open;
}

static void program_path(const struct torture_pool *pool, const char *name, char path[TORTURE_PATH_BYTES])
{
    char self[TORTURE_PATH_BYTES];
    ssize_t used = readlink("/proc/self/exe", self, sizeof self - 1);
    self[used > 0 ? used : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
    }
    snprintf(path, TORTURE_PATH_BYTES, "%.400s/%s", *pool->bin ? pool->bin : self, name);
    if (access(path, X_OK) != 0) {
        snprintf(path, TORTURE_PATH_BYTES, "%s", name); /* then PATH has it */
    }
}

/* The child dies with us; its output goes to a log of its own. */
static pid_t start(struct torture_pool *pool, const char *name, const char *const args[])
{
    char path[TORTURE_PATH_BYTES], log[TORTURE_PATH_BYTES + 80];
    program_path(pool, name, path);
    snprintf(log, sizeof log, "%s/%04u-%.40s.log", pool->folder, pool->started++, name);
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) {
        return pid;
    }
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for us alone */
    if (getppid() == parent && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0) {
        execvp(path, (char *const *)(uintptr_t)args);
    }
    _exit(127);
}

static void start_broker(struct torture_pool *pool)
{
    char clients[ENDPOINT_BYTES], workers[ENDPOINT_BYTES], cache[ENDPOINT_BYTES];
    snprintf(clients, sizeof clients, "tcp://127.0.0.1:%d", pool->clients_port);
    snprintf(workers, sizeof workers, "tcp://127.0.0.1:%d", pool->workers_port);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%d/0", pool->redis_port);
    const char *const args[] = {"penstock-broker",
                                "--listen-clients",
                                clients,
                                "--listen-workers",
                                workers,
                                "--http",
                                "none",
                                "--cache",
                                pool->with_redis ? cache : "memory:16MiB",
                                "--worker-wait",
                                "30s",
                                "--log-level",
                                "info",
                                NULL};
    pool->broker = start(pool, "penstock-broker", args);
}

static void start_worker(struct torture_pool *pool, unsigned index)
{
    char broker[ENDPOINT_BYTES], models[TORTURE_PATH_BYTES + 16];
    snprintf(broker, sizeof broker, "tcp://127.0.0.1:%d", relay_port(pool->relay, pool->worker_lanes[index]));
    snprintf(models, sizeof models, "%s/models", pool->folder);
    const char *const args[] = {"penstock-worker", "--broker", broker,      "--models", models,
                                "--slots",         "1",        "--threads", "1",        NULL};
    pool->workers[index] = start(pool, "penstock-worker", args);
    pool->stopped[index] = false;
}

static void start_redis(struct torture_pool *pool)
{
    char port[16];
    snprintf(port, sizeof port, "%d", pool->redis_port);
    const char *const args[] = {"redis-server", "--port", port,    "--bind",     "127.0.0.1",
                                "--save",       "",       "--dir", pool->folder, NULL};
    pool->redis = start(pool, "redis-server", args);
    pool->redis_stopped = false;
}

/* True: it has ended, and is reaped. */
static bool ended(pid_t *pid)
{
    if (*pid > 0 && waitpid(*pid, NULL, WNOHANG) != *pid) {
        return false;
    }
    *pid = 0;
    return true;
}

void torture_pool_mend(struct torture_pool *pool)
{
    if (ended(&pool->broker)) {
        start_broker(pool);
    }
    if (pool->with_redis && ended(&pool->redis)) {
        start_redis(pool);
    }
    for (unsigned i = 0; i < TORTURE_WORKERS; i++) {
        if (ended(&pool->workers[i])) {
            start_worker(pool, i);
        }
    }
}

bool torture_pool_broker_restart(struct torture_pool *pool, int signal)
{
    if (pool->broker <= 0) {
        return false;
    }
    kill(pool->broker, signal); /* one that drains is found by torture_pool_mend when it has ended */
    if (signal == SIGKILL) {
        waitpid(pool->broker, NULL, 0);
        start_broker(pool);
    }
    return true;
}

static bool make_folder(struct torture_pool *pool, struct pen_error *reterr)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(pool->folder, sizeof pool->folder, "%.400s/penstock-torture-XXXXXX", temporary ? temporary : "/tmp");
    bool made = mkdtemp(pool->folder) != NULL;
    if (made && model_write(pool->folder)) {
        return true;
    }
    pen_error_set(reterr, PEN_ERR_IO, "cannot write the pool's models into %.300s: %s", pool->folder, strerror(errno));
    if (!made) {
        pool->folder[0] = '\0'; /* nothing of that name is ours to remove */
    }
    return false;
}

static bool lay_lines(struct torture_pool *pool, struct pen_error *reterr)
{
    pool->clients_port = free_port();
    pool->workers_port = free_port();
    pool->redis_port = free_port();
    pool->relay = relay_new();
    bool good = pool->relay && pool->clients_port > 0 && pool->workers_port > 0 && pool->redis_port > 0;
    pool->client_lane = good ? relay_add(pool->relay, pool->clients_port) : -1;
    good &= pool->client_lane >= 0;
    for (unsigned i = 0; i < TORTURE_WORKERS && good; i++) {
        pool->worker_lanes[i] = relay_add(pool->relay, pool->workers_port);
        good = pool->worker_lanes[i] >= 0;
    }
    if (!good) {
        pen_error_set(reterr, PEN_ERR_IO, "no free ports or descriptors on loopback: %s", strerror(errno));
        return false;
    }
    snprintf(pool->clients, sizeof pool->clients, "tcp://127.0.0.1:%d", relay_port(pool->relay, pool->client_lane));
    return true;
}

/* A program that cannot be started has ended at once. */
static bool all_listen(struct torture_pool *pool, bool *ret_ended, struct pen_error *reterr)
{
    struct {
        const char *name;
        pid_t *pid;
    } programs[] = {{"penstock-broker", &pool->broker}, {"redis-server", &pool->redis}};
    *ret_ended = false;
    for (size_t i = 0; i < (pool->with_redis ? 2u : 1u); i++) {
        pid_t probe = *programs[i].pid;
        if (ended(&probe)) {
            *programs[i].pid = 0;
            *ret_ended = true;
            pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "%s ended at once, or is not there; its log is in %.300s",
                          programs[i].name, pool->folder);
        }
    }
    return port_open(pool->clients_port) && port_open(pool->workers_port) &&
           (!pool->with_redis || port_open(pool->redis_port));
}

bool torture_pool_start(struct torture_pool *pool, struct pen_error *reterr)
{
    bool gone;
    if (!make_folder(pool, reterr) || !lay_lines(pool, reterr)) {
        return false;
    }
    if (pool->with_redis) {
        start_redis(pool);
    }
    start_broker(pool);
    for (unsigned i = 0; i < TORTURE_WORKERS; i++) {
        start_worker(pool, i);
    }
    uint64_t limit_us = clock_now_us() + WAIT_US;
    while (clock_now_us() < limit_us && !all_listen(pool, &gone, reterr)) {
        if (gone) {
            return false;
        }
        pause_ms(10);
    }
    return true;
}

static bool serves(pen_client *client, const char *name)
{
    struct pen_model_list *list = NULL;
    bool found = false;
    if (pen_client_models(client, ASK_US, &list, NULL) != PEN_OK) {
        return false;
    }
    for (size_t i = 0; i < list->count && !found; i++) {
        found = strcmp(list->models[i]->name, name) == 0;
    }
    pen_client_models_free(list);
    return found;
}

bool torture_pool_serves(pen_client *client, bool own, struct pen_error *reterr)
{
    uint64_t limit_us = clock_now_us() + (own ? SERVES_US : ASK_US);
    while (!serves(client, MODEL_NAME) || !serves(client, LARGE_NAME)) {
        if (clock_now_us() >= limit_us) {
            pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "no worker of the pool serves the models %s and %s; %s",
                          MODEL_NAME, LARGE_NAME,
                          own ? "their logs say why" : "penstock torture --write-model DIR writes them");
            return false;
        }
        pause_ms(20);
    }
    return true;
}

static void end(pid_t *pid)
{
    if (*pid <= 0) {
        return;
    }
    kill(*pid, SIGCONT);
    kill(*pid, SIGTERM);
    for (int i = 0; i < 500 && *pid > 0; i++) {
        if (ended(pid)) {
            return;
        }
        pause_ms(10);
    }
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0; /* the rest goes all the same */
}

void torture_pool_stop(struct torture_pool *pool, bool keep_logs)
{
    for (unsigned i = 0; i < TORTURE_WORKERS; i++) {
        end(&pool->workers[i]);
    }
    end(&pool->broker);
    end(&pool->redis);
    relay_free(pool->relay);
    if (!keep_logs && pool->folder[0]) {
        nftw(pool->folder, remove_one, 16,
             FTW_DEPTH | FTW_PHYS); /* logs, Redis' dump, the models and what workers keep beside them */
    }
}
