/*
 * loss.h - how a worker was lost: killed, frozen, or cut off.
 *
 * A killed process closes its connection. For a silent process the broker asks the kernel: while its host still
 * acknowledges our data, the process is frozen (SIGSTOP, a debugger, swapping); when the host acknowledges nothing, the
 * network or the host is gone. A slow worker is not lost: it sends heartbeats, and they say how long its oldest run has
 * lasted.
 * Threads: owner.
 */
#ifndef LOSS_H
#define LOSS_H

#include <stdbool.h>
#include <stdint.h>

enum loss {
    LOSS_CLOSED, /* its connection ended: it was killed, crashed, or left without a goodbye */
    LOSS_FROZEN, /* silent, but its host acknowledges what is sent */
    LOSS_CUT,    /* silent, and nothing is acknowledged */
    LOSS_SILENT, /* silent, and the connection tells nothing more (ipc) */
    LOSS_COUNT
};

const char *loss_name(enum loss loss); /* "closed", "frozen", "cut", "silent" */
/* Which kind of loss: for a peer that was silent for liveness_us, from TCP_INFO of its connection; fd -1: unknown. */
enum loss loss_of_silent(int fd, uint64_t liveness_us);

/* True when a run of this length makes its worker slow: longer than eight times the expected time, and longer than a
   second. */
bool loss_slow(uint64_t oldest_running_us, uint64_t expect_us);

#endif
