/*
 * folder.h - temporary folders and small files of a test.
 *
 * Threads: any. Failures end the test with a message.
 */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#define FOLDER_PATH_BYTES 256

void folder_new(char ret_path[FOLDER_PATH_BYTES]); /* a fresh one under /tmp */
void folder_free(const char *path);                /* with all in it */
void folder_make(const char *path);                /* like mkdir -p */
void file_write(const char *path, const void *bytes, size_t size);
void *file_read(const char *path, size_t *ret_size); /* gives; one NUL behind the bytes */
void file_copy(const char *from, const char *to);
/* A model folder NAME below `models` with version 1 from `model_file` and, unless NULL, this config.json. */
void model_folder_make(const char *models, const char *name, const char *model_file, const char *config);

#endif
