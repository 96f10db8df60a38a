/* Every file of vectors/ is decoded and its fields compared; where it is canonical, encoded again and its bytes compared. */
#include "frame.h"
#include "vector_text.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER PENSTOCK_SOURCE "/tests/proto/vectors/"

static glob_t files;

static void find(void)
{
    cr_assert_eq(glob(FOLDER "*.vec", 0, NULL, &files), 0, "no vectors in " FOLDER);
}

static void done(void)
{
    globfree(&files);
}

TestSuite(vectors, .init = find, .fini = done);

static char *printed(const struct vector *vector)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    frames_print(vector, out);
    fclose(out);
    return text;
}

/* The first line that differs, for the message. */
static void compare(const char *path, const char *expected, const char *got)
{
    while (*expected && *got) {
        size_t a = strcspn(expected, "\n"), b = strcspn(got, "\n");
        cr_assert(a == b && memcmp(expected, got, a) == 0, "%s\nexpected: %.*s\ngot:      %.*s", path, (int)a, expected,
                  (int)b, got);
        expected += a + (expected[a] != '\0');
        got += b + (got[b] != '\0');
    }
    cr_assert_str_eq(expected, got, "%s: one text is longer", path);
}

Test(vectors, fields_are_those_in_the_file)
{
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct vector vector;
        cr_assert_eq(vector_read(files.gl_pathv[i], &vector), 0);
        char *text = printed(&vector);
        compare(files.gl_pathv[i], vector.expect, text);
        free(text);
        vector_fini(&vector);
    }
}

Test(vectors, canonical_ones_encode_to_the_same_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct vector vector;
        cr_assert_eq(vector_read(files.gl_pathv[i], &vector), 0);
        if (vector.canonical) {
            cr_assert_eq(frames_reencode(&vector), 0, "%s", files.gl_pathv[i]);
            count++;
        }
        vector_fini(&vector);
    }
    cr_assert_geq(count, FRAME_TYPE_COUNT - 1);
}

Test(vectors, every_message_type_has_one)
{
    bool seen[256] = {false};
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct vector vector;
        cr_assert_eq(vector_read(files.gl_pathv[i], &vector), 0);
        if (vector.canonical)
            seen[vector.frames[0].data[4]] = true;
        vector_fini(&vector);
    }
    for (unsigned type = 1; type < FRAME_TYPE_COUNT; type++)
        cr_assert(seen[type], "no vector for %s", frame_type_name((uint8_t)type));
}

Test(vectors, a_changed_byte_is_noticed)
{
    struct vector vector;
    cr_assert_eq(vector_read(FOLDER "submit_inline.vec", &vector), 0);
    for (size_t i = 0; i < vector.frames[0].bytes; i++) {
        if (i >= 76 && i < 80)
            continue; /* nothing in version 1.0, which the vector speaks */
        vector.frames[0].data[i] ^= 1;
        char *text = printed(&vector);
        cr_assert_str_neq(text, vector.expect, "byte %zu", i);
        free(text);
        vector.frames[0].data[i] ^= 1;
    }
    vector_fini(&vector);
}
