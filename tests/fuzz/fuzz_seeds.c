/*
 * fuzz_seeds.c - the protocol's vectors as a corpus: header frames for fuzz_envelope, metas with small raw frames for fuzz_meta, whole messages
 * (chunks.h) for fuzz_broker, fuzz_worker and fuzz_client.
 *
 * Usage: fuzz_seeds VECTORS CORPUS, where the targets' folders in CORPUS exist.
 */
#include "chunks.h"
#include "frame.h"
#include "vector_file.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

static int file_write(const char *folder, const char *target, unsigned number, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/vector-%u", folder, target, number);
    FILE *out = fopen(path, "we");
    if (!out || fwrite(bytes, 1, size, out) != size || fclose(out) != 0) {
        perror(path);
        return -1;
    }
    return 0;
}

/* The layout that fuzz_meta reads. */
static int meta_write(const char *folder, unsigned number, const struct vector *vector, size_t at)
{
    static uint8_t bytes[1 << 20];
    struct envelope env;
    const uint8_t *meta;
    size_t used = 0;
    if (envelope_decode(vector->frames[at].data, vector->frames[at].bytes, &env, &meta, NULL) != PEN_OK ||
        env.frames > 4 || at + env.frames >= vector->frames_count)
        return 0;
    bytes[used++] = env.type;
    bytes[used++] = env.frames;
    for (size_t i = 1; i <= env.frames; i++) {
        bytes[used++] = (uint8_t)vector->frames[at + i].bytes;
        bytes[used++] = (uint8_t)(vector->frames[at + i].bytes >> 8);
    }
    memcpy(bytes + used, meta, env.meta_bytes);
    used += env.meta_bytes;
    for (size_t i = env.frames; i > 0; i--) { /* the first frame is the end of the input */
        memcpy(bytes + used, vector->frames[at + i].data, vector->frames[at + i].bytes);
        used += vector->frames[at + i].bytes;
    }
    return file_write(folder, "fuzz_meta", number, bytes, used);
}

/* Appends the vector's frames as one message; returns the bytes in use, `used` when it does not fit a chunk's limits. */
static size_t chunk_append(uint8_t *bytes, size_t used, uint8_t head, const struct vector *vector)
{
    size_t at = used;
    if (vector->frames_count > CHUNK_FRAMES_MAX)
        return used;
    for (size_t i = 0; i < vector->frames_count; i++) {
        size_t size = vector->frames[i].bytes;
        if (size > CHUNK_BYTES_MAX)
            return used;
        bytes[at++] = (uint8_t)(head | (i + 1 < vector->frames_count ? 0x80 : 0));
        bytes[at++] = (uint8_t)size;
        bytes[at++] = (uint8_t)(size >> 8);
        memcpy(bytes + at, vector->frames[i].data, size);
        at += size;
    }
    return at;
}

/* Behind a hello where the target wants one: the first vectors that are heard decide what the rest finds. */
static int messages_write(const char *folder, unsigned number, const struct vector *vector, const char *vectors)
{
    static const struct {
        const char *target, *before; /* a vector, NULL = none */
        uint8_t head_before, head;
    } doors[] = {{"fuzz_broker", "client_hello", 0, 0}, {"fuzz_broker", "worker_hello", 1, 0},
                 {"fuzz_broker", "worker_hello", 1, 1}, {"fuzz_worker", NULL, 0, 0},
                 {"fuzz_client", NULL, 0, 0},           {"fuzz_client", NULL, 0, 1},
                 {"fuzz_client", NULL, 0, 2},           {"fuzz_client", NULL, 0, 3},
                 {"fuzz_client", NULL, 0, 4},           {"fuzz_client", NULL, 0, 5},
                 {"fuzz_client", NULL, 0, 6},           {"fuzz_client", NULL, 0, 7}};
    static uint8_t bytes[2 * CHUNK_FRAMES_MAX * (CHUNK_BYTES_MAX + 3)];
    int failed = 0;
    for (size_t i = 0; i < sizeof doors / sizeof doors[0] && !failed; i++) {
        size_t used = 0;
        if (doors[i].before) {
            char path[4096];
            struct vector hello;
            snprintf(path, sizeof path, "%s/%s.vec", vectors, doors[i].before);
            if (vector_read(path, &hello) != 0)
                return -1;
            used = chunk_append(bytes, 0, doors[i].head_before, &hello);
            vector_fini(&hello);
        }
        used = chunk_append(bytes, used, doors[i].head, vector);
        failed = used > 0 && file_write(folder, doors[i].target, number * 16 + (unsigned)i, bytes, used) != 0;
    }
    return failed;
}

int main(int argc, char **argv)
{
    char pattern[4096];
    glob_t files;
    int failed = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: fuzz_seeds VECTORS CORPUS\n");
        return 2;
    }
    snprintf(pattern, sizeof pattern, "%s/*.vec", argv[1]);
    if (glob(pattern, 0, NULL, &files) != 0) {
        fprintf(stderr, "no vectors in %s\n", argv[1]);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc && !failed; i++) {
        struct vector vector;
        failed = vector_read(files.gl_pathv[i], &vector) != 0;
        if (failed)
            break;
        if (vector.frames[0].bytes < 8192)
            failed =
                file_write(argv[2], "fuzz_envelope", (unsigned)i, vector.frames[0].data, vector.frames[0].bytes) != 0;
        failed = failed || meta_write(argv[2], (unsigned)i, &vector, 0) != 0 ||
                 messages_write(argv[2], (unsigned)i, &vector, argv[1]) != 0;
        vector_fini(&vector);
    }
    globfree(&files);
    return failed;
}
