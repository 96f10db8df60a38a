/*
 * policy.h - time-outs and limits for a model's waiting jobs: default_queue_policy of config.json, and
 * priority_queue_policy for levels that have their own.
 *
 * A level's own policy replaces the default as a whole: a field that it leaves out is unset. The priority with which a
 * job was admitted decides which policy it has.
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
    uint64_t limit_jobs; /* how many jobs may wait; 0 = only the broker's own limit counts */
    uint8_t level;       /* 0: the default, for all levels without their own */
    bool timeout_fixed;  /* the timeout is also for jobs with a deadline */
    bool timeout_delays; /* a job that reaches the timeout is not ended but put behind others: expiry.h */
};

struct policies {
    struct policy standard;
    struct policy *levels; /* at most one per level */
    uint32_t count;
};

/* Reads the policies of an offer, for policies_fini. PEN_ERR_INVALID: a level that does not exist, or that is listed
   twice; PEN_ERR_TOO_LARGE: more than there are levels. */
enum pen_status policies_read(const Penstock__ModelOffer *meta, struct policies *ret_policies,
                              struct pen_error *reterr);
void policies_fini(struct policies *policies);
/* The level's own, else the default; borrowed. */
const struct policy *policy_of(const struct policies *policies, uint8_t priority);

/* How long a job of that priority may take, from its envelope's deadline (0 = none); 0 = for ever. */
uint64_t policy_allowed_us(const struct policies *policies, uint8_t priority, uint64_t deadline_us);
/* True when that time comes from the policy, and its action is DELAY. */
bool policy_delays(const struct policies *policies, uint8_t priority, uint64_t deadline_us);

#endif
