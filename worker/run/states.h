/*
 * states.h - keeps the state tensors of open sequences between their jobs.
 *
 * A sequence is known by its client, its id and its model. While a job of it runs, its state belongs to one slot. When
 * that job fails, the state is dropped and the sequence ends, because nobody knows what state the next job would start
 * from. A sequence without jobs for twice its model's idle time is forgotten; the broker ends it earlier.
 * Threads: any (locks inside); a struct state belongs to the slot that opened it until it is closed.
 */
#ifndef STATES_H
#define STATES_H

#include "frame.h"
#include "served.h"

struct states;
struct state;

struct states *states_new(uint64_t bytes_max); /* NULL without memory */
void states_free(struct states *states);       /* NULL is fine */

/*
 * The state for the job of `env` (sequence_id is not 0); FRAME_FLAG_SEQUENCE_START makes a new one. CANCELLED: a job
 * with a higher number, which came through another slot, has begun the sequence anew, so this job's state is gone; or
 * `after` (JobMeta.sequence_after, 0 = not given) is not the job that last changed the state. NOT_FOUND: no such
 * sequence is open here; BUSY: no room for another sequence here, but another worker may have some; INVALID: a job of
 * it still runs.
 */
enum pen_status states_open(struct states *states, const struct served *served, const struct envelope *env,
                            uint64_t after, uint64_t now_us, struct state **ret_state, struct pen_error *reterr);
/* State `index` of the served model's list, as it is now. */
const void *state_data(const struct state *state, size_t index);
/* Stores the run's output, which must have as many bytes. */
void state_put(struct state *state, size_t index, const void *data);
/* Ends what states_open began: the sequence waits for its next job. */
void state_close(struct states *states, struct state *state, uint64_t now_us);
/* The same, and ends the sequence: its state is dropped. */
void state_close_last(struct states *states, struct state *state, uint64_t now_us);

/*
 * The sequence is over for jobs up to number `job` of its client: drops it now, or when its running job ends. Does not
 * drop a sequence that a later job has begun anew (perhaps through another broker). Unknown sequences are fine, and so
 * is NULL.
 */
void states_end(struct states *states, uint64_t client, uint64_t id, uint64_t job);
/* Drops sequences that have been silent for too long. Cheap: looks once a second. NULL is fine. */
void states_sweep(struct states *states, uint64_t now_us);
size_t states_count(struct states *states);
uint32_t states_of(struct states *states, const struct served *served); /* number of open sequences of that model */

#endif
