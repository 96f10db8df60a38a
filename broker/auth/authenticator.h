/*
 * authenticator.h - answers libzmq's question whether a public key may come in (RFC 27/ZAP), on a thread of its own.
 *
 * A key that the ring does not know is refused in the handshake: nothing of it reaches the broker's loop. One that lacks the role of the door is let in as
 * far as its hello, so that it can be told so (door.h). What is let in carries its key as the User-Id of every message.
 * Threads: authenticator_start, authenticator_stop: owner.
 */
#ifndef AUTHENTICATOR_H
#define AUTHENTICATOR_H

#include <stdint.h>

#include "keyring.h"

#define AUTHENTICATOR_DOMAIN_CLIENTS "clients"
#define AUTHENTICATOR_DOMAIN_WORKERS "workers"

struct authenticator;
/* Before the sockets are bound. `keyring` is borrowed until authenticator_stop. */
enum pen_status authenticator_start(void *context, struct keyring *keyring, struct authenticator **ret_authenticator,
                                    struct pen_error *reterr);
void authenticator_stop(struct authenticator *authenticator); /* NULL is fine */

#endif
