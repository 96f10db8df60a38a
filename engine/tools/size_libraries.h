/*
 * size_libraries.h - the shared libraries that a program loads, as the dynamic loader of this host finds them; and a folder with all of it for a container.
 *
 * Threads: one-at-a-time (it starts the program's loader as a process).
 */
#ifndef SIZE_LIBRARIES_H
#define SIZE_LIBRARIES_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define SIZE_LIBRARIES_MAX 128

struct size_library {
    char path[256];
    uint64_t bytes;
};

struct size_libraries {
    uint64_t program; /* bytes of the file itself */
    struct size_library items[SIZE_LIBRARIES_MAX];
    size_t count; /* 0: it is static */
    uint64_t bytes;
};

enum pen_status size_libraries_read(const char *program, struct size_libraries *ret_list, struct pen_error *reterr);

/* folder/rootfs with the program in /usr/bin and its libraries where the loader looks, and folder/Dockerfile. The folder must not be there yet. */
enum pen_status size_image_write(const char *folder, const char *program, const struct size_libraries *list,
                                 struct pen_error *reterr);

#endif
