/*
 * dealer.h - this broker's own connection to another broker: a DEALER that goes to that one's port for clients.
 *
 * Sending and receiving are pointers, as in port.h, so that tests connect two brokers without sockets. While there is no
 * connection nothing is kept for later: `send` says so. libzmq connects again by itself.
 * Threads: owner.
 */
#ifndef DEALER_H
#define DEALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"
#include "penstock/status.h"
#include "port.h"

struct dealer {
    /* Takes the frames. False: nobody is there, or too much waits; nothing was sent. */
    bool (*send)(struct dealer *dealer, zmq_msg_t *frames, size_t count);
    /* Takes one message without waiting: true when there was one. */
    bool (*receive)(struct dealer *dealer, struct message *message);
    void *socket;
};

/* key: of all brokers that know each other, NULL = none. PEN_ERR_INVALID names an endpoint that is none. */
enum pen_status dealer_open(struct dealer *dealer, void *context, const char *endpoint, const struct key_pair *key,
                            int64_t frame_bytes_max, struct pen_error *reterr);
void dealer_close(struct dealer *dealer);

/* Sends one header frame of `env` and `meta`. */
bool dealer_say(struct dealer *dealer, struct envelope env, const void *meta, size_t meta_bytes);

#endif
