/* notify.c - sends a datagram to the service manager's socket. */
#include "notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *format, ...)
{
    char text[512];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    if (length < 2 || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* a Linux abstract name begins with a NUL byte */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bytes < 0)
        return;
    size_t size = (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text - 1;
    socklen_t address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    sendto(fd, text, size, MSG_NOSIGNAL, (const struct sockaddr *)&address, address_bytes);
    close(fd);
}

uint64_t notify_watchdog_us(void)
{
    const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long wanted = pid ? strtol(pid, NULL, 10) : 0;
    uint64_t us = period ? strtoull(period, NULL, 10) : 0;
    if (us == 0 || (pid && wanted != (long)getpid() && wanted != (long)getppid()))
        return UINT64_MAX;
    return us / 2 > 0 ? us / 2 : 1;
}
