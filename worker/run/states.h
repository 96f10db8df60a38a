/*
 * states.h - what is kept between the jobs of sequences: the state tensors of each sequence that is open here.
 *
 * A sequence is known by its client, its id and its model. Its state is of one slot while a job of it runs, and ends with it when that job fails: whoever
 * goes on would go on from nobody knows where. A sequence whose jobs stay away is forgotten (twice its model's idle time; the broker ends it first).
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
 * The state for the job of `env` (sequence_id is not 0): made anew with FRAME_FLAG_SEQUENCE_START. CANCELLED: a job with a higher number, which came by
 * another slot, has begun the sequence anew, and that one's state is not this one's; or `after` (JobMeta.sequence_after, 0 = not said) is not the job
 * that left the state as it is. NOT_FOUND: no such sequence is open here; BUSY: no
 * room for another one, which another worker may have; INVALID: a job of it still runs.
 */
enum pen_status states_open(struct states *states, const struct served *served, const struct envelope *env,
                            uint64_t after, uint64_t now_us, struct state **ret_state, struct pen_error *reterr);
/* State `index` of the served model's list, as it is now. */
const void *state_data(const struct state *state, size_t index);
/* What the run gave; of as many bytes. */
void state_put(struct state *state, size_t index, const void *data);
/* Ends what states_open began: the sequence waits for its next job. */
void state_close(struct states *states, struct state *state, uint64_t now_us);
/* The same, and ends the sequence: its state is dropped. */
void state_close_last(struct states *states, struct state *state, uint64_t now_us);

/*
 * The sequence is over as far as its client's job number `job`: dropped now, or when its job ends. One that a later job has begun anew, with another broker
 * perhaps, is not meant. Unknown ones are fine, and so is NULL.
 */
void states_end(struct states *states, uint64_t client, uint64_t id, uint64_t job);
/* Drops what nobody has asked for. Cheap: looks once a second. NULL is fine. */
void states_sweep(struct states *states, uint64_t now_us);
size_t states_count(struct states *states);
uint32_t states_of(struct states *states, const struct served *served); /* open ones of that model */

#endif
