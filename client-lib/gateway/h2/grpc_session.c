#include "grpc_session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "deadline.h"
#include "grpc_stream.h"

#define STREAM_WINDOW     (1024 * 1024) /* what a peer may send ahead on one stream */
#define CONNECTION_WINDOW (8 * 1024 * 1024)
#define FRAME_HEAD_BYTES  9u
#define COLLECT_BYTES     (64u * 1024u)
#define SMALL_BYTES       16384u /* frames up to that are collected; larger ones go from where they lie */
#define PINGS_MAX         64u    /* in PINGS_US */
#define PINGS_US          10000000u
#define RESETS_BURST      1000u
#define RESETS_SECOND     33u

/* ---- what comes ---- */

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

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct grpc_stream *stream = stream_of(session, id);
    (void)code;
    (void)user;
    if (stream)
        stream_close(stream);
    return 0;
}

/* ---- what goes ---- */

/* A peer whose frames are malformed is told so by nghttp2, and let go. */
static void on_goaway_sent(struct grpc_connection *connection, const nghttp2_frame *frame)
{
    connection->shared->counts.bad += frame->goaway.error_code != NGHTTP2_NO_ERROR && !connection->blamed;
    connection->blamed |= frame->goaway.error_code != NGHTTP2_NO_ERROR;
}

/* The call is answered: its peer need not go on sending. */
static void on_end_sent(nghttp2_session *session, const struct grpc_stream *stream)
{
    if (stream->closing && !stream->peer_ended)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    const struct grpc_stream *stream = stream_of(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_GOAWAY)
        on_goaway_sent(user, frame);
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
        on_end_sent(session, stream);
    return 0;
}

/* nghttp2 itself minds the windows and what the peer takes. */
static ssize_t frame_length(nghttp2_session *session, uint8_t type, int32_t id, int32_t session_window,
                            int32_t stream_window, uint32_t frame_max, void *user)
{
    (void)session;
    (void)type;
    (void)id;
    (void)session_window;
    (void)stream_window;
    (void)user;
    return frame_max < GRPC_FRAME_BYTES ? frame_max : GRPC_FRAME_BYTES;
}

static void collect(struct grpc_connection *connection, const void *data, size_t bytes)
{
    memcpy(connection->out + connection->out_used, data, bytes);
    connection->out_used += bytes;
}

/* `gone` bytes of the row are sent; the others are kept. The first piece may lie in `out` itself. */
static void keep_rest(struct grpc_connection *connection, const struct iovec *pieces, size_t count, size_t gone)
{
    connection->out_used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t skip = gone < pieces[i].iov_len ? gone : pieces[i].iov_len, left = pieces[i].iov_len - skip;
        if (left > 0)
            memmove(connection->out + connection->out_used, (const char *)pieces[i].iov_base + skip, left);
        connection->out_used += left;
        gone -= skip;
    }
}

/* One sendmsg(2). False: the socket is at its end. */
static bool send_pieces(struct grpc_connection *connection, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t sent;
    do
        sent = sendmsg(connection->guest.fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return false;
    if (sent > 0)
        connection->guest.since_us = clock_now_us();
    keep_rest(connection, pieces, count, sent > 0 ? (size_t)sent : 0);
    connection->full = connection->out_used > 0;
    return true;
}

bool grpc_session_flush(struct grpc_connection *connection)
{
    if (connection->out_used == 0)
        return true;
    struct iovec all = {connection->out, connection->out_used};
    return send_pieces(connection, &all, 1);
}

/* A frame of data, as announced. Small ones are collected; a large one goes at once, and what the socket does not take of it is kept. */
static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t bytes,
                        nghttp2_data_source *source, void *user)
{
    struct grpc_connection *connection = user;
    struct grpc_stream *stream = source->ptr;
    struct iovec pieces[1 + GRPC_PIECES_MAX];
    size_t count = 0;
    (void)session;
    (void)frame;
    if (stream->reset)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (connection->full || connection->out_used + FRAME_HEAD_BYTES + SMALL_BYTES > COLLECT_BYTES)
        return NGHTTP2_ERR_WOULDBLOCK;
    collect(connection, head, FRAME_HEAD_BYTES);
    out_gather(stream->turns->outs, bytes, pieces + 1, GRPC_PIECES_MAX, &count);
    pieces[0] = (struct iovec){connection->out, connection->out_used};
    for (size_t i = 0; bytes <= SMALL_BYTES && i < count; i++)
        collect(connection, pieces[1 + i].iov_base, pieces[1 + i].iov_len);
    if (bytes > SMALL_BYTES && !send_pieces(connection, pieces, 1 + count))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    stream_advance(stream, bytes);
    return 0;
}

bool grpc_session_fill(struct grpc_connection *connection)
{
    const uint8_t *chunk;
    if (!nghttp2_session_want_write(connection->session))
        return true;
    if (!connection->out && !(connection->out = malloc(GRPC_OUT_BYTES)))
        return false;
    while (!connection->full && connection->out_used + FRAME_HEAD_BYTES + SMALL_BYTES <= COLLECT_BYTES) {
        ssize_t count = nghttp2_session_mem_send(connection->session, &chunk);
        if (count < 0 || (size_t)(count > 0 ? count : 0) > GRPC_OUT_BYTES - connection->out_used)
            return false;
        if (count == 0)
            break;
        collect(connection, chunk, (size_t)count);
    }
    return true;
}

/* ---- the session ---- */

bool grpc_session_rules(struct grpc_shared *shared)
{
    if (nghttp2_session_callbacks_new(&shared->callbacks) != 0 || nghttp2_option_new(&shared->option) != 0)
        return false;
    nghttp2_session_callbacks_set_on_begin_headers_callback(shared->callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(shared->callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(shared->callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(shared->callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(shared->callbacks, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(shared->callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(shared->callbacks, on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(shared->callbacks, frame_length);
    nghttp2_option_set_no_auto_window_update(shared->option, 1);
    nghttp2_option_set_stream_reset_rate_limit(shared->option, RESETS_BURST, RESETS_SECOND);
    return true;
}

bool grpc_session_begin(struct grpc_connection *connection)
{
    const struct grpc_server_options *options = &connection->shared->options;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, GRPC_FRAME_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)options->head_max},
    };
    if (nghttp2_session_server_new2(&connection->session, connection->shared->callbacks, connection,
                                    connection->shared->option) != 0)
        return false;
    nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings);
    nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    return true;
}
