/*
 * notify.h - tells the service manager the program's state: sends READY=1, STATUS=, WATCHDOG=1, STOPPING=1 to
 * NOTIFY_SOCKET.
 *
 * Each message is one datagram of lines; without NOTIFY_SOCKET nothing is sent. Under --supervise the worker's own
 * process sends them, so the unit needs NotifyAccess=all.
 *
 * Threads: any.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdint.h>

__attribute__((format(printf, 1, 2))) void notify_send(const char *format, ...);

/* How often to send WATCHDOG=1: half of WATCHDOG_USEC; UINT64_MAX when no service manager expects it. */
uint64_t notify_watchdog_us(void);

#endif
