/*
 * control_cancel.h - the verb `cancel`: an administrator or the owner cancels a job by its id, also one of another
 * session.
 * Threads: owner.
 */
#ifndef CONTROL_CANCEL_H
#define CONTROL_CANCEL_H

#include "broker_state.h"

/*
 * argument: the text of a job id, or that, a blank and the job's secret. The client that submitted the job gets
 * CANCELLED. DENIED: the job is somebody else's; NOT_FOUND: no such job. *ret_later: the reply to `serial` is sent
 * later, when the outcome is known.
 */
enum pen_status control_cancel(struct broker *broker, struct session *session, uint64_t serial, const char *argument,
                               bool *ret_later, struct pen_error *reterr);

#endif
