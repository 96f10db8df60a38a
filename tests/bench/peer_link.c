#include "peer_link.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define OUT_BYTES 65536u
#define IN_BYTES  (4u << 20) /* the largest answer at once */

struct peer_link {
    int fd;
    size_t out_used, in_from, in_to;
    uint8_t out[OUT_BYTES];
    uint8_t in[IN_BYTES];
};

struct peer_link *peer_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct peer_link *link = calloc(1, sizeof *link);
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!link || (link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        connect(link->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        wire_die("bench_peer: nobody answers on port %d", port);
    }
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return link;
}

static void send_all(struct peer_link *link, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            wire_die("bench_peer: the connection is gone");
        }
        bytes += sent;
        size -= (size_t)sent;
    }
}

void peer_flush(struct peer_link *link)
{
    send_all(link, link->out, link->out_used);
    link->out_used = 0;
}

void peer_put(struct peer_link *link, const void *bytes, size_t size)
{
    if (size > OUT_BYTES - link->out_used) {
        peer_flush(link);
    }
    if (size > OUT_BYTES) {
        send_all(link, bytes, size);
        return;
    }
    memcpy(link->out + link->out_used, bytes, size);
    link->out_used += size;
}

void peer_printf(struct peer_link *link, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    peer_put(link, text, (size_t)size);
}

/* Makes room behind what is unread and reads more. */
static void fill(struct peer_link *link)
{
    if (link->in_from > 0) {
        memmove(link->in, link->in + link->in_from, link->in_to - link->in_from);
        link->in_to -= link->in_from;
        link->in_from = 0;
    }
    if (link->in_to == IN_BYTES) {
        wire_die("bench_peer: an answer of more than %u bytes", IN_BYTES);
    }
    ssize_t got = recv(link->fd, link->in + link->in_to, IN_BYTES - link->in_to, 0);
    if (got <= 0) {
        wire_die("bench_peer: the connection is gone");
    }
    link->in_to += (size_t)got;
}

uint8_t *peer_take(struct peer_link *link, size_t size)
{
    while (link->in_to - link->in_from < size) {
        fill(link);
    }
    uint8_t *bytes = link->in + link->in_from;
    link->in_from += size;
    return bytes;
}

char *peer_line(struct peer_link *link)
{
    uint8_t *end;
    while (!(end = memchr(link->in + link->in_from, '\n', link->in_to - link->in_from))) {
        fill(link);
    }
    char *line = (char *)link->in + link->in_from;
    link->in_from = (size_t)(end - link->in) + 1;
    *end = '\0';
    if (end > (uint8_t *)line && end[-1] == '\r') {
        end[-1] = '\0';
    }
    return line;
}

bool peer_more(struct peer_link *link)
{
    return link->in_to > link->in_from;
}

void peer_resp(struct peer_link *link, void (*text)(void *context, const uint8_t *bytes, size_t size), void *context)
{
    for (long left = 1; left > 0; left--) {
        char *line = peer_line(link);
        long number = atol(line + 1);
        if (*line == '-') {
            wire_die("bench_peer: Redis says %s", line + 1);
        } else if (*line == '*') {
            left += number > 0 ? number : 0;
        } else if (*line == '$' && number >= 0) {
            text(context, peer_take(link, (size_t)number + 2), (size_t)number);
        } else {
            text(context, (const uint8_t *)line + 1, strlen(line + 1));
        }
    }
}
