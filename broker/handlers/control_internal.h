/*
 * control_internal.h - what the files that answer control verbs share: the answer that is being written.
 *
 * control.c has the table of verbs, the check who may use them, the short verbs, and sends the answers. control_list.c
 * lists models, workers and the quarantine; control_stats.c tells the broker's counters, control_usage.c what tenants have used. control_cancel.c and
 * control_watch.c have headers of their own.
 * Threads: owner.
 */
#ifndef CONTROL_INTERNAL_H
#define CONTROL_INTERNAL_H

#include "broker_state.h"
#include "control.pb-c.h"

/* Everything of one reply is allocated in its arena and freed with it. */
struct control_answer {
    struct meta_arena arena;
    Penstock__ControlReply reply;
    enum pen_status status;
};

/* Zeroed memory that belongs to the answer. NULL: no memory; the answer has become NO_MEMORY. */
void *control_room(struct control_answer *answer, size_t bytes);
/* A copy of the text; "" without memory. */
char *control_text(struct control_answer *answer, const char *text);
void control_fail(struct control_answer *answer, enum pen_status status, const char *text); /* the text is copied */

void control_usage(struct broker *broker, struct control_answer *answer, const char *argument); /* "SINCE UNTIL" */

/* argument: a model's or worker's name, a job id, or empty for all; NOT_FOUND when nothing has that name. */
void control_models(struct broker *broker, struct control_answer *answer, const char *argument);
void control_workers(struct broker *broker, struct control_answer *answer, const char *argument);
void control_quarantine(struct broker *broker, struct control_answer *answer, const char *argument);
void control_stats(struct broker *broker, struct control_answer *answer,
                   const char *argument); /* argument is not read */

#endif
