/*
 * headroom.h - how much memory is left below the limits of this process, and whether another job may have some of it.
 *
 * libzmq ends the program when its queues find no memory, so new jobs are refused while less than a reserve is left; answers, heartbeats and results use that. Readings
 * are taken while jobs come in, at most every few milliseconds; between two of them what was let in is counted, so that a job costs no system call.
 * Threads: owner.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define HEADROOM_JOB_BYTES 2048u /* what the broker needs for a job beside its frames, rounded up */

enum memory_limit { MEMORY_SETTING, MEMORY_DATA, MEMORY_SPACE, MEMORY_GROUP, MEMORY_LIMIT_COUNT };

/* One look at the system; bytes. */
struct memory_reading {
    uint64_t used[MEMORY_LIMIT_COUNT];
    uint64_t limit[MEMORY_LIMIT_COUNT]; /* UINT64_MAX = none */
    uint64_t reusable; /* free inside the allocator: mapped already, so of use below MEMORY_DATA and MEMORY_SPACE */
};

/* Where readings come from; tests have their own. */
struct memory_source {
    /* thorough: what takes longer is told, too: `reusable`, and what the kernel would take back. */
    void (*read)(void *context, bool thorough, struct memory_reading *ret_reading);
    void (*relieve)(void *context); /* gives back what is kept for speed alone */
    void (*spare)(void *context,
                  bool sparing); /* short, or no longer: freed memory is to go back at once, or to be kept for speed */
    uint64_t (*missing)(void);   /* bytes of the memory reserve that allocations without memory have given back */
    void (*hold)(void);          /* takes them again, as far as there is memory */
    void *context;
};

struct headroom {
    struct memory_source source;
    uint64_t read_us, relieved_us; /* when; 0 = never */
    uint64_t left, limit, reserve; /* of the tightest limit, by the last reading */
    uint64_t answers[2];           /* the largest result since `answers_us`, and in the time before that */
    uint64_t answers_us;
    uint64_t slack;          /* what jobs may have of `left`; 0 = none */
    uint64_t taken;          /* by jobs since that reading */
    uint64_t missing;        /* memory reserve, after that reading */
    enum memory_limit which; /* the tightest */
    bool is_short;           /* as it was logged */
    uint64_t refused;        /* jobs, so far */
};

/* A reading is taken at once. The source is copied, its context borrowed. */
void headroom_init(struct headroom *headroom, const struct memory_source *source, uint64_t now_us);

/* What is kept free below a limit. */
uint64_t headroom_reserve(uint64_t limit);

/*
 * Whether a job may come in that needs `wanted` bytes more; `held` are in memory already and are counted until the next reading. PEN_ERR_BUSY with the limit and what to
 * set. NULL headroom: always PEN_OK.
 */
enum pen_status headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                              struct pen_error *reterr);

/* A result of so many bytes is announced: room for one like it is kept, too, for a minute or two; at most half of the limit in all. NULL: nothing. */
void headroom_answer(struct headroom *headroom, uint64_t bytes, uint64_t now_us);

/* An answer found no memory: what is kept for speed is given back, at most once a second: true then. NULL: nothing. */
bool headroom_relieve(struct headroom *headroom, uint64_t now_us);

/* By the last reading: what only makes things quicker is left out. NULL: false. */
bool headroom_short(const struct headroom *headroom);

/* For the start: PEN_ERR_NO_MEMORY and a sentence where a limit of our own leaves no room for one job; or, of mappings, not `needed` bytes. */
enum pen_status headroom_check(const struct headroom *headroom, uint64_t needed, struct pen_error *reterr);

#endif
