/*
 * digest_first.h - answers from the cache for jobs whose payload is announced and has not been sent: the request digest
 * says enough (proto/PROTOCOL.md, "Large payloads").
 *
 * This is as safe as for a job that came whole: the client states the digest, the cache key contains the client's
 * tenant, and a worker has proved each stored result.
 * Threads: owner.
 */
#ifndef DIGEST_FIRST_H
#define DIGEST_FIRST_H

#include <stdbool.h>
#include <stdint.h>

#include "bulk.h"
#include "cache.h"
#include "frame.h"

struct broker;
struct session;

/* HIT: the job was answered. ASKED: Redis will answer, under the number in *ret_question. MISS: the client must send
   the payload. */
enum cache_answer digest_first_look(struct broker *broker, struct session *session, const struct envelope *env,
                                    const uint8_t *meta, const struct bulk *run, uint64_t *ret_question);

/* Redis has a value. True: the value suits the job, and the job has been answered with it. */
bool digest_first_answer(struct broker *broker, struct session *session, const struct envelope *env,
                         const uint8_t *meta, const struct bulk *run, const struct cache_value *value);

#endif
