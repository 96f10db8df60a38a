/* mapped.h - a whole file in memory of its exact size, so that a sanitizer sees the first byte read beyond it. */
#ifndef MAPPED_H
#define MAPPED_H

#include <stddef.h>

void *mapped_read(const char *path, size_t *ret_bytes); /* gives malloc'ed memory; NULL when absent */

#endif
