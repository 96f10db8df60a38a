/* http_client.c - one request by libcurl's easy interface; connections are kept for the next. */
#include "http_client.h"

#include "curl_library.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define IDLE_MAX        8u
#define BUFFER_BYTES    (256L * 1024L)
#define CONNECT_MS      10000L
#define HURRY_MS        1000L
#define STALL_SECONDS   20L
#define REDIRECTS_MAX   5L
#define COMPLAINT_BYTES 600u

struct http_client {
    pthread_mutex_t lock;
    CURL *idle[IDLE_MAX];
    size_t count;
    bool (*stop)(void);
    long connect_ms;
};

void http_client_hurry(struct http_client *client)
{
    client->connect_ms = HURRY_MS;
}

struct http_client *http_client_new(bool (*stop)(void))
{
    struct http_client *client = calloc(1, sizeof *client);
    if (client) {
        client->stop = stop;
        client->connect_ms = CONNECT_MS;
        pthread_mutex_init(&client->lock, NULL);
    }
    return client;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    while (client->count > 0)
        curl_library(NULL)->easy_cleanup(client->idle[--client->count]);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static CURL *handle_take(struct http_client *client, const struct curl_library *curl)
{
    pthread_mutex_lock(&client->lock);
    CURL *handle = client->count > 0 ? client->idle[--client->count] : NULL;
    pthread_mutex_unlock(&client->lock);
    return handle ? handle : curl->easy_init();
}

static void handle_give(struct http_client *client, const struct curl_library *curl, CURL *handle)
{
    curl->easy_reset(handle); /* the connections stay */
    pthread_mutex_lock(&client->lock);
    bool kept = client->count < IDLE_MAX;
    if (kept)
        client->idle[client->count++] = handle;
    pthread_mutex_unlock(&client->lock);
    if (!kept)
        curl->easy_cleanup(handle);
}

/* ---- one request --------------------------------------------------------------------------------------------------------------------- */

struct exchange_run {
    const struct curl_library *curl;
    CURL *handle;
    const struct http_request *request;
    struct http_answer answer;
    uint64_t at;      /* the place of the next byte */
    uint64_t sent;    /* of a PUT */
    uint64_t begin;   /* what Content-Range says */
    bool counted;     /* `at` is known */
    bool enough;      /* the sink has ended it */
    bool wrong_range; /* the server sends another part than was asked for */
    bool stopped;
    bool (*stop)(void);
    long connect_ms;
    char complaint[COMPLAINT_BYTES]; /* what a server says beside an error */
    size_t complaint_bytes;
};

/* "Content-Range: bytes 10-19/200", "Content-Length: 200" */
static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange_run *run = context;
    char line[160];
    uint64_t first, last, total;
    size_t length = size * count;
    snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), bytes);
    if (strncmp(line, "HTTP/", 5) == 0) {
        run->answer.total = UINT64_MAX;
        run->begin = 0;
    } else if (strncasecmp(line, "content-length:", 15) == 0 && run->answer.total == UINT64_MAX) {
        run->answer.total = strtoull(line + 15, NULL, 10);
    } else if (strncasecmp(line, "content-range:", 14) == 0 &&
               sscanf(line + 14, " bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &first, &last, &total) == 3) {
        run->begin = first;
        run->answer.total = total;
    }
    return length;
}

static void complaint_note(struct exchange_run *run, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count && run->complaint_bytes + 1 < sizeof run->complaint; i++)
        run->complaint[run->complaint_bytes++] = isprint((unsigned char)bytes[i]) ? bytes[i] : ' ';
}

static bool position_find(struct exchange_run *run)
{
    run->curl->easy_getinfo(run->handle, CURLINFO_RESPONSE_CODE, &run->answer.code);
    run->counted = true;
    run->answer.whole = run->request->ranged && run->answer.code == 200;
    run->at = run->answer.code == 206 ? run->begin : 0;
    run->wrong_range = run->answer.code == 206 && run->begin != run->request->first;
    return !run->wrong_range;
}

static size_t on_data(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange_run *run = context;
    size_t length = size * count;
    if (!run->counted && !position_find(run))
        return 0;
    if (run->answer.code >= 300 || !run->request->sink) {
        complaint_note(run, bytes, length);
        return length;
    }
    if (!run->request->sink(run->request->context, run->at, bytes, length)) {
        run->enough = true;
        return 0;
    }
    run->at += length;
    return length;
}

static size_t on_read(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange_run *run = context;
    const struct http_request *request = run->request;
    uint64_t left = request->size - run->sent;
    size_t room = size * count < left ? size * count : (size_t)left;
    ssize_t got = (ssize_t)room;
    if (request->bytes)
        memcpy(bytes, (const char *)request->bytes + run->sent, room);
    else
        got = pread(request->fd, bytes, room, (off_t)run->sent);
    if (got < 0 || (got == 0 && room > 0))
        return CURL_READFUNC_ABORT;
    run->sent += (uint64_t)got;
    return (size_t)got;
}

/* A server that redirects, or a connection that broke, wants it again. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct exchange_run *run = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > run->request->size)
        return CURL_SEEKFUNC_CANTSEEK;
    run->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct exchange_run *run = context;
    (void)a, (void)b, (void)c, (void)d;
    run->stopped = run->stop && run->stop();
    return run->stopped;
}

static void options_common(struct exchange_run *run, char *range, size_t range_bytes)
{
    const struct http_request *request = run->request;
    CURLcode (*set)(CURL *, CURLoption, ...) = run->curl->easy_setopt;
    set(run->handle, CURLOPT_URL, request->url);
    set(run->handle, CURLOPT_NOSIGNAL, 1L);
    set(run->handle, CURLOPT_PROTOCOLS_STR, "http,https");
    set(run->handle, CURLOPT_REDIR_PROTOCOLS_STR, strncmp(request->url, "https:", 6) == 0 ? "https" : "http,https");
    set(run->handle, CURLOPT_FOLLOWLOCATION, strcmp(request->method, "PUT") == 0 ? 0L : 1L);
    set(run->handle, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
    set(run->handle, CURLOPT_CONNECTTIMEOUT_MS, run->connect_ms);
    set(run->handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(run->handle, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
    set(run->handle, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    set(run->handle, CURLOPT_USERAGENT, "penstock");
    set(run->handle, CURLOPT_HEADERFUNCTION, on_header);
    set(run->handle, CURLOPT_HEADERDATA, run);
    set(run->handle, CURLOPT_WRITEFUNCTION, on_data);
    set(run->handle, CURLOPT_WRITEDATA, run);
    set(run->handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(run->handle, CURLOPT_XFERINFODATA, run);
    set(run->handle, CURLOPT_NOPROGRESS, 0L);
    if (!request->ranged)
        return;
    if (request->last == UINT64_MAX)
        snprintf(range, range_bytes, "%" PRIu64 "-", request->first);
    else
        snprintf(range, range_bytes, "%" PRIu64 "-%" PRIu64, request->first, request->last);
    set(run->handle, CURLOPT_RANGE, range);
}

static void options_method(struct exchange_run *run)
{
    CURLcode (*set)(CURL *, CURLoption, ...) = run->curl->easy_setopt;
    if (strcmp(run->request->method, "HEAD") == 0)
        set(run->handle, CURLOPT_NOBODY, 1L);
    if (strcmp(run->request->method, "PUT") != 0)
        return;
    set(run->handle, CURLOPT_UPLOAD, 1L);
    set(run->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)run->request->size);
    set(run->handle, CURLOPT_READFUNCTION, on_read);
    set(run->handle, CURLOPT_READDATA, run);
    set(run->handle, CURLOPT_SEEKFUNCTION, on_seek);
    set(run->handle, CURLOPT_SEEKDATA, run);
}

/* "Expect:" - a server that refuses answers at once anyway. */
static struct curl_slist *headers_make(const struct exchange_run *run, bool *ret_good)
{
    struct curl_slist *list = run->curl->slist_append(NULL, "Expect:");
    *ret_good = list != NULL;
    for (size_t i = 0; *ret_good && i < HTTP_HEADERS_MAX && run->request->headers[i]; i++) {
        struct curl_slist *longer = run->curl->slist_append(list, run->request->headers[i]);
        *ret_good = longer != NULL;
        list = longer ? longer : list;
    }
    return list;
}

static enum pen_status code_judge(const struct exchange_run *run, struct pen_error *reterr)
{
    long code = run->answer.code;
    enum pen_status status = code == 404 || code == 410                   ? PEN_ERR_NOT_FOUND
                             : code == 401 || code == 403                 ? PEN_ERR_DENIED
                             : code == 416                                ? PEN_ERR_CORRUPT
                             : code == 425 || code == 429 || code == 503  ? PEN_ERR_BUSY
                             : code == 408 || (code >= 500 && code < 600) ? PEN_ERR_UNAVAILABLE
                                                                          : PEN_ERR_IO;
    if (code >= 200 && code < 300)
        return PEN_OK;
    return pen_error_set(reterr, status, "%.300s answers %ld%s%.300s", run->request->url, code,
                         run->complaint_bytes ? ": " : "", run->complaint);
}

static enum pen_status verdict(struct exchange_run *run, CURLcode done, const char *words, struct pen_error *reterr)
{
    run->curl->easy_getinfo(run->handle, CURLINFO_RESPONSE_CODE, &run->answer.code);
    if (run->enough)
        return PEN_OK;
    if (run->stopped)
        return pen_error_set(reterr, PEN_ERR_CANCELLED, "the transfer was stopped");
    if (run->wrong_range)
        return pen_error_set(reterr, PEN_ERR_IO, "%.300s sends another part of the content than was asked for",
                             run->request->url);
    if (done != CURLE_OK)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "%.300s cannot be reached: %.200s", run->request->url, words);
    return code_judge(run, reterr);
}

enum pen_status http_run(struct http_client *client, const struct http_request *request, struct http_answer *ret_answer,
                         struct pen_error *reterr)
{
    char range[64], words[CURL_ERROR_SIZE] = "";
    bool good = false;
    const struct curl_library *curl = curl_library(reterr);
    if (!curl)
        return PEN_ERR_UNSUPPORTED;
    struct exchange_run run = {.curl = curl,
                               .handle = handle_take(client, curl),
                               .request = request,
                               .answer = {.total = UINT64_MAX},
                               .stop = client->stop,
                               .connect_ms = client->connect_ms};
    struct curl_slist *headers = run.handle ? headers_make(&run, &good) : NULL;
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (good) {
        options_common(&run, range, sizeof range);
        options_method(&run);
        curl->easy_setopt(run.handle, CURLOPT_HTTPHEADER, headers);
        curl->easy_setopt(run.handle, CURLOPT_ERRORBUFFER, words);
        CURLcode done = curl->easy_perform(run.handle);
        status = verdict(&run, done, words[0] ? words : "no answer", reterr);
    } else {
        pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a request");
    }
    curl->slist_free_all(headers);
    if (run.handle)
        handle_give(client, curl, run.handle);
    *ret_answer = run.answer;
    return status;
}
