/*
 * inherited.h - listening sockets that a service manager has opened for us (socket activation: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES).
 *
 * A socket unit names them `clients`, `workers` and `http`; whatever is not handed over is opened as the settings say. The descriptors are ours
 * from inherited_take on.
 * Threads: one-at-a-time, at start.
 */
#ifndef INHERITED_H
#define INHERITED_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/status.h"

#define INHERITED_MAX 3u

struct inherited {
    int clients, workers, http; /* -1 = not handed over */
};

/* Reads and clears the environment's words. INVALID with a sentence for a socket of another name or kind. */
enum pen_status inherited_take(struct inherited *ret_sockets, struct pen_error *reterr);

/* "tcp://127.0.0.1:5550", "ipc:///run/x" of a listening socket. False: neither. */
bool inherited_endpoint(int fd, char *ret_text, size_t bytes);

#endif
