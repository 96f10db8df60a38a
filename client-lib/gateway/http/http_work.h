/*
 * http_work.h - what a connection has while a request is under way: its bytes, the request, the answer; and the two directions of its socket.
 * Threads: owner - the server's.
 */
#ifndef HTTP_WORK_H
#define HTTP_WORK_H

#include "http_server.h"

struct http_work {
    struct http_work *next;   /* on the shelf */
    char *text;               /* [size]: the head and what came behind it */
    size_t used, size, taken; /* taken: bytes of `text` that belong to the request */
    size_t head_bytes;
    struct http_chunks chunks;
    size_t room; /* of the body's block */
    struct bytes answer_text;
    struct iovec *parts; /* [parts_count], from parts_at on still to be sent */
    size_t parts_count, parts_at;
    void (*release)(void *arg);
    void *release_arg;
    uint64_t sent, received;
    bool drained;    /* the socket had no more bytes; the next event says when it has */
    bool close;      /* the connection ends with the answer */
    unsigned status; /* of a request that is malformed */
    char head[1024];
    struct http_request request;
};

/* A few that nobody has: the next request finds its memory warm, and malloc(3) is not asked. */
struct http_shelf {
    struct http_work *first;
    unsigned count;
};

struct http_work *http_work_new(struct http_shelf *shelf); /* NULL without memory */
/* Everything but the bytes behind the request, which are moved to the front. */
void http_work_reset(struct http_work *work);
void http_work_free(struct http_work *work, struct http_shelf *shelf); /* work: NULL is fine */
void http_shelf_fini(struct http_shelf *shelf);

enum http_progress {
    HTTP_DONE,
    HTTP_WAITS, /* for the socket */
    HTTP_TIRED, /* it had its share of this turn */
    HTTP_ENDED, /* the peer has gone, in good order or not */
    HTTP_BAD,   /* *ret_why is the sentence; work->status the status */
};

enum http_progress http_receive_head(struct http_work *work, int fd, size_t head_max, size_t body_max,
                                     const char **ret_why);
enum http_progress http_receive_body(struct http_work *work, int fd, size_t body_max, const char **ret_why);

/* Makes the answer's bytes: HTTP_BAD without memory. */
enum http_progress http_reply_begin(struct http_work *work, struct http_answer *answer);
enum http_progress http_reply_send(struct http_work *work, int fd);

#endif
