/*
 * drive.h - who moves the session: the blocking caller itself, one after the other, else a housekeeping thread.
 *
 * A blocked caller takes the socket ("drives") when nobody has it, handles every message that comes, and passes the socket on to the next
 * waiter when its own answer is there. A job in the blocking style therefore changes threads only inside ZeroMQ. When nobody waits the keeper thread
 * moves the session (keeper.h).
 * Threads: any, with the client's lock held.
 */
#ifndef DRIVE_H
#define DRIVE_H

#include "core.h"

#define DRIVE_BUSY_US 20000u /* the keeper's pause while something is under way */

/* Waits until *flag, which changes under the lock, or until the time limit_us (absolute). Gives up the lock while it sleeps. */
void drive_until(struct pen_client *client, const bool *flag, uint64_t limit_us);

/* There is something new to send: now, or by waking whoever drives. */
void drive_kick(struct pen_client *client);

/* Handles what is there, without blocking. */
void drive_once(struct pen_client *client);
/* As pen_client_loop_busy(). With the lock. */
void drive_loop_busy(struct pen_client *c, bool busy);

/* A new connection, so that what lies unsent in the old one is dropped. True: it is; false: who drives does it, a little later. */
bool drive_drop_unsent(struct pen_client *client);

/* Something is under way: the keeper must not sleep for long. */
bool drive_busy(const struct pen_client *client);

/* Somebody other than the driver set a flag that threads may wait for. */
void drive_changed(struct pen_client *client);

#endif
