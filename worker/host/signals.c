/* signals.c - the handler counts signals and wakes the network thread; at the second signal it ends the process. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static atomic_int asked_parent, asked_others;
static atomic_int wake_fd = -1;
static atomic_int level_signal;
static atomic_bool supervised, settled;

/* A service manager signals both the supervisor and its worker, and the supervisor passes its signal on, so the
   worker gets two signals for one wish. */
static void handle(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    uint64_t one = 1;
    int fd = atomic_load(&wake_fd);
    bool parent = atomic_load(&supervised) && info->si_pid == getppid();
    (void)context;
    if (atomic_load(&settled) || (number == SIGHUP && signals_asked()))
        return; /* a terminal that is closed may send it twice */
    if (atomic_fetch_add(parent ? &asked_parent : &asked_others, 1) > 0)
        _exit(128 + number);
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* full: a wake is pending already */
    }
    errno = saved_errno;
}

/* SIGUSR1 and SIGUSR2 only set a number that the network thread looks at. */
static void handle_level(int number)
{
    int saved_errno = errno;
    uint64_t one = 1;
    int fd = atomic_load(&wake_fd);
    atomic_store(&level_signal, number);
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* full: a wake is pending already */
    }
    errno = saved_errno;
}

int signals_level(void)
{
    int number = atomic_exchange(&level_signal, 0);
    return number == SIGUSR1 ? 1 : number == SIGUSR2 ? -1 : 0;
}

bool signals_hangup_ignored(void)
{
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void signals_install(void)
{
    struct sigaction level = {.sa_handler = handle_level, .sa_flags = SA_RESTART};
    sigemptyset(&level.sa_mask);
    sigaction(SIGUSR1, &level, NULL);
    sigaction(SIGUSR2, &level, NULL);
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (!signals_hangup_ignored())
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* at its size limit a file shall give an error from write(2), not end the process */
}

bool signals_asked(void)
{
    return atomic_load(&asked_parent) + atomic_load(&asked_others) > 0;
}

void signals_block(sigset_t *ret_before)
{
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, ret_before);
}

void signals_wake(int fd)
{
    atomic_store(&wake_fd, fd);
}

void signals_supervised(void)
{
    atomic_store(&supervised, true);
}

void signals_settled(void)
{
    atomic_store(&settled, true);
}
