/*
 * declared.h - compares the input and output lists of a model's config with its file.
 *
 * Threads: any.
 */
#ifndef DECLARED_H
#define DECLARED_H

#include "served.h"

/* Names, types and dims must agree; -1 on either side fits any dim. Tensors that the lists leave out are not
   checked. */
enum pen_status declared_check(const struct served *served, struct pen_error *reterr);

#endif
