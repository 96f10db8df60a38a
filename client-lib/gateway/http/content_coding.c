#include "content_coding.h"

#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "http_head.h"

#define FIRST_BYTES  4096u
#define WINDOW_GZIP  (15 + 16)
#define WINDOW_ZLIB  15
#define WINDOW_RAW   (-15)
#define FAST_LEVEL   1 /* tensors of floats hardly shrink: time counts more */
#define PIECE_BYTES  65536u
#define MEMORY_LEVEL 8

enum content_coding content_coding_parse(const char *name)
{
    if (!name || !*name || strcasecmp(name, "identity") == 0)
        return CODING_NONE;
    if (strcasecmp(name, "gzip") == 0 || strcasecmp(name, "x-gzip") == 0)
        return CODING_GZIP;
    return strcasecmp(name, "deflate") == 0 ? CODING_DEFLATE : CODING_UNKNOWN;
}

enum content_coding content_coding_choose(const char *accepted)
{
    if (!accepted)
        return CODING_NONE;
    return http_list_has(accepted, "gzip")      ? CODING_GZIP
           : http_list_has(accepted, "deflate") ? CODING_DEFLATE
                                                : CODING_NONE;
}

const char *content_coding_name(enum content_coding coding)
{
    return coding == CODING_GZIP ? "gzip" : coding == CODING_DEFLATE ? "deflate" : "identity";
}

/* A zlib stream begins with a multiple of 31 whose low nibble is 8 (RFC 1950). */
static int window_of(enum content_coding coding, const unsigned char *data, size_t bytes)
{
    if (coding == CODING_GZIP)
        return WINDOW_GZIP;
    bool wrapped = bytes > 1 && (data[0] & 15) == 8 && (data[0] * 256 + data[1]) % 31 == 0;
    return wrapped ? WINDOW_ZLIB : WINDOW_RAW;
}

/* What follows behind the end: of gzip another member (RFC 1952, 2.2), which `pigz` and `cat` of two files make. */
static int goes_on(z_stream *stream, enum content_coding coding)
{
    return coding == CODING_GZIP ? inflateReset(stream) : Z_DATA_ERROR;
}

/* The block grows twofold until all is there. */
static enum pen_status unpack(z_stream *stream, enum content_coding coding, size_t bytes_max, struct hold *hold,
                              char **ret_data, size_t *ret_bytes, struct pen_error *reterr)
{
    size_t room = stream->avail_in * 4 < FIRST_BYTES ? FIRST_BYTES : (size_t)stream->avail_in * 4, used = 0;
    room = room < bytes_max ? room : bytes_max;
    char *to = hold_take(hold, room);
    for (int code = Z_OK; to && code != Z_STREAM_END;) {
        stream->next_out = (unsigned char *)to + used;
        stream->avail_out = (unsigned)(room - used);
        code = inflate(stream, Z_NO_FLUSH);
        used = room - stream->avail_out;
        if (code == Z_STREAM_END && stream->avail_in == 0) {
            *ret_data = to;
            *ret_bytes = used;
            return PEN_OK;
        }
        if (code == Z_STREAM_END && (code = goes_on(stream, coding)) == Z_OK)
            continue;
        if (code != Z_OK && code != Z_BUF_ERROR)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "the body is not of the Content-Encoding that the request names");
        if (used < room)
            return pen_error_set(reterr, PEN_ERR_INVALID, "the compressed body ends too early");
        if (room == bytes_max)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                 "the body unpacks to more than %zu bytes; --max-body allows no more", bytes_max);
        room = room < bytes_max / 2 ? room * 2 : bytes_max;
        to = hold_resize(hold, room);
    }
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                         "no memory is left for the body; send it again later, or raise --body-memory");
}

enum pen_status content_unpack(enum content_coding coding, const void *data, size_t bytes, size_t bytes_max,
                               struct hold *hold, char **ret_data, size_t *ret_bytes, struct pen_error *reterr)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)bytes};
    if (inflateInit2(&stream, window_of(coding, data, bytes)) != Z_OK)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to unpack the body");
    enum pen_status status = unpack(&stream, coding, bytes_max, hold, ret_data, ret_bytes, reterr);
    inflateEnd(&stream);
    return status;
}

static void add(z_stream *stream, const void *data, size_t bytes, int flush, struct bytes *to)
{
    stream->next_in = (unsigned char *)(uintptr_t)data;
    stream->avail_in = (unsigned)bytes;
    do {
        if (!bytes_reserve(to, PIECE_BYTES))
            return;
        stream->next_out = (unsigned char *)to->data + to->used;
        stream->avail_out = PIECE_BYTES;
        deflate(stream, flush);
        to->used += PIECE_BYTES - stream->avail_out;
    } while (stream->avail_out == 0);
}

bool content_pack(enum content_coding coding, struct bytes *text, const struct iovec *parts, size_t parts_count)
{
    z_stream stream = {.next_in = NULL};
    struct bytes packed = {.data = NULL};
    int window = coding == CODING_GZIP ? WINDOW_GZIP : WINDOW_ZLIB;
    if (deflateInit2(&stream, FAST_LEVEL, Z_DEFLATED, window, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    add(&stream, text->data, text->used, Z_NO_FLUSH, &packed);
    for (size_t i = 0; i < parts_count; i++)
        add(&stream, parts[i].iov_base, parts[i].iov_len, Z_NO_FLUSH, &packed);
    add(&stream, NULL, 0, Z_FINISH, &packed);
    deflateEnd(&stream);
    bytes_fini(packed.failed ? &packed : text);
    if (packed.failed)
        return false;
    *text = packed;
    return true;
}
