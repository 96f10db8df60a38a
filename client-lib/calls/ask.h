/*
 * ask.h - asks the broker (CONTROL) and waits for its answer.
 *
 * Threads: any.
 */
#ifndef ASK_H
#define ASK_H

#include "questions.h"

/* Asks and waits. On PEN_OK the reply lives in ask->arena until ask_fini(), which is due in every case. */
enum pen_status ask_run(struct pen_client *client, struct ask *ask, const char *verb, const char *argument,
                        int64_t timeout_us, struct pen_error *reterr);
void ask_fini(struct ask *ask);
/* An order: of the answer only its status and its sentence count. */
enum pen_status ask_command(struct pen_client *client, const char *verb, const char *argument, int64_t timeout_us,
                            struct pen_error *reterr);
enum pen_status ask_no_memory(struct pen_error *reterr); /* for what was answered */
/* The reply changes hands with its arena: it lives until meta_arena_fini(to). */
void ask_arena_take(struct ask *ask, struct meta_arena *to);

#endif
