/*
 * hold.h - the memory of one request's inputs: blocks that live together until nobody needs them, under one budget of the process.
 *
 * The body of a request and the tensors decoded from it are blocks of one hold. ZeroMQ reads them while a job is under way, so the last to let go may be
 * one of the client library's threads.
 * Threads: hold_release, hold_budget_*: any. The rest: one-at-a-time.
 */
#ifndef HOLD_H
#define HOLD_H

#include <stddef.h>

struct hold;

#define HOLD_PIECE_BYTES 512u /* up to that, pieces share a block */

struct hold *hold_new(void); /* with one reference; NULL without memory */
void hold_retain(struct hold *hold);
void hold_release(void *hold); /* fits pen_job_options.release; NULL is fine */
/* `bytes` writable bytes, aligned to 16; NULL without memory or beyond the budget. */
void *hold_take(struct hold *hold, size_t bytes);
/* What was taken last, if it had more than HOLD_PIECE_BYTES: with `bytes` bytes from now on; may move. NULL: it is as it was. */
void *hold_resize(struct hold *hold, size_t bytes);

void hold_budget_set(size_t bytes); /* of all holds together */
size_t hold_budget_used(void);

#endif
