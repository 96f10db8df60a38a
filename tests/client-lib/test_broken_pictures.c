/* pen_client_picture's way from a file to a tensor, with files that are cut off, changed, empty or no files at all: a tensor of the model's size, or a sentence that names the file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "encoders.h"
#include "penstock/client.h"

#define ROOM 65536u

static const struct pen_signature pixels = {"x", PEN_DTYPE_U8, 4, {-1, 6, 5, 3}, true, false, false};
static const struct pen_signature files = {"x", PEN_DTYPE_F32, 4, {-1, 6, 5, 3}, true, false, true};
static uint8_t whole[ROOM];
static char path[] = "/tmp/penstock-broken.XXXXXX";

static void begin(void)
{
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void end(void)
{
    chmod(path, 0600);
    remove(path);
}

TestSuite(broken_pictures, .init = begin, .fini = end);

static size_t sample(int kind)
{
    static uint8_t scene[24 * 20 * 3];
    for (size_t i = 0; i < sizeof scene; i++)
        scene[i] = (uint8_t)(i * 7);
    if (kind == 0)
        return bmp_make(whole);
    if (kind == 1)
        return png_make(
            whole, ROOM,
            &(struct png_ask){.width = 24, .height = 20, .depth = 8, .color = 2, .pixels = scene, .row_bytes = 72});
    return jpeg_make(
        whole, ROOM,
        &(struct jpeg_ask){
            .width = 24, .height = 20, .channels = 3, .orientation = 6, .progressive = kind == 3, .pixels = scene});
}

static void file_write(const uint8_t *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    cr_assert(out && fwrite(bytes, 1, size, out) == size);
    fclose(out);
}

/* A tensor of the input's size, or a refusal that names the file. */
static enum pen_status take(const struct pen_signature *input, const char *file)
{
    const struct pen_model model = {.name = "m", .inputs = input, .inputs_count = 1, .preprocess = ""};
    struct pen_tensor t = {.name = "untouched"};
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = pen_model_picture(&model, file, &t, &error);
    if (status == PEN_OK) {
        cr_assert(t.bytes == (input->pictures ? t.bytes : 6u * 5u * 3u) && t.data && strcmp(t.name, "x") == 0);
        pen_picture_free(&t);
    } else {
        cr_assert(strstr(error.text, file), "'%s' does not name the file", error.text);
        cr_assert_str_eq(t.name, "untouched");
        cr_assert_eq(error.status, status);
    }
    return status;
}

Test(broken_pictures, cut_off_anywhere)
{
    for (int kind = 0; kind < 4; kind++) {
        size_t size = sample(kind);
        file_write(whole, size);
        cr_assert_eq(take(&pixels, path), PEN_OK);
        for (size_t cut = 0; cut + 16 < size; cut += 1 + size / 97) {
            file_write(whole, cut);
            cr_expect_neq(take(&pixels, path), PEN_OK, "kind %d: %zu of %zu bytes are a picture", kind, cut, size);
            enum pen_status sent = take(&files, path);
            cr_expect(sent == PEN_OK || cut < 64, "kind %d: the worker judges what has a picture's beginning", kind);
        }
    }
}

Test(broken_pictures, changed_anywhere)
{
    uint32_t state = 5;
    for (int kind = 0; kind < 4; kind++) {
        for (int round = 0; round < 150; round++) {
            size_t size = sample(kind);
            for (int k = 0; k < 3; k++) {
                state = state * 1664525u + 1013904223u;
                whole[(state >> 8) % size] ^= (uint8_t)(1u << (state >> 29));
            }
            file_write(whole, size);
            take(&pixels, path);
            take(&files, path);
        }
    }
}

/* A head that says more pixels than anybody has memory for is refused before they take any. */
Test(broken_pictures, huge_heads)
{
    size_t size = sample(1);
    memcpy(whole + 16, (const uint8_t[]){0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF}, 8);
    file_write(whole, size);
    cr_expect_neq(take(&pixels, path), PEN_OK);
    size = sample(0);
    memcpy(whole + 18, (const uint8_t[]){0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F}, 8);
    file_write(whole, size);
    cr_expect_neq(take(&pixels, path), PEN_OK);
}

Test(broken_pictures, what_is_no_file)
{
    const struct pen_signature *const inputs[] = {&pixels, &files};
    for (size_t i = 0; i < 2; i++) {
        file_write(whole, 0);
        cr_expect_neq(take(inputs[i], path), PEN_OK, "empty");
        cr_expect_neq(take(inputs[i], "/tmp"), PEN_OK, "a folder");
        cr_expect_neq(take(inputs[i], "/nowhere/at/all.png"), PEN_OK);
        cr_expect_neq(take(inputs[i], "/dev/null"), PEN_OK);
        cr_expect_neq(take(inputs[i], "/dev/zero"), PEN_OK, "a file without end");
        if (geteuid() != 0) {
            chmod(path, 0);
            cr_expect_neq(take(inputs[i], path), PEN_OK, "not ours to read");
            chmod(path, 0600);
        }
    }
}
