/*
 * signals.h - SIGTERM, SIGINT and SIGHUP ask for a drain; a second SIGTERM or SIGINT ends the process at once.
 * Installed before models load.
 *
 * Threads: signals_asked any; the rest one-at-a-time at start.
 */
#ifndef SIGNALS_H
#define SIGNALS_H

#include <signal.h>
#include <stdbool.h>

void signals_install(void);
bool signals_hangup_ignored(void); /* nohup: SIGHUP stays ignored */
bool signals_asked(void);
/* 1 after SIGUSR1 (log more), -1 after SIGUSR2 (log less), 0 otherwise; each signal is reported once. */
int signals_level(void);
void signals_supervised(void); /* counts the parent's signals and others apart: two of a kind end it */
void signals_settled(
    void); /* all work is answered and only memory is left to free: a second signal has no effect any more */
/* Blocks all signals except SIGBUS (file_fault.h), for threads that the caller then starts; restore *ret_before with
   pthread_sigmask. Threads: any. */
void signals_block(sigset_t *ret_before);
void signals_wake(int fd); /* fd: an eventfd to write to when a signal comes; -1 = none */

#endif
