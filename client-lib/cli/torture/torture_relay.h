/*
 * torture_relay.h - a TCP relay on loopback that stands between two programs, so that their connection can be cut without anybody being told.
 *
 * It has a thread of its own. Threads: any.
 */
#ifndef TORTURE_RELAY_H
#define TORTURE_RELAY_H

#include <stdint.h>

/* One listening port per lane. */
struct relay;
struct relay *relay_new(void); /* NULL: no thread or no descriptors */
void relay_free(struct relay *relay);
/* Listens for connections that go on to 127.0.0.1:`port`; returns the lane, -1 on failure. Its own port: relay_port. */
int relay_add(struct relay *relay, int port);
int relay_port(const struct relay *relay, int lane);
/* Until then nothing is passed on in that direction (1 = to the target, 2 = back, 3 = both); the connections stay. */
void relay_cut(struct relay *relay, int lane, unsigned directions, uint64_t until_us);
/* Ends all connections of the lane at once. */
void relay_reset(struct relay *relay, int lane);

#endif
