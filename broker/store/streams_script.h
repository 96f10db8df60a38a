/*
 * streams_script.h - the operations on detached jobs in Redis; each one is an atomic script.
 *
 * Keys, all behind the prefix KEYS[1]: `NAMESPACE:detached`, in a Redis Cluster `{NAMESPACE:detached}`, whose braces
 * put them all on one node. The prefix itself is never a key. So while its slot is on its way to another node, that
 * node's question "is KEYS[1] here?" has the answer no, Redis answers ASK, and no script runs on half of the keys.
 * :job:ID hash: state (waiting, running, done), label (owner.h), tenant, key, model, entry (its id in the stream),
 * request, reply, by (the broker that has, or last had, the job), attempts, since, expires (milliseconds of Redis' own
 * clock: clocks of hosts are never compared)
 *   :wait:MODEL  stream of the ids that are not done, with the consumer group `brokers`; gone when it is empty
 *   :ends        sorted set of all ids by the end of their time
 *   :bytes       hash: bytes of requests and replies in all (*), of waiting requests by key
 *   :bell        channel: `+` something waits, `-ID` has ended
 * Threads: any (constants).
 */
#ifndef STREAMS_SCRIPT_H
#define STREAMS_SCRIPT_H

enum stream_script {
    SCRIPT_ACCEPT, /* id, label, key, model, ttl_ms, request, jobs_max, bytes_max, quota -> ok known denied full bytes quota */
    SCRIPT_TAKE, /* me, lease_ms, count, bytes, claim (0, 1), models... -> [[id, label, request, attempts, left_ms]...] */
    SCRIPT_RENEW,  /* me, ids... -> [ids that are not mine any more...] */
    SCRIPT_DONE,   /* me, id, reply -> ok known none */
    SCRIPT_BACK,   /* me, id -> ok none */
    SCRIPT_FETCH,  /* id, tenant -> [done, reply, attempts, age_ms, left_ms] [pending, state, ...] [none] */
    SCRIPT_CANCEL, /* id, tenant, key, lock, admin (0, 1), reply -> ok none ended denied */
    SCRIPT_COUNT
};

extern const char *const script_prelude, *const script_texts[SCRIPT_COUNT];

#endif
