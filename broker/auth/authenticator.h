/*
 * authenticator.h - answers libzmq's question whether a public key may come in (RFC 27/ZAP), on a thread of its own.
 *
 * A key that is not on the list is refused in the handshake, so none of its messages reaches the broker's loop. A key
 * without the role of that port may still send its hello, so that the answer can say why it is refused (door.h). Each
 * message that is let in carries its sender's key as its User-Id.
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
