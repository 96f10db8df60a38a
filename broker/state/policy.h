/*
 * policy.h - what waiting does to a model's jobs: default_queue_policy of config.json, and priority_queue_policy for levels that have one of their own.
 *
 * A level's own policy stands for the whole default: what it leaves out is nobody's. Whose policy it is, is decided by the priority a job was admitted with.
 * Threads: owner.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"
#include "worker.pb-c.h"

struct policy {
    uint64_t timeout_us; /* for jobs without a deadline; 0 = none */
    uint64_t limit_jobs; /* that may wait; 0 = the broker's own limit alone */
    uint8_t level;       /* 0: of all levels without one */
    bool timeout_fixed;  /* the timeout is for jobs with a deadline, too */
    bool timeout_delays; /* it does not end a job that waits, but puts it behind: expiry.h */
};

struct policies {
    struct policy standard;
    struct policy *levels; /* each level once */
    uint32_t count;
};

/* Those of an offer, for policies_fini; PEN_ERR_INVALID: a level that is none, or stands twice; PEN_ERR_TOO_LARGE: more than there are levels. */
enum pen_status policies_read(const Penstock__ModelOffer *meta, struct policies *ret_policies,
                              struct pen_error *reterr);
void policies_fini(struct policies *policies);
/* The level's own, else the default; borrowed. */
const struct policy *policy_of(const struct policies *policies, uint8_t priority);

/* How long a job of that priority may take, from its envelope's deadline (0 = none); 0 = for ever. */
uint64_t policy_allowed_us(const struct policies *policies, uint8_t priority, uint64_t deadline_us);
/* That time is the policy's, and delays. */
bool policy_delays(const struct policies *policies, uint8_t priority, uint64_t deadline_us);

#endif
