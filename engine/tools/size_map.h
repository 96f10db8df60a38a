/*
 * size_map.h - what each part of a program weighs, read from the linker's map: a part is a folder of the sources, a static library, or the linker itself.
 *
 * Counted are the sections that stand in the file and in memory: code, constants, data, tables of relocations and unwinding. Debug information and .bss are not.
 * Threads: any.
 */
#ifndef SIZE_MAP_H
#define SIZE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define SIZE_PARTS_MAX 256

struct size_part {
    char name[80];        /* "engine/backend/xnnpack", "libz.a", "linker" */
    uint64_t code, other; /* bytes: instructions; constants, data and tables */
};

struct size_map {
    struct size_part parts[SIZE_PARTS_MAX]; /* largest first */
    size_t count;
    uint64_t code, other; /* of all parts */
    uint64_t engine;      /* of those that are the engine's, without its tools */
};

/* path: a map that GNU ld wrote. */
enum pen_status size_map_read(const char *path, struct size_map *ret_map, struct pen_error *reterr);
uint64_t size_map_of(const struct size_map *map, const char *part); /* 0: it has no such part */

#endif
