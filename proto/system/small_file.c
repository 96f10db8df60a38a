#include "small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A pipe that never had a writer reads as ended, so poll asks first whether there are bytes. */
static int await(int fd, long until_ms)
{
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        long left_ms = until_ms - now_ms();
        int ready = left_ms > 0 ? poll(&entry, 1, (int)left_ms) : 0;
        if (ready > 0)
            return 0;
        if (ready == 0)
            errno = ETIMEDOUT;
        if (errno != EINTR)
            return -1;
    }
}

static ssize_t read_all(int fd, char *bytes, size_t capacity, const struct stat *facts)
{
    size_t got = 0;
    long until_ms = now_ms() + SMALL_FILE_WAIT_MS;
    while (got < capacity) {
        if (!S_ISREG(facts->st_mode) && !S_ISDIR(facts->st_mode) && await(fd, until_ms) != 0)
            return -1;
        ssize_t more = read(fd, bytes + got, capacity - got);
        if (more == 0)
            break;
        if (more < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        got += more > 0 ? (size_t)more : 0;
    }
    return (ssize_t)got;
}

ssize_t small_file_read(const char *path, void *bytes, size_t capacity, struct stat *ret_facts)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    ssize_t got = fstat(fd, &facts) == 0 ? read_all(fd, bytes, capacity, &facts) : -1;
    int error = errno;
    close(fd);
    errno = error;
    if (got >= 0)
        *ret_facts = facts;
    return got;
}

const char *small_file_reason(int error)
{
    return error == ETIMEDOUT ? "it is no ordinary file, and nobody writes to it" : strerror(error);
}
