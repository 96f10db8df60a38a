/*
 * result_check.h - checks a worker's RESULT against the protocol and against the signature in the worker's offer.
 * Threads: owner.
 */
#ifndef RESULT_CHECK_H
#define RESULT_CHECK_H

#include "broker_state.h"
#include "result_group.h"

/*
 * Checks the outputs of a whole group with status OK: each payload is there and has its stated size, each raw frame is
 * used, and the outputs are those that the job asked for, with the form in which the worker offered the model when the
 * job was sent. CORRUPT, or another error, with a sentence. Unpacks nothing, because each job pays for it.
 */
enum pen_status result_check(const struct dispatch *dispatch, const struct job *job, const struct result_group *group,
                             struct pen_error *reterr);
/* The same for a group with another status, which is passed on with its texts: they must have no NUL bytes. */
enum pen_status result_check_texts(const struct result_group *group, struct pen_error *reterr);

#endif
