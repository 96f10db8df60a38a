/*
 * exit_codes.h - how the program ends, for supervisors and scripts. Threads: any.
 */
#ifndef EXIT_CODES_H
#define EXIT_CODES_H

/* Exit codes of the program. */
enum worker_exit {
    WORKER_EXIT_OK = 0,      /* drained */
    WORKER_EXIT_FAILED = 1,  /* something broke: memory, a thread, an unfinished drain */
    WORKER_EXIT_USAGE = 2,   /* an option, an unknown backend, or one this host lacks */
    WORKER_EXIT_MODELS = 3,  /* nothing could be loaded */
    WORKER_EXIT_REFUSED = 4, /* the broker refuses this worker */
    WORKER_EXIT_VERSION = 5, /* the broker speaks another protocol */
    WORKER_EXIT_WEDGED = 6   /* the watchdog: a slot exceeded its job's hard limit */
};

#endif
