/*
 * flexbuffer.h - options of custom operators: a map of names to numbers and lists of numbers, read through the file's checked accessor.
 *
 * What is not there, or of another kind, has its default. Threads: one-at-a-time.
 */
#ifndef FLEXBUFFER_H
#define FLEXBUFFER_H

#include "import/tflite/flatbuffer.h"

struct flex_map {
    struct fb *f;
    size_t at, keys; /* of the values and of the keys */
    uint64_t count;
    unsigned width, key_width; /* bytes of one */
};

/* The map at the root of these bytes; empty when there is none. */
struct flex_map flex_root(const struct fb_list *bytes);
int64_t flex_int(const struct flex_map *m, const char *name, int64_t def);
float flex_float(const struct flex_map *m, const char *name, float def);
/* A list of integers: how many; at most `room` are read. */
uint32_t flex_ints(const struct flex_map *m, const char *name, int64_t *items, uint32_t room);

#endif
