#include "dealer.h"

#include <errno.h>
#include <string.h>

#define SEND_MARK    4096 /* messages: a hand-over has fewer under way */
#define RECONNECT_MS 100

static void option_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

static void set_options(void *socket, const struct key_pair *key, int64_t frame_bytes_max)
{
    option_int(socket, ZMQ_LINGER, 0);
    option_int(socket, ZMQ_IMMEDIATE, 1); /* what nobody receives now is not sent */
    option_int(socket, ZMQ_SNDHWM, SEND_MARK);
    option_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    option_int(socket, ZMQ_HEARTBEAT_IVL, 1000);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max);
    if (!key)
        return;
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, key->public_key, KEY_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, key->public_key, KEY_BYTES);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, key->secret_key, KEY_BYTES);
}

/* Parts leave together or not at all: only the first one can find no room. */
static bool dealer_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    bool sent = true;
    for (size_t i = 0; i < count; i++) {
        int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0), got = -1;
        while (sent && (got = zmq_msg_send(&frames[i], dealer->socket, flags)) < 0 && errno == EINTR)
            ;
        sent &= got >= 0;
        if (got < 0)
            zmq_msg_close(&frames[i]);
    }
    return sent;
}

static bool dealer_receive(struct dealer *dealer, struct message *message)
{
    bool more = true;
    message_clear(message);
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, dealer->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&frame);
            if (errno == EINTR)
                continue;
            break;
        }
        more = zmq_msg_more(&frame) != 0;
        message_add(message, &frame);
    }
    return message->count > 0;
}

enum pen_status dealer_open(struct dealer *dealer, void *context, const char *endpoint, const struct key_pair *key,
                            int64_t frame_bytes_max, struct pen_error *reterr)
{
    *dealer = (struct dealer){.send = dealer_send, .receive = dealer_receive};
    dealer->socket = zmq_socket(context, ZMQ_DEALER);
    if (!dealer->socket)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot make a socket: %s", zmq_strerror(errno));
    set_options(dealer->socket, key, frame_bytes_max);
    if (zmq_connect(dealer->socket, endpoint) == 0)
        return PEN_OK;
    pen_error_set(reterr, PEN_ERR_INVALID, "--neighbours: \"%s\" is no endpoint of a broker (%s)", endpoint,
                  zmq_strerror(errno));
    dealer_close(dealer);
    return PEN_ERR_INVALID;
}

void dealer_close(struct dealer *dealer)
{
    if (dealer->socket)
        zmq_close(dealer->socket);
    dealer->socket = NULL;
}

bool dealer_say(struct dealer *dealer, struct envelope env, const void *meta, size_t meta_bytes)
{
    zmq_msg_t frame;
    env.meta_bytes = (uint32_t)meta_bytes;
    if (zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + meta_bytes) != 0)
        return false;
    uint8_t *to = envelope_encode(&env, zmq_msg_data(&frame));
    if (meta_bytes)
        memcpy(to, meta, meta_bytes);
    return dealer->send(dealer, &frame, 1);
}
