/*
 * error_complete.h - the sentence of a failure that came without one.
 *
 * An inner function that can only lack memory gives a bare status. Where its caller is promised a pen_error, this puts
 * the sentence in.
 * Threads: any.
 */
#ifndef ERROR_COMPLETE_H
#define ERROR_COMPLETE_H

#include "penstock/status.h"

/* As good as zero-initialised, and cheaper: for what each job does. */
static inline void error_begin(struct pen_error *error)
{
    error->status = PEN_OK;
    error->text[0] = '\0';
}

/*
 * Returns `status`. A failure that has not written itself into reterr is written there: "no memory to WHAT". `what` is
 * an infinitive with its object: "load the model". Other failures get "cannot WHAT (STATUS)": a device may end a run
 * without a word. reterr: zero-initialised by who began; NULL is fine.
 */
enum pen_status error_complete(struct pen_error *reterr, enum pen_status status, const char *what);

#endif
