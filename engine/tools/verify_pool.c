#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/verify.h"

#define JOBS_MAX 256
#define NO_CASE  UINT32_MAX

struct slot {
    atomic_bool done;
    struct verify_result result;
};

/* Mapped before the fork, shared by all. */
struct shared {
    atomic_uint next;              /* first case nobody has taken */
    atomic_uint current[JOBS_MAX]; /* by process: the case it runs, NO_CASE = none */
    char backend[64];              /* written by the first process before the second starts */
    struct slot slots[];
};

struct pool {
    const struct verify_options *options;
    bool strict;
    const struct case_list *list;
    struct shared *shared;
    size_t bytes;
    pid_t pids[JOBS_MAX];
    uint32_t alive;
    int wake[2]; /* a byte per opened engine and per finished case */
};

static bool pool_init(struct pool *p, const struct verify_options *options, bool strict, const struct case_list *list)
{
    *p = (struct pool){.options = options, .strict = strict, .list = list, .wake = {-1, -1}};
    p->bytes = sizeof *p->shared + list->count * sizeof p->shared->slots[0];
    void *memory = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pipe(p->wake) != 0) {
        fprintf(stderr, "penstock-engine: cannot share memory between processes: %s\n", strerror(errno));
        return false;
    }
    p->shared = memory;
    return true;
}

static void pool_fini(struct pool *p)
{
    for (int i = 0; i < 2; i++) {
        if (p->wake[i] >= 0) {
            close(p->wake[i]);
        }
    }
    if (p->shared != NULL) {
        munmap(p->shared, p->bytes);
    }
}

static void wake(const struct pool *p)
{
    while (write(p->wake[1], "", 1) < 0 && errno == EINTR) {
    }
}

/* What a process does: takes cases until none is left. Leaves by exit(), so that leak checks run. */
static _Noreturn void process_main(struct pool *p, uint32_t self)
{
    struct pen_engine *engine = NULL;
    struct shared *s = p->shared;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = tool_engine(&p->options->tool, p->strict, &engine);
    if (code != TOOL_OK) {
        exit(code);
    }
    if (self == 0) {
        snprintf(s->backend, sizeof s->backend, "%s", pen_engine_backend(engine));
    }
    wake(p);
    for (uint32_t i = atomic_fetch_add(&s->next, 1); i < p->list->count; i = atomic_fetch_add(&s->next, 1)) {
        atomic_store(&s->current[self], i);
        verify_case(engine, &p->list->items[i], p->options->by_op, &s->slots[i].result);
        atomic_store(&s->slots[i].done, true);
        atomic_store(&s->current[self], NO_CASE);
        wake(p);
    }
    pen_engine_free(engine);
    exit(TOOL_OK);
}

static bool process_start(struct pool *p, uint32_t self)
{
    atomic_store(&p->shared->current[self], NO_CASE);
    fflush(NULL); /* else the child writes it once more */
    pid_t pid = fork();
    if (pid == 0) {
        process_main(p, self);
    }
    if (pid < 0) {
        fprintf(stderr, "penstock-engine: cannot fork: %s\n", strerror(errno));
        return false;
    }
    p->pids[self] = pid;
    p->alive++;
    return true;
}

/* The case that a process was running when it ended is a failure; a fresh process goes on. Returns a tool_exit. */
static int process_ended(struct pool *p, uint32_t self, int status)
{
    uint32_t i = atomic_load(&p->shared->current[self]);
    p->pids[self] = 0;
    p->alive--;
    if (i == NO_CASE) {
        return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
    }
    struct slot *slot = &p->shared->slots[i];
    char text[128];
    if (WIFSIGNALED(status)) {
        snprintf(text, sizeof text, "crashed: the process ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(text, sizeof text, "crashed: the process ended with exit code %d", WEXITSTATUS(status));
    }
    slot->result.outcome = CASE_FAIL;
    verify_reason(&slot->result, text);
    atomic_store(&slot->done, true);
    return process_start(p, self) ? TOOL_OK : TOOL_FAILED;
}

/* Waits for a byte or 50 ms, then looks after processes that ended. */
static int pool_wait(struct pool *p)
{
    struct pollfd fd = {.fd = p->wake[0], .events = POLLIN};
    char bytes[256];
    if (poll(&fd, 1, 50) > 0 && read(p->wake[0], bytes, sizeof bytes) < 0) {
        return TOOL_FAILED;
    }
    int code = TOOL_OK;
    for (uint32_t i = 0; i < JOBS_MAX && code == TOOL_OK; i++) {
        int status = 0;
        if (p->pids[i] > 0 && waitpid(p->pids[i], &status, WNOHANG) == p->pids[i]) {
            code = process_ended(p, i, status);
        }
    }
    return code;
}

static void pool_kill(struct pool *p)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        if (p->pids[i] > 0) {
            kill(p->pids[i], SIGKILL);
            waitpid(p->pids[i], NULL, 0);
        }
    }
}

static int pool_run(struct pool *p, uint32_t jobs, verify_report_fn *report, struct verify_report *to)
{
    int code = process_start(p, 0) ? TOOL_OK : TOOL_FAILED;
    while (code == TOOL_OK && p->alive > 0 && p->shared->backend[0] == '\0') { /* does the backend open at all? */
        code = pool_wait(p);
    }
    for (uint32_t i = 1; i < jobs && code == TOOL_OK; i++) {
        code = process_start(p, i) ? TOOL_OK : TOOL_FAILED;
    }
    size_t at = 0;
    while (code == TOOL_OK && (p->alive > 0 || at < p->list->count)) {
        code = pool_wait(p);
        for (; at < p->list->count && atomic_load(&p->shared->slots[at].done); at++) {
            report(to, &p->list->items[at], p->shared->backend, &p->shared->slots[at].result);
        }
        if (code == TOOL_OK && p->alive == 0 && at < p->list->count) {
            fprintf(stderr, "penstock-engine: the processes ended before all cases were done\n");
            code = TOOL_FAILED;
        }
    }
    pool_kill(p);
    return code;
}

/* Without processes: a debugger and a sanitizer see everything. */
static int run_here(const struct verify_options *options, bool strict, const struct case_list *list,
                    verify_report_fn *report, struct verify_report *to)
{
    struct pen_engine *engine = NULL;
    struct verify_result *result = malloc(sizeof *result);
    int code = result != NULL ? tool_engine(&options->tool, strict, &engine) : TOOL_FAILED;
    for (size_t i = 0; code == TOOL_OK && i < list->count; i++) {
        memset(result, 0, sizeof *result);
        verify_case(engine, &list->items[i], options->by_op, result);
        report(to, &list->items[i], pen_engine_backend(engine), result);
    }
    pen_engine_free(engine);
    free(result);
    return code;
}

int verify_pool(const struct verify_options *options, bool strict, const struct case_list *list,
                verify_report_fn *report, struct verify_report *to)
{
    if (options->jobs <= 1) {
        return run_here(options, strict, list, report, to);
    }
    struct pool p;
    uint32_t jobs = options->jobs < JOBS_MAX ? (uint32_t)options->jobs : JOBS_MAX;
    int code = pool_init(&p, options, strict, list) ? pool_run(&p, jobs, report, to) : TOOL_FAILED;
    pool_fini(&p);
    return code;
}
