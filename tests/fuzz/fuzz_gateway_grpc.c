/* What peers send to a gateway over HTTP/2, in two pieces, through a real server and TCP on loopback: frames, headers, messages and their prefixes, packed or
   not, which are read as inferences. A stream's messages are answered one by one, or several are under way and the last is answered first; the answers of other
   calls come at once, later, or never. */
#include <errno.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "grpc_calls.h"
#include "grpc_infer.h"
#include "grpc_server.h"
#include "local_host.h"

static struct grpc_server *server;
static struct sockaddr_in address;
#define WAITING_MAX 16

static struct grpc_request *waiting[WAITING_MAX];

static bool streams(void *context, const char *path)
{
    (void)context;
    return strncmp(path, "/s/", 3) == 0;
}

static void on_gone(void *arg)
{
    *(struct grpc_request **)arg = NULL;
}

/* False: there is no place, and the request is answered at once. */
static bool wait_for(struct grpc_request *request)
{
    for (unsigned i = 0; i < WAITING_MAX; i++) {
        if (waiting[i])
            continue;
        waiting[i] = request;
        request->waiter = &waiting[i];
        request->gone = on_gone;
        return true;
    }
    return false;
}

static void answer(struct grpc_request *request)
{
    struct grpc_answer answer = {.parts_count = 0};
    if (request->message_bytes)
        bytes_add(&answer.text, request->message, request->message_bytes);
    grpc_send(request, &answer, streams(NULL, request->path) ? GRPC_NEXT : GRPC_LAST);
}

/* The last first. */
static void answer_waiting(void)
{
    for (unsigned i = WAITING_MAX; i-- > 0;) {
        struct grpc_request *request = waiting[i];
        waiting[i] = NULL;
        if (request && i % 4 == 3)
            grpc_end(request, GRPC_ABORTED, "later");
        else if (request)
            answer(request);
    }
}

/* Every message is read as an inference, too. */
static void read_inference(const struct grpc_request *request)
{
    struct hold *hold = hold_new();
    struct grpc_infer_source source = {.message = request->message, .bytes = request->message_bytes, .hold = hold};
    struct inference *inference = NULL;
    struct pen_error error = {.status = PEN_OK};
    bool final = false;
    if (hold &&
        (grpc_inflate(request->packed, &source.message, &source.bytes, 65536, hold, &error) != PEN_OK ||
         grpc_infer_read(&source, &inference, &final, &error) != PEN_OK) &&
        !error.text[0])
        abort(); /* a refusal has a sentence */
    inference_free(inference);
    hold_release(hold);
}

static void on_request(void *context, struct grpc_request *request)
{
    bool stream = streams(context, request->path);
    if (!request->ended)
        read_inference(request);
    if (stream && request->ended) {
        grpc_end(request, GRPC_OK, "");
    } else if (request->path[1] && strcmp(request->path + strlen(request->path) - 1, "w") == 0 && wait_for(request)) {
        grpc_next(request);
    } else if (!stream && strcmp(request->path, "/e") == 0) {
        grpc_end(request, GRPC_INTERNAL, "50% \xc3\xb6");
    } else {
        answer(request);
    }
}

static void open_server(void)
{
    socklen_t size = sizeof address;
    int fd = -1;
    if (listen_at("127.0.0.1:*", &fd, NULL) != PEN_OK)
        abort();
    getsockname(fd, (struct sockaddr *)(void *)&address, &size);
    const struct grpc_server_options options = {.fd = fd,
                                                .connections_max = 4,
                                                .address_max = 4,
                                                .streams_max = 8,
                                                .head_max = 2048,
                                                .message_max = 65536,
                                                .idle_us = 1000000,
                                                .streams = streams,
                                                .on_request = on_request};
    if (grpc_server_new(&options, &server) != PEN_OK)
        abort();
}

static void say(int fd, const uint8_t *data, size_t bytes)
{
    (void)!send(fd, data, bytes, MSG_NOSIGNAL);
    grpc_server_ready(server);
    grpc_server_ready(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct linger at_once = {.l_onoff = 1};
    if (!server)
        open_server();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
    grpc_server_ready(server);
    if (size > 0 && data[0] % 8) /* else the input has its own */
        say(fd, (const uint8_t *)preface, sizeof preface - 1);
    say(fd, data + (size > 0), first);
    if (size % 2)
        answer_waiting();
    say(fd, data + (size > 0) + first, size > 0 ? size - 1 - first : 0);
    close(fd);
    for (unsigned i = 0; i < 1000 && grpc_server_counts(server).connections > 0; i++) {
        grpc_server_ready(server);
        usleep(i > 10 ? 1000 : 0);
    }
    if (grpc_server_counts(server).connections != 0 || grpc_server_under_way(server) != 0 || hold_budget_used() != 0)
        abort(); /* nothing is left of a peer that has gone */
    return 0;
}
