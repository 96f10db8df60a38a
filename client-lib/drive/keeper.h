/*
 * keeper.h - the thread that moves the session when nobody waits.
 *
 * It makes a short turn every 20 ms while something is under way, and rests until the next heartbeat otherwise; after pen_client_fd() it drives all the time.
 * Threads: whoever connects and frees the client, the lock not held.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include "core.h"

enum pen_status keeper_start(struct pen_client *client, struct pen_error *reterr);
void keeper_stop(struct pen_client *client); /* ends it, and wakes all who wait */

#endif
