#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "http_check.h"
#include "http_page.h"
#include "http_side.h"

#define CONNECTIONS_MAX    64u
#define ADDRESS_MAX        48u /* of one address; the rest is left for others */
#define STREAMS_MAX        32u /* of all; the rest is left for scrapes */
#define HEALTH_MAX         32u /* in addition to the others */
#define WAITING_MAX        512u
#define WAITING_PART       8u        /* this part of the process's descriptors; the others are for jobs */
#define REQUEST_US         10000000u /* for the head of a request, and for a thread */
#define BACKLOG            512
#define EVENT_PERIOD_US    1000000u
#define STREAM_BLOCK_BYTES (64u * 1024u)

struct http {
    struct http_entry *entry;
    struct side pages, health;
    struct post *post;
    struct historian *historian;
    struct previews *previews; /* borrowed; NULL = none */
    bool local_only;
    atomic_uint streams;
    char address[80];
};

static void note_address(struct http *http, int fd)
{
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "";
    getsockname(fd, (struct sockaddr *)&bound, &size);
    if (bound.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&bound;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        snprintf(http->address, sizeof http->address, "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&bound;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        snprintf(http->address, sizeof http->address, "%s:%u", host, ntohs(four->sin_port));
    }
}

static enum pen_status listen_on(const char *address, int *ret_fd, struct pen_error *reterr)
{
    struct sockaddr_storage to;
    socklen_t size;
    int one = 1;
    enum pen_status status = address_parse(address, &to, &size, reterr);
    if (status != PEN_OK)
        return status;
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)&to, size) == 0 && listen(fd, BACKLOG) == 0) {
        *ret_fd = fd;
        return PEN_OK;
    }
    status = pen_error_set(reterr, PEN_ERR_IO, "--http cannot listen on %s: %s; name another address, or none", address,
                           errno == EADDRINUSE ? "it is taken, perhaps by another broker" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

/* ---- the event stream ---- */

struct stream {
    struct http *http;
    struct writer writer; /* what is still to be sent */
    size_t sent;
    bool begun;
};

/* On the connection's own thread, which may sleep. */
static ssize_t stream_read(void *context, uint64_t position, char *buffer, size_t room)
{
    struct stream *stream = context;
    (void)position;
    if (stream->sent == stream->writer.used) {
        stream->writer.used = stream->sent = 0;
        if (stream->begun && !post_sleep(stream->http->post, EVENT_PERIOD_US))
            return MHD_CONTENT_READER_END_OF_STREAM;
        stream->begun = true;
        if (!page_event(stream->http->post, &stream->writer))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t count = stream->writer.used - stream->sent;
    count = count < room ? count : room;
    memcpy(buffer, stream->writer.text + stream->sent, count);
    stream->sent += count;
    return (ssize_t)count;
}

static void stream_end(void *context)
{
    struct stream *stream = context;
    atomic_fetch_sub(&stream->http->streams, 1);
    writer_fini(&stream->writer);
    free(stream);
}

static struct MHD_Response *stream_response(struct http *http)
{
    if (atomic_fetch_add(&http->streams, 1) >= STREAMS_MAX) {
        atomic_fetch_sub(&http->streams, 1);
        return NULL;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response = NULL;
    if (stream) {
        stream->http = http;
        response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read, stream, stream_end);
    }
    if (!response) {
        atomic_fetch_sub(&http->streams, 1);
        free(stream);
    }
    return response;
}

/* ---- one request ---- */

/* The page may load nothing from elsewhere, caches keep nothing, and no other page may frame it. */
static void add_headers(struct MHD_Response *response, const char *type)
{
    static const char *const headers[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy",
         "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"},
    };
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_headers(response, "text/plain; charset=utf-8");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static struct MHD_Response *page_response(struct page *page)
{
    if (page->held) {
        struct MHD_Response *kept = MHD_create_response_from_buffer_with_free_callback_cls(
            page->fixed_bytes, (void *)(uintptr_t)page->fixed, preview_free, page->held);
        page->held = kept ? NULL : page->held; /* given */
        return kept;
    }
    if (page->fixed)
        return MHD_create_response_from_buffer(page->fixed_bytes, (void *)(uintptr_t)page->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(page->body.used, page->body.text, MHD_RESPMEM_MUST_FREE);
    if (response)
        page->body = (struct writer){.text = NULL}; /* given */
    return response;
}

static enum MHD_Result send_page(struct side *side, struct MHD_Connection *connection, const char *path)
{
    struct http *http = side->context;
    struct page page;
    page_make(&(struct page_source){.post = http->post, .historian = http->historian, .previews = http->previews}, path,
              &page);
    struct MHD_Response *response = page.stream ? stream_response(http) : page_response(&page);
    if (page.stream && response)
        patience_streams(side->patience, connection);
    page_fini(&page);
    if (!response)
        return send_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many readers of events, or no memory\n");
    add_headers(response, page.type);
    if (side->once)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, page.status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    struct side *side = context;
    const struct http *http = side->context;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *fault = http_check(connection, version);
    (void)upload;
    (void)upload_bytes;
    (void)state;
    patience_answers(side->patience, connection);
    /* Answered before any body is read, so the connection is closed afterwards. */
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
    if (fault)
        return send_text(connection, MHD_HTTP_BAD_REQUEST, fault);
    if (http->local_only && host && !address_host_local(host))
        return send_text(connection, MHD_HTTP_MISDIRECTED_REQUEST,
                         "the Host header names another machine; ask 127.0.0.1 or localhost\n");
    return send_page(side, connection, url);
}

/* ---- life ---- */

/* Requests for health go to their own daemon, whose room no other request can take. The daemon reads the request
   again. */
static enum http_entry_verdict on_guest(void *context, const struct http_entry_guest *guest)
{
    struct http *http = context;
    const char *path = strncmp(guest->head, "GET ", 4) == 0    ? guest->head + 4
                       : strncmp(guest->head, "HEAD ", 5) == 0 ? guest->head + 5
                                                               : "";
    bool health = strncmp(path, "/v2/health/", 11) == 0;
    return side_take(health ? &http->health : &http->pages, guest);
}

static void http_close(struct http *http)
{
    post_close(http->post);
    http_entry_stop(http->entry);
    side_close(&http->pages);
    side_close(&http->health);
    historian_free(http->historian);
    free(http);
}

static unsigned waiting_max(void)
{
    struct rlimit limit;
    rlim_t part = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / WAITING_PART : WAITING_MAX;
    return part < WAITING_MAX ? (unsigned)part + 1 : WAITING_MAX;
}

/* fd is closed even on failure. */
static enum pen_status open_sides(struct http *http, int fd)
{
    const struct http_entry_options door = {
        .fd = fd, .waiting_max = waiting_max(), .request_us = REQUEST_US, .take = on_guest, .context = http};
    http->pages = (struct side){.context = http, .max = CONNECTIONS_MAX, .address_max = ADDRESS_MAX};
    http->health = (struct side){.context = http, .max = HEALTH_MAX, .address_max = HEALTH_MAX, .once = true};
    if (side_open(&http->pages, on_request, http->post) == PEN_OK &&
        side_open(&http->health, on_request, http->post) == PEN_OK)
        return http_entry_start(&door, &http->entry, NULL);
    close(fd);
    return PEN_ERR_IO;
}

enum pen_status http_start(const char *address, int fd, bool local_only, struct post *post, struct previews *previews,
                           struct http **ret_http, struct pen_error *reterr)
{
    enum pen_status status = fd >= 0 ? PEN_OK : listen_on(address, &fd, reterr);
    if (status != PEN_OK)
        return status;
    struct http *http = calloc(1, sizeof *http);
    if (http) {
        http->post = post;
        http->previews = previews;
        http->local_only = local_only;
        note_address(http, fd);
        http->historian = historian_new(post); /* without memory: pages begin empty */
        status = open_sides(http, fd);
    } else {
        close(fd);
    }
    if (!http || status != PEN_OK) {
        if (http)
            http_close(http);
        return pen_error_set(reterr, PEN_ERR_IO, "--http %s: no memory or no thread for it", address);
    }
    *ret_http = http;
    return PEN_OK;
}

const char *http_address(const struct http *http)
{
    return http->address;
}

void http_stop(struct http *http)
{
    if (http)
        http_close(http);
}
