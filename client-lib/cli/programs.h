/*
 * programs.h - the pool's programs started by a command for a while: where they lie, free ports, logs, the end.
 *
 * Threads: owner - the main thread.
 */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <stdbool.h>
#include <sys/types.h>

#define PROGRAM_PATH_BYTES 512u

/* A TCP port of loopback that nobody listens on; -1: none. */
int program_free_port(void);
bool program_listens(int port);
/*
 * Starts a program of the folder `bin` ("" = beside this one, else by PATH), with its output in the file `log`. It dies with us, and Ctrl-C is for us alone.
 * args end with NULL. Returns its id, or -1.
 */
pid_t program_start(const char *bin, const char *name, const char *log, const char *const args[]);
/* Asks it to end, waits, and ends it by force after `patience_ms`. *pid becomes 0. */
void program_stop(pid_t *pid, unsigned patience_ms);
/* True: it has ended, and is reaped; *pid becomes 0. */
bool program_ended(pid_t *pid);

#endif
