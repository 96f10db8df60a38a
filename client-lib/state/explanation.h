/*
 * explanation.h - a packed Explanation as the public struct.
 *
 * Threads: any (pure function).
 */
#ifndef EXPLANATION_H
#define EXPLANATION_H

#include "job.pb-c.h"
#include "penstock/client.h"

/* The struct with its candidates in one block to be freed; its texts are borrowed from `from`. NULL without memory. */
struct pen_explanation *explanation_new(const Penstock__Explanation *from);

#endif
