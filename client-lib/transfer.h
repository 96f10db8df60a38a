/*
 * transfer.h - large payloads as credited chunks on a second connection (proto/PROTOCOL.md, "Large payloads").
 *
 * A job above the broker's limit is announced; its bytes are sent as the broker asks for them, so that small jobs pass it. A large result is announced by
 * the broker; it is a result when its last byte is here. Transfers belong to a connection: a lost one ends them, the job is sent again.
 *
 * Threads: under the client's lock, by whoever drives (drive.h).
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "bulk.h"
#include "link.h"

struct pen_client;
struct pen_job;
struct upload;
struct download;

struct transfers {
    struct upload *uploads;
    struct download *downloads;
    unsigned early_misses,
        early_skipped; /* digests announced alone that the broker did not know, in a row; jobs sent whole since */
    uint64_t moved_us; /* last chunk that came, or when the first download began */
    uint64_t again_us; /* a piece or a credit could not be sent: when to try again; 0 = none */
};

/* Announces the job. False: it is to be sent whole. */
bool transfer_announce(struct pen_client *client, struct pen_job *job, struct envelope env);
/* A CREDIT: sends as far as it goes. */
void transfer_credit(struct pen_client *client, const struct envelope *env, uint64_t now_us);
/* Sends what there was no memory for, when that is due: at transfer_again_us(), DEADLINE_NONE. */
void transfer_again(struct pen_client *client, uint64_t now_us);
uint64_t transfer_again_us(const struct pen_client *client);

/* An announced RESULT: takes the header out of `in`, or ends the job when it cannot be taken. */
void transfer_result(struct pen_client *client, struct incoming *in, uint64_t now_us);
/* A CHUNK. True: that was the last; *ret_in is the whole result, the caller's to finish. */
bool transfer_chunk(struct pen_client *client, const struct incoming *in, uint64_t now_us, struct incoming *ret_in);

/* The job has ended; known: with its result, so that the broker knew the digest if it asked for no payload. */
void transfer_forget(struct pen_client *client, const struct pen_job *job, bool known);
/* The connection has gone. */
void transfer_reset(struct pen_client *client);
/* When a download that does not move makes the connection a lost one; DEADLINE_NONE. */
uint64_t transfer_stall_us(const struct pen_client *client);

#endif
