#include "grpc_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deadline.h"

#define OUT_BYTES     131072u
#define FRAME_BYTES   (16384u + 9u)
#define IN_BYTES      65536u
#define READS_MAX     8 /* of one connection in one turn */
#define GREETING_US   10000000u
#define SPARE_US      2000000u
#define PINGS_MAX     64u /* in PINGS_US */
#define PINGS_US      10000000u
#define RESETS_BURST  1000u
#define RESETS_SECOND 33u

/* ---- callbacks of nghttp2 ---- */

static struct grpc_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct grpc_stream *stream = stream_new(user, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t bytes, uint8_t flags, void *user)
{
    struct grpc_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    (void)user;
    if (stream)
        stream_header(stream, (const char *)name, name_bytes, (const char *)value, bytes);
    return 0;
}

/* Who pings without end, as nobody who keeps a connection alive must, is asked to be calm and let go. */
static void on_ping(struct grpc_connection *connection)
{
    static const char why[] = "too_many_pings";
    uint64_t now_us = clock_now_us();
    if (now_us - connection->pinged_us > PINGS_US) {
        connection->pinged_us = now_us;
        connection->pings = 0;
    }
    if (++connection->pings != PINGS_MAX)
        return;
    connection->shared->counts.bad++;
    nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_ENHANCE_YOUR_CALM,
                          (const uint8_t *)why, sizeof why - 1);
    nghttp2_session_terminate_session(connection->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct grpc_connection *connection = user;
    struct grpc_stream *stream = stream_of(session, frame->hd.stream_id);
    connection->greeted = true;
    if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        on_ping(connection);
    if (!stream || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        stream_opened(stream);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        stream_peer_ended(stream);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t bytes, void *user)
{
    struct grpc_stream *stream = stream_of(session, id);
    (void)flags;
    (void)user;
    if (stream)
        stream_data(stream, data, bytes);
    else
        nghttp2_session_consume(session, id, bytes);
    return 0;
}

/* The call is answered: its peer need not go on sending. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct grpc_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)user;
    if (stream && stream->closing && !stream->peer_ended && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        frame->hd.type == NGHTTP2_HEADERS)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct grpc_stream *stream = stream_of(session, id);
    (void)code;
    (void)user;
    if (stream)
        stream_close(stream);
    return 0;
}

bool grpc_shared_init(struct grpc_shared *shared)
{
    if (nghttp2_session_callbacks_new(&shared->callbacks) != 0 || nghttp2_option_new(&shared->option) != 0)
        return false;
    nghttp2_session_callbacks_set_on_begin_headers_callback(shared->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(shared->callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(shared->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(shared->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(shared->callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(shared->callbacks, on_stream_close);
    nghttp2_option_set_no_auto_window_update(shared->option, 1);
    nghttp2_option_set_stream_reset_rate_limit(shared->option, RESETS_BURST, RESETS_SECOND);
    return true;
}

void grpc_shared_fini(struct grpc_shared *shared)
{
    nghttp2_session_callbacks_del(shared->callbacks);
    nghttp2_option_del(shared->option);
}

/* ---- life ---- */

bool grpc_connection_open(struct grpc_connection *connection)
{
    const struct grpc_server_options *options = &connection->shared->options;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, GRPC_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)options->head_max},
    };
    if (nghttp2_session_server_new2(&connection->session, connection->shared->callbacks, connection,
                                    connection->shared->option) != 0)
        return false;
    nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, 3);
    nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0, GRPC_CONNECTION_WINDOW);
    return true; /* they are sent once the peer has begun: who speaks HTTP/1.1 is answered in that */
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
    close(connection->fd);
    connection->fd = -1;
    connection->shared->ended(connection->shared, connection);
}

void grpc_connection_ready(struct grpc_stream *stream)
{
    if (stream->in_ready)
        return;
    stream->in_ready = true;
    stream->next_ready = stream->connection->ready;
    stream->connection->ready = stream;
}

/* ---- bytes ---- */

/* False: the connection is at its end. */
static bool fill_out(struct grpc_connection *connection)
{
    const uint8_t *chunk;
    connection->out_at = connection->out_used = 0;
    while (connection->out_used + FRAME_BYTES <= OUT_BYTES) {
        ssize_t count = nghttp2_session_mem_send(connection->session, &chunk);
        if (count < 0 || (size_t)(count > 0 ? count : 0) > OUT_BYTES - connection->out_used)
            return false;
        if (count == 0)
            break;
        if (!connection->out && !(connection->out = malloc(OUT_BYTES)))
            return false;
        memcpy(connection->out + connection->out_used, chunk, (size_t)count);
        connection->out_used += (size_t)count;
    }
    return true;
}

static void block(struct grpc_connection *connection, bool yes)
{
    if (connection->waits_out != yes)
        connection->shared->blocked(connection->shared, connection, yes);
    connection->waits_out = yes;
}

static bool send_out(struct grpc_connection *connection)
{
    for (;;) {
        if (connection->out_at == connection->out_used && (!fill_out(connection) || connection->out_used == 0))
            break;
        ssize_t count = send(connection->fd, connection->out + connection->out_at,
                             connection->out_used - connection->out_at, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            block(connection, true);
            return errno == EAGAIN || errno == EWOULDBLOCK;
        }
        connection->out_at += (size_t)count;
        connection->since_us = clock_now_us();
    }
    block(connection, false);
    bool well = connection->out_at == connection->out_used;
    if (connection->streams_count == 0) {
        free(connection->out);
        connection->out = NULL;
    }
    return well && (nghttp2_session_want_read(connection->session) || nghttp2_session_want_write(connection->session));
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
    if (connection->running)
        return;
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
static bool receive(struct grpc_connection *connection)
{
    static const char no_http2[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
        "{\"error\":\"this address is for gRPC (HTTP/2); HTTP/1.1 is at the one of --http\"}";
    uint8_t data[IN_BYTES];
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t count = recv(connection->fd, data, sizeof data, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return true;
        if (count <= 0)
            return false;
        connection->since_us = clock_now_us();
        ssize_t taken = nghttp2_session_mem_recv(connection->session, data, (size_t)count);
        if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
            (void)!send(connection->fd, no_http2, sizeof no_http2 - 1, MSG_NOSIGNAL);
        connection->shared->counts.bad += taken < 0;
        if (taken < 0)
            return false;
        if (count < (ssize_t)sizeof data)
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

void grpc_connection_look(struct grpc_connection *connection, uint64_t now_us)
{
    const struct grpc_server_options *options = &connection->shared->options;
    uint64_t spent_us = now_us > connection->since_us ? now_us - connection->since_us : 0;
    uint64_t idle_us = !connection->greeted && options->idle_us > GREETING_US ? GREETING_US
                       : connection->spare                                    ? SPARE_US
                                                                              : options->idle_us;
    connection->running = true;
    for (struct grpc_stream *at = connection->streams, *next; at; at = next) {
        next = at->next;
        stream_look(at, now_us);
    }
    connection->running = false;
    if (connection->waits_out && spent_us > GRPC_SLOW_US) {
        connection->shared->counts.late++;
        grpc_connection_close(connection);
        return;
    }
    if (connection->streams_count == 0 && spent_us > idle_us)
        nghttp2_session_terminate_session(connection->session, NGHTTP2_NO_ERROR);
    grpc_connection_run(connection);
}

void grpc_connection_drain(struct grpc_connection *connection)
{
    if (connection->streams_count == 0)
        nghttp2_session_terminate_session(connection->session, NGHTTP2_NO_ERROR);
    else
        nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(connection->session), NGHTTP2_NO_ERROR, NULL, 0);
    grpc_connection_run(connection);
}
