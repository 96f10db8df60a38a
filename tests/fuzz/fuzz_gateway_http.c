/* What peers send to a gateway, in two pieces, through a real server and a socket pair's worth of TCP on loopback: heads, bodies, chunks, paths. */
#include <errno.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "content_coding.h"
#include "http_server.h"
#include "local_host.h"

static struct http_server *server;
static struct sockaddr_in address;
static unsigned answered;

static void on_request(void *context, struct http_request *request)
{
    struct http_answer answer = {.status = 200, .type = "application/json"};
    char *data;
    size_t bytes;
    (void)context;
    answered++;
    enum content_coding coding = content_coding_parse(http_head_find(&request->head, "Content-Encoding"));
    if (request->hold && (coding == CODING_GZIP || coding == CODING_DEFLATE))
        content_unpack(coding, request->body, request->body_bytes, 65536, request->hold, &data, &bytes, NULL);
    content_coding_choose(http_head_find(&request->head, "Accept-Encoding"));
    bytes_add(&answer.text, "{}", 2);
    http_answer(request, &answer);
}

static void open_server(void)
{
    socklen_t size = sizeof address;
    int fd = -1;
    if (listen_at("127.0.0.1:*", &fd, NULL) != PEN_OK)
        abort();
    getsockname(fd, (struct sockaddr *)(void *)&address, &size);
    const struct http_server_options options = {.fd = fd,
                                                .connections_max = 4,
                                                .address_max = 4,
                                                .head_max = 2048,
                                                .body_max = 65536,
                                                .head_us = 1000000,
                                                .idle_us = 1000000,
                                                .on_request = on_request};
    if (http_server_new(&options, &server) != PEN_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!server)
        open_server();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* no ports are left waiting */
    size_t first = size > 0 ? data[0] * (size - 1) / 255 : 0;
    if (fd < 0)
        abort();
    if (connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
        if (errno == ECONNREFUSED)
            abort(); /* the server is gone; anything else is the host's want of ports */
        close(fd);
        return 0;
    }
    http_server_turn(server, 10);
    (void)!send(fd, data + (size > 0), first, MSG_NOSIGNAL);
    http_server_turn(server, 1);
    (void)!send(fd, data + (size > 0) + first, size > 0 ? size - 1 - first : 0, MSG_NOSIGNAL);
    http_server_turn(server, 1);
    http_server_turn(server, 0);
    close(fd);
    for (unsigned i = 0; i < 100 && http_server_counts(server).connections > 0; i++)
        http_server_turn(server, 10);
    if (http_server_counts(server).connections != 0 || http_server_under_way(server) != 0 || hold_budget_used() != 0)
        abort(); /* nothing is left of a peer that has gone */
    return 0;
}
