#include "h2_client.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "grpc_message.h"

static struct grpc_server *server;
static struct sockaddr_un server_address; /* a socket of this host delivers at once */
static socklen_t server_address_bytes;

struct grpc_server *serve(bool (*streams)(void *, const char *), void (*on_request)(void *, struct grpc_request *),
                          struct grpc_server_options options)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    options.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(options.fd, (const struct sockaddr *)(const void *)&any, sizeof any.sun_family), 0);
    cr_assert_eq(listen(options.fd, 16), 0);
    server_address_bytes = sizeof server_address;
    getsockname(options.fd, (struct sockaddr *)(void *)&server_address, &server_address_bytes);
    options.streams = streams;
    options.on_request = on_request;
    cr_assert_eq(grpc_server_new(&options, &server), PEN_OK);
    return server;
}

/* ---- what the peer hears ---- */

static void keep(const uint8_t *value, size_t bytes, char *to, size_t room)
{
    snprintf(to, room, "%.*s", (int)bytes, (const char *)value);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_bytes,
                     const uint8_t *value, size_t bytes, uint8_t flags, void *user)
{
    struct peer_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)name_bytes;
    (void)flags;
    (void)user;
    if (strcmp((const char *)name, ":status") == 0)
        keep(value, bytes, call->status, sizeof call->status);
    if (strcmp((const char *)name, "grpc-status") == 0)
        keep(value, bytes, call->grpc_status, sizeof call->grpc_status);
    if (strcmp((const char *)name, "grpc-message") == 0)
        keep(value, bytes, call->grpc_message, sizeof call->grpc_message);
    if (strcmp((const char *)name, "grpc-encoding") == 0)
        keep(value, bytes, call->encoding, sizeof call->encoding);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t bytes, void *user)
{
    struct peer_call *call = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    (void)user;
    for (size_t i = 0; i < bytes; i++, call->got_bytes++)
        if (call->got_bytes < ANSWER_BYTES)
            call->got[call->got_bytes] = data[i];
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct peer *peer = user;
    struct peer_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        peer->went_away = true;
        peer->goaway = frame->goaway.error_code;
        keep(frame->goaway.opaque_data, frame->goaway.opaque_data_len, peer->why, sizeof peer->why);
    }
    if (call && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        call->ended = true;
    if (call && frame->hd.type == NGHTTP2_RST_STREAM) {
        call->was_reset = true;
        call->reset = frame->rst_stream.error_code;
    }
    return 0;
}

/* ---- life ---- */

void peer_open(struct peer *peer, uint32_t window)
{
    nghttp2_session_callbacks *callbacks;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
    memset(peer, 0, sizeof *peer);
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(peer->fd, (struct sockaddr *)(void *)&server_address, server_address_bytes), 0);
    fcntl(peer->fd, F_SETFL, O_NONBLOCK);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_client_new(&peer->session, callbacks, peer);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, settings, 1);
    settle(peer);
}

void peer_close(struct peer *peer)
{
    nghttp2_session_del(peer->session);
    close(peer->fd);
    for (unsigned i = 0; i < 1000 && grpc_server_counts(server).connections > 0; i++) {
        grpc_server_ready(server);
        usleep(1000);
    }
}

/* ---- what the peer says ---- */

static ssize_t read_given(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *user)
{
    struct peer_call *call = source->ptr;
    size_t left = call->given.used - call->given_at, count = left < room ? left : room;
    (void)session;
    (void)id;
    (void)user;
    if (count)
        memcpy(to, call->given.data + call->given_at, count);
    call->given_at += count;
    if (count == left && call->ends)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return count == 0 && !call->ends ? NGHTTP2_ERR_DEFERRED : (ssize_t)count;
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

void peer_call(struct peer *peer, struct peer_call *call, const char *path, const char *const *more)
{
    nghttp2_nv headers[16] = {header(":method", "POST"), header(":scheme", "http"), header(":path", path),
                              header(":authority", "here"), header("content-type", "application/grpc")};
    size_t count = 5;
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_given};
    for (; more && *more; more += 2)
        headers[count++] = header(more[0], more[1]);
    memset(call, 0, sizeof *call);
    call->id = nghttp2_submit_request(peer->session, NULL, headers, count, &provider, call);
    cr_assert_gt(call->id, 0);
    settle(peer);
}

void peer_say(struct peer *peer, struct peer_call *call, const void *message, size_t bytes, bool packed, bool last)
{
    unsigned char prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(bytes, packed, prefix);
    bytes_add(&call->given, prefix, sizeof prefix);
    bytes_add(&call->given, message, bytes);
    call->ends = last;
    nghttp2_session_resume_data(peer->session, call->id);
    settle(peer);
}

void peer_say_raw(struct peer *peer, const void *bytes, size_t count)
{
    cr_assert_eq(send(peer->fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    settle(peer);
}

static bool hear(struct peer *peer)
{
    static uint8_t data[65536];
    ssize_t count = recv(peer->fd, data, sizeof data, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) {
        peer->closed = true;
        return false;
    }
    if (count > 0)
        nghttp2_session_mem_recv(peer->session, data, (size_t)count);
    return count > 0;
}

static bool speak(struct peer *peer)
{
    const uint8_t *data;
    ssize_t count = nghttp2_session_mem_send(peer->session, &data);
    return count > 0 && send(peer->fd, data, (size_t)count, MSG_NOSIGNAL) == count;
}

void settle(struct peer *peer)
{
    for (unsigned quiet = 0; quiet < 3 && !peer->closed; quiet++) {
        while (speak(peer))
            quiet = 0;
        grpc_server_ready(server);
        while (!peer->closed && hear(peer))
            quiet = 0;
    }
}
