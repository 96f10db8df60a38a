/*
 * control_arrivals.h - what `penstock load --record` asks of the broker.
 * Threads: owner.
 */
#ifndef CONTROL_ARRIVALS_H
#define CONTROL_ARRIVALS_H

#include "broker_state.h"

#define CONTROL_ARRIVALS_MAX 8192u /* in one answer */

/*
 * argument: "" begins; a number tells the arrivals from that one on. *ret_text (malloc'ed: free(3) it) is a JSON object
 * {now_us, next, missed, arrivals: [[at_us, model, priority, rows, bytes, deadline_us], ...], models: [name, ...], unnamed}:
 * times by the broker's clock, `model` an index into models, `next` the number to ask for next, `missed` how many
 * before the first one are forgotten, `unnamed` how many were not kept because they were of more than 256 models. INVALID, NO_MEMORY.
 */
enum pen_status control_arrivals(struct broker *broker, const char *argument, char **ret_text,
                                 struct pen_error *reterr);

#endif
