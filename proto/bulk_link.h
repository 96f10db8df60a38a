/*
 * bulk_link.h - where the owner of a bulk connection finds it when the broker has a port for such alone (proto/README.md, "Large payloads"), and a ZeroMQ context
 * for it whose threads give way to all others.
 *
 * Threads: any.
 */
#ifndef BULK_LINK_H
#define BULK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BULK_ENDPOINT_BYTES 300u

/* `endpoint` (tcp://host:port) with another port. False, nothing written: it is none such, or has no room in `bytes`, or the port is none. */
bool bulk_endpoint(const char *endpoint, uint32_t port, char *ret_text, size_t bytes);

/* Its threads run already and have been told to give way (urgency.h). Gives: for zmq_ctx_term. NULL: no memory, descriptors or threads. */
void *bulk_context_new(void);

#endif
