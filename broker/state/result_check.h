/*
 * result_check.h - is a worker's RESULT what the contract says, and what the model that it was offered as gives? Threads: owner.
 */
#ifndef RESULT_CHECK_H
#define RESULT_CHECK_H

#include "broker_state.h"
#include "result_group.h"

/*
 * The outputs of a whole group with status OK: payloads that are there and as large as they are said to be, each raw frame used, and for the job the
 * outputs that it asked for, of the form in which the worker had offered the model when the job was sent. CORRUPT, or whatever else is wrong, with a
 * sentence. Nothing is unpacked: it is on the way of every job.
 */
enum pen_status result_check(const struct dispatch *dispatch, const struct job *job, const struct result_group *group,
                             struct pen_error *reterr);
/* The same of one with another status, which is passed on with its texts: they have no NUL bytes. */
enum pen_status result_check_texts(const struct result_group *group, struct pen_error *reterr);

#endif
