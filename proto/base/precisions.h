/*
 * precisions.h - the names of the numeric classes (penstock/precision.h): the one list from which all others are made.
 * Threads: any (pure functions).
 */
#ifndef PRECISIONS_H
#define PRECISIONS_H

#include "penstock/precision.h"

/* ROW(end of the constant's name, name), by number. A new class is one row here and one constant of enum pen_precision. */
#define PRECISIONS_NAMED(ROW)                                                                                          \
    ROW(F32, "f32")                                                                                                    \
    ROW(F16_STORAGE, "f16_storage")                                                                                    \
    ROW(F16_MMA, "f16_mma")                                                                                            \
    ROW(F16_MATH, "f16_math")                                                                                          \
    ROW(BF16, "bf16")                                                                                                  \
    ROW(INT8, "int8")
#define PRECISIONS(ROW) ROW(ANY, "any") PRECISIONS_NAMED(ROW)

/* The choices of a setting: "any|f32|..." */
#define PRECISION_CHOICE(constant, name) "|" name
#define PRECISION_CHOICES                "any" PRECISIONS_NAMED(PRECISION_CHOICE)

/* How many there are. */
#define PRECISION_ONE(constant, name) +1
#define PRECISIONS_COUNT              (0 PRECISIONS(PRECISION_ONE))

const char *precision_name(unsigned precision); /* "any", "f32", ...; "unknown" */
int precision_find(const char *name);           /* its number; -1: no class is called so. NULL is fine */

#endif
