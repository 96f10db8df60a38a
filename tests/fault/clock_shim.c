/*
 * clock_shim.c - a wall clock that a test sets: loaded into our programs with LD_PRELOAD, it adds to every reading of the real-time clock the seconds that stand in the file
 * PENSTOCK_TEST_CLOCK (a mapped int64). The monotonic clock is left alone.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *jump;

__attribute__((constructor)) static void shim_open(void)
{
    const char *path = getenv("PENSTOCK_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = fd >= 0 ? mmap(NULL, sizeof *jump, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (mapped != MAP_FAILED)
        jump = mapped;
    if (fd >= 0)
        close(fd);
}

static int64_t jump_s(void)
{
    return jump ? *jump : 0;
}

/* The function behind ours. */
static void *next_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        abort();
    return function;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next) {
        void *function = next_function("clock_gettime");
        memcpy(&next, &function, sizeof next);
    }
    int rc = next(clock, ret_time);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret_time->tv_sec += jump_s();
    return rc;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret_time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret_time)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_time)
        *ret_time = now.tv_sec;
    return now.tv_sec;
}
