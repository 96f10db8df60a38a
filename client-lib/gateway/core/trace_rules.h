/*
 * trace_rules.h - which requests are traced: the trace setting of the protocol, for all models and for one.
 *
 * A traced job's life is kept by the broker (`penstock trace`). A model without a setting of its own follows the one for all.
 * Threads: owner - the loop's.
 */
#ifndef TRACE_RULES_H
#define TRACE_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct trace_rule {
    bool on;       /* TIMESTAMPS */
    uint32_t rate; /* every so many-th request */
    int64_t left;  /* so many more; -1 = no end */
};

struct trace_rules;
struct trace_rules *trace_rules_new(void); /* NULL without memory */
void trace_rules_free(struct trace_rules *rules);
struct trace_rule trace_rules_get(const struct trace_rules *rules, const char *model); /* NULL or "": for all models */
/* rule NULL: the model follows the rule for all again (for all: the default, off). False: 256 models have one already, or no memory. */
bool trace_rules_set(struct trace_rules *rules, const char *model, const struct trace_rule *rule);
bool trace_rules_ask(struct trace_rules *rules,
                     const char *model); /* is the next request of that model to be traced? */

#endif
