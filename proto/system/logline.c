/* logline.c - the process's log: level, form, rate limit, one write(2) per line. */
#include "logline.h"
#include "logline_rate.h"
#include "logline_text.h"

#include "assertion.h"
#include "deadline.h"
#include "job_id.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

static atomic_int log_level = LOG_INFO;

/* Set once by log_setup before other threads log, then only read. */
static const char *log_program = "penstock";
static bool log_json;
static char log_nonce[9] = "noncenon";

static pthread_mutex_t rate_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_rate rate; /* under rate_lock */

void log_level_set(enum log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

enum log_level log_level_now(void)
{
    return (enum log_level)atomic_load_explicit(&log_level, memory_order_relaxed);
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

enum log_level log_level_step(int steps)
{
    int level = (int)log_level_now() - steps;
    return level < LOG_DEBUG ? LOG_DEBUG : level > LOG_ERROR ? LOG_ERROR : (enum log_level)level;
}

bool log_enabled(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log_level, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *ret_level)
{
    for (int i = LOG_DEBUG; name && i <= LOG_ERROR; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

static void time_text(char text[40])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(text, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, 40 - used, ".%03ldZ", now.tv_nsec / 1000000);
}

__attribute__((format(printf, 3, 0))) static void line_write(enum log_level level, const char *evt, const char *fmt,
                                                             va_list args)
{
    char line[LOGLINE_BYTES], time[40];
    int saved_errno = errno;
    time_text(time);
    struct logline_head head = {
        .time = time, .program = log_program, .level = level_names[level], .evt = evt, .nonce = log_nonce};
    size_t bytes = logline_format(line, &head, log_json, fmt, args);
    while (write(STDERR_FILENO, line, bytes) < 0 && errno == EINTR) /* nobody to tell when stderr is gone */
        ;
    errno = saved_errno;
}

__attribute__((format(printf, 3, 4))) static void line_print(enum log_level level, const char *evt, const char *fmt,
                                                             ...)
{
    va_list args;
    va_start(args, fmt);
    line_write(level, evt, fmt, args);
    va_end(args);
}

/* Written at any level and rate, because it is the last line of the process. */
static void tell_assertion(const char *file, int line, const char *condition, const char *sentence)
{
    line_print(LOG_ERROR, "assertion_failed", "at=%s:%d invariant=%s condition=%s", file, line, sentence, condition);
}

static void report_suppressed(bool all)
{
    struct log_rate_slot slot;
    for (;;) {
        pthread_mutex_lock(&rate_lock);
        bool found = log_rate_report(&rate, clock_now_us(), all, &slot);
        pthread_mutex_unlock(&rate_lock);
        if (!found)
            return;
        line_print((enum log_level)slot.level, slot.evt, "suppressed=%u", slot.suppressed);
    }
}

void log_level_order(enum log_level level, const char *by)
{
    log_level_set(level);
    log_event(LOG_INFO, "log_level", "level=%s by=%s", log_level_name(level), by);
}

static void report_at_exit(void)
{
    report_suppressed(true);
}

void log_setup(const char *program, enum log_level level, bool json)
{
    static bool registered;
    log_program = program;
    log_json = json;
    log_level_set(level);
    uint64_t random = random_u64();
    for (unsigned i = 0; i + 1 < sizeof log_nonce; i++, random >>= 5)
        log_nonce[i] = "abcdefghijklmnopqrstuvwxyz012345"[random & 31];
    assertion_teller_set(tell_assertion);
    if (!registered)
        registered = atexit(report_at_exit) == 0;
}

void log_event(enum log_level level, const char *evt, const char *fmt, ...)
{
    if (!log_enabled(level))
        return;
    report_suppressed(false);
    pthread_mutex_lock(&rate_lock);
    bool admitted = log_rate_admit(&rate, evt, (int)level, clock_now_us());
    pthread_mutex_unlock(&rate_lock);
    if (!admitted)
        return;
    va_list args;
    va_start(args, fmt);
    line_write(level, evt, fmt, args);
    va_end(args);
}
