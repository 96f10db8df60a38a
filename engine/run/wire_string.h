/*
 * wire_string.h - STRING tensors between their wire form (each element a little-endian u32 length and its bytes) and struct string_view[].
 *
 * Threads: any.
 */
#ifndef WIRE_STRING_H
#define WIRE_STRING_H

#include "run/rt_arena.h"

/* Views point into `wire` (borrowed). */
enum pen_status wire_string_decode(struct rt_arena *arena, const void *wire, size_t bytes, size_t count,
                                   struct string_view **ret_items, struct pen_error *reterr);
enum pen_status wire_string_encode(struct rt_arena *arena, const struct string_view *items, size_t count,
                                   void **ret_wire, size_t *ret_bytes, struct pen_error *reterr);

#endif
