/*
 * headroom.h - how much memory is left below the limits of this process, and whether another job may have some of it.
 *
 * libzmq ends the program when its queues find no memory. So new jobs are refused while less than a reserve is left;
 * answers, heartbeats and results may use the reserve. While jobs come in, a reading is taken every few milliseconds at
 * most. Between two readings the admitted jobs' bytes are counted, so a job costs no system call.
 * Threads: owner.
 */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define HEADROOM_JOB_BYTES 2048u /* what the broker needs for a job besides its frames, rounded up */

enum memory_limit { MEMORY_SETTING, MEMORY_DATA, MEMORY_SPACE, MEMORY_GROUP, MEMORY_LIMIT_COUNT };

/* One look at the system; bytes. */
struct memory_reading {
    uint64_t used[MEMORY_LIMIT_COUNT];
    uint64_t limit[MEMORY_LIMIT_COUNT]; /* UINT64_MAX = none */
    uint64_t reusable; /* free inside the allocator: mapped already, so it helps below MEMORY_DATA and MEMORY_SPACE */
};

/* Where readings come from; tests have their own. */
struct memory_source {
    /* thorough: also tells what takes longer to find out: `reusable`, and the memory that the kernel would take
       back. */
    void (*read)(void *context, bool thorough, struct memory_reading *ret_reading);
    void (*relieve)(void *context); /* gives back memory that only makes things quicker */
    void (*spare)(void *context,
                  bool sparing); /* true: freed memory goes back to the system at once; false: it is kept for speed */
    uint64_t (*missing)(void);   /* bytes of the memory reserve that failed allocations have given back */
    void (*hold)(void);          /* takes them again, as far as there is memory */
    void *context;
};

struct headroom {
    struct memory_source source;
    uint64_t read_us, relieved_us; /* when a reading was taken; when memory was given back; 0 = never */
    uint64_t left, limit, reserve; /* of the tightest limit, from the last reading */
    uint64_t answers[2];           /* the largest result since `answers_us`, and in the period before */
    uint64_t answers_us;
    uint64_t slack;          /* how much of `left` jobs may use; 0 = none */
    uint64_t taken;          /* used by jobs since that reading */
    uint64_t missing;        /* missing in the memory reserve, after that reading */
    enum memory_limit which; /* the tightest limit */
    bool is_short;           /* as last logged */
    uint64_t refused;        /* jobs, so far */
};

/* Takes a reading at once. The source is copied, its context borrowed. */
void headroom_init(struct headroom *headroom, const struct memory_source *source, uint64_t now_us);

/* How much is kept free below a limit. */
uint64_t headroom_reserve(uint64_t limit);

/*
 * Whether a job that needs `wanted` more bytes may come in; `held` bytes are in memory already and are counted until
 * the next reading. PEN_ERR_BUSY names the limit and the setting to change. NULL headroom: always PEN_OK.
 */
enum pen_status headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                              struct pen_error *reterr);

/* A result of that size was announced: keeps room for another one like it for a minute or two; at most half of the
   limit in all. NULL: does nothing. */
void headroom_answer(struct headroom *headroom, uint64_t bytes, uint64_t now_us);

/* An answer found no memory: gives back memory that only makes things quicker, at most once a second. True: it did.
   NULL: does nothing. */
bool headroom_relieve(struct headroom *headroom, uint64_t now_us);

/* True when the last reading was short: leave out what only makes things quicker. NULL: false. */
bool headroom_short(const struct headroom *headroom);

/* At the start: PEN_ERR_NO_MEMORY and a sentence when a limit leaves no room for one job, or a limit of mappings no
   room for `needed` bytes. */
enum pen_status headroom_check(const struct headroom *headroom, uint64_t needed, struct pen_error *reterr);

#endif
