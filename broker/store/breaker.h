/*
 * breaker.h - a circuit breaker: after some failures in a row nobody waits for the other side until a probe has shown
 * that it is back.
 * Threads: owner. Pure.
 */
#ifndef BREAKER_H
#define BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_FAILURES 3u

struct breaker {
    uint32_t failures; /* in a row */
    bool open;
    char reason[96];
};

void breaker_init(struct breaker *breaker);                     /* begins open: the other side has proved nothing yet */
bool breaker_fail(struct breaker *breaker, const char *reason); /* true when this failure opened it */
void breaker_trip(struct breaker *breaker, const char *reason); /* opens it at once */
void breaker_pass(struct breaker *breaker);                     /* an answer came: counts failures from 0 again */
void breaker_close(struct breaker *breaker);                    /* a probe has proved that the other side is back */

#endif
