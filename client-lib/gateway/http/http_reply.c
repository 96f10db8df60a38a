#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http_work.h"

#define PARTS_AT_ONCE 64
#define TURN_BYTES    (4u << 20) /* of one connection in one turn */

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {204, "No Content"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {415, "Unsupported Media Type"},
                   {417, "Expectation Failed"},
                   {421, "Misdirected Request"},
                   {431, "Request Header Fields Too Large"},
                   {500, "Internal Server Error"},
                   {501, "Not Implemented"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static size_t content_bytes(const struct http_answer *answer)
{
    size_t bytes = answer->text.used;
    for (size_t i = 0; i < answer->parts_count; i++)
        bytes += answer->parts[i].iov_len;
    return bytes;
}

/* 0: the headers are longer than we have room for. */
static size_t write_head(struct http_work *work, const struct http_answer *answer)
{
    struct fixed_text head;
    fixed_begin(&head, work->head, sizeof work->head);
    fixed_add(&head, "HTTP/1.1 ");
    fixed_unsigned(&head, answer->status);
    fixed_add(&head, " ");
    fixed_add(&head, reason_of(answer->status));
    if (answer->type) {
        fixed_add(&head, "\r\nContent-Type: ");
        fixed_add(&head, answer->type);
    }
    fixed_add(&head, "\r\n");
    fixed_add(&head, answer->headers ? answer->headers : "");
    fixed_add(&head, "Content-Length: ");
    fixed_unsigned(&head, content_bytes(answer));
    fixed_add(&head, work->close                     ? "\r\nConnection: close\r\n\r\n"
                     : work->request.head.minor == 0 ? "\r\nConnection: keep-alive\r\n\r\n"
                                                     : "\r\n\r\n");
    return head.full ? 0 : head.used;
}

enum http_progress http_reply_begin(struct http_work *work, struct http_answer *answer)
{
    bool bodiless = work->request.head.method && strcmp(work->request.head.method, "HEAD") == 0;
    size_t head = write_head(work, answer), count = bodiless ? 0 : answer->parts_count;
    work->answer_text = answer->text;
    work->release = answer->release;
    work->release_arg = answer->release_arg;
    work->parts = malloc((count + 2) * sizeof *work->parts);
    if (!work->parts || head == 0)
        return HTTP_BAD;
    work->parts[work->parts_count++] = (struct iovec){work->head, head};
    if (answer->text.used && !bodiless)
        work->parts[work->parts_count++] = (struct iovec){answer->text.data, answer->text.used};
    for (size_t i = 0; i < count; i++)
        if (answer->parts[i].iov_len)
            work->parts[work->parts_count++] = answer->parts[i];
    return HTTP_DONE;
}

static void advance(struct http_work *work, size_t count)
{
    work->sent += count;
    while (count > 0) {
        struct iovec *part = &work->parts[work->parts_at];
        size_t taken = count < part->iov_len ? count : part->iov_len;
        part->iov_base = (char *)part->iov_base + taken;
        part->iov_len -= taken;
        count -= taken;
        work->parts_at += part->iov_len == 0;
    }
}

enum http_progress http_reply_send(struct http_work *work, int fd)
{
    uint64_t until = work->sent + TURN_BYTES;
    while (work->parts_at < work->parts_count) {
        size_t left = work->parts_count - work->parts_at;
        struct msghdr message = {.msg_iov = work->parts + work->parts_at,
                                 .msg_iovlen = left < PARTS_AT_ONCE ? left : PARTS_AT_ONCE};
        if (work->sent > until)
            return HTTP_TIRED;
        ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? HTTP_WAITS : HTTP_ENDED;
        advance(work, (size_t)count);
    }
    return HTTP_DONE;
}
