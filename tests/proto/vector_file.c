/* vector_file.c - reads and writes vector files. A test's tool: it stops the program on lack of memory. */
#include "vector_file.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_PER_LINE 48u
#define REPEAT_MIN     96u /* so many equal bytes are written as "repeat N HH" */

static void *or_stop(void *memory)
{
    if (!memory) {
        perror("vector");
        exit(1);
    }
    return memory;
}

void vector_add(struct vector *vector, const void *data, size_t bytes)
{
    struct vector_frame *frame = &vector->frames[vector->frames_count++];
    frame->data = or_stop(malloc(bytes ? bytes : 1));
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
}

void vector_fini(struct vector *vector)
{
    for (size_t i = 0; i < vector->frames_count; i++)
        free(vector->frames[i].data);
    free(vector->expect);
    memset(vector, 0, sizeof *vector);
}

static size_t run_length(const uint8_t *data, size_t bytes)
{
    size_t run = 1;
    while (run < bytes && data[run] == data[0])
        run++;
    return run;
}

static void frame_write(FILE *out, const struct vector_frame *frame)
{
    size_t column = 0;
    fprintf(out, "frame %zu", frame->bytes);
    for (size_t i = 0; i < frame->bytes; i++, column++) {
        size_t run = run_length(frame->data + i, frame->bytes - i);
        if (run >= REPEAT_MIN) {
            fprintf(out, "\n  repeat %zu %02x", run, frame->data[i]);
            i += run - 1;
            column = BYTES_PER_LINE - 1;
            continue;
        }
        if (column % BYTES_PER_LINE == 0)
            fputs("\n  ", out);
        fprintf(out, "%02x", frame->data[i]);
    }
    fputc('\n', out);
}

int vector_write(const char *path, const struct vector *vector)
{
    FILE *out = fopen(path, "we");
    if (!out) {
        perror(path);
        return -1;
    }
    fprintf(out, "# %s\ncanonical = %s\n", vector->about, vector->canonical ? "yes" : "no");
    for (size_t i = 0; i < vector->frames_count; i++)
        frame_write(out, &vector->frames[i]);
    fputs("expect\n", out);
    for (const char *line = vector->expect; *line;) {
        size_t bytes = strcspn(line, "\n");
        fprintf(out, "  %.*s\n", (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
    return fclose(out);
}

/* Appends a line of hex digits or "repeat N HH" to a frame whose memory is ample. */
static int bytes_read(const char *line, struct vector_frame *frame, size_t announced)
{
    size_t count;
    unsigned value;
    if (sscanf(line, " repeat %zu %2x", &count, &value) == 2) {
        if (count > announced - frame->bytes)
            return -1;
        memset(frame->data + frame->bytes, (int)value, count);
        frame->bytes += count;
        return 0;
    }
    for (line += strspn(line, " "); sscanf(line, "%2x", &value) == 1; line += 2) {
        if (frame->bytes == announced)
            return -1;
        frame->data[frame->bytes++] = (uint8_t)value;
    }
    return 0;
}

static int lines_read(FILE *in, struct vector *vector)
{
    static char line[4096];
    size_t announced = 0, expected = 0;
    struct vector_frame *frame = NULL;
    while (fgets(line, sizeof line, in)) {
        if (vector->expect) {
            size_t bytes = strlen(line + 2);
            vector->expect = or_stop(realloc(vector->expect, expected + bytes + 1));
            memcpy(vector->expect + expected, line + 2, bytes + 1);
            expected += bytes;
        } else if (sscanf(line, "frame %zu", &announced) == 1 && vector->frames_count < VECTOR_FRAMES_MAX) {
            frame = &vector->frames[vector->frames_count++];
            *frame = (struct vector_frame){.data = or_stop(malloc(announced + 1)), .bytes = 0};
        } else if (line[0] == ' ' && frame) {
            if (bytes_read(line, frame, announced) != 0)
                return -1;
        } else if (strcmp(line, "expect\n") == 0) {
            vector->expect = or_stop(calloc(1, 1));
        } else if (line[0] == '#') {
            snprintf(vector->about, sizeof vector->about, "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
        } else {
            vector->canonical = strcmp(line, "canonical = yes\n") == 0;
        }
    }
    return vector->expect ? 0 : -1;
}

int vector_read(const char *path, struct vector *ret_vector)
{
    FILE *in = fopen(path, "re");
    if (!in) {
        perror(path);
        return -1;
    }
    memset(ret_vector, 0, sizeof *ret_vector);
    int failed = lines_read(in, ret_vector);
    fclose(in);
    if (failed) {
        fprintf(stderr, "%s: no vector file\n", path);
        vector_fini(ret_vector);
    }
    return failed;
}
