/*
 * bench_sink own|microhttpd - takes POST bodies into memory and answers "{}": the gateway's server and libmicrohttpd side by side, for gateway.sh.
 * Prints `port=N`; ends when its standard input does.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_server.h"
#include "local_host.h"

struct upload {
    char *data;
    size_t used, size;
};

static bool upload_add(struct upload *upload, const char *data, size_t bytes)
{
    size_t size = upload->size ? upload->size : 1u << 20;
    while (size < upload->used + bytes)
        size *= 2;
    char *grown = size > upload->size ? realloc(upload->data, size) : upload->data;
    if (!grown)
        return false;
    upload->data = grown;
    upload->size = size;
    memcpy(grown + upload->used, data, bytes);
    upload->used += bytes;
    return true;
}

static enum MHD_Result on_upload(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *data, size_t *bytes, void **state)
{
    struct upload *upload = *state;
    (void)context, (void)url, (void)method, (void)version;
    if (!upload)
        return (*state = calloc(1, sizeof *upload)) ? MHD_YES : MHD_NO;
    if (*bytes) {
        bool well = upload_add(upload, data, *bytes);
        *bytes = 0;
        return well ? MHD_YES : MHD_NO;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(2, (void *)(uintptr_t) "{}", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    free(upload->data);
    free(upload);
    *state = NULL;
    return result;
}

static void on_request(void *context, struct http_request *request)
{
    struct http_answer answer = {.status = 200};
    (void)context;
    bytes_add(&answer.text, "{}", 2);
    http_answer(request, &answer);
}

static bool goes_on(int timeout_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, timeout_ms) == 0;
}

static void serve(int fd)
{
    struct http_server *server = NULL;
    const struct http_server_options options = {.fd = fd,
                                                .connections_max = 64,
                                                .address_max = 64,
                                                .head_max = 16384,
                                                .body_max = 1u << 26,
                                                .head_us = 10000000,
                                                .idle_us = 60000000,
                                                .on_request = on_request};
    if (http_server_new(&options, &server) != PEN_OK)
        return;
    for (unsigned turn = 0; turn % 1000 != 999 || goes_on(0); turn++)
        http_server_turn(server, 1);
    http_server_free(server);
}

int main(int argc, char **argv)
{
    char text[LISTEN_TEXT_BYTES];
    int fd = -1;
    if (argc != 2 || listen_at("127.0.0.1:*", &fd, NULL) != PEN_OK) {
        fprintf(stderr, "usage: bench_sink own|microhttpd\n");
        return 2;
    }
    printf("port=%s\n", strrchr(listen_text(fd, text), ':') + 1);
    fflush(stdout);
    if (strcmp(argv[1], "own") == 0) {
        serve(fd);
        return 0;
    }
    struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_upload, NULL,
                                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_END);
    while (daemon && goes_on(1000)) {
    }
    MHD_stop_daemon(daemon);
    return 0;
}
