/*
 * vector_file.h - the files of vectors/: bytes in, fields out. Format: vectors/README.md.
 *
 * Threads: one-at-a-time per struct.
 */
#ifndef VECTOR_FILE_H
#define VECTOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define VECTOR_FRAMES_MAX 80u

struct vector {
    char about[400];
    bool canonical; /* encoding the fields gives these very bytes */
    size_t frames_count;
    struct vector_frame {
        uint8_t *data;
        size_t bytes;
    } frames[VECTOR_FRAMES_MAX];
    char *expect; /* lines as in the file, without their indent of two */
};

/* 0, or -1 with a line on stderr. */
int vector_read(const char *path, struct vector *ret_vector);
int vector_write(const char *path, const struct vector *vector);
void vector_fini(struct vector *vector);

/* Adds a copy of a frame. */
void vector_add(struct vector *vector, const void *data, size_t bytes);

#endif
