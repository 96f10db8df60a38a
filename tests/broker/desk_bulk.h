/*
 * desk_bulk.h - large payloads on the desk: peers that know chunks, what is announced, chunks and credit.
 *
 * A peer's bulk connection is a peer of its own; by custom its number is that of the ordinary one plus DESK_BULK.
 * Threads: owner.
 */
#ifndef TEST_DESK_BULK_H
#define TEST_DESK_BULK_H

#include "desk.h"

#define DESK_BULK 100u

/* Whose message it is. */
enum desk_end { DESK_CLIENT, DESK_WORKER };

/* The hello of a client that knows chunks, without its bulk connection. The WELCOME, checked. Workers: desk_worker with `bulk`. */
struct sent *desk_client_bulk(struct desk *desk, uint32_t peer, uint64_t uuid, const char *tenant);
/* `peer` is the bulk connection of that session or worker. */
void desk_attach(struct desk *desk, enum desk_end end, uint32_t peer, uint64_t uuid);

/* The job's header alone. number: of the transfer. */
void desk_announce(struct desk *desk, uint32_t peer, const struct wire_job *job, uint32_t number);
/* A RESULT whose y of `bytes` bytes is announced. */
void desk_announce_result(struct desk *desk, uint32_t peer, struct job_id id, size_t bytes, uint32_t number);
/* The same with so many outputs, at most DESK_FRAMES_MAX: y, y1, y2 ... of `bytes` bytes each. */
#define DESK_FRAMES_MAX 20u
void desk_announce_frames(struct desk *desk, uint32_t peer, struct job_id id, uint8_t frames, size_t bytes,
                          uint32_t number);
/* One CHUNK; each of its bytes is 1 + the number of whole chunks before it. */
void desk_chunk(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number, uint64_t offset,
                size_t bytes);
/* All bytes from `from` to `to`, in chunks of the usual size. */
void desk_chunks(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number, uint64_t from,
                 uint64_t to);
void desk_credit(struct desk *desk, enum desk_end end, uint32_t peer, struct job_id id, uint32_t number,
                 uint64_t until);

/* How many messages of that type and peer were sent since the last look; all are looked at. */
size_t desk_count_to(struct side *side, enum frame_type type, uint32_t peer);

#endif
