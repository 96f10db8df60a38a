/* grpc_handler.c - what handlers of calls do with their requests: answer, go on, end. */
#include "deadline.h"
#include "grpc_connection.h"
#include "grpc_stream.h"

static struct grpc_turn *turn_of(struct grpc_request *request)
{
    return (struct grpc_turn *)request;
}

static void refuse_answer(struct grpc_turn *turn, struct grpc_answer *answer)
{
    bytes_fini(&answer->text);
    if (answer->release)
        answer->release(answer->release_arg);
    turn_end(turn, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
}

static void add_answer(struct grpc_turn *turn, struct grpc_out *out)
{
    struct grpc_stream *stream = turn->stream;
    if (stream->turns == turn && !turn->outs) {
        stream->said_us = clock_now_us();
        stream->sent = 0;
    }
    *turn->outs_end = out;
    turn->outs_end = &out->next;
}

/* The stream may be gone behind it. */
static void go_on(struct grpc_stream *stream)
{
    struct grpc_connection *connection = stream->connection;
    stream_pump(stream);
    grpc_connection_run(connection);
}

void grpc_send(struct grpc_request *request, struct grpc_answer *answer, enum grpc_then then)
{
    struct grpc_turn *turn = turn_of(request);
    struct grpc_stream *stream = turn->stream;
    struct grpc_out *out = out_new(answer);
    if (!out) {
        refuse_answer(turn, answer);
    } else {
        add_answer(turn, out);
        if (then == GRPC_LAST)
            turn_end(turn, GRPC_OK, "");
        else if (then == GRPC_NEXT)
            turn_done(turn);
    }
    go_on(stream);
}

void grpc_next(struct grpc_request *request)
{
    struct grpc_turn *turn = turn_of(request);
    turn->next_too = true;
    stream_ready(turn->stream);
    grpc_connection_run(turn->stream->connection);
}

void grpc_end(struct grpc_request *request, enum grpc_code code, const char *text)
{
    struct grpc_turn *turn = turn_of(request);
    struct grpc_stream *stream = turn->stream;
    turn_end(turn, code, text);
    go_on(stream);
}
