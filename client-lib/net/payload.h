/*
 * payload.h - the bytes of a job's inputs, lent to ZeroMQ messages until each has been written out.
 *
 * A copy of its own, a copy in sealed memory, or borrowed from the caller, who is told by `release` when nobody reads them any more.
 * Threads: any (a counter; ZeroMQ drops its references on its I/O thread).
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include <zmq.h>

struct payload;
struct sealed;

/* copy_bytes > 0: payload_copy() gives that many writable bytes. release may be NULL. One reference for the caller; NULL without memory. */
struct payload *payload_new(size_t copy_bytes, void (*release)(void *arg), void *release_arg);
unsigned char *payload_copy(struct payload *payload);
struct payload *payload_retain(struct payload *payload); /* NULL is fine */
void payload_drop(struct payload *payload); /* gives back a reference; NULL is fine; the last one calls release */

/* The bytes lie in that sealed block, which the payload owns from now on. */
void payload_seal(struct payload *payload, struct sealed *block);
struct sealed *payload_sealed(const struct payload *payload); /* borrowed; NULL: they do not; NULL payload is fine */

/* Nobody but the caller holds a reference. */
bool payload_alone(const struct payload *payload);

/* Makes `msg` refer to `data`, which the payload covers. 0, or -1 without memory. */
int payload_lend(struct payload *payload, const void *data, size_t bytes, zmq_msg_t *msg);

/* The caller takes back the promise to be told: used when submit fails. */
void payload_forget_release(struct payload *payload);

#endif
