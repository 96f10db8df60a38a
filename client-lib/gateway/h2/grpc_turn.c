#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "grpc_stream.h"

struct grpc_turn *turn_add(struct grpc_stream *stream)
{
    struct grpc_turn *turn = calloc(1, sizeof *turn);
    if (!turn)
        return NULL;
    turn->stream = stream;
    turn->outs_end = &turn->outs;
    turn->request = (struct grpc_request){.path = stream->path,
                                          .authorization = stream->authorization,
                                          .traceparent = stream->traceparent,
                                          .began_us = stream->streams ? clock_now_us() : stream->began_us,
                                          .deadline_us = stream->deadline_us,
                                          .wanted = stream->accepted,
                                          .local = stream->connection->guest.local,
                                          .spare = stream->connection->guest.spare};
    if (stream->last_turn)
        stream->last_turn->next = turn;
    else
        stream->turns = turn;
    stream->last_turn = turn;
    stream->turns_count++;
    return turn;
}

bool turn_is_free(const struct grpc_stream *stream)
{
    const struct grpc_turn *last = stream->last_turn;
    return !stream->over && stream->turns_count < GRPC_TURNS_MAX && (!last || !last->given || last->next_too);
}

void turn_done(struct grpc_turn *turn)
{
    turn->given = false;
    turn->request.gone = NULL;
    hold_release(turn->request.hold);
    turn->request.hold = NULL;
}

void turn_end(struct grpc_turn *turn, enum grpc_code code, const char *text)
{
    turn_done(turn);
    turn->ends = turn->stream->over = true;
    turn->code = code;
    turn->why = *text ? strdup(text) : NULL;
}

static void turn_free(struct grpc_turn *turn)
{
    struct grpc_out *out;
    void (*gone)(void *waiter) = turn->given ? turn->request.gone : NULL;
    if (gone)
        gone(turn->request.waiter);
    turn_done(turn);
    while ((out = turn->outs)) {
        turn->outs = out->next;
        out_free(out);
    }
    free(turn->why);
    free(turn);
}

static struct grpc_turn *take_first(struct grpc_stream *stream)
{
    struct grpc_turn *turn = stream->turns;
    stream->turns = turn->next;
    stream->last_turn = turn->next ? stream->last_turn : NULL;
    stream->turns_count--;
    return turn;
}

void turns_drop(struct grpc_stream *stream)
{
    while (stream->turns)
        turn_free(take_first(stream));
}

void stream_finish(struct grpc_stream *stream, enum grpc_code code, const char *text)
{
    turns_drop(stream);
    stream->over = true;
    stream->code = code;
    stream->said_us = clock_now_us();
    grpc_message_encode(text, stream->why, sizeof stream->why);
}

struct grpc_turn *turn_first(struct grpc_stream *stream)
{
    struct grpc_turn *turn;
    while ((turn = stream->turns) && !turn->outs && !turn->given) {
        take_first(stream);
        if (turn->ends)
            stream_finish(stream, turn->code, turn->why ? turn->why : "");
        else
            stream_ready(stream);
        turn_free(turn);
    }
    return turn;
}

void stream_ready(struct grpc_stream *stream)
{
    if (stream->in_ready)
        return;
    stream->in_ready = true;
    stream->next_ready = stream->connection->ready;
    stream->connection->ready = stream;
}
