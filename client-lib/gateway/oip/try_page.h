/*
 * try_page.h - the files of the page /try, embedded at build time (try/embed.cmake). Threads: any (constants).
 */
#ifndef TRY_PAGE_H
#define TRY_PAGE_H

#include <stddef.h>

struct try_file {
    const char *path, *type; /* path: behind /try/; index.html is /try itself */
    const char *bytes;
    size_t size;
};
extern const struct try_file try_files[];
extern const size_t try_files_count;

#endif
