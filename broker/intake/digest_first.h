/*
 * digest_first.h - answers from the cache for jobs whose payload is announced and has not been sent: the request digest says enough (proto/PROTOCOL.md, "Large payloads").
 *
 * No more is believed than of a job that came whole: the digest is the client's word, the key has its tenant in it, and what is stored was proved by a worker.
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

/* HIT: answered. ASKED: Redis will say, by the number. MISS: the payload is wanted. */
enum cache_answer digest_first_look(struct broker *broker, struct session *session, const struct envelope *env,
                                    const uint8_t *meta, const struct bulk *run, uint64_t *ret_question);

/* Redis has a value: true when it serves the job, which is answered then. */
bool digest_first_answer(struct broker *broker, struct session *session, const struct envelope *env,
                         const uint8_t *meta, const struct bulk *run, const struct cache_value *value);

#endif
