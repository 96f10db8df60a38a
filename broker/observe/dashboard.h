/*
 * dashboard.h - the files of dashboard/, embedded at build time (dashboard/embed.cmake). Threads: any (constants).
 */
#ifndef DASHBOARD_H
#define DASHBOARD_H

#include <stddef.h>

struct dashboard_file {
    const char *path, *type;
    const char *bytes;
    size_t size;
};
extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_files_count;

#endif
