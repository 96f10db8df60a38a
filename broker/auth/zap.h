/*
 * zap.h - the porter: answers libzmq's question whether a public key may come in (RFC 27/ZAP), on a thread of its own.
 *
 * A key that the ring does not know is refused in the handshake: nothing of it reaches the broker's loop. One that lacks the role of the door is let in as
 * far as its hello, so that it can be told so (door.h). What is let in carries its key as the User-Id of every message.
 * Threads: zap_start, zap_stop: owner.
 */
#ifndef ZAP_H
#define ZAP_H

#include <stdint.h>

#include "keyring.h"

#define ZAP_DOMAIN_CLIENTS "clients"
#define ZAP_DOMAIN_WORKERS "workers"

struct zap;
/* Before the sockets are bound. `keyring` is borrowed until zap_stop. */
enum pen_status zap_start(void *context, struct keyring *keyring, struct zap **ret_zap, struct pen_error *reterr);
void zap_stop(struct zap *zap); /* NULL is fine */

#endif
