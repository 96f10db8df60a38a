/* supervise.c - forks the worker, waits for signals, and decides at its end whether to start it again. */
#include "supervise.h"

#include "deadline.h"
#include "logline.h"
#include "options.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct supervisor {
    int (*work)(void *context);
    void *context;
    sigset_t watched, before;
    pid_t child;
    uint64_t born_us;
    unsigned young, restarts;
    bool asked; /* to end */
};

uint64_t supervise_pause_us(unsigned young)
{
    uint64_t pause_us = SUPERVISE_PAUSE_US;
    if (young < 2)
        return 0;
    for (; young > 2 && pause_us < SUPERVISE_PAUSE_US_MAX; young--)
        pause_us *= 2;
    return pause_us < SUPERVISE_PAUSE_US_MAX ? pause_us : SUPERVISE_PAUSE_US_MAX;
}

/* In the child; never returns. Its own process group keeps the terminal's Ctrl-C from reaching it twice. */
__attribute__((noreturn)) static void child_run(struct supervisor *supervisor, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(WORKER_EXIT_OK); /* the parent died before the line above */
    signals_supervised();
    sigprocmask(SIG_SETMASK, &supervisor->before, NULL);
    _exit(supervisor->work(supervisor->context));
}

static bool child_start(struct supervisor *supervisor)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        child_run(supervisor, parent);
    if (child < 0) {
        log_event(LOG_ERROR, "fork_failed", "error=%s", strerror(errno));
        return false;
    }
    supervisor->child = child;
    supervisor->born_us = clock_now_us();
    log_event(LOG_INFO, "child_started", "pid=%ld restarts=%u", (long)child, supervisor->restarts);
    return true;
}

/* Waits for a signal, at most `wait_us` (DEADLINE_NONE = for ever), and passes it on. False: the time is up. */
static bool signal_wait(struct supervisor *supervisor, uint64_t wait_us)
{
    siginfo_t info;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000u), .tv_nsec = (long)(wait_us % 1000000u) * 1000};
    int number = wait_us == DEADLINE_NONE ? sigwaitinfo(&supervisor->watched, &info)
                                          : sigtimedwait(&supervisor->watched, &info, &wait);
    if (number < 0)
        return errno != EAGAIN;
    if (number == SIGCHLD)
        return true;
    if (number == SIGUSR1 || number == SIGUSR2) {
        if (supervisor->child > 0)
            kill(supervisor->child, number);
        return true;
    }
    supervisor->asked = true;
    log_event(LOG_INFO, "signal_forwarded", "signal=%d pid=%ld", number, (long)supervisor->child);
    if (supervisor->child > 0)
        kill(supervisor->child, number);
    return true;
}

static int child_wait(struct supervisor *supervisor)
{
    int status = 0;
    while (waitpid(supervisor->child, &status, WNOHANG) != supervisor->child)
        signal_wait(supervisor, DEADLINE_NONE);
    supervisor->child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool mendable(int code)
{
    return code == WORKER_EXIT_FAILED || code == WORKER_EXIT_WEDGED || code > 128;
}

/* False: the worker has ended for good. */
static bool restart_after(struct supervisor *supervisor, int code)
{
    uint64_t lived_us = clock_now_us() - supervisor->born_us;
    if (supervisor->asked || !mendable(code)) {
        log_event(LOG_INFO, "child_ended", "code=%d lived_us=%" PRIu64, code, lived_us);
        return false;
    }
    supervisor->young = lived_us < SUPERVISE_YOUNG_US ? supervisor->young + 1 : 0;
    uint64_t pause_us = supervise_pause_us(supervisor->young);
    log_event(LOG_ERROR, "child_died", "code=%d signal=%d lived_us=%" PRIu64 " restart_in_us=%" PRIu64, code,
              code > 128 ? code - 128 : 0, lived_us, pause_us);
    for (uint64_t until_us = clock_now_us() + pause_us, now_us; (now_us = clock_now_us()) < until_us;)
        if (!signal_wait(supervisor, until_us - now_us) || supervisor->asked)
            break;
    supervisor->restarts++;
    return !supervisor->asked;
}

int supervise_run(int (*work)(void *context), void *context)
{
    struct supervisor supervisor = {.work = work, .context = context};
    int code = WORKER_EXIT_OK;
    sigemptyset(&supervisor.watched);
    sigaddset(&supervisor.watched, SIGTERM);
    sigaddset(&supervisor.watched, SIGINT);
    if (!signals_hangup_ignored())
        sigaddset(&supervisor.watched, SIGHUP);
    sigaddset(&supervisor.watched, SIGCHLD);
    sigaddset(&supervisor.watched, SIGUSR1);
    sigaddset(&supervisor.watched, SIGUSR2);
    sigprocmask(SIG_BLOCK, &supervisor.watched, &supervisor.before);
    do {
        if (signals_asked())
            return WORKER_EXIT_OK;
        if (!child_start(&supervisor))
            return WORKER_EXIT_FAILED;
        code = child_wait(&supervisor);
    } while (restart_after(&supervisor, code));
    return code;
}
