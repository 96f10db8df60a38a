/*
 * bulk_link.h - the address of a bulk connection when the broker has a port for these alone (proto/PROTOCOL.md, "Large
 * payloads"), and a way to start its threads so that they give way to all others. bulk_context.h makes a ZeroMQ context
 * with it.
 *
 * Threads: any.
 */
#ifndef BULK_LINK_H
#define BULK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BULK_ENDPOINT_BYTES 300u

/* Writes `endpoint` (tcp://host:port) with another port. False, and nothing written: it has another form, does not
   fit into `bytes`, or the port is invalid. */
bool bulk_endpoint(const char *endpoint, uint32_t port, char *ret_text, size_t bytes);

/* Calls `begin` on a thread that gives way to all others (urgency.h), as do the threads that it starts; returns the
   result of `begin`. NULL: no thread. */
void *bulk_begin(void *(*begin)(void *unused));

#endif
