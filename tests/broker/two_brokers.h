/*
 * two_brokers.h - two brokers on desks that know each other: what the first one says reaches the second one at once, and its answers are read when the first one runs.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef TEST_TWO_BROKERS_H
#define TEST_TWO_BROKERS_H

#include "desk.h"

#define ALICE    0xA11CEu
#define OTHER    77u /* the first desk's peer number at the second one */
#define WORKER   901
#define LIVENESS 2000000u
#define JOBS     6u

extern struct desk *two_here, *two_there;
extern bool two_cut;         /* nothing gets from the first to the second one */
extern const char *two_key;  /* of the first broker, as the second one's connection says it */
extern uint64_t two_running; /* of the six jobs; they are the first ones */

/* The connection from the first to the second one, and its two functions; the last one sends nothing. */
struct dealer *two_link(void);
bool two_link_send(struct dealer *dealer, zmq_msg_t *frames, size_t count);
bool two_link_receive(struct dealer *dealer, struct message *message);
bool two_nobody_send(struct dealer *dealer, zmq_msg_t *frames, size_t count);
/* A client of that desk says hello. follows: it goes where it is sent; followed: brokers that have sent it on. */
void two_hello(struct desk *desk, uint32_t peer, bool follows, uint32_t followed);
/* Where the next message of that type sends its reader; "" = nowhere. */
const char *two_redirect(struct desk *desk, enum frame_type type);
void two_begin(void);
void two_end(void);
/* Jobs of one client of the first broker: the first run, the others wait. */
void two_six_jobs(void);
/* The first broker drains, and what follows from that. */
void two_drain(void);

#endif
