/*
 * fuzz_seeds.c - the protocol's vectors as a corpus: header frames for fuzz_envelope, metas with small raw frames for fuzz_meta.
 *
 * Usage: fuzz_seeds VECTORS CORPUS, where CORPUS/fuzz_envelope and CORPUS/fuzz_meta exist.
 */
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
        failed = failed || meta_write(argv[2], (unsigned)i, &vector, 0) != 0;
        vector_fini(&vector);
    }
    globfree(&files);
    return failed;
}
