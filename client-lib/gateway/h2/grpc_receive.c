#include <string.h>

#include "deadline.h"
#include "grpc_stream.h"

#define AHEAD_BYTES 16384u /* at first */

/* The peer may send so much more on this stream. */
static void consume(struct grpc_stream *stream, size_t bytes)
{
    nghttp2_session_consume_stream(stream->connection->session, stream->id, bytes);
}

void stream_forget_input(struct grpc_stream *stream)
{
    grpc_message_fini(&stream->in);
    stream->complete = false;
    hold_release(stream->ahead);
    stream->ahead = NULL;
    stream->ahead_data = NULL;
    stream->ahead_at = stream->ahead_used = stream->ahead_room = 0;
}

static void fault(struct grpc_stream *stream, enum grpc_code code, const char *text)
{
    stream_forget_input(stream);
    stream_fault(stream, code, text);
}

/* ---- messages ---- */

static void fail_take(struct grpc_stream *stream, enum grpc_take taken)
{
    static const struct {
        enum grpc_code code;
        const char *text;
    } faults[] = {
        [GRPC_TAKE_LARGE] = {GRPC_RESOURCE_EXHAUSTED, "the message is larger than --max-body allows"},
        [GRPC_TAKE_MALFORMED] = {GRPC_INTERNAL,
                                 "the message does not begin as gRPC has it: a flag of 0 or 1 and its length"},
        [GRPC_TAKE_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED,
                                 "no memory is left for the message; send it again later, or raise --body-memory"},
    };
    fault(stream, faults[taken].code, faults[taken].text);
}

/* Returns how many bytes were taken; all of them are, or the message is complete, or the call is over. */
static size_t take(struct grpc_stream *stream, const uint8_t *data, size_t bytes)
{
    size_t taken = 0, message_max = stream->connection->shared->options.message_max;
    if (stream->complete || bytes == 0)
        return 0;
    if (!grpc_message_begun(&stream->in))
        stream->asked_us = clock_now_us();
    enum grpc_take found = grpc_message_take(&stream->in, data, bytes, message_max, &taken);
    stream->complete = found == GRPC_TAKE_DONE;
    consume(stream, taken);
    stream->received += taken;
    if (found != GRPC_TAKE_MORE && found != GRPC_TAKE_DONE)
        fail_take(stream, found);
    else if (stream->in.packed && stream->coding == CODING_NONE)
        fault(stream, GRPC_INTERNAL, "the message is compressed, but no grpc-encoding says how");
    return taken;
}

/* ---- what comes while no turn is free ---- */

static bool ahead_reserve(struct grpc_stream *stream, size_t more)
{
    size_t room = stream->ahead_room ? stream->ahead_room : AHEAD_BYTES;
    while (room < stream->ahead_used + more)
        room *= 2;
    if (room == stream->ahead_room)
        return true;
    if (!stream->ahead)
        stream->ahead = hold_new();
    char *data = !stream->ahead       ? NULL
                 : stream->ahead_room ? hold_resize(stream->ahead, room)
                                      : hold_take(stream->ahead, room);
    if (!data)
        return false;
    stream->ahead_data = data;
    stream->ahead_room = room;
    return true;
}

/* At most what the stream's window lets through: these bytes do not open it. */
static void keep_ahead(struct grpc_stream *stream, const uint8_t *data, size_t bytes)
{
    if (!ahead_reserve(stream, bytes)) {
        fail_take(stream, GRPC_TAKE_NO_MEMORY);
        return;
    }
    memcpy(stream->ahead_data + stream->ahead_used, data, bytes);
    stream->ahead_used += bytes;
}

static void take_ahead(struct grpc_stream *stream)
{
    size_t left = stream->ahead_used - stream->ahead_at;
    if (left == 0)
        return;
    size_t taken = take(stream, (const uint8_t *)stream->ahead_data + stream->ahead_at, left);
    if (stream->over) /* what was ahead is forgotten */
        return;
    stream->ahead_at += taken;
    if (stream->ahead_at < stream->ahead_used)
        return;
    hold_release(stream->ahead);
    stream->ahead = NULL;
    stream->ahead_data = NULL;
    stream->ahead_at = stream->ahead_used = stream->ahead_room = 0;
}

/* ---- events ---- */

void stream_data(struct grpc_stream *stream, const uint8_t *data, size_t bytes)
{
    nghttp2_session_consume_connection(stream->connection->session, bytes);
    stream->connection->shared->counts.bytes_in += bytes;
    if (stream->over) {
        consume(stream, bytes);
        return;
    }
    size_t taken = turn_is_free(stream) && stream->ahead_used == 0 ? take(stream, data, bytes) : 0;
    if (taken < bytes && !stream->over)
        keep_ahead(stream, data + taken, bytes - taken);
    stream_ready(stream);
}

void stream_peer_ended(struct grpc_stream *stream)
{
    stream->peer_ended = true;
    stream_ready(stream);
}

/* ---- to the handler ---- */

static void give(struct grpc_stream *stream)
{
    const struct grpc_server_options *options = &stream->connection->shared->options;
    struct grpc_turn *turn = turn_add(stream);
    if (!turn) {
        fail_take(stream, GRPC_TAKE_NO_MEMORY);
        return;
    }
    turn->request.ended = !stream->complete;
    turn->request.hold = stream->in.hold;
    turn->request.message = stream->in.data;
    turn->request.message_bytes = stream->in.used;
    turn->request.packed = stream->in.packed ? stream->coding : CODING_NONE;
    turn->given = true;
    stream->in = (struct grpc_message){.hold = NULL};
    stream->over = turn->request.ended || !stream->streams;
    stream->complete = false;
    stream->received = 0;
    options->on_request(options->context, &turn->request);
}

void stream_deliver(struct grpc_stream *stream)
{
    if (!stream->opened || !turn_is_free(stream))
        return;
    take_ahead(stream);
    bool all = stream->peer_ended && stream->ahead_used == 0;
    if (stream->over)
        return;
    if (!stream->streams && stream->ahead_used > 0)
        fault(stream, GRPC_INTERNAL, "this call takes one message, and more than one came");
    else if (stream->complete && (stream->streams || all))
        give(stream);
    else if (all && (grpc_message_begun(&stream->in) || !stream->streams))
        fault(stream, GRPC_INTERNAL, "the call ended before its message was there");
    else if (all)
        give(stream);
}
