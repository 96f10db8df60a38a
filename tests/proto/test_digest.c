/* Known values were computed with sha256sum and with the xxhash library's own vectors. */
#include "digest.h"

#include <criterion/criterion.h>
#include <string.h>

static void digest_of(enum digest_kind kind, const void *data, size_t bytes, char text[DIGEST_TEXT_BYTES])
{
    struct digest_stream *stream = digest_new(kind);
    cr_assert_not_null(stream);
    digest_update(stream, data, bytes);
    digest_text(digest_final(stream), text);
    digest_free(stream);
}

Test(digest, known_values_of_both_kinds)
{
    char text[DIGEST_TEXT_BYTES];
    digest_of(DIGEST_SHA256, "abc", 3, text);
    cr_assert_str_eq(text, "ba7816bf8f01cfea414140de5dae2223");
    digest_of(DIGEST_SHA256, "", 0, text);
    cr_assert_str_eq(text, "e3b0c44298fc1c149afbf4c8996fb924");
    digest_of(DIGEST_XXH3, "", 0, text);
    cr_assert_str_eq(text, "99aa06d3014798d86001c324468d497f");
}

Test(digest, pieces_and_whole_agree)
{
    char data[5000], whole[DIGEST_TEXT_BYTES], pieces[DIGEST_TEXT_BYTES];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (int kind = 0; kind < 2; kind++) {
        struct digest_stream *stream = digest_new((enum digest_kind)kind);
        size_t at = 0;
        for (size_t step = 1; at < sizeof data; step = step * 3 + 1) {
            size_t bytes = step < sizeof data - at ? step : sizeof data - at;
            digest_update(stream, data + at, bytes);
            at += bytes;
        }
        digest_text(digest_final(stream), pieces);
        digest_free(stream);
        digest_of((enum digest_kind)kind, data, sizeof data, whole);
        cr_assert_str_eq(pieces, whole);
    }
    digest_free(NULL);
}

Test(digest, texts_cannot_run_together)
{
    char a[DIGEST_TEXT_BYTES], b[DIGEST_TEXT_BYTES];
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    digest_update_text(stream, "ab");
    digest_update_text(stream, "c");
    digest_text(digest_final(stream), a);
    digest_free(stream);
    stream = digest_new(DIGEST_XXH3);
    digest_update_text(stream, "a");
    digest_update_text(stream, "bc");
    digest_text(digest_final(stream), b);
    digest_free(stream);
    cr_assert_str_neq(a, b);
}

static const uint8_t pixels[4] = {1, 2, 3, 4};

static struct digest request_of(struct pen_tensor *inputs, size_t inputs_count, const char *const *outputs,
                                size_t outputs_count, const struct digest_parameter *parameters,
                                size_t parameters_count)
{
    struct digest digest;
    cr_assert_eq(digest_request(DIGEST_XXH3, inputs, inputs_count, outputs, outputs_count, parameters, parameters_count,
                                0, &digest),
                 PEN_OK);
    return digest;
}

Test(digest, request_does_not_depend_on_the_order_of_lists)
{
    struct pen_tensor a = {"a", PEN_DTYPE_U8, 1, {4}, pixels, 4}, b = {"b", PEN_DTYPE_U8, 2, {2, 2}, pixels, 4};
    struct digest_parameter p = {"p", "i:1"}, q = {"q", "s:x"};
    struct digest one =
        request_of((struct pen_tensor[]){a, b}, 2, (const char *[]){"y", "z"}, 2, (struct digest_parameter[]){p, q}, 2);
    struct digest two =
        request_of((struct pen_tensor[]){b, a}, 2, (const char *[]){"z", "y"}, 2, (struct digest_parameter[]){q, p}, 2);
    cr_assert(digest_equal(one, two));
}

Test(digest, request_sees_every_part)
{
    struct pen_tensor base = {"a", PEN_DTYPE_U8, 1, {4}, pixels, 4};
    struct digest_parameter p = {"p", "i:1"};
    const char *y = "y", *z = "z";
    struct digest all[10];
    size_t n = 0;
    struct pen_tensor changed = base;
    all[n++] = request_of(&base, 1, &y, 1, &p, 1);
    all[n++] = request_of(&base, 1, &z, 1, &p, 1);
    all[n++] = request_of(&base, 1, NULL, 0, &p, 1);
    all[n++] = request_of(&base, 1, &y, 1, NULL, 0);
    all[n++] = request_of(&base, 1, &y, 1, &(struct digest_parameter){"p", "i:2"}, 1);
    changed.name = "b";
    all[n++] = request_of(&changed, 1, &y, 1, &p, 1);
    changed = base;
    changed.dtype = PEN_DTYPE_I8;
    all[n++] = request_of(&changed, 1, &y, 1, &p, 1);
    changed = base;
    changed.rank = 2;
    changed.dims[0] = changed.dims[1] = 2;
    all[n++] = request_of(&changed, 1, &y, 1, &p, 1);
    changed = base;
    changed.data = "\1\2\3\5";
    all[n++] = request_of(&changed, 1, &y, 1, &p, 1);
    all[n++] = request_of(NULL, 0, &y, 1, &p, 1);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            cr_assert(!digest_equal(all[i], all[j]), "%zu and %zu", i, j);
}

Test(digest, request_refuses_twins_missing_names_and_long_lists)
{
    struct digest digest = {{7}}, untouched = digest;
    struct pen_tensor twins[2] = {{"a", PEN_DTYPE_U8, 1, {4}, pixels, 4}, {"a", PEN_DTYPE_U8, 1, {4}, pixels, 4}};
    struct digest_parameter p[2] = {{"p", "i:1"}, {"p", "i:2"}};
    cr_assert_eq(digest_request(DIGEST_XXH3, twins, 2, NULL, 0, NULL, 0, 0, &digest), PEN_ERR_INVALID);
    cr_assert_eq(digest_request(DIGEST_XXH3, NULL, 0, NULL, 0, p, 2, 0, &digest), PEN_ERR_INVALID);
    p[0].value = NULL;
    cr_assert_eq(digest_request(DIGEST_XXH3, NULL, 0, NULL, 0, p, 1, 0, &digest), PEN_ERR_INVALID);
    twins[0].name = NULL;
    cr_assert_eq(digest_request(DIGEST_XXH3, twins, 1, NULL, 0, NULL, 0, 0, &digest), PEN_ERR_INVALID);
    cr_assert_eq(digest_request(DIGEST_XXH3, twins, 65, NULL, 0, NULL, 0, 0, &digest), PEN_ERR_TOO_LARGE);
    cr_assert(digest_equal(digest, untouched));
}

/* Byte order of proto/PROTOCOL.md, written out here by hand. */
Test(digest, request_is_the_hash_of_the_documented_bytes)
{
    static const char bytes[] = "penstock-request-1"
                                "\1\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0a"
                                "\2\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0"
                                "\4\0\0\0\0\0\0\0\1\2\3\4"
                                "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0y"
                                "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0p\3\0\0\0\0\0\0\0i:1";
    struct pen_tensor a = {"a", PEN_DTYPE_U8, 1, {4}, pixels, 4};
    struct digest_parameter p = {"p", "i:1"};
    for (int kind = 0; kind < 2; kind++) {
        char expected[DIGEST_TEXT_BYTES], got[DIGEST_TEXT_BYTES];
        struct digest digest;
        digest_of((enum digest_kind)kind, bytes, sizeof bytes - 1, expected);
        cr_assert_eq(digest_request((enum digest_kind)kind, &a, 1, (const char *[]){"y"}, 1, &p, 1, 0, &digest),
                     PEN_OK);
        cr_assert_str_eq(digest_text(digest, got), expected);
    }
    char with[sizeof bytes + 7], expected[DIGEST_TEXT_BYTES], got[DIGEST_TEXT_BYTES]; /* top_k behind all that */
    struct digest digest;
    memcpy(with, bytes, sizeof bytes - 1);
    memcpy(with + sizeof bytes - 1, "\3\0\0\0\0\0\0\0", 8);
    digest_of(DIGEST_XXH3, with, sizeof with, expected);
    cr_assert_eq(digest_request(DIGEST_XXH3, &a, 1, (const char *[]){"y"}, 1, &p, 1, 3, &digest), PEN_OK);
    cr_assert_str_eq(digest_text(digest, got), expected);
}
