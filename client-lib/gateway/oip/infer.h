/*
 * infer.h - POST .../infer: read, submitted, awaited, answered.
 * Threads: owner - the loop's.
 */
#ifndef INFER_H
#define INFER_H

#include "gateway.h"

/* Takes the call's place: what is in it is copied. */
void infer_begin(const struct call *call);

#endif
