#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "keys.h"
#include "pack_socket.h"
#include "worker.pb-c.h"

void wire_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void wire_send(void *socket, struct envelope *env, const ProtobufCMessage *meta, int more)
{
    size_t bytes = meta ? protobuf_c_message_get_packed_size(meta) : 0;
    zmq_msg_t message;
    env->meta_bytes = (uint32_t)bytes;
    if (zmq_msg_init_size(&message, FRAME_ENVELOPE_BYTES + bytes) != 0) {
        wire_die("out of memory");
    }
    envelope_encode(env, zmq_msg_data(&message));
    if (meta) {
        protobuf_c_message_pack(meta, (uint8_t *)zmq_msg_data(&message) + FRAME_ENVELOPE_BYTES);
    }
    if (zmq_msg_send(&message, socket, more ? ZMQ_SNDMORE : 0) < 0) {
        wire_die("send: %s", zmq_strerror(zmq_errno()));
    }
}

void wire_flush(void *socket, struct pack_writer *going)
{
    if (pack_send(going, socket) != 0) {
        wire_die("send: %s", zmq_strerror(zmq_errno()));
    }
}

void wire_send_packed(void *socket, struct pack_writer *going, struct envelope *env, const ProtobufCMessage *meta)
{
    size_t bytes = meta ? protobuf_c_message_get_packed_size(meta) : 0, all = FRAME_ENVELOPE_BYTES + bytes;
    enum pack_place place = pack_prepare(going, socket, 1, all, all);
    if (place != PACK_NOW) {
        wire_send(socket, env, meta, 0);
        return;
    }
    env->meta_bytes = (uint32_t)bytes;
    uint8_t *to = envelope_encode(env, pack_frame(going, all, false));
    if (meta) {
        protobuf_c_message_pack(meta, to);
    }
}

uint32_t wire_pack_bytes(void)
{
    return getenv("BENCH_PLAIN") ? 0 : pack_bytes_taken(0);
}

uint32_t wire_pack_allowed(const struct envelope *env, const uint8_t *meta)
{
    Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, env->meta_bytes, meta);
    uint32_t bytes = welcome && !getenv("BENCH_PLAIN") ? welcome->pack_bytes : 0;
    penstock__welcome__free_unpacked(welcome, NULL);
    return bytes;
}

bool wire_pack_take(struct wire_pack *pack, zmq_msg_t *message)
{
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error = {.status = PEN_OK};
    if (!pack_is(zmq_msg_data(message), zmq_msg_size(message))) {
        return false;
    }
    if (envelope_decode(zmq_msg_data(message), zmq_msg_size(message), &env, &meta, &error) != PEN_OK ||
        pack_reader_open(&pack->reader, meta, env.meta_bytes, &error) != PEN_OK) {
        wire_die("%s", error.text);
    }
    zmq_msg_init(&pack->frame);
    zmq_msg_move(&pack->frame, message);
    pack->open = true;
    return true;
}

bool wire_pack_next(struct wire_pack *pack, struct pack_item *ret_item)
{
    if (pack->open && pack_next(&pack->reader, ret_item)) {
        return true;
    }
    if (pack->open) {
        zmq_msg_close(&pack->frame);
    }
    pack->open = false;
    return false;
}

void wire_send_bytes(void *socket, const void *bytes, size_t size, int more)
{
    if (zmq_send(socket, bytes, size, more ? ZMQ_SNDMORE : 0) < 0) {
        wire_die("send: %s", zmq_strerror(zmq_errno()));
    }
}

int wire_more(void *socket)
{
    int more = 0;
    size_t size = sizeof more;
    zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    return more;
}

void wire_drop_rest(void *socket)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (wire_more(socket)) {
        if (zmq_msg_recv(&message, socket, 0) < 0) {
            break;
        }
    }
    zmq_msg_close(&message);
}

void wire_curve(void *socket, int server)
{
    struct key_set keys;
    struct pen_error error = {.status = PEN_OK};
    const int on = 1;
    if (key_set_read(getenv("BENCH_KEY"), getenv("BENCH_BROKER_KEY"), &keys, &error) != PEN_OK) {
        wire_die("%s", error.text);
    }
    if (keys.used && server) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.own.secret_key, KEY_BYTES);
    } else if (keys.used) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys.broker, KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys.own.public_key, KEY_BYTES);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.own.secret_key, KEY_BYTES);
    }
}

void *wire_dealer(void *context, const char *endpoint)
{
    const int none = 0;
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (!socket || zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none) ||
        zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none) ||
        zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none)) {
        wire_die("cannot connect to %s: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    wire_curve(socket, 0);
    if (zmq_connect(socket, endpoint) != 0) {
        wire_die("cannot connect to %s: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    return socket;
}
