/*
 * loop_world.h - what the broker's loop calls, played: a clock, sockets and a sleep of the test. The linker leads the calls here (LOOP_WRAPS); each leaves a letter.
 *
 * Letters: s sleep, w and c a message of a worker and of a client, f what waits is sent, t what is due is done, l and k a look at lost connections of workers
 * and of clients, m and M memory is given back, a little and all.
 * Threads: owner.
 */
#ifndef TEST_LOOP_WORLD_H
#define TEST_LOOP_WORLD_H

#include <poll.h>

#include "desk.h"

enum { MS = 1000, SECOND = 1000000, SLEEPS_MAX = 4000, BEGIN_US = 5 * SECOND };

struct loop_world {
    struct desk *desk;
    struct broker *broker;
    uint64_t now_us, next_us; /* next_us: when the broker has something to do */
    uint64_t watchdog_us;
    int pipe[2]; /* signals come out of it */
    unsigned sleeps;
    uint64_t slept_us[SLEEPS_MAX];
    int (*asleep)(unsigned number, struct pollfd *fds); /* the result of a sleep; 0: it lasts as long as was asked */
    unsigned questions, lookups, released; /* of the cache: answered ones that wait, each second one a hit */
    unsigned waiting[2];                   /* messages: from workers, from clients */
    unsigned asked[2];                     /* for one */
    size_t message_bytes;
    char letters[SLEEPS_MAX * 4]; /* of what was called */
    size_t count;
    bool drained;
    unsigned drains, told, losses, alive, trims, settles, settled_ports, settled, keys_changed, looks, doors;
    uint64_t trimmed_us[SLEEPS_MAX], idle_us, alive_us[64], looks_us[SLEEPS_MAX], told_us[64];
    enum pen_status keys_status; /* of the file of keys; OK: it is as it was */
    bool keys_new;
    char last[256]; /* log line */
};
extern struct loop_world world;

void world_letter(char what);
void world_signal(int number); /* comes before the next look at signals */
/* A world without messages, keys and a service manager, in which nothing is due. */
void world_begin(int (*asleep)(unsigned number, struct pollfd *fds));
enum pen_status world_run(void); /* loop_run */
void world_end(void);

#endif
