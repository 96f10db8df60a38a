/* detached_desk.h - a desk whose broker keeps detached jobs in a journal on paper. Threads: one-at-a-time. */
#ifndef DETACHED_DESK_H
#define DETACHED_DESK_H

#include "desk.h"
#include "detached.h"
#include "detached_entry.h"
#include "journal.h"
#include "paper.h"

#define ID "0000000000000abc-1" /* of the job 1 of client 0xABC */

extern struct journal *the_journal; /* of the newest desk */
extern const struct wire_model detached_model;

/* A new broker that finds what the paper has synced. */
struct desk *desk_on(struct paper *paper);
/* The journal's thread does its work. */
void sync_now(struct desk *desk);
void add_worker(struct desk *desk);
void submit(struct desk *desk, uint32_t peer, uint64_t client, uint64_t sequence, enum frame_flag flag);
void fetch(struct desk *desk, uint32_t peer, struct job_id own, const char *wanted);
/* Status of the next RESULT, which must be of that job; PEN_STATUS_COUNT: there is none. */
enum pen_status reply(struct desk *desk, uint64_t sequence);

#endif
