/*
 * declared.h - the input and output lists of a model's config against what its file has.
 *
 * Threads: any.
 */
#ifndef DECLARED_H
#define DECLARED_H

#include "served.h"

/* Names, types and dims must agree; -1 on either side fits any dim. What the lists leave out is not looked at. */
enum pen_status declared_check(const struct served *served, struct pen_error *reterr);

#endif
