/*
 * signals.h - SIGTERM, SIGINT and SIGHUP ask for a drain; the second one, which no SIGHUP is, ends the process at once. Installed before models load.
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
/* 1 after SIGUSR1 (log more), -1 after SIGUSR2 (log less), 0 otherwise; the answer is given once. */
int signals_level(void);
void signals_supervised(void); /* signals of the parent and of others count apart: two of one kind end the process */
void signals_settled(
    void); /* all work is answered and only memory is left to free: a second signal changes nothing any more */
/* Blocks all for threads that the caller makes now, but for SIGBUS (file_fault.h); pthread_sigmask takes *ret_before back. Threads: any. */
void signals_block(sigset_t *ret_before);
void signals_wake(int fd); /* an eventfd that is written when one comes; -1 = none */

#endif
