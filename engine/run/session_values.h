/*
 * session_values.h - running a session on any kind of value (sequences and optionals too): for `penstock-engine verify` and tests.
 *
 * Threads: one-at-a-time.
 */
#ifndef SESSION_VALUES_H
#define SESSION_VALUES_H

#include "backend/reference/kernel.h"
#include "penstock/engine.h"

/* Inputs by position (data borrowed; STRING tensors as struct string_view[]). ret_out: [output_count], borrowed until the next call on the session. */
enum pen_status session_run_values(struct pen_session *session, const struct rt_value *in, size_t count,
                                   struct rt_value *ret_out, size_t out_count, struct pen_error *reterr);
/* The declared kind of input or output `index`. */
enum value_kind model_input_kind(const struct pen_model *model, size_t index);
enum value_kind model_output_kind(const struct pen_model *model, size_t index);

/* Steps of its runs so far that ran while a device computed another one. */
uint64_t session_steps_beside(const struct pen_session *session);

#endif
