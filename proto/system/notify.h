/*
 * notify.h - tells the service manager that started a program how we are: READY=1, STATUS=, WATCHDOG=1, STOPPING=1 to NOTIFY_SOCKET.
 *
 * The protocol is one datagram of lines per message; nothing happens where NOTIFY_SOCKET is not set. Under --supervise the worker's own process
 * speaks: the unit needs NotifyAccess=all.
 *
 * Threads: any.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdint.h>

__attribute__((format(printf, 1, 2))) void notify_send(const char *format, ...);

/* How often WATCHDOG=1 is to be sent: half of WATCHDOG_USEC, UINT64_MAX when nobody waits for it. */
uint64_t notify_watchdog_us(void);

#endif
