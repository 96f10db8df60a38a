/*
 * timers.h - what a session does because its time has come: connect, reconnect, PING, ACK, deadlines, giving up.
 *
 * States and timeouts: proto/PROTOCOL.md, "A client's life". All calls need the client's lock and the socket (core.h).
 * Threads: owner.
 */
#ifndef TIMERS_H
#define TIMERS_H

#include "core.h"

/* Everything whose time has come. */
void timers_run(struct pen_client *client, uint64_t now_us);
/* When timers_run has something to do next. */
uint64_t timers_next_us(struct pen_client *client);

#endif
