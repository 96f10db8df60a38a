/*
 * rules.h - what one flag says about another: values that it implies, and values that contradict it.
 * Threads: any (constant tables).
 */
#ifndef ENV_RULES_H
#define ENV_RULES_H

#include <stddef.h>

/* Where `flag` has this value and nobody has set `implied`, that one gets implied_value. */
struct env_implied {
    const char *flag, *value, *implied, *implied_value;
};
extern const struct env_implied env_implied[];
extern const size_t env_implied_count;

/* Values are "a|b", or "!a|b" for all others. It counts when somebody has set `other`. */
struct env_contradiction {
    const char *flag, *values, *other, *other_values;
    const char *sentence; /* why, and what to do, without a full stop */
};
extern const struct env_contradiction env_contradictions[];
extern const size_t env_contradiction_count;

#endif
