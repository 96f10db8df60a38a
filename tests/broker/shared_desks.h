/*
 * shared_desks.h - two brokers on desks with one store of detached jobs that is played, on one clock.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef TEST_SHARED_DESKS_H
#define TEST_SHARED_DESKS_H

#include "desk.h"
#include "play_streams.h"

#define CLIENT  0xABCu
#define WORKER  901u
#define LEASE   2000000u
#define SECOND_ 1000000u

extern const struct wire_model shared_echo;
extern struct desk *shared_desks[2]; /* NULL: that broker was killed */

uint64_t desks_now(void); /* the clock of all desks */
void desks_begin(void);   /* two desks with one store */
void desks_end(void);
void desks_open(int i);       /* a desk that has no store yet, */
void desks_join(int i);       /* and gets one */
void desks_kill(int i);       /* its last words reach nobody */
void desks_wait(uint64_t us); /* turns the clock; both brokers do what is due, and their clients live */
void desks_worker(int i);     /* desk i has a worker of the model echo, */
void desks_work(int i, uint64_t sequence, uint8_t value); /* which answers */
/* A detached job. more: fields besides its own; NULL = none. */
void desks_send(int i, uint64_t sequence, const Penstock__JobMeta *more);
void desks_submit(int i, uint64_t sequence); /* the same, and it is taken */
/* Asks desk i for a job, or for its state alone. */
void desks_fetch(int i, uint64_t own, uint64_t wanted, bool state);
/* The status of the next answer; PEN_STATUS_COUNT: there is none. */
enum pen_status desks_reply(int i, uint64_t sequence);
uint8_t desks_value(int i, uint64_t own, uint64_t wanted); /* what the job gave, as desk i says it */

#endif
