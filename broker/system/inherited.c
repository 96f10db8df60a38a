#include "inherited.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3

static int *place_of(struct inherited *sockets, const char *name, size_t bytes)
{
    const struct {
        const char *name;
        int *fd;
    } places[INHERITED_MAX] = {
        {"clients", &sockets->clients}, {"workers", &sockets->workers}, {"http", &sockets->http}};
    for (size_t i = 0; i < INHERITED_MAX; i++) {
        if (strlen(places[i].name) == bytes && memcmp(places[i].name, name, bytes) == 0)
            return places[i].fd;
    }
    return NULL;
}

static bool listens(int fd)
{
    int on = 0;
    socklen_t size = sizeof on;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on;
}

static enum pen_status take(struct inherited *sockets, long count, const char *names, struct pen_error *reterr)
{
    for (int i = 0; i < count; i++) {
        size_t bytes = strcspn(names, ":");
        int fd = FIRST_FD + i, *place = place_of(sockets, names, bytes);
        if (!place || *place >= 0 || !listens(fd))
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "descriptor %d was handed over as '%.*s': it must be a listening socket, and its "
                                 "FileDescriptorName one of clients, workers, http, each once",
                                 fd, (int)bytes, names);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        *place = fd;
        names += bytes + (names[bytes] == ':');
    }
    return PEN_OK;
}

enum pen_status inherited_take(struct inherited *ret_sockets, struct pen_error *reterr)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    bool ours = pid && fds && strtol(pid, NULL, 10) == (long)getpid();
    long count = ours ? strtol(fds, NULL, 10) : 0;
    enum pen_status status = PEN_OK;
    *ret_sockets = (struct inherited){.clients = -1, .workers = -1, .http = -1};
    if (count > (long)INHERITED_MAX)
        status = pen_error_set(reterr, PEN_ERR_INVALID, "%ld sockets were handed over, a broker takes at most %u",
                               count, INHERITED_MAX);
    else
        status = take(ret_sockets, count, names ? names : "", reterr);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return status;
}

bool inherited_endpoint(int fd, char *ret_text, size_t bytes)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof own;
    char host[INET6_ADDRSTRLEN] = "";
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0)
        return false;
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&own;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&own;
    const struct sockaddr_un *path = (const struct sockaddr_un *)(const void *)&own;
    if (own.ss_family == AF_INET && inet_ntop(AF_INET, &four->sin_addr, host, sizeof host))
        snprintf(ret_text, bytes, "tcp://%s:%u", host, ntohs(four->sin_port));
    else if (own.ss_family == AF_INET6 && inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host))
        snprintf(ret_text, bytes, "tcp://[%s]:%u", host, ntohs(six->sin6_port));
    else if (own.ss_family == AF_UNIX && path->sun_path[0] == '/')
        snprintf(ret_text, bytes, "ipc://%s", path->sun_path);
    else
        return false;
    return true;
}
