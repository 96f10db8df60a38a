/*
 * bulk_link.h - where the owner of a bulk connection finds it when the broker has a port for such alone (proto/PROTOCOL.md, "Large payloads"), and how
 * threads begin that carry it and give way to all others. bulk_context.h makes a ZeroMQ context so.
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

/* Calls `begin` on a thread that gives way to all others (urgency.h), as do those that it starts, and gives what it returns. NULL: no thread. */
void *bulk_begin(void *(*begin)(void *unused));

#endif
