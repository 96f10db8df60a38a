#include "policy.h"

#include <stdlib.h>

#define LEVEL_MAX 255u

void policies_fini(struct policies *policies)
{
    free(policies->levels);
    *policies = (struct policies){.count = 0};
}

static bool known(const struct policy *levels, size_t count, uint32_t level)
{
    for (size_t i = 0; i < count; i++) {
        if (levels[i].level == level)
            return true;
    }
    return false;
}

enum pen_status policies_read(const Penstock__ModelOffer *meta, struct policies *ret_policies, struct pen_error *reterr)
{
    size_t count = meta->n_priority_queue_policy;
    struct policy *levels = count && count <= LEVEL_MAX ? calloc(count, sizeof *levels) : NULL;
    if (count > LEVEL_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "model '%s' has %zu queue policies; there are %u levels",
                             meta->name, count, LEVEL_MAX);
    if (count && !levels)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the queue policies of model '%s'", meta->name);
    for (size_t i = 0; i < count; i++) {
        const Penstock__QueuePolicy *from = meta->priority_queue_policy[i];
        if (from->level == 0 || from->level > LEVEL_MAX || known(levels, i, from->level)) {
            free(levels);
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "model '%s' has a queue policy for priority level %u, which %s; levels are 1 to %u, "
                                 "each once",
                                 meta->name, from->level,
                                 from->level && from->level <= LEVEL_MAX ? "stands twice" : "is none", LEVEL_MAX);
        }
        levels[i] = (struct policy){.timeout_us = from->default_timeout_us,
                                    .limit_jobs = from->max_queue_size,
                                    .level = (uint8_t)from->level,
                                    .timeout_fixed = from->timeout_fixed,
                                    .timeout_delays = from->timeout_delays};
    }
    *ret_policies = (struct policies){.standard = {.timeout_us = meta->default_timeout_us,
                                                   .limit_jobs = meta->max_queue_size,
                                                   .timeout_fixed = meta->timeout_fixed,
                                                   .timeout_delays = meta->timeout_delays},
                                      .levels = levels,
                                      .count = (uint32_t)count};
    return PEN_OK;
}

const struct policy *policy_of(const struct policies *policies, uint8_t priority)
{
    for (uint32_t i = 0; i < policies->count; i++) {
        if (policies->levels[i].level == priority)
            return &policies->levels[i];
    }
    return &policies->standard;
}

uint64_t policy_allowed_us(const struct policies *policies, uint8_t priority, uint64_t deadline_us)
{
    const struct policy *policy = policy_of(policies, priority);
    return deadline_us && !policy->timeout_fixed ? deadline_us : policy->timeout_us;
}

bool policy_delays(const struct policies *policies, uint8_t priority, uint64_t deadline_us)
{
    const struct policy *policy = policy_of(policies, priority);
    return policy->timeout_delays && (deadline_us == 0 || policy->timeout_fixed);
}
