/*
 * calls.h - the calls of the protocol that are answered with a short text: one function each, for the table of routes.c.
 *
 * Each fills call->text, or says why not. on_loop: it looks at what the gateway has; on_question, on_order: it asks the broker and may wait.
 */
#ifndef CALLS_H
#define CALLS_H

#include "gateway.h"

/* health.c, on_loop */
call_answer answer_live, answer_ready;
/* metadata.c, on_question */
call_answer answer_server, answer_model, answer_config, answer_model_ready;
/* repository.c: the index on_question, the others on_order */
call_answer answer_index, answer_load, answer_unload;
/* statistics.c, metrics_page.c, on_loop */
call_answer answer_statistics, answer_metrics;
/* shared_memory.c, on_loop */
call_answer answer_region_status, answer_region_register, answer_region_unregister, answer_cuda_status,
    answer_cuda_register, answer_cuda_unregister;
/* own_settings.c, on_loop */
call_answer answer_trace_get, answer_trace_set, answer_logging_get, answer_logging_set;

/* try_page.c, on_loop */
call_answer answer_try;

/* The names of the table of calls, for the metrics; NULL beyond the last. */
const char *call_name(unsigned kind);
unsigned call_kind(const char *name); /* the row of "other" if there is none */

#endif
