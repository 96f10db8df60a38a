#include "http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process.h"

#define ANSWER_MS 10000

int http_connect(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(address, ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((unsigned short)(colon ? atoi(colon + 1) : 0));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        support_fail("no connection to '%s'", address);
    return fd;
}

void http_say(int fd, const char *text)
{
    size_t bytes = strlen(text);
    if (send(fd, text, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        fprintf(stderr, "the other side took less than %zu bytes\n", bytes);
}

char *http_hear(int fd, const char *enough, int timeout_ms)
{
    size_t used = 0, room = 65536;
    char *text = malloc(room);
    uint64_t end_us = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000;
    text[0] = '\0';
    while (support_now_us() < end_us && !(enough && strstr(text, enough))) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 20) <= 0)
            continue;
        if (used + 1 >= room)
            text = realloc(text, room *= 2);
        ssize_t count = recv(fd, text + used, room - used - 1, 0);
        if (count <= 0)
            break;
        used += (size_t)count;
        text[used] = '\0';
    }
    return text;
}

int http_get(const char *address, const char *path, char **ret_body)
{
    char request[512];
    int fd = http_connect(address), status = 0;
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, address);
    http_say(fd, request);
    char *text = http_hear(fd, NULL, ANSWER_MS), *body = strstr(text, "\r\n\r\n");
    close(fd);
    if (sscanf(text, "HTTP/%*s %d", &status) != 1)
        status = 0;
    if (ret_body)
        *ret_body = strdup(body ? body + 4 : "");
    free(text);
    return status;
}

unsigned long long http_await(const char *address, const char *path, int status, int timeout_ms)
{
    uint64_t start_us = support_now_us(), end_us = start_us + (uint64_t)support_slow(timeout_ms) * 1000;
    int last;
    while ((last = http_get(address, path, NULL)) != status) {
        if (support_now_us() > end_us)
            support_fail("%s still answers %d, not %d", path, last, status);
        support_sleep_ms(10);
    }
    return support_now_us() - start_us;
}
