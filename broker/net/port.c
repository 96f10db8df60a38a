#include "port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "job_id.h"
#include "port_pack.h"

enum { THREAD_ORDINARY = 1, THREAD_BULK = 2 }; /* of the context's I/O threads, bits */

static bool router_begin(struct port *port, uint32_t peer)
{
    return port_pack_begin(port, peer) == PACK_WAY_HELD || port_begin_direct(port, peer);
}

static void router_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows)
{
    if (port_pack_part(port, frame, follows))
        return;
    if (port_pack_drops(port, follows)) {
        zmq_msg_close(frame);
        return;
    }
    size_t bytes = zmq_msg_size(frame);
    while (zmq_msg_send(frame, port->socket, ZMQ_DONTWAIT | (follows == FRAME_MORE ? ZMQ_SNDMORE : 0)) < 0) {
        if (errno == EINTR)
            continue;
        zmq_msg_close(frame);
        return;
    }
    port->bytes_out += bytes;
}

static void option_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

/* Send pipes are unlimited because ROUTER drops silently at its mark; link.h counts what each peer has not taken yet. */
static void set_options(void *socket, const struct port_options *options)
{
    option_int(socket, ZMQ_SNDHWM, 0);
    option_int(socket, ZMQ_RCVHWM, 1000);
    option_int(socket, ZMQ_ROUTER_MANDATORY, 1);
    option_int(socket, ZMQ_LINGER, 0);
    option_int(socket, ZMQ_BACKLOG, 1024);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &options->frame_bytes_max, sizeof options->frame_bytes_max);
    /* libzmq's own heartbeats notice a frozen host; they close the connection and free what waits for it. */
    option_int(socket, ZMQ_HEARTBEAT_IVL, (int)(options->heartbeat_us / 1000));
    option_int(socket, ZMQ_HEARTBEAT_TIMEOUT, (int)(options->liveness_us / 1000));
    option_int(socket, ZMQ_HANDSHAKE_IVL, 10000); /* a peer that connects and says nothing is disconnected */
    option_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    option_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 3);
    option_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    option_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5);
}

static void use_keys(struct port *port, const struct port_options *options)
{
    if (!options->key)
        return;
    option_int(port->socket, ZMQ_CURVE_SERVER, 1);
    zmq_setsockopt(port->socket, ZMQ_CURVE_SECRETKEY, options->key->secret_key, KEY_BYTES);
    zmq_setsockopt(port->socket, ZMQ_ZAP_DOMAIN, options->zap_domain, strlen(options->zap_domain));
    port->authenticated = true;
}

static enum pen_status watch(struct port *port, void *context, const char *name, struct pen_error *reterr)
{
    int linger = 0;
    port->monitor = zmq_socket(context, ZMQ_PAIR);
    if (!port->monitor || zmq_socket_monitor(port->socket, name, ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_setsockopt(port->monitor, ZMQ_LINGER, &linger, sizeof linger) != 0 || zmq_connect(port->monitor, name) != 0)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot watch the connections of %s: %s", name, zmq_strerror(errno));
    return PEN_OK;
}

static enum pen_status bind_error(const char *endpoint, struct pen_error *reterr)
{
    if (errno == EADDRINUSE)
        return pen_error_set(reterr, PEN_ERR_IO,
                             "%s is taken, perhaps by another broker; stop that one or choose another address",
                             endpoint);
    return pen_error_set(reterr, PEN_ERR_IO, "cannot listen on %s: %s", endpoint, zmq_strerror(errno));
}

/*
 * ROUTER numbers its peers upwards from rand(3), which begins with the same number in every process, and libzmq 4.3.4
 * ends the program when a peer has set the next number as its own identity. With a seed of our own no peer can guess
 * the numbers.
 */
static void unguessable_ids(void)
{
    srand((unsigned)random_u64());
}

/* Chooses the context's I/O threads, as bits, for the connections of addresses that are bound from now on. */
static void use_threads(void *socket, uint64_t threads)
{
    zmq_setsockopt(socket, ZMQ_AFFINITY, &threads, sizeof threads);
}

/* The same socket at a second address. */
static enum pen_status bind_bulk(struct port *port, const struct port_options *options, struct pen_error *reterr)
{
    char endpoint[256] = "";
    size_t bytes = sizeof endpoint;
    use_threads(port->socket, THREAD_BULK);
    if (zmq_bind(port->socket, options->bulk_endpoint) != 0)
        return bind_error(options->bulk_endpoint, reterr);
    zmq_getsockopt(port->socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes);
    const char *colon = strrchr(endpoint, ':');
    port->bulk_number = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    return PEN_OK;
}

enum pen_status port_open(struct port *port, void *context, const struct port_options *options,
                          struct pen_error *reterr)
{
    *port = (struct port){.begin = router_begin, .part = router_part, .queues = true};
    unguessable_ids();
    port->socket = zmq_socket(context, ZMQ_ROUTER);
    if (!port->socket)
        return pen_error_set(reterr, PEN_ERR_IO, "cannot make a socket: %s", zmq_strerror(errno));
    set_options(port->socket, options);
    use_keys(port, options);
    enum pen_status status = watch(port, context, options->monitor_name, reterr);
    if (status == PEN_OK && options->bulk_endpoint)
        status = bind_bulk(port, options, reterr);
    use_threads(port->socket, THREAD_ORDINARY); /* also when only the other port has an address for bulk connections */
    if (options->fd >= 0)
        option_int(port->socket, ZMQ_USE_FD, options->fd); /* the socket's from now on: bind only names it */
    if (status == PEN_OK && zmq_bind(port->socket, options->endpoint) != 0)
        status = bind_error(options->endpoint, reterr);
    if (status != PEN_OK)
        port_close(port, 0);
    return status;
}

void port_close(struct port *port, int linger_ms)
{
    port_packs_free(port);
    if (port->socket) {
        zmq_socket_monitor(port->socket, NULL, 0);
        option_int(port->socket, ZMQ_LINGER, linger_ms);
        zmq_close(port->socket);
    }
    if (port->monitor)
        zmq_close(port->monitor);
    port->socket = port->monitor = NULL;
}

enum pen_status port_endpoint(const struct port *port, char *ret_text, size_t bytes)
{
    return zmq_getsockopt(port->socket, ZMQ_LAST_ENDPOINT, ret_text, &bytes) == 0 ? PEN_OK : PEN_ERR_IO;
}

static bool receive_peer(struct port *port, struct message *message, bool *ret_more)
{
    zmq_msg_t id;
    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, port->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&id);
        return false;
    }
    const uint8_t *bytes = zmq_msg_data(&id);
    message->named = zmq_msg_size(&id) != PEER_ID_BYTES || bytes[0] != 0;
    if (!message->named)
        memcpy(&message->peer, bytes + 1, sizeof message->peer);
    *ret_more = zmq_msg_more(&id) != 0;
    zmq_msg_close(&id);
    return true;
}

bool port_receive(struct port *port, struct message *message)
{
    bool more;
    message_clear(message);
    if (port_pack_next(port, message))
        return true;
    if (port_pack_reads(port))
        return false;
    if (!receive_peer(port, message, &more)) {
        port->emptied++;
        port->dry = true;
        return false;
    }
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, port->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame); /* parts arrive together or not at all; only EINTR comes here */
            if (errno == EINTR)
                continue;
            break;
        }
        more = zmq_msg_more(&frame) != 0;
        port->bytes_in += zmq_msg_size(&frame);
        message_add(message, &frame);
    }
    if (message->count == 1 && port_pack_take(port, message)) {
        message_clear(message);
        return port_pack_next(port, message);
    }
    if (port->authenticated && message->count > 0)
        message->user = zmq_msg_gets(&message->frames[0], "User-Id");
    return true;
}

/* A monitor message: u16 event, u32 value (the file descriptor), then the address. */
void port_losses(struct port *port, void (*lost)(void *context, int fd), void *context)
{
    for (;;) {
        uint8_t event[6];
        char address[256];
        if (zmq_recv(port->monitor, event, sizeof event, ZMQ_DONTWAIT) < 0)
            return;
        zmq_recv(port->monitor, address, sizeof address, ZMQ_DONTWAIT);
        uint16_t kind;
        int32_t value;
        memcpy(&kind, event, sizeof kind);
        memcpy(&value, event + 2, sizeof value);
        if (kind == ZMQ_EVENT_DISCONNECTED)
            lost(context, value);
    }
}

bool port_send(struct port *port, uint32_t peer, struct envelope *env, const void *meta, size_t meta_bytes)
{
    zmq_msg_t frame;
    env->meta_bytes = (uint32_t)meta_bytes;
    if (zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + meta_bytes) != 0)
        return false;
    uint8_t *to = envelope_encode(env, zmq_msg_data(&frame));
    if (meta_bytes)
        memcpy(to, meta, meta_bytes);
    if (!port->begin(port, peer)) {
        zmq_msg_close(&frame);
        return false;
    }
    port->part(port, &frame, FRAME_LAST);
    return true;
}
