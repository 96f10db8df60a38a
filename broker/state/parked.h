/*
 * parked.h - jobs that came before their workers: after a restart clients are often back first.
 *
 * For --restart-wait after its start the broker keeps jobs that nobody offers a model for yet, instead of refusing them.
 * With --wake-wait it keeps them for that time, as long as it has never heard of any model: the workers of its pool
 * sleep, and it was restarted meanwhile. They are judged again (submit_waiting) whenever a worker says what it offers,
 * and for the last time when the wait is over.
 * Threads: owner.
 */
#ifndef PARKED_H
#define PARKED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "frame.h"
#include "job_id.h"
#include "port.h"

#define PARKED_JOBS_MAX 16384u

struct parked_submit {
    TAILQ_ENTRY(parked_submit) in_parked;
    struct envelope env;
    struct message message;      /* the whole SUBMIT */
    uint64_t since_us, first_us; /* when it was last judged; when it came */
};
TAILQ_HEAD(parked_list, parked_submit);

struct parked {
    struct parked_list entries; /* in order of arrival */
    uint64_t count, bytes;
};

void parked_init(struct parked *parked);
void parked_fini(struct parked *parked); /* frees the jobs that are left */
/* Takes the message's frames. False: no room (jobs, `limit_bytes`, memory), and nothing was taken. A job whose id
   waits already is dropped. first_us: when it came, now or before it was judged again. */
bool parked_keep(struct parked *parked, const struct envelope *env, struct message *message, uint64_t now_us,
                 uint64_t first_us, uint64_t limit_bytes);
/* True when the job was parked; it is dropped. */
bool parked_remove(struct parked *parked, struct job_id id);
/* Takes that job out, for parked_submit_free. */
void parked_take_out(struct parked *parked, struct parked_submit *entry);
/* Takes out the oldest job, for parked_submit_free. NULL: none. */
struct parked_submit *parked_take(struct parked *parked);
void parked_submit_free(struct parked_submit *entry);

#endif
