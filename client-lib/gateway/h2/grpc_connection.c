#include "grpc_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"
#include "grpc_session.h"
#include "grpc_stream.h"
#include "slow_peer.h"

#define IN_BYTES    (256u * 1024u)
#define READS_MAX   8 /* of one connection in one turn */
#define GREETING_US 10000000u
#define SPARE_US    2000000u

/* ---- life ---- */

bool grpc_shared_init(struct grpc_shared *shared)
{
    shared->in = malloc(IN_BYTES);
    return shared->in && grpc_session_rules(shared);
}

void grpc_shared_fini(struct grpc_shared *shared)
{
    nghttp2_session_callbacks_del(shared->callbacks);
    nghttp2_option_del(shared->option);
    free(shared->in);
}

bool grpc_connection_open(struct grpc_connection *connection)
{
    return grpc_session_begin(connection);
}

void grpc_connection_close(struct grpc_connection *connection)
{
    if (connection->closed)
        return;
    connection->closed = connection->running = true; /* what the handlers do now goes nowhere */
    while (connection->streams) {
        struct grpc_stream *stream = connection->streams;
        nghttp2_session_set_stream_user_data(connection->session, stream->id, NULL);
        stream_close(stream);
    }
    nghttp2_session_del(connection->session);
    connection->session = NULL;
    free(connection->out);
    connection->out = NULL;
    close(connection->guest.fd);
    connection->guest.fd = -1;
    connection->shared->ended(connection->shared, connection);
}

/* ---- bytes ---- */

static void block(struct grpc_connection *connection, bool yes)
{
    if (connection->waits_out != yes)
        connection->shared->blocked(connection->shared, connection, yes);
    connection->waits_out = yes;
}

/* All that there is to send, until the socket takes no more. False: the connection is at its end. */
static bool send_out(struct grpc_connection *connection)
{
    do {
        connection->full = false;
        if (!grpc_session_flush(connection) || (!connection->full && !grpc_session_fill(connection)))
            return false;
    } while (!connection->full && connection->out_used > 0);
    block(connection, connection->full);
    if (!connection->full && connection->streams_count == 0) {
        free(connection->out);
        connection->out = NULL;
    }
    return connection->full || nghttp2_session_want_read(connection->session) ||
           nghttp2_session_want_write(connection->session);
}

static void deliver_all(struct grpc_connection *connection)
{
    struct grpc_stream *stream;
    while ((stream = connection->ready)) {
        connection->ready = stream->next_ready;
        stream->in_ready = false;
        stream_deliver(stream);
    }
}

void grpc_connection_run(struct grpc_connection *connection)
{
    bool well = true;
    if (connection->running || connection->heard < NGHTTP2_CLIENT_MAGIC_LEN)
        return; /* who speaks HTTP/1.1 is answered in that: we do not begin */
    connection->running = true;
    do {
        deliver_all(connection);
        well = send_out(connection);
    } while (well && connection->ready);
    connection->running = false;
    if (!well)
        grpc_connection_close(connection);
}

/* False: the peer has gone, or speaks no HTTP/2 at all. */
static bool take(struct grpc_connection *connection, size_t bytes)
{
    static const char no_http2[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
        "{\"error\":\"this address is for gRPC (HTTP/2); HTTP/1.1 is at the one of --http\"}";
    connection->guest.since_us = clock_now_us();
    ssize_t taken = nghttp2_session_mem_recv(connection->session, connection->shared->in, bytes);
    if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        (void)!send(connection->guest.fd, no_http2, sizeof no_http2 - 1, MSG_NOSIGNAL);
    connection->shared->counts.bad += taken < 0;
    connection->heard += bytes;
    return taken >= 0;
}

static bool receive(struct grpc_connection *connection)
{
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t count = recv(connection->guest.fd, connection->shared->in, IN_BYTES, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (count <= 0 || !take(connection, (size_t)count))
            return false;
        if ((size_t)count < IN_BYTES)
            return true;
    }
    return true;
}

void grpc_connection_read(struct grpc_connection *connection)
{
    if (connection->running)
        return;
    connection->running = true;
    bool well = receive(connection);
    connection->running = false;
    if (well)
        grpc_connection_run(connection);
    else
        grpc_connection_close(connection);
}

/* ---- time ---- */

static uint64_t idle_limit_us(const struct grpc_connection *connection)
{
    uint64_t idle_us = connection->shared->options.idle_us;
    if (connection->guest.spare)
        return SPARE_US;
    return !connection->greeted && idle_us > GREETING_US ? GREETING_US : idle_us;
}

static void look_at_streams(struct grpc_connection *connection, uint64_t now_us)
{
    connection->running = true; /* a stream that ends must not take others from the list */
    for (struct grpc_stream *at = connection->streams, *next; at; at = next) {
        next = at->next;
        stream_look(at, now_us);
    }
    connection->running = false;
}

void grpc_connection_look(struct grpc_connection *connection, uint64_t now_us)
{
    uint64_t spent_us = now_us > connection->guest.since_us ? now_us - connection->guest.since_us : 0;
    look_at_streams(connection, now_us);
    if (connection->waits_out && peer_is_slow(spent_us, 0)) {
        connection->shared->counts.late++;
        grpc_connection_close(connection);
        return;
    }
    bool idle = connection->streams_count == 0 && spent_us > idle_limit_us(connection);
    if (idle && !connection->greeted) {
        grpc_connection_close(connection);
        return;
    }
    if (idle)
        nghttp2_session_terminate_session(connection->session, NGHTTP2_NO_ERROR);
    grpc_connection_run(connection);
}

void grpc_connection_drain(struct grpc_connection *connection)
{
    if (!connection->greeted)
        grpc_connection_close(connection);
    else if (connection->streams_count == 0)
        nghttp2_session_terminate_session(connection->session, NGHTTP2_NO_ERROR);
    else
        nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_NO_ERROR, NULL, 0);
    if (!connection->closed)
        grpc_connection_run(connection);
}
