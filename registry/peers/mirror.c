/* mirror.c - a door that waits for heads of requests, and a thread for each content that is sent. */
#include "mirror.h"

#include "http_entry.h"
#include "job_id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define REQUEST_US   UINT64_C(5000000)
#define WAITING_MAX  256u
#define BACKLOG      128
#define SEND_SECONDS 20 /* without a byte */
#define SEND_BYTES   (1u << 20)
#define HEAD_BYTES   4096u
#define SENDERS_MAX  256u

struct mirror {
    const struct store *store;
    struct http_entry *entry;
    char address[80], id[33];
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int senders[SENDERS_MAX]; /* their sockets; -1 = free */
    unsigned senders_max, senders_count;
    struct content_digest *expected; /* [expected_count] */
    size_t expected_count;
    atomic_uint_fast64_t sent_bytes;
};

struct sending {
    struct mirror *mirror;
    int fd;
    unsigned place;
};

/* ---- one request --------------------------------------------------------------------------------------------------------------------- */

static bool send_text(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = send(fd, text, bytes, MSG_NOSIGNAL);
        if (done < 0 && errno != EINTR)
            return false;
        text += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static void answer_short(int fd, const char *status, const char *body)
{
    char text[256];
    int bytes =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                 status, strlen(body), body);
    send_text(fd, text, (size_t)bytes);
}

static bool is_expected(struct mirror *mirror, const struct content_digest *digest)
{
    bool found = false;
    pthread_mutex_lock(&mirror->lock);
    for (size_t i = 0; i < mirror->expected_count && !found; i++)
        found = content_digest_equal(&mirror->expected[i], digest);
    pthread_mutex_unlock(&mirror->lock);
    return found;
}

/* "Range: bytes=10-19" or "bytes=10-"; other forms mean the whole. False: it begins behind the end. */
static bool range_read(const char *head, uint64_t size, uint64_t *ret_first, uint64_t *ret_end, bool *ret_part)
{
    *ret_first = 0;
    *ret_end = size;
    *ret_part = false;
    for (const char *line = strchr(head, '\n'); line; line = strchr(line + 1, '\n')) {
        uint64_t first = 0, last = UINT64_MAX;
        if (strncasecmp(line + 1, "range:", 6) != 0 ||
            sscanf(line + 7, " bytes=%" SCNu64 "-%" SCNu64, &first, &last) < 1 || last < first)
            continue;
        *ret_part = true;
        *ret_first = first;
        *ret_end = last < size ? last + 1 : size;
        return first < size;
    }
    return true;
}

static void content_send(const struct sending *sending, int file, uint64_t at, uint64_t end)
{
    off_t offset = (off_t)at;
    while ((uint64_t)offset < end) {
        uint64_t left = end - (uint64_t)offset;
        ssize_t done = sendfile(sending->fd, file, &offset, left < SEND_BYTES ? (size_t)left : SEND_BYTES);
        if (done <= 0 && !(done < 0 && errno == EINTR))
            return;
        atomic_fetch_add(&sending->mirror->sent_bytes, done > 0 ? (uint64_t)done : 0);
    }
}

static void content_answer(const struct sending *sending, const char *head, bool only_head, int file)
{
    char text[320], part[96] = "";
    struct stat info;
    uint64_t first = 0, end = 0;
    bool partly = false;
    if (fstat(file, &info) != 0 || !range_read(head, (uint64_t)info.st_size, &first, &end, &partly)) {
        answer_short(sending->fd, "416 Range Not Satisfiable", "that part lies behind the end\n");
        return;
    }
    if (partly)
        snprintf(part, sizeof part, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n", first, end - 1,
                 (uint64_t)info.st_size);
    int bytes = snprintf(text, sizeof text,
                         "HTTP/1.1 %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %" PRIu64
                         "\r\n%sAccept-Ranges: bytes\r\nConnection: close\r\n\r\n",
                         partly ? "206 Partial Content" : "200 OK", end - first, part);
    if (send_text(sending->fd, text, (size_t)bytes) && !only_head)
        content_send(sending, file, first, end);
}

static void blob_answer(const struct sending *sending, const char *head, bool only_head,
                        const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    store_blob_path(sending->mirror->store, digest, path);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file >= 0)
        content_answer(sending, head, only_head, file);
    else if (is_expected(sending->mirror, digest))
        answer_short(sending->fd, "503 Service Unavailable", "it is on its way here\n");
    else
        answer_short(sending->fd, "404 Not Found", "it is not here\n");
    if (file >= 0)
        close(file);
}

static void request_answer(const struct sending *sending, const char *head)
{
    char method[8] = "", path[128] = "", id[40];
    struct content_digest digest;
    sscanf(head, "%7s %127s", method, path);
    bool only_head = strcmp(method, "HEAD") == 0;
    snprintf(id, sizeof id, "%s\n", sending->mirror->id);
    if (!only_head && strcmp(method, "GET") != 0)
        answer_short(sending->fd, "405 Method Not Allowed", "only GET and HEAD are answered here\n");
    else if (strcmp(path, "/peer") == 0)
        answer_short(sending->fd, "200 OK", id);
    else if (strncmp(path, "/blobs/sha256/", 14) == 0 && content_digest_parse(path + 14, &digest))
        blob_answer(sending, head, only_head, &digest);
    else
        answer_short(sending->fd, "404 Not Found", "there are /peer and /blobs/sha256/DIGEST\n");
}

/* ---- connections --------------------------------------------------------------------------------------------------------------------- */

static size_t head_read(int fd, char head[HEAD_BYTES])
{
    size_t used = 0;
    while (used + 1 < HEAD_BYTES) {
        ssize_t got = recv(fd, head + used, HEAD_BYTES - 1 - used, 0);
        if (got <= 0)
            break;
        used += (size_t)got;
        head[used] = '\0';
        if (strstr(head, "\r\n\r\n") || strstr(head, "\n\n"))
            break;
    }
    head[used] = '\0';
    return used;
}

static void *send_run(void *context)
{
    struct sending *sending = context;
    struct mirror *mirror = sending->mirror;
    char head[HEAD_BYTES];
    if (head_read(sending->fd, head) > 0)
        request_answer(sending, head);
    pthread_mutex_lock(&mirror->lock);
    mirror->senders[sending->place] = -1;
    mirror->senders_count--;
    shutdown(sending->fd, SHUT_WR);
    close(sending->fd);
    pthread_cond_signal(&mirror->ended);
    pthread_mutex_unlock(&mirror->lock);
    free(sending);
    return NULL;
}

/* The entry's sockets do not block; those of a thread may, for a time. */
static void socket_prepare(int fd)
{
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static bool thread_start(struct sending *sending)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256u * 1024u);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&thread, &attr, send_run, sending) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return good;
}

/* With the lock. */
static unsigned place_free(const struct mirror *mirror)
{
    unsigned place = 0;
    while (place < mirror->senders_max && mirror->senders[place] >= 0)
        place++;
    return place;
}

static enum http_entry_verdict on_guest(void *context, const struct http_entry_guest *guest)
{
    struct mirror *mirror = context;
    struct sending *sending = malloc(sizeof *sending);
    pthread_mutex_lock(&mirror->lock);
    unsigned place = place_free(mirror);
    bool good = sending && place < mirror->senders_max;
    if (good) {
        *sending = (struct sending){.mirror = mirror, .fd = guest->fd, .place = place};
        socket_prepare(guest->fd);
        good = thread_start(sending);
    }
    if (good) {
        mirror->senders[place] = guest->fd;
        mirror->senders_count++;
    }
    pthread_mutex_unlock(&mirror->lock);
    if (!good)
        free(sending);
    return good ? HTTP_ENTRY_TAKEN : HTTP_ENTRY_LATER;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------------- */

static enum pen_status listen_at(const char *address, int *ret_fd, struct pen_error *reterr)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    size_t bytes = colon ? (size_t)(colon - address) : 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    bool six = bytes > 2 && address[0] == '[' && address[bytes - 1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(six ? bytes - 2 : bytes < sizeof host ? bytes : 0), address + six);
    if (!*host || getaddrinfo(host, strcmp(colon + 1, "*") == 0 ? "0" : colon + 1, &hints, &found) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "'%.80s' is no address to serve models at: it must be ADDRESS:PORT, such as 0.0.0.0:5560",
                             address);
    int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(found);
    if (good) {
        *ret_fd = fd;
        return PEN_OK;
    }
    enum pen_status status = disk_failed("serve models at", address, reterr);
    if (fd >= 0)
        close(fd);
    return status;
}

static void address_note(struct mirror *mirror, int fd)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof own;
    char host[64] = "", port[8] = "";
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) == 0)
        getnameinfo((struct sockaddr *)&own, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(mirror->address, sizeof mirror->address, own.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static enum pen_status door_open(struct mirror *mirror, int fd)
{
    sigset_t all, before;
    const struct http_entry_options door = {
        .fd = fd, .waiting_max = WAITING_MAX, .request_us = REQUEST_US, .take = on_guest, .context = mirror};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum pen_status status = http_entry_start(&door, &mirror->entry, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum pen_status mirror_start(const char *address, const struct store *store, unsigned connections_max,
                             struct mirror **ret_mirror, struct pen_error *reterr)
{
    int fd = -1;
    enum pen_status status = listen_at(address, &fd, reterr);
    if (status != PEN_OK)
        return status;
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror) {
        close(fd);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to serve models");
    }
    mirror->store = store;
    mirror->senders_max = connections_max < SENDERS_MAX ? connections_max : SENDERS_MAX;
    for (size_t i = 0; i < SENDERS_MAX; i++)
        mirror->senders[i] = -1;
    pthread_mutex_init(&mirror->lock, NULL);
    pthread_cond_init(&mirror->ended, NULL);
    snprintf(mirror->id, sizeof mirror->id, "%016" PRIx64 "%016" PRIx64, random_u64(), random_u64());
    address_note(mirror, fd);
    if (door_open(mirror, fd) == PEN_OK) {
        *ret_mirror = mirror;
        return PEN_OK;
    }
    mirror_stop(mirror);
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory or no thread to serve models");
}

void mirror_stop(struct mirror *mirror)
{
    if (!mirror)
        return;
    if (mirror->entry)
        http_entry_stop(mirror->entry);
    pthread_mutex_lock(&mirror->lock);
    for (size_t i = 0; i < SENDERS_MAX; i++)
        if (mirror->senders[i] >= 0)
            shutdown(mirror->senders[i], SHUT_RDWR);
    while (mirror->senders_count > 0)
        pthread_cond_wait(&mirror->ended, &mirror->lock);
    pthread_mutex_unlock(&mirror->lock);
    pthread_cond_destroy(&mirror->ended);
    pthread_mutex_destroy(&mirror->lock);
    free(mirror->expected);
    free(mirror);
}

const char *mirror_address(const struct mirror *mirror)
{
    return mirror->address;
}

const char *mirror_id(const struct mirror *mirror)
{
    return mirror->id;
}

uint64_t mirror_sent_bytes(const struct mirror *mirror)
{
    return atomic_load(&mirror->sent_bytes);
}

void mirror_expect(struct mirror *mirror, const struct manifest *manifest)
{
    size_t count = manifest ? manifest->count : 0;
    struct content_digest *list = count ? malloc(count * sizeof *list) : NULL;
    for (size_t i = 0; list && i < count; i++)
        list[i] = manifest->files[i].digest;
    pthread_mutex_lock(&mirror->lock);
    free(mirror->expected);
    mirror->expected = list;
    mirror->expected_count = list ? count : 0;
    pthread_mutex_unlock(&mirror->lock);
}
