#include <string.h>
#include <strings.h>

#include "grpc_stream.h"
#include "http_head.h"

static bool is_text(const char *text, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(text, wanted, bytes) == 0;
}

/* False: it is longer than that, and to is "". */
static bool keep(const char *value, size_t bytes, char *to, size_t room)
{
    bool fits = bytes < room;
    memcpy(to, value, fits ? bytes : 0);
    to[fits ? bytes : 0] = '\0';
    return fits;
}

/* ---- one header each ---- */

static void take_method(struct grpc_stream *stream, const char *value, size_t bytes)
{
    stream->post = is_text(value, bytes, "POST");
}

/* One that is too long is no call's. */
static void take_path(struct grpc_stream *stream, const char *value, size_t bytes)
{
    keep(value, bytes, stream->path, sizeof stream->path);
}

/* "application/grpc", "application/grpc+proto", and what may stand behind a semicolon. */
static void take_type(struct grpc_stream *stream, const char *value, size_t bytes)
{
    static const char type[] = "application/grpc", proto[] = "+proto";
    size_t at = sizeof type - 1;
    stream->typed = bytes >= at && strncasecmp(value, type, at) == 0;
    if (bytes >= at + sizeof proto - 1 && strncasecmp(value + at, proto, sizeof proto - 1) == 0)
        at += sizeof proto - 1;
    stream->typed &= bytes == at || (bytes > at && (value[at] == ';' || value[at] == ' '));
}

static void take_token(struct grpc_stream *stream, const char *value, size_t bytes)
{
    stream->too_large |= !keep(value, bytes, stream->authorization, sizeof stream->authorization);
}

static void take_trace(struct grpc_stream *stream, const char *value, size_t bytes)
{
    keep(value, bytes, stream->traceparent, sizeof stream->traceparent);
}

static void take_coding(struct grpc_stream *stream, const char *value, size_t bytes)
{
    char name[16];
    stream->coding = keep(value, bytes, name, sizeof name) ? content_coding_parse(name) : CODING_UNKNOWN;
}

static void take_accepted(struct grpc_stream *stream, const char *value, size_t bytes)
{
    char names[128];
    if (keep(value, bytes, names, sizeof names))
        stream->accepted = content_coding_choose(names);
}

static void take_timeout(struct grpc_stream *stream, const char *value, size_t bytes)
{
    uint64_t timeout_us = 0;
    stream->odd_timeout = !grpc_timeout_parse(value, bytes, &timeout_us);
    stream->deadline_us = stream->began_us + timeout_us;
}

static const struct header_row {
    const char *name;
    void (*take)(struct grpc_stream *stream, const char *value, size_t bytes);
} rows[] = {
    {":method", take_method},
    {":path", take_path},
    {"content-type", take_type},
    {"authorization", take_token},
    {"traceparent", take_trace},
    {"grpc-encoding", take_coding},
    {"grpc-accept-encoding", take_accepted},
    {"grpc-timeout", take_timeout},
};

#define HEADER_COST 32 /* as SETTINGS_MAX_HEADER_LIST_SIZE counts (RFC 9113, 6.5.2) */

void stream_header(struct grpc_stream *stream, const char *name, size_t name_bytes, const char *value, size_t bytes)
{
    stream->received += name_bytes + bytes + HEADER_COST;
    stream->too_large |= stream->received > stream->connection->shared->options.head_max;
    if (stream->opened) /* trailers */
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_text(name, name_bytes, rows[i].name))
            rows[i].take(stream, value, bytes);
}

/* ---- all of them ---- */

/* Answers are packed where the peer does so itself, and takes it. */
static void settle_coding(struct grpc_stream *stream)
{
    if (stream->coding != CODING_GZIP && stream->coding != CODING_DEFLATE)
        stream->accepted = CODING_NONE;
}

void stream_opened(struct grpc_stream *stream)
{
    const struct grpc_server_options *options = &stream->connection->shared->options;
    stream->opened = true;
    stream->received = 0;
    stream->streams = options->streams(options->context, stream->path);
    settle_coding(stream);
    if (!stream->post)
        stream_refuse(stream, "405",
                      "{\"error\":\"this address is for gRPC, whose calls are POST; HTTP is at the one of --http\"}");
    else if (!stream->typed)
        stream_refuse(
            stream, "415",
            "{\"error\":\"this address is for gRPC (content-type: application/grpc); HTTP is at the one of --http\"}");
    else if (stream->too_large)
        stream_fault(stream, GRPC_RESOURCE_EXHAUSTED, "the call's headers are larger than --max-head allows");
    else if (stream->odd_timeout)
        stream_fault(stream, GRPC_INVALID_ARGUMENT, "grpc-timeout is at most 8 digits and one of H, M, S, m, u and n");
    else if (stream->coding == CODING_UNKNOWN)
        stream_fault(stream, GRPC_UNIMPLEMENTED, "grpc-encoding is gzip, deflate or identity here");
}
