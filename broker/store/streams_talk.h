/*
 * streams_talk.h - sends commands to Redis and reads its answers, for the thread of the detached jobs.
 * Threads: one-at-a-time.
 */
#ifndef STREAMS_TALK_H
#define STREAMS_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "note.h"
#include "redis_find.h"
#include "streams_script.h"
#include "streams_thread.h"

struct talk {
    struct streams *streams; /* borrowed */
    struct redis_finder finder;
    redisContext *redis; /* NULL = down */
    redisContext *bell;  /* subscribed; NULL = down */
    char sha[SCRIPT_COUNT][41];
    char prefix[160], me[17];
    char reason[NOTE_TEXT_BYTES]; /* of the last failure */
    bool refused;                 /* Redis refuses what is asked: the connection is of no use, though it answers */
    bool wrote;                   /* something that must not be lost was asked since the last talk_replicated */
};

/* Connects, logs in, loads the scripts, writes, subscribes; false: `reason` says why not, and nothing is open. */
bool talk_open(struct talk *talk);
void talk_close(struct talk *talk);
/* How durable Redis' data is when Redis is killed: writes one sentence. */
void talk_durability(struct talk *talk, char *text, size_t bytes);

/* Sends the note's question without waiting. False: Redis cannot answer it, or there is no memory; the note then has
   its answer. */
bool talk_ask(struct talk *talk, struct note *note);
/* Reads Redis' answer into the note. False: none came, and the connection is of no use any more. Puts the ids of
   lost jobs into the box. */
bool talk_answer(struct talk *talk, struct note *note);

/* After the answers: true when as many replicas as --redis-replicas says have what was written, or none is wanted.
   False: `reason`; what was accepted or done may be lost with this master, and the connection is of no use. */
bool talk_replicated(struct talk *talk);

/* Takes up to `count` jobs of these models into the box. False: as talk_answer. claim: also takes jobs whose brokers
   did not renew them. */
bool talk_take(struct talk *talk, const char *models, uint32_t count, bool claim, uint32_t *ret_taken);
/* Reads the messages of the bell. *ret_waits: something waits; puts the ids of ended jobs into the box. False: the
   connection is lost. */
bool talk_listen(struct talk *talk, bool *ret_waits);

#endif
