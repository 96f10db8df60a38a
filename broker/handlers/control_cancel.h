/*
 * control_cancel.h - the verb `cancel`: a job by its id, also of another session, by an administrator or by whose it is.
 * Threads: owner.
 */
#ifndef CONTROL_CANCEL_H
#define CONTROL_CANCEL_H

#include "broker_state.h"

/*
 * argument: the text of a job id, or that, a blank and the job's secret. Whoever submitted it gets CANCELLED. DENIED: it is somebody else's;
 * NOT_FOUND: nobody knows it. *ret_later: the reply to `serial` will be sent when it is known.
 */
enum pen_status control_cancel(struct broker *broker, struct session *session, uint64_t serial, const char *argument,
                               bool *ret_later, struct pen_error *reterr);

#endif
