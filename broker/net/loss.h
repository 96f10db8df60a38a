/*
 * loss.h - what became of a worker that is lost: killed, frozen, or cut off.
 *
 * A killed process closes its connection. Of a silent one the kernel tells more: while its host still acknowledges what we send, the process is
 * frozen (SIGSTOP, a debugger, swapping); when nothing is acknowledged, the network or the host is gone. A slow worker is none of these: it
 * gives signs of life, and its heartbeats say how long its oldest run has lasted.
 * Threads: owner.
 */
#ifndef LOSS_H
#define LOSS_H

#include <stdbool.h>
#include <stdint.h>

enum loss {
    LOSS_CLOSED, /* its connection ended: killed, crashed, or left without a word */
    LOSS_FROZEN, /* silent, but its host acknowledges what is sent */
    LOSS_CUT,    /* silent, and nothing is acknowledged */
    LOSS_SILENT, /* silent over a connection that tells no more (ipc) */
    LOSS_COUNT
};

const char *loss_name(enum loss loss); /* "closed", "frozen", "cut", "silent" */
/* Of a peer that was silent for liveness_us, from TCP_INFO of its connection; fd -1: unknown. */
enum loss loss_of_silent(int fd, uint64_t liveness_us);

/* A run that lasts this long makes its worker slow: eight times what was expected, and not before a second. */
bool loss_slow(uint64_t oldest_running_us, uint64_t expect_us);

#endif
