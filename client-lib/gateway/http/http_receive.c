#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http_work.h"

#define BODY_BYTES (1u << 20) /* of a body that is longer, or of unknown length, at first */
#define TURN_BYTES (4u << 20) /* of one connection in one turn */
#define CHUNK_ROOM 1024u

/*
 * One recv(2); *ret_count bytes came. Events tell of changes (EPOLLET), so a socket that gave less than there was room for is asked again when the next event
 * has come, and not before: that saves a call per request.
 */
static enum http_progress receive(struct http_work *work, int fd, char *to, size_t room, size_t *ret_count)
{
    ssize_t count;
    if (work->drained)
        return HTTP_WAITS;
    do
        count = recv(fd, to, room, 0);
    while (count < 0 && errno == EINTR);
    if (count > 0) {
        *ret_count = (size_t)count;
        work->received += (size_t)count;
        work->drained = (size_t)count < room;
        return HTTP_DONE;
    }
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? HTTP_WAITS : HTTP_ENDED;
}

static enum http_progress bad(struct http_work *work, unsigned status, const char *why, const char **ret_why)
{
    work->status = status;
    *ret_why = why;
    return HTTP_BAD;
}

/* ---- the head ---- */

static bool text_grow(struct http_work *work, size_t most)
{
    size_t size = work->size * 2 < most ? work->size * 2 : most;
    char *text = size > work->size ? realloc(work->text, size) : NULL;
    if (!text)
        return false;
    work->text = text;
    work->size = size;
    return true;
}

/* Empty lines before a request are skipped, as RFC 9112 (2.2) asks. */
static void skip_empty_lines(struct http_work *work)
{
    size_t blank = 0;
    while (blank < work->used && (work->text[blank] == '\r' || work->text[blank] == '\n'))
        blank++;
    work->used -= blank;
    memmove(work->text, work->text + blank, work->used);
}

/* Chunks are read in behind the head. Growing may move the text: before anything points into it. */
static bool text_room(struct http_work *work)
{
    size_t wanted = work->head_bytes + CHUNK_ROOM;
    while (work->size < wanted)
        if (!text_grow(work, wanted))
            return false;
    return true;
}

static enum http_progress head_done(struct http_work *work, size_t bytes, size_t body_max, const char **ret_why)
{
    work->taken = work->head_bytes = bytes;
    if (!text_room(work))
        return bad(work, 503, "no memory for the request", ret_why);
    const char *why = http_head_parse(work->text, bytes, &work->request.head, &work->status);
    if (why)
        return bad(work, work->status, why, ret_why);
    if (work->request.head.length > body_max)
        return bad(work, 400, "the body is larger than --max-body allows", ret_why);
    return HTTP_DONE;
}

enum http_progress http_receive_head(struct http_work *work, int fd, size_t head_max, size_t body_max,
                                     const char **ret_why)
{
    size_t count = 0;
    for (;;) {
        skip_empty_lines(work);
        size_t bytes = http_head_end(work->text, work->used);
        if (bytes)
            return head_done(work, bytes, body_max, ret_why);
        const char *why = http_head_begins(work->text, work->used);
        if (why)
            return bad(work, 400, why, ret_why);
        if (work->used >= head_max || (work->used == work->size && !text_grow(work, head_max)))
            return bad(work, 431, "the request's headers are larger than --max-head allows", ret_why);
        enum http_progress progress = receive(work, fd, work->text + work->used, work->size - work->used, &count);
        if (progress != HTTP_DONE)
            return progress;
        work->used += count;
    }
}

/* ---- the body ---- */

/* Room for at least one more byte. Memory grows with what has come: a length that is only announced costs nothing. */
static bool body_room(struct http_work *work, size_t most)
{
    struct http_request *request = &work->request;
    if (request->body_bytes < work->room)
        return true;
    size_t room = work->room ? work->room * 2 : BODY_BYTES;
    room = room < most ? room : most;
    if (!request->hold)
        request->hold = hold_new();
    char *body = !request->hold ? NULL : work->room ? hold_resize(request->hold, room) : hold_take(request->hold, room);
    if (!body)
        return false;
    request->body = body;
    work->room = room;
    return true;
}

static const char no_memory[] = "no memory is left for the body; send it again later, or raise --body-memory";

static enum http_progress plain_body(struct http_work *work, int fd, const char **ret_why)
{
    struct http_request *request = &work->request;
    uint64_t until = work->received + TURN_BYTES;
    size_t count = 0;
    while (request->body_bytes < request->head.length) {
        if (!body_room(work, (size_t)request->head.length))
            return bad(work, 503, no_memory, ret_why);
        size_t left = work->used - work->taken, room = work->room - request->body_bytes;
        char *to = request->body + request->body_bytes;
        if (left > 0) {
            count = left < room ? left : room;
            memcpy(to, work->text + work->taken, count);
            work->taken += count;
        } else {
            if (work->received > until)
                return HTTP_TIRED;
            enum http_progress progress = receive(work, fd, to, room, &count);
            if (progress != HTTP_DONE)
                return progress;
        }
        request->body_bytes += count;
    }
    return HTTP_DONE;
}

/* What stands in `text` behind `taken`. HTTP_WAITS: all of it is used, and there is more to come. */
static enum http_progress chunks_of_text(struct http_work *work, size_t body_max, const char **ret_why)
{
    struct http_request *request = &work->request;
    while (work->taken < work->used) {
        const char *data;
        size_t count;
        work->taken +=
            http_chunks_take(&work->chunks, work->text + work->taken, work->used - work->taken, &data, &count);
        if (work->chunks.state == CHUNK_BAD)
            return bad(work, 400, "the body's chunks are malformed", ret_why);
        if (count > body_max - request->body_bytes)
            return bad(work, 400, "the body is larger than --max-body allows", ret_why);
        for (size_t copied = 0, part; copied < count; copied += part) {
            if (!body_room(work, body_max))
                return bad(work, 503, no_memory, ret_why);
            part =
                count - copied < work->room - request->body_bytes ? count - copied : work->room - request->body_bytes;
            memcpy(request->body + request->body_bytes, data + copied, part);
            request->body_bytes += part;
        }
        if (work->chunks.state == CHUNK_DONE)
            return HTTP_DONE;
    }
    return HTTP_WAITS;
}

/* The head's texts lie at the front of `text` and stay there; what is behind them is read into again and again. */
static enum http_progress chunked_body(struct http_work *work, int fd, size_t body_max, const char **ret_why)
{
    uint64_t until = work->received + TURN_BYTES;
    for (;;) {
        enum http_progress progress = chunks_of_text(work, body_max, ret_why);
        if (progress != HTTP_WAITS)
            return progress;
        if (work->received > until)
            return HTTP_TIRED;
        size_t count = 0;
        work->used = work->taken = work->head_bytes;
        progress = receive(work, fd, work->text + work->used, work->size - work->used, &count);
        if (progress != HTTP_DONE)
            return progress;
        work->used += count;
    }
}

enum http_progress http_receive_body(struct http_work *work, int fd, size_t body_max, const char **ret_why)
{
    return work->request.head.chunked ? chunked_body(work, fd, body_max, ret_why) : plain_body(work, fd, ret_why);
}
