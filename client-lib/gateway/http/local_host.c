#include "local_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

bool host_is_local(const char *host)
{
    size_t length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    const char *port = length <= strlen(host) ? host + length : "?";
    if (*port && (*port != ':' || strspn(port + 1, "0123456789*") != strlen(port + 1)))
        return false;
    if ((length == 9 && strncasecmp(host, "localhost", 9) == 0) || (length == 5 && strncmp(host, "[::1]", 5) == 0))
        return true;
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == length;
}

static bool parse(const char *address, struct sockaddr_storage *ret_socket, socklen_t *ret_size)
{
    char host[64], *end = NULL;
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    bool six = length > 2 && address[0] == '[' && address[length - 1] == ']',
         any = colon && strcmp(colon + 1, "*") == 0;
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret_socket;
    struct sockaddr_in6 *sixth = (struct sockaddr_in6 *)(void *)ret_socket;
    if (length == 0 || length >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(six ? length - 2 : length), address + (six ? 1 : 0));
    long port = any ? 0 : strtol(colon + 1, &end, 10);
    if (!any && (*end || port < 1 || port > 65535))
        return false;
    *ret_socket = (struct sockaddr_storage){.ss_family = six ? AF_INET6 : AF_INET};
    *(six ? &sixth->sin6_port : &four->sin_port) = htons((uint16_t)port);
    *ret_size = six ? sizeof *sixth : sizeof *four;
    return (six ? inet_pton(AF_INET6, host, &sixth->sin6_addr) : inet_pton(AF_INET, host, &four->sin_addr)) == 1;
}

static enum pen_status no_address(const char *address, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%s is no address to listen at; one looks like 127.0.0.1:8000 or [::1]:8000 (port * lets the "
                         "system choose)",
                         address);
}

enum pen_status listen_check(const char *address, struct pen_error *reterr)
{
    struct sockaddr_storage to;
    socklen_t size;
    return parse(address, &to, &size) ? PEN_OK : no_address(address, reterr);
}

enum pen_status listen_at(const char *address, int *ret_fd, struct pen_error *reterr)
{
    struct sockaddr_storage to;
    socklen_t size;
    int one = 1;
    if (!parse(address, &to, &size))
        return no_address(address, reterr);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)&to, size) == 0 && listen(fd, BACKLOG) == 0) {
        *ret_fd = fd;
        return PEN_OK;
    }
    pen_error_set(reterr, PEN_ERR_IO, "cannot listen on %s: %s; name another address", address,
                  errno == EADDRINUSE ? "it is taken, perhaps by another gateway" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return PEN_ERR_IO;
}

const char *listen_text(int fd, char text[LISTEN_TEXT_BYTES])
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&bound;
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&bound;
    getsockname(fd, (struct sockaddr *)&bound, &size);
    if (bound.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        snprintf(text, LISTEN_TEXT_BYTES, "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        snprintf(text, LISTEN_TEXT_BYTES, "%s:%u", host, ntohs(four->sin_port));
    }
    return text;
}
