/*
 * flatbuffer.h - the one way into a flatbuffer: every offset and every read is checked against the mapped file.
 *
 * A reference that leads outside reads as zero, as an absent table or as an empty list, and latches `broken`; callers look at it after each step.
 * Threads: one-at-a-time per struct fb.
 */
#ifndef FLATBUFFER_H
#define FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fb {
    const uint8_t *at;
    size_t size;
    bool broken;
    uint64_t beyond; /* the farthest byte that something led to behind the end; 0 = nothing did */
};

/* A table; at == 0 means absent, and all its fields then read as their defaults. */
struct fb_table {
    struct fb *f;
    size_t at, vtable;
    uint16_t fields; /* slots the vtable has */
};

/* A list; items are fixed-size scalars or 32-bit offsets. */
struct fb_list {
    struct fb *f;
    size_t at;
    uint32_t count;
    uint32_t item_bytes;
};

struct fb_text {
    const char *at; /* not NUL-terminated by promise; "" when absent */
    size_t bytes;
};

struct fb_table fb_root(struct fb *f);
/* Little-endian unsigned integer of 1, 2, 4 or 8 bytes at an absolute position. */
uint64_t fb_read(struct fb *f, size_t at, unsigned bytes);

bool fb_has(const struct fb_table *t, unsigned field);
int64_t fb_int(const struct fb_table *t, unsigned field, unsigned bytes, int64_t def); /* sign-extended */
uint64_t fb_uint(const struct fb_table *t, unsigned field, unsigned bytes, uint64_t def);
float fb_float(const struct fb_table *t, unsigned field, float def);
bool fb_bool(const struct fb_table *t, unsigned field, bool def);
struct fb_table fb_child(const struct fb_table *t, unsigned field);
struct fb_list fb_vector(const struct fb_table *t, unsigned field, uint32_t item_bytes);
struct fb_text fb_string(const struct fb_table *t, unsigned field);

struct fb_table fb_list_table(const struct fb_list *l, uint32_t index);
int64_t fb_list_int(const struct fb_list *l, uint32_t index); /* sign-extended */
float fb_list_float(const struct fb_list *l, uint32_t index);
const void *fb_list_data(const struct fb_list *l); /* count * item_bytes readable bytes; NULL when empty */

#endif
