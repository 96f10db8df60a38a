#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "deadline.h"
#include "grpc_connection.h"

struct grpc_stream *stream_new(struct grpc_connection *connection, int32_t id)
{
    struct grpc_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->connection = connection;
    stream->id = id;
    stream->since_us = stream->request.began_us = clock_now_us();
    stream->request.local = connection->local;
    stream->request.spare = connection->spare;
    stream->next = connection->streams;
    if (stream->next)
        stream->next->previous = stream;
    connection->streams = stream;
    connection->streams_count++;
    connection->shared->under_way++;
    return stream;
}

static void release_answer(struct grpc_stream *stream)
{
    void (*release)(void *arg) = stream->release;
    stream->release = NULL;
    stream->busy = false;
    bytes_fini(&stream->text);
    free(stream->parts);
    stream->parts = NULL;
    if (release)
        release(stream->release_arg);
}

/* The handler, if it has the request, learns that nobody waits for the answer. */
static void give_up(struct grpc_stream *stream)
{
    bool given = stream->given;
    stream->given = false;
    if (given && stream->request.gone)
        stream->request.gone(stream->request.waiter);
    stream->request.gone = NULL;
}

static void forget_message(struct grpc_stream *stream)
{
    hold_release(stream->request.hold);
    stream->request.hold = NULL;
    stream->request.message = NULL;
    stream->request.message_bytes = 0;
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
    give_up(stream);
    release_answer(stream);
    if (stream->request.drop)
        stream->request.drop(stream->request.context);
    forget_message(stream);
    grpc_message_fini(&stream->in);
    hold_release(stream->ahead);
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

/* ---- headers ---- */

static void keep(const char *value, size_t bytes, char *to, size_t room, bool *ret_cut)
{
    *ret_cut |= bytes >= room;
    bytes = bytes < room ? bytes : room - 1;
    memcpy(to, value, bytes);
    to[bytes] = '\0';
}

static bool is_header(const char *name, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

void stream_header(struct grpc_stream *stream, const char *name, size_t name_bytes, const char *value, size_t bytes)
{
    struct grpc_request *request = &stream->request;
    uint64_t timeout_us = 0;
    bool cut = false;
    stream->received += name_bytes + bytes + 32; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
    stream->too_large |= stream->received > stream->connection->shared->options.head_max;
    if (stream->opened) /* trailers */
        return;
    if (is_header(name, name_bytes, ":method")) {
        stream->post = is_header(value, bytes, "POST");
    } else if (is_header(name, name_bytes, ":path")) {
        keep(value, bytes, request->path, sizeof request->path, &cut); /* a longer one is no call's */
    } else if (is_header(name, name_bytes, "content-type")) {
        stream->typed = bytes >= 16 && strncasecmp(value, "application/grpc", 16) == 0 &&
                        (bytes == 16 || value[16] == ';' || (bytes >= 22 && memcmp(value + 16, "+proto", 6) == 0));
    } else if (is_header(name, name_bytes, "authorization")) {
        keep(value, bytes, request->authorization, sizeof request->authorization, &stream->too_large);
    } else if (is_header(name, name_bytes, "traceparent")) {
        keep(value, bytes, request->traceparent, sizeof request->traceparent, &cut);
        request->traceparent[0] = cut ? '\0' : request->traceparent[0];
    } else if (is_header(name, name_bytes, "grpc-encoding")) {
        stream->odd_coding = !is_header(value, bytes, "identity");
    } else if (is_header(name, name_bytes, "grpc-timeout")) {
        stream->odd_timeout = !grpc_timeout_parse(value, bytes, &timeout_us);
        request->deadline_us = request->began_us + timeout_us;
    }
}

#define HEADER(name, value)                                                                                            \
    {                                                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, strlen(value),                  \
            NGHTTP2_NV_FLAG_NONE                                                                                       \
    }

/* What is no gRPC at all is told so in HTTP. */
static void refuse_http(struct grpc_stream *stream, const char *status)
{
    const nghttp2_nv headers[] = {HEADER(":status", status), HEADER("allow", "POST")};
    stream->over = stream->closing = true;
    nghttp2_submit_response(stream->connection->session, stream->id, headers, 2, NULL);
}

void stream_opened(struct grpc_stream *stream)
{
    const struct grpc_server_options *options = &stream->connection->shared->options;
    stream->opened = true;
    stream->received = 0;
    stream->streams = options->streams(options->context, stream->request.path);
    if (!stream->post)
        refuse_http(stream, "405");
    else if (!stream->typed)
        refuse_http(stream, "415");
    else if (stream->too_large)
        grpc_end(&stream->request, GRPC_RESOURCE_EXHAUSTED, "the call's headers are larger than --max-head allows");
    else if (stream->odd_timeout)
        grpc_end(&stream->request, GRPC_INVALID_ARGUMENT,
                 "grpc-timeout is at most 8 digits and one of H, M, S, m, u and n");
    else if (stream->odd_coding)
        grpc_end(&stream->request, GRPC_UNIMPLEMENTED,
                 "messages are not compressed here: send grpc-encoding: identity");
}

/* ---- messages in ---- */

static void consumed(struct grpc_stream *stream, size_t bytes)
{
    nghttp2_session_consume_stream(stream->connection->session, stream->id, bytes);
}

static void fail_take(struct grpc_stream *stream, enum grpc_take taken)
{
    static const struct {
        enum grpc_code code;
        const char *text;
    } faults[] = {
        [GRPC_TAKE_LARGE] = {GRPC_RESOURCE_EXHAUSTED, "the message is larger than --max-body allows"},
        [GRPC_TAKE_PACKED] = {GRPC_UNIMPLEMENTED, "the message is compressed; send it as it is"},
        [GRPC_TAKE_MALFORMED] = {GRPC_INTERNAL,
                                 "the message does not begin as gRPC has it: a flag of 0 or 1 and its length"},
        [GRPC_TAKE_NO_MEMORY] = {GRPC_RESOURCE_EXHAUSTED,
                                 "no memory is left for the message; send it again later, or raise --body-memory"},
    };
    grpc_end(&stream->request, faults[taken].code, faults[taken].text);
}

/* Returns how many bytes were taken; all of them are, or the message is complete, or the call is over. */
static size_t take(struct grpc_stream *stream, const uint8_t *data, size_t bytes)
{
    size_t taken = 0;
    if (stream->over || stream->complete || bytes == 0)
        return stream->over ? bytes : 0;
    enum grpc_take found =
        grpc_message_take(&stream->in, data, bytes, stream->connection->shared->options.message_max, &taken);
    if (found == GRPC_TAKE_DONE)
        stream->complete = true;
    else if (found != GRPC_TAKE_MORE)
        fail_take(stream, found);
    consumed(stream, stream->over ? bytes : taken);
    stream->received += taken;
    return stream->over ? bytes : taken;
}

static bool ahead_reserve(struct grpc_stream *stream, size_t more)
{
    size_t room = stream->ahead_room ? stream->ahead_room : 16384;
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
    if (stream->ahead_used == 0)
        return;
    stream->ahead_at +=
        take(stream, (const uint8_t *)stream->ahead_data + stream->ahead_at, stream->ahead_used - stream->ahead_at);
    if (stream->ahead_at < stream->ahead_used)
        return;
    hold_release(stream->ahead);
    stream->ahead = NULL;
    stream->ahead_data = NULL;
    stream->ahead_at = stream->ahead_used = stream->ahead_room = 0;
}

void stream_data(struct grpc_stream *stream, const uint8_t *data, size_t bytes)
{
    nghttp2_session_consume_connection(stream->connection->session, bytes);
    stream->connection->shared->counts.bytes_in += bytes;
    if (stream->over) {
        consumed(stream, bytes);
        return;
    }
    if (!grpc_message_begun(&stream->in))
        stream->since_us = clock_now_us();
    size_t taken = stream->given || stream->busy || stream->ahead_used > 0 ? 0 : take(stream, data, bytes);
    if (taken < bytes && !stream->over)
        keep_ahead(stream, data + taken, bytes - taken);
    grpc_connection_ready(stream);
}

void stream_peer_ended(struct grpc_stream *stream)
{
    stream->peer_ended = true;
    grpc_connection_ready(stream);
}

static void give(struct grpc_stream *stream)
{
    const struct grpc_server_options *options = &stream->connection->shared->options;
    struct grpc_request *request = &stream->request;
    forget_message(stream);
    request->ended = !stream->complete;
    request->hold = stream->in.hold;
    request->message = stream->in.data;
    request->message_bytes = stream->in.used;
    stream->in = (struct grpc_message){.hold = NULL};
    stream->complete = false;
    stream->given = true;
    options->on_request(options->context, request);
}

void stream_deliver(struct grpc_stream *stream)
{
    if (stream->given || stream->busy || stream->over || !stream->opened)
        return;
    take_ahead(stream);
    bool all = stream->peer_ended && stream->ahead_used == 0;
    if (stream->over)
        return;
    if (!stream->streams && (stream->ahead_used > 0))
        grpc_end(&stream->request, GRPC_INTERNAL, "this call takes one message, and more than one came");
    else if (stream->complete && (stream->streams || all))
        give(stream);
    else if (all && !stream->complete && (grpc_message_begun(&stream->in) || !stream->streams))
        grpc_end(&stream->request, GRPC_INTERNAL, "the call ended before its message was there");
    else if (all && stream->streams)
        give(stream);
}

/* ---- answers out ---- */

static void submit_trailers(struct grpc_stream *stream)
{
    char code[12];
    snprintf(code, sizeof code, "%d", (int)stream->code);
    const nghttp2_nv trailers[] = {HEADER("grpc-status", code), HEADER("grpc-message", stream->why)};
    nghttp2_submit_trailer(stream->connection->session, stream->id, trailers, *stream->why ? 2 : 1);
    stream->closing = true;
}

static size_t copy_parts(struct grpc_stream *stream, uint8_t *to, size_t room)
{
    size_t used = 0;
    while (stream->busy && used < room && stream->parts_at < stream->parts_count) {
        const struct iovec *part = &stream->parts[stream->parts_at];
        size_t left = part->iov_len - stream->part_used, count = left < room - used ? left : room - used;
        if (count > 0)
            memcpy(to + used, (const char *)part->iov_base + stream->part_used, count);
        used += count;
        stream->part_used += count;
        if (stream->part_used == part->iov_len) {
            stream->parts_at++;
            stream->part_used = 0;
        }
    }
    return used;
}

ssize_t stream_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *user)
{
    struct grpc_stream *stream = source->ptr;
    (void)session;
    (void)id;
    (void)user;
    size_t used = copy_parts(stream, to, room);
    stream->sent += used;
    stream->connection->shared->counts.bytes_out += used;
    if (stream->busy && stream->parts_at < stream->parts_count)
        return (ssize_t)used;
    if (stream->busy) {
        release_answer(stream);
        stream->since_us = clock_now_us();
        grpc_connection_ready(stream);
    }
    if (stream->over) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(stream);
        return (ssize_t)used;
    }
    stream->deferred = used == 0;
    return used ? (ssize_t)used : NGHTTP2_ERR_DEFERRED;
}

static const char content_type[] = "application/grpc";

static void submit_begin(struct grpc_stream *stream)
{
    const nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", content_type),
                                  HEADER("grpc-accept-encoding", "identity")};
    const nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = stream_read};
    stream->begun = true;
    nghttp2_submit_response(stream->connection->session, stream->id, headers, 3, &provider);
}

static void submit_only_trailers(struct grpc_stream *stream)
{
    char code[12];
    snprintf(code, sizeof code, "%d", (int)stream->code);
    const nghttp2_nv headers[] = {HEADER(":status", "200"), HEADER("content-type", content_type),
                                  HEADER("grpc-accept-encoding", "identity"), HEADER("grpc-status", code),
                                  HEADER("grpc-message", stream->why)};
    stream->begun = stream->closing = true;
    nghttp2_submit_response(stream->connection->session, stream->id, headers, *stream->why ? 5 : 4, NULL);
}

static void go_on(struct grpc_stream *stream)
{
    if (!stream->begun) {
        submit_begin(stream);
    } else if (stream->deferred) {
        stream->deferred = false;
        nghttp2_session_resume_data(stream->connection->session, stream->id);
    }
}

/* The text with its prefix before it, then the parts. False without memory, or beyond what a length can say. */
static bool take_answer(struct grpc_stream *stream, struct grpc_answer *answer)
{
    unsigned char prefix[GRPC_PREFIX_BYTES];
    uint64_t bytes = answer->text.used;
    struct bytes text = {.data = NULL};
    for (size_t i = 0; i < answer->parts_count; i++)
        bytes += answer->parts[i].iov_len;
    stream->parts = bytes <= UINT32_MAX ? calloc(answer->parts_count + 1, sizeof *stream->parts) : NULL;
    grpc_prefix_write(bytes, prefix);
    bytes_add(&text, prefix, sizeof prefix);
    bytes_add(&text, answer->text.data, answer->text.used);
    if (!stream->parts || text.failed || answer->text.failed) {
        bytes_fini(&text);
        return false;
    }
    stream->text = text;
    stream->parts[0] = (struct iovec){text.data, text.used};
    if (answer->parts_count)
        memcpy(stream->parts + 1, answer->parts, answer->parts_count * sizeof *answer->parts);
    stream->parts_count = answer->parts_count + 1;
    stream->parts_at = stream->part_used = 0;
    return true;
}

void grpc_send(struct grpc_request *request, struct grpc_answer *answer, bool last)
{
    struct grpc_stream *stream = (struct grpc_stream *)request;
    bool well = take_answer(stream, answer);
    bytes_fini(&answer->text);
    stream->release = answer->release;
    stream->release_arg = answer->release_arg;
    if (!well) {
        release_answer(stream);
        grpc_end(request, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        return;
    }
    stream->given = false;
    request->gone = NULL;
    forget_message(stream);
    stream->busy = true;
    stream->over = last;
    stream->sent = stream->received = 0;
    stream->since_us = clock_now_us();
    go_on(stream);
    grpc_connection_run(stream->connection);
}

void grpc_end(struct grpc_request *request, enum grpc_code code, const char *text)
{
    struct grpc_stream *stream = (struct grpc_stream *)request;
    stream->given = false;
    request->gone = NULL;
    forget_message(stream);
    grpc_message_fini(&stream->in);
    stream->over = true;
    stream->code = code;
    stream->since_us = clock_now_us();
    grpc_message_encode(text, stream->why, sizeof stream->why);
    if (stream->begun)
        go_on(stream);
    else
        submit_only_trailers(stream);
    grpc_connection_run(stream->connection);
}

/* ---- time ---- */

static void end_late(struct grpc_stream *stream, const char *why)
{
    stream->connection->shared->counts.late++;
    give_up(stream);
    grpc_end(&stream->request, GRPC_DEADLINE_EXCEEDED, why);
}

void stream_look(struct grpc_stream *stream, uint64_t now_us)
{
    const struct grpc_request *request = &stream->request;
    const struct grpc_server_options *options = &stream->connection->shared->options;
    uint64_t spent_us = now_us > stream->since_us ? now_us - stream->since_us : 0;
    bool coming = !stream->given && (grpc_message_begun(&stream->in) || (!stream->streams && !stream->peer_ended));
    if (stream->over || stream->busy) {
        if (spent_us > GRPC_SLOW_US + stream->sent * 1000000u / GRPC_SLOWEST) {
            stream->connection->shared->counts.late++;
            stream->over = true;
            nghttp2_submit_rst_stream(stream->connection->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
        }
    } else if (request->deadline_us && now_us >= request->deadline_us) {
        give_up(stream);
        grpc_end(&stream->request, GRPC_DEADLINE_EXCEEDED, "the call's grpc-timeout is over");
    } else if (coming && spent_us > GRPC_SLOW_US + stream->received * 1000000u / GRPC_SLOWEST) {
        end_late(stream, "the message came too slowly");
    } else if (!coming && !stream->given && spent_us > options->idle_us) {
        end_late(stream, "no message came for as long as --idle allows");
    }
}
