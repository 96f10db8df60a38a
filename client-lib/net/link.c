#include "link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "assertion.h"
#include "deadline.h"
#include "descriptors.h"
#include "pack_socket.h"
#include "urgency.h"

#define AGAIN_US 5000u /* what found no memory is tried again so soon */

enum pen_status link_init(struct link *link, uint64_t frame_bytes_max, uint64_t messages_max, struct pen_error *reterr)
{
    memset(link, 0, sizeof *link);
    link->watch_fd = -1;
    link->frame_bytes_max = frame_bytes_max;
    link->frames_max = messages_max;
    bool room = descriptors_free(1 + DESCRIPTORS_CONTEXT);
    link->wake_fd = room ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    link->context = room ? zmq_ctx_new() : NULL;
    if (link->wake_fd < 0 || !link->context) {
        errno = room ? errno : EMFILE;
        int why = errno;
        link_fini(link);
        errno = why;
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start a client: %s; raise the limit of open files.",
                             strerror(errno));
    }
    return PEN_OK;
}

void link_fini(struct link *link)
{
    link_close(link, 0);
    pack_fini(&link->going);
    key_pair_wipe(&link->keys.own);
    bulk_way_fini(&link->way);
    if (link->context) {
        zmq_ctx_term(link->context);
        link->context = NULL;
    }
    if (link->wake_fd >= 0) {
        close(link->wake_fd);
        link->wake_fd = -1;
    }
    if (link->watch_fd >= 0) {
        close(link->watch_fd);
        link->watch_fd = -1;
    }
}

/* ---- the watch ---- */

static void watch_change(const struct link *link, void *socket, int operation)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fd = -1;
    size_t size = sizeof fd;
    if (link->watch_fd >= 0 && !link->watch_paused && socket && zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0) {
        epoll_ctl(link->watch_fd, operation, fd, &event);
    }
}

static void watch_change_all(const struct link *link, int operation)
{
    watch_change(link, link->socket, operation);
    watch_change(link, link->monitor, operation);
    watch_change(link, link->bulk, operation);
}

int link_watch(struct link *link)
{
    if (link->watch_fd < 0) {
        link->watch_fd = epoll_create1(EPOLL_CLOEXEC);
        watch_change_all(link, EPOLL_CTL_ADD);
    }
    return link->watch_fd;
}

void link_watch_pause(struct link *link, bool yes)
{
    if (link->watch_fd < 0 || link->watch_paused == yes) {
        return;
    }
    if (yes) {
        watch_change_all(link, EPOLL_CTL_DEL);
    }
    link->watch_paused = yes;
    if (!yes) {
        watch_change_all(link, EPOLL_CTL_ADD);
    }
}

static bool has_message(void *socket)
{
    int events = 0;
    size_t size = sizeof events;
    return socket && zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN);
}

bool link_pending(struct link *link)
{
    return incoming_pack_holds(&link->coming) || has_message(link->socket) || has_message(link->bulk);
}

/* ---- sockets ---- */

static void set_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

/* Finite receive mark and frame size; sending is bounded by our own job and byte limits. */
static void socket_options(const struct link *link, void *socket)
{
    int64_t frame_bytes_max = link->frame_bytes_max > INT64_MAX ? -1 : (int64_t)link->frame_bytes_max;
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_SNDHWM, 0);
    set_int(socket, ZMQ_RCVHWM, link->frames_max > INT32_MAX / 2 ? INT32_MAX / 2 : (int)link->frames_max + 64);
    set_int(socket, ZMQ_RECONNECT_IVL, 10);
    set_int(socket, ZMQ_RECONNECT_IVL_MAX, 320);
    set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5);
    set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
}

/* The connecting side of CURVE. */
static void use_keys(void *socket, const struct key_set *keys)
{
    if (keys->used) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->broker, sizeof keys->broker);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->own.public_key, sizeof keys->own.public_key);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->own.secret_key, sizeof keys->own.secret_key);
    }
}

#define MONITORED                                                                                                      \
    (ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |             \
     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

/* The monitor only speeds up the discovery of a loss: without it, silence tells. */
static void monitor_open(struct link *link)
{
    char address[64];
    snprintf(address, sizeof address, "inproc://monitor-%" PRIu64, link->opened);
    if (zmq_socket_monitor(link->socket, address, MONITORED) != 0) {
        return;
    }
    link->monitor = zmq_socket(link->context, ZMQ_PAIR);
    if (link->monitor && zmq_connect(link->monitor, address) != 0) {
        zmq_close(link->monitor);
        link->monitor = NULL;
    }
}

/* libzmq's threads start with the first socket and inherit what the caller asks for just then: the caller's own slices stay as they are. */
static void *socket_first(void *context)
{
    uint64_t former_us = urgency_slice_us();
    urgency_ask(URGENCY_SLICE_US);
    void *socket = zmq_socket(context, ZMQ_DEALER);
    urgency_ask(former_us);
    return socket;
}

enum pen_status link_open(struct link *link, const char *endpoint, struct pen_error *reterr)
{
    PEN_ASSERT(!link->socket && !link->bulk && !link->monitor, "a socket is opened when the one before it is closed");
    link->socket = socket_first(link->context);
    if (!link->socket) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot open a socket: %s.", zmq_strerror(errno));
    }
    link->opened++;
    socket_options(link, link->socket);
    link->endpoint = endpoint;
    use_keys(link->socket, &link->keys);
    link->refused_before = link->refused;
    link->refused = false;
    monitor_open(link);
    watch_change(link, link->socket, EPOLL_CTL_ADD);
    watch_change(link, link->monitor, EPOLL_CTL_ADD);
    if (zmq_connect(link->socket, endpoint) != 0) {
        int why = errno;
        link_close(link, 0);
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "broker endpoint \"%s\": %s; it must look like tcp://127.0.0.1:5550 or ipc:///run/penstock.", endpoint,
            zmq_strerror(why));
    }
    return PEN_OK;
}

/* The socket of the bulk connection, and where it goes: to a port of its own, on threads of its own, or beside the ordinary one. NULL: none. */
static void *bulk_open(struct link *link, char ret_endpoint[BULK_ENDPOINT_BYTES])
{
    if (!link->socket || !link->endpoint || strlen(link->endpoint) >= BULK_ENDPOINT_BYTES) {
        return NULL;
    }
    bool apart = bulk_way_apart(&link->way, link->endpoint, ret_endpoint);
    if (!apart) {
        strcpy(ret_endpoint, link->endpoint);
    }
    void *socket = zmq_socket(apart ? link->way.context : link->context, ZMQ_DEALER);
    if (socket && apart) {
        bulk_way_begin(&link->way, socket, clock_now_us());
    }
    return socket;
}

static void bulk_close(struct link *link)
{
    incoming_pack_drop(&link->bulk_coming);
    if (link->bulk) {
        watch_change(link, link->bulk, EPOLL_CTL_DEL);
        zmq_close(link->bulk);
        link->bulk = NULL;
        bulk_way_end(&link->way, clock_now_us());
    }
}

int link_attach(struct link *link, uint64_t session)
{
    char endpoint[BULK_ENDPOINT_BYTES];
    struct envelope env = envelope_make(FRAME_ATTACH);
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    if (link->bulk) {
        return 0;
    }
    link->bulk = bulk_open(link, endpoint);
    if (!link->bulk) {
        return -1;
    }
    socket_options(link, link->bulk);
    use_keys(link->bulk, &link->keys);
    watch_change(link, link->bulk, EPOLL_CTL_ADD);
    env.job.client = session;
    envelope_encode(&env, bytes);
    if (zmq_connect(link->bulk, endpoint) == 0 &&
        zmq_send(link->bulk, bytes, sizeof bytes, ZMQ_DONTWAIT) == (int)sizeof bytes) {
        return 0;
    }
    int why = errno;
    bulk_close(link);
    errno = why;
    return -1;
}

/* ---- packs ---- */

/* True when nothing waits any more. */
static bool going_send(struct link *link)
{
    return link->going.messages == 0 || (link->socket && pack_send(&link->going, link->socket) == 0);
}

void link_packs(struct link *link, uint64_t frame_bytes)
{
    pack_limit(&link->going, frame_bytes);
}

void link_hold(struct link *link)
{
    PEN_ASSERT(!link->holds, "messages are held by one at a time");
    link->holds = true;
}

void link_release(struct link *link)
{
    PEN_ASSERT(link->holds, "what was held is let go");
    link->holds = false;
    going_send(link);
}

/* Where a message goes: into the pack (PACK_NOW), to the socket (PACK_NEVER), nowhere now (PACK_LATER). */
static enum pack_place place(struct link *link, size_t frames, size_t bytes, size_t largest)
{
    if (link->holds) {
        return pack_prepare(&link->going, link->socket, frames, bytes, largest);
    }
    return going_send(link) ? PACK_NEVER : PACK_LATER;
}

void link_close(struct link *link, int linger_ms)
{
    bulk_close(link);
    if (linger_ms > 0) {
        going_send(link);
    }
    link_packs(link, 0);
    incoming_pack_drop(&link->coming);
    if (link->socket) {
        watch_change(link, link->socket, EPOLL_CTL_DEL);
        zmq_socket_monitor(link->socket, NULL, 0);
        set_int(link->socket, ZMQ_LINGER, linger_ms);
        zmq_close(link->socket);
        link->socket = NULL;
    }
    if (link->monitor) {
        watch_change(link, link->monitor, EPOLL_CTL_DEL);
        set_int(link->monitor, ZMQ_LINGER, 0);
        zmq_close(link->monitor);
        link->monitor = NULL;
    }
}

/* Reads the monitor empty: two frames each, an event number first. */
static bool monitor_lost(void *monitor, bool *ret_refused)
{
    bool lost = false;
    uint8_t frame[256];
    for (int size; (size = zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT)) >= 0;) {
        uint16_t event = 0;
        if (size >= (int)sizeof event) {
            memcpy(&event, frame, sizeof event);
        }
        lost |= event == ZMQ_EVENT_DISCONNECTED;
        *ret_refused |= (event & MONITORED & ~ZMQ_EVENT_DISCONNECTED) != 0;
        while (zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT) >= 0) {
            int more = 0;
            size_t length = sizeof more;
            if (zmq_getsockopt(monitor, ZMQ_RCVMORE, &more, &length) != 0 || !more) {
                break;
            }
        }
    }
    return lost;
}

int link_wait(struct link *link, uint64_t timeout_us)
{
    zmq_pollitem_t items[4] = {{.fd = link->wake_fd, .events = ZMQ_POLLIN},
                               {.socket = link->socket, .events = ZMQ_POLLIN}};
    int count = link->socket ? 2 : 1, monitor = 0, bulk = 0;
    if (link->socket && link->monitor) {
        monitor = count;
        items[count++] = (zmq_pollitem_t){.socket = link->monitor, .events = ZMQ_POLLIN};
    }
    if (link->socket && link->bulk) {
        bulk = count;
        items[count++] = (zmq_pollitem_t){.socket = link->bulk, .events = ZMQ_POLLIN};
    }
    if ((!going_send(link) || incoming_pack_holds(&link->coming)) && timeout_us > AGAIN_US) {
        timeout_us = AGAIN_US;
    }
    uint64_t timeout_ms = timeout_us / 1000 + (timeout_us % 1000 != 0);
    if (zmq_poll(items, count, timeout_ms > 60000 ? 60000 : (long)timeout_ms) <= 0) {
        return 0;
    }
    if (items[0].revents) {
        uint64_t wakes;
        ssize_t got = read(link->wake_fd, &wakes, sizeof wakes);
        (void)got; /* empty is fine: somebody else's wake was read already */
    }
    int events = items[1].revents || (bulk && items[bulk].revents) ? LINK_READABLE : 0;
    bool told = monitor && items[monitor].revents;
    return events | (told && monitor_lost(link->monitor, &link->refused) ? LINK_LOST : 0);
}

void link_wake(struct link *link)
{
    uint64_t one = 1;
    ssize_t put = write(link->wake_fd, &one, sizeof one);
    (void)put; /* full means that a wake is waiting already */
}

/* The header frame: envelope and meta in one buffer. more: ZMQ_SNDMORE when frames follow, else 0. */
static int send_header(struct link *link, struct envelope env, const void *meta, size_t meta_bytes, int more)
{
    zmq_msg_t msg;
    if (zmq_msg_init_size(&msg, FRAME_ENVELOPE_BYTES + meta_bytes) != 0) {
        return -1;
    }
    env.meta_bytes = (uint32_t)meta_bytes;
    uint8_t *to = envelope_encode(&env, zmq_msg_data(&msg));
    if (meta_bytes) {
        memcpy(to, meta, meta_bytes);
    }
    if (zmq_msg_send(&msg, link->socket, ZMQ_DONTWAIT | more) < 0) {
        zmq_msg_close(&msg);
        return -1;
    }
    return 0;
}

/* The same into the pack, which has room for it. */
static void pack_header(struct link *link, struct envelope env, const void *meta, size_t meta_bytes, bool more)
{
    uint8_t *to = pack_frame(&link->going, FRAME_ENVELOPE_BYTES + meta_bytes, more);
    PEN_ASSERT(to, "a pack takes what was found to fit");
    env.meta_bytes = (uint32_t)meta_bytes;
    to = envelope_encode(&env, to);
    if (meta_bytes) {
        memcpy(to, meta, meta_bytes);
    }
}

int link_send(struct link *link, struct envelope env, const void *meta, size_t meta_bytes)
{
    size_t bytes = FRAME_ENVELOPE_BYTES + meta_bytes;
    enum pack_place where = link->socket ? place(link, 1, bytes, bytes) : PACK_LATER;
    if (where == PACK_NEVER) {
        return send_header(link, env, meta, meta_bytes, 0);
    }
    if (where == PACK_NOW) {
        pack_header(link, env, meta, meta_bytes, false);
    }
    return where == PACK_NOW ? 0 : -1;
}

static enum pack_place place_frames(struct link *link, size_t meta_bytes, const struct raw_frame *frames, size_t count)
{
    size_t bytes = FRAME_ENVELOPE_BYTES + meta_bytes, largest = bytes;
    for (size_t i = 0; i < count; i++) {
        bytes += frames[i].bytes;
        largest = frames[i].bytes > largest ? frames[i].bytes : largest;
    }
    return place(link, 1 + count, bytes, largest);
}

static void pack_group(struct link *link, struct envelope env, const void *meta, size_t meta_bytes,
                       const struct raw_frame *frames, size_t count)
{
    env.frames = (uint8_t)count;
    pack_header(link, env, meta, meta_bytes, count > 0);
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = pack_frame(&link->going, frames[i].bytes, i + 1 < count);
        PEN_ASSERT(to, "a pack takes what was found to fit");
        memcpy(to, frames[i].data, frames[i].bytes);
    }
}

int link_send_frames(struct link *link, struct envelope env, const void *meta, size_t meta_bytes,
                     struct payload *payload, const struct raw_frame *frames, size_t frames_count)
{
    zmq_msg_t msgs[FRAME_MAX_TENSORS];
    size_t ready = 0, sent = 0;
    if (!link->socket || frames_count > FRAME_MAX_TENSORS) {
        return -1;
    }
    enum pack_place where = place_frames(link, meta_bytes, frames, frames_count);
    if (where == PACK_NOW) {
        pack_group(link, env, meta, meta_bytes, frames, frames_count);
        return 0;
    }
    if (where == PACK_LATER) {
        return -1;
    }
    while (ready < frames_count && payload_lend(payload, frames[ready].data, frames[ready].bytes, &msgs[ready]) == 0) {
        ready++;
    }
    /* Everything that can fail for lack of memory comes before the first part: a half-sent message cannot be taken back. */
    env.frames = (uint8_t)frames_count;
    if (ready == frames_count && send_header(link, env, meta, meta_bytes, frames_count ? ZMQ_SNDMORE : 0) == 0) {
        while (sent < ready &&
               zmq_msg_send(&msgs[sent], link->socket, ZMQ_DONTWAIT | (sent + 1 < ready ? ZMQ_SNDMORE : 0)) >= 0) {
            sent++;
        }
        if (sent == ready) {
            return 0;
        }
    }
    for (size_t i = sent; i < ready; i++) {
        zmq_msg_close(&msgs[i]);
    }
    return -1;
}

int link_send_chunk(struct link *link, struct envelope env, struct payload *payload, const void *data, size_t bytes)
{
    zmq_msg_t msg;
    uint8_t header[FRAME_ENVELOPE_BYTES];
    if (!link->bulk || payload_lend(payload, data, bytes, &msg) != 0) {
        return -1;
    }
    envelope_encode(&env, header);
    if (zmq_send(link->bulk, header, sizeof header, ZMQ_DONTWAIT | ZMQ_SNDMORE) != (int)sizeof header ||
        zmq_msg_send(&msg, link->bulk, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&msg);
        return -1;
    }
    return 0;
}

int link_receive(struct link *link, struct incoming *in, struct pen_error *reterr)
{
    int got = link->socket ? incoming_receive(link->socket, &link->coming, in, reterr) : 0;
    return got == 0 && link->bulk ? incoming_receive(link->bulk, &link->bulk_coming, in, reterr) : got;
}
