/*
 * shadow_compare.h - how far two RESULTs of one question are apart. Pure.
 *
 * Errors are relative to the range of the first answer's output, as in proto/PROTOCOL.md ("Precision"). Rows with two or
 * more numbers agree when their largest number is in the same place.
 * Threads: one-at-a-time per arena.
 */
#ifndef SHADOW_COMPARE_H
#define SHADOW_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared_message.h"
#include "tensor_codec.h"

struct shadow_difference {
    bool alike;           /* the same names, types and dims; else only this counts */
    double largest, mean; /* relative errors; infinity is possible */
    uint64_t rows, same;  /* rows with classes; those with the same first class */
};

/* False: one of them cannot be read. The arena is reset. */
bool shadow_compare(const struct shared_message *first, const struct shared_message *second, struct meta_arena *arena,
                    struct shadow_difference *ret_difference);

#endif
