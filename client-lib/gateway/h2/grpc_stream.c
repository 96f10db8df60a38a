#include "grpc_stream.h"

#include <stdlib.h>

#include "deadline.h"
#include "slow_peer.h"

struct grpc_stream *stream_new(struct grpc_connection *connection, int32_t id)
{
    struct grpc_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->connection = connection;
    stream->id = id;
    stream->asked_us = stream->said_us = stream->began_us = clock_now_us();
    stream->next = connection->streams;
    if (stream->next)
        stream->next->previous = stream;
    connection->streams = stream;
    connection->streams_count++;
    connection->shared->under_way++;
    return stream;
}

static void leave_ready(struct grpc_stream *stream)
{
    struct grpc_stream **link = &stream->connection->ready;
    while (stream->in_ready && *link && *link != stream)
        link = &(*link)->next_ready;
    if (stream->in_ready && *link)
        *link = stream->next_ready;
    stream->in_ready = false;
}

void stream_close(struct grpc_stream *stream)
{
    struct grpc_connection *connection = stream->connection;
    turns_drop(stream);
    stream_forget_input(stream);
    leave_ready(stream);
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        connection->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    connection->streams_count--;
    connection->shared->under_way--;
    free(stream);
}

/* ---- time ---- */

static void stop_late(struct grpc_stream *stream, const char *why)
{
    stream->connection->shared->counts.late++;
    stream_stop(stream, GRPC_DEADLINE_EXCEEDED, why);
}

static void reset_late(struct grpc_stream *stream)
{
    stream->connection->shared->counts.late++;
    stream_reset(stream);
}

/* A message of the peer is on its way, or must be. */
static bool message_is_due(const struct grpc_stream *stream)
{
    return turn_is_free(stream) && (grpc_message_begun(&stream->in) || (!stream->streams && !stream->peer_ended));
}

static uint64_t since(uint64_t now_us, uint64_t then_us)
{
    return now_us > then_us ? now_us - then_us : 0;
}

/* The peer may be waited for, and nobody has said anything for that long. */
static bool is_idle(const struct grpc_stream *stream, uint64_t now_us)
{
    uint64_t idle_us = stream->connection->shared->options.idle_us;
    return !stream->turns && since(now_us, stream->asked_us) > idle_us && since(now_us, stream->said_us) > idle_us;
}

void stream_look(struct grpc_stream *stream, uint64_t now_us)
{
    bool says = (stream->turns && stream->turns->outs) || (stream->over && !stream->turns);
    if (stream->reset)
        return;
    if (says && peer_is_slow(since(now_us, stream->said_us), stream->sent))
        reset_late(stream);
    else if (says)
        return;
    else if (stream->deadline_us && now_us >= stream->deadline_us)
        stream_stop(stream, GRPC_DEADLINE_EXCEEDED, "the call's grpc-timeout is over");
    else if (message_is_due(stream) && peer_is_slow(since(now_us, stream->asked_us), stream->received))
        stop_late(stream, "the message came too slowly");
    else if (is_idle(stream, now_us))
        stop_late(stream, "no message came for as long as --idle allows");
}
