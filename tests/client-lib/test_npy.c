#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "npy.h"

/* A file image: header text padded to 128 bytes in all, then `bytes` of zeros. */
static size_t make(uint8_t *file, const char *header, size_t bytes)
{
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = 118;
    file[9] = 0;
    memcpy(file + 10, header, strlen(header));
    memset(file + 128, 0, bytes);
    return 128 + bytes;
}

static enum pen_status read_header(const char *header, size_t bytes, struct pen_tensor *t)
{
    static uint8_t file[4096];
    struct pen_error error = {.status = PEN_OK, .text = ""};
    enum pen_status status = npy_view(file, make(file, header, bytes), "test.npy", t, &error);
    cr_assert(status == PEN_OK || strstr(error.text, "test.npy"), "the sentence names the file: %s", error.text);
    return status;
}

Test(npy, reads_dtype_and_shape)
{
    struct pen_tensor t;
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, &t), PEN_OK);
    cr_assert_eq(t.dtype, PEN_DTYPE_F32);
    cr_assert_eq(t.rank, 2);
    cr_assert_eq(t.dims[1], 3);
    cr_assert_eq(t.bytes, 24);
    cr_assert_eq(read_header("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", 5, &t), PEN_OK);
    cr_assert_eq(t.rank, 1);
    cr_assert_eq(read_header("{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8, &t), PEN_OK);
    cr_assert_eq(t.rank, 0);
}

Test(npy, refuses_what_it_cannot_read)
{
    struct pen_tensor t;
    cr_assert_eq(read_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, &t), PEN_ERR_UNSUPPORTED);
    cr_assert_eq(read_header("{'descr': '<U8', 'fortran_order': False, 'shape': (2,), }", 64, &t), PEN_ERR_UNSUPPORTED);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8, &t), PEN_ERR_UNSUPPORTED);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7, &t), PEN_ERR_CORRUPT);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, &t), PEN_ERR_CORRUPT);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 8, &t),
                 PEN_ERR_CORRUPT);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000), }", 8, &t),
                 PEN_ERR_CORRUPT);
    cr_assert_eq(read_header("{'descr': '<f4', 'fortran_order': False, }", 8, &t), PEN_ERR_CORRUPT);
    cr_assert_neq(read_header("", 8, &t), PEN_OK);
}

Test(npy, every_truncation_is_an_error_not_a_crash)
{
    uint8_t file[256];
    size_t size = make(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24);
    for (size_t cut = 0; cut < size; cut++) {
        struct pen_tensor t;
        uint8_t *copy = malloc(cut + 1); /* its own block: the sanitizer sees one byte too far */
        memcpy(copy, file, cut);
        cr_assert_neq(npy_view(copy, cut, "cut", &t, NULL), PEN_OK);
        free(copy);
    }
}

Test(npy, what_is_written_is_read_back)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/penstock-npy-%d.npy", (int)getpid());
    const int16_t values[6] = {1, -2, 3, -4, 5, -6};
    struct pen_tensor in = {.dtype = PEN_DTYPE_I16,
                            .rank = 3,
                            .dims = {1, 2, 3},
                            .data = values,
                            .bytes = sizeof values},
                      out;
    cr_assert_eq(npy_save(path, &in, NULL), PEN_OK);
    uint8_t file[1024];
    FILE *f = fopen(path, "rb");
    size_t size = fread(file, 1, sizeof file, f);
    fclose(f);
    remove(path);
    cr_assert_eq(npy_view(file, size, path, &out, NULL), PEN_OK);
    cr_assert_eq(out.dtype, PEN_DTYPE_I16);
    cr_assert_eq(out.rank, 3);
    cr_assert_eq(out.dims[2], 3);
    cr_assert_eq(((const uint8_t *)out.data - file) % 64, 0, "data begin at a multiple of 64");
    cr_assert_eq(memcmp(out.data, values, sizeof values), 0);
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_assert_eq(npy_save("/nowhere/x.npy", &in, &error), PEN_ERR_IO);
    cr_assert(strstr(error.text, "/nowhere/x.npy") != NULL);
}
