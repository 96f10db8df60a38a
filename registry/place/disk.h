/*
 * disk.h - files and folders, as registries and stores use them.
 *
 * Threads: any.
 */
#ifndef DISK_H
#define DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define DISK_PATH_BYTES 4096u

/* "ROOT/name"; false: it does not fit. */
bool disk_path(char path[DISK_PATH_BYTES], const char *root, const char *name);
/* All folders of the path, like mkdir -p; the last name is a folder's too. */
enum pen_status disk_make(const char *path, struct pen_error *reterr);
/* The folders above a file. */
enum pen_status disk_make_above(const char *path, struct pen_error *reterr);
/* Removes a folder with all below it; links are removed, not followed. False: something is left. */
bool disk_remove(const char *path);
/* Writes a small file under another name, then puts it in its place. */
enum pen_status disk_file_write(const char *path, const void *bytes, size_t count, struct pen_error *reterr);
/* The whole buffer at that place of the file; false: errno. */
bool disk_pwrite(int fd, const void *bytes, size_t count, uint64_t at);
/* A name that nobody else has: ".new-" and 16 random digits. */
void disk_new_name(char name[48]);
/* errno in a sentence with what was tried. */
enum pen_status disk_failed(const char *what, const char *path, struct pen_error *reterr);

#endif
