/*
 * lifetime.h - places buffers with known lifetimes into one arena so that those alive at the same time never overlap (greedy by size, best fit).
 *
 * Threads: any.
 */
#ifndef LIFETIME_H
#define LIFETIME_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define LIFETIME_ALIGN 64 /* every offset */
#define LIFETIME_PAD   64 /* readable bytes behind every buffer: XNNPACK and our vector kernels read past the end */

struct lifetime {
    size_t bytes;
    uint32_t first, last; /* steps, inclusive */
    size_t offset;        /* filled in */
};

/* Fills the offsets; *ret_bytes = arena size (aligned, padded). O(n^2) worst case. */
enum pen_status lifetime_plan(struct lifetime *items, size_t count, size_t *ret_bytes);

#endif
