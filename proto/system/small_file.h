/*
 * small_file.h - keys, passwords and settings: small files that a program reads before it listens to anybody.
 *
 * Also pipes, as a shell's <(...) is one: a pipe that nobody writes to must not keep the program, which would not even hear SIGTERM then.
 * Threads: any.
 */
#ifndef SMALL_FILE_H
#define SMALL_FILE_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SMALL_FILE_WAIT_MS 2000

/*
 * The bytes that were read: all up to the end of the file, at most capacity. What is no regular file has SMALL_FILE_WAIT_MS for it.
 * -1: errno, ETIMEDOUT where nothing came or the end did not. ret_facts: of the file that was opened.
 */
ssize_t small_file_read(const char *path, void *bytes, size_t capacity, struct stat *ret_facts);
/* The same as strerror, but in words for a file. */
const char *small_file_reason(int error);

#endif
