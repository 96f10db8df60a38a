#include <stdio.h>
#include <string.h>

#include "deadline.h"
#include "grpc_stream.h"

#define HEADERS_MAX 6

/* The headers of an answer on their way to nghttp2, which copies them. */
struct header_list {
    nghttp2_nv at[HEADERS_MAX];
    size_t count;
};

static void add(struct header_list *list, const char *name, const char *value)
{
    list->at[list->count++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                                           .value = (uint8_t *)(uintptr_t)value,
                                           .namelen = strlen(name),
                                           .valuelen = strlen(value)};
}

static void add_begin(struct header_list *list, const struct grpc_stream *stream)
{
    add(list, ":status", "200");
    add(list, "content-type", "application/grpc");
    add(list, "grpc-accept-encoding", "identity,gzip,deflate");
    if (stream->accepted != CODING_NONE)
        add(list, "grpc-encoding", content_coding_name(stream->accepted));
}

#define CODE_BYTES 12

static void add_end(struct header_list *list, const struct grpc_stream *stream, char code[CODE_BYTES])
{
    snprintf(code, CODE_BYTES, "%d", (int)stream->code);
    add(list, "grpc-status", code);
    if (*stream->why)
        add(list, "grpc-message", stream->why);
}

/* ---- the bytes, as nghttp2 asks for them ---- */

static void submit_trailers(struct grpc_stream *stream)
{
    struct header_list list = {.count = 0};
    char code[CODE_BYTES];
    add_end(&list, stream, code);
    nghttp2_submit_trailer(stream->connection->session, stream->id, list.at, list.count);
    stream->closing = true;
}

/* Says how many bytes the next frame has; grpc_connection.c sends them from where they lie. */
static ssize_t announce(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                        nghttp2_data_source *source, void *user)
{
    struct grpc_stream *stream = source->ptr;
    struct grpc_turn *turn = turn_first(stream);
    struct iovec pieces[GRPC_PIECES_MAX];
    size_t count;
    (void)session;
    (void)id;
    (void)to;
    (void)user;
    if (turn && turn->outs) {
        stream->announced = true;
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
        return (ssize_t)out_gather(turn->outs, room, pieces, GRPC_PIECES_MAX, &count);
    }
    if (stream->over && !turn) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(stream);
        return 0;
    }
    stream->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
}

void stream_advance(struct grpc_stream *stream, size_t bytes)
{
    struct grpc_turn *turn = stream->turns;
    struct grpc_out *out = turn->outs;
    stream->announced = false;
    out_advance(out, bytes);
    stream->sent += bytes;
    stream->connection->shared->counts.bytes_out += bytes;
    if (out->left > 0)
        return;
    turn->outs = out->next;
    turn->outs_end = turn->outs ? turn->outs_end : &turn->outs;
    out_free(out);
    stream->sent = 0;
    stream->said_us = clock_now_us();
    turn_first(stream);
}

static void submit_begin(struct grpc_stream *stream)
{
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = announce};
    struct header_list list = {.count = 0};
    add_begin(&list, stream);
    stream->begun = true;
    nghttp2_submit_response(stream->connection->session, stream->id, list.at, list.count, &provider);
}

static void submit_only_trailers(struct grpc_stream *stream)
{
    struct header_list list = {.count = 0};
    char code[CODE_BYTES];
    add_begin(&list, stream);
    add_end(&list, stream, code);
    stream->begun = stream->closing = true;
    nghttp2_submit_response(stream->connection->session, stream->id, list.at, list.count, NULL);
}

void stream_pump(struct grpc_stream *stream)
{
    const struct grpc_turn *turn = turn_first(stream);
    bool says = turn && turn->outs, ends = !turn && stream->over;
    if (stream->closing || (!says && !ends))
        return;
    if (!stream->begun && says) {
        submit_begin(stream);
    } else if (!stream->begun) {
        submit_only_trailers(stream);
    } else if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->connection->session, stream->id);
    }
}

/* ---- ends ---- */

void stream_fault(struct grpc_stream *stream, enum grpc_code code, const char *text)
{
    struct grpc_turn *turn = turn_add(stream);
    stream->over = true;
    if (turn)
        turn_end(turn, code, text);
    else
        stream_finish(stream, code, text);
    stream_pump(stream);
}

void stream_reset(struct grpc_stream *stream)
{
    turns_drop(stream);
    stream->over = stream->closing = stream->reset = true;
    nghttp2_submit_rst_stream(stream->connection->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
}

void stream_stop(struct grpc_stream *stream, enum grpc_code code, const char *text)
{
    const struct grpc_turn *turn = stream->turns;
    if (stream->announced || (turn && turn->outs && turn->outs->at + turn->outs->used > 0)) {
        stream_reset(stream);
        return;
    }
    stream_finish(stream, code, text);
    stream_pump(stream);
}

static ssize_t read_refusal(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                            nghttp2_data_source *source, void *user)
{
    struct grpc_stream *stream = source->ptr;
    size_t left = strlen(stream->refusal), count = left < room ? left : room;
    (void)session;
    (void)id;
    (void)user;
    memcpy(to, stream->refusal, count);
    stream->refusal += count;
    if (count == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)count;
}

void stream_refuse(struct grpc_stream *stream, const char *status, const char *text)
{
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_refusal};
    struct header_list list = {.count = 0};
    add(&list, ":status", status);
    add(&list, "content-type", "application/json");
    add(&list, "allow", "POST");
    stream->over = stream->begun = stream->closing = true;
    stream->said_us = clock_now_us();
    stream->refusal = text;
    nghttp2_submit_response(stream->connection->session, stream->id, list.at, list.count, &provider);
}
