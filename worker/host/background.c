/* background.c - a thread, its priority, and the timer that interrupts it. */
#include "background.h"

#include "signals.h"
#include "urgency.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id /* the C library of Debian 12 has the field without this name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define LOWEST_NICE 19
#define STEP_NS     (BACKGROUND_STEP_US * 1000u)
#define STEP_SIGNAL SIGURG /* ignored by a thread that gets one by mistake */

struct aside {
    const char *name;
    void (*work)(void *argument);
    void *argument;
};

static atomic_uint_fast64_t offers;
static _Thread_local uint64_t offered_ns; /* processor time of the thread at its last yield */
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static uint64_t ran_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* After a wait for a processor the next signal is there at once; a thread that yielded again then would never get
   on. */
static void on_step(int number)
{
    int saved = errno;
    (void)number;
    if (ran_ns() - offered_ns >= STEP_NS / 2) {
        atomic_fetch_add_explicit(&offers, 1, memory_order_relaxed);
        sched_yield();
        offered_ns = ran_ns();
    }
    errno = saved;
}

static void handler_install(void)
{
    struct sigaction action = {.sa_handler = on_step, .sa_flags = SA_RESTART};
    sigaction(STEP_SIGNAL, &action, NULL);
}

static void step_signal_mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, STEP_SIGNAL);
    pthread_sigmask(how, &set, NULL);
}

/* False: no timer could be made, so the priority alone must do. */
static bool steps_begin(timer_t *ret_timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = STEP_SIGNAL};
    struct timespec step = {.tv_nsec = STEP_NS};
    struct itimerspec times = {.it_interval = step, .it_value = step};
    pthread_once(&handler_once, handler_install);
    event.sigev_notify_thread_id = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, ret_timer) != 0)
        return false;
    step_signal_mask(SIG_UNBLOCK);
    timer_settime(*ret_timer, 0, &times, NULL);
    return true;
}

static void *background_main(void *argument)
{
    struct aside *aside = argument;
    timer_t timer;
    pthread_setname_np(pthread_self(), aside->name);
    setpriority(PRIO_PROCESS, (id_t)gettid(), LOWEST_NICE); /* of this thread, on Linux */
    urgency_ask(BACKGROUND_STEP_US); /* a yield costs the rest of the slice: with a long one it would wait for ever */
    bool steps = steps_begin(&timer);
    aside->work(aside->argument);
    if (steps) {
        timer_delete(timer);
        step_signal_mask(SIG_BLOCK);
    }
    return NULL;
}

/* Other threads handle the signals of the process. */
enum pen_status background_run(const char *name, void (*work)(void *argument), void *argument)
{
    struct aside aside = {.name = name, .work = work, .argument = argument};
    sigset_t before;
    pthread_t thread;
    signals_block(&before);
    int error = pthread_create(&thread, NULL, background_main, &aside);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return PEN_ERR_NO_MEMORY;
    pthread_join(thread, NULL);
    return PEN_OK;
}

uint64_t background_offers(void)
{
    return atomic_load(&offers);
}

/* /proc/thread-self/schedstat: nanoseconds on a processor, nanoseconds ready and waiting for one, turns. */
uint64_t background_waited_us(void)
{
    unsigned long long ran_ns, waited_ns = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran_ns, &waited_ns) != 2)
        waited_ns = 0;
    fclose(file);
    return waited_ns / 1000;
}
