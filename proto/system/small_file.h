/*
 * small_file.h - keys, passwords and settings: small files that a program reads before it listens to anybody.
 *
 * Pipes work, too, such as a shell's <(...). Reading has a time limit, because a pipe without a writer would block the
 * program, which then could not even handle SIGTERM.
 * Threads: any.
 */
#ifndef SMALL_FILE_H
#define SMALL_FILE_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SMALL_FILE_WAIT_MS 2000

/*
 * Returns the number of bytes that were read: up to the end of the file, at most capacity. A file that is no regular
 * one has SMALL_FILE_WAIT_MS to give them. -1: errno, ETIMEDOUT when the data or its end did not come in time.
 * ret_facts: of the file that was opened.
 */
ssize_t small_file_read(const char *path, void *bytes, size_t capacity, struct stat *ret_facts);
/* The same as strerror, but in words for a file. */
const char *small_file_reason(int error);

#endif
