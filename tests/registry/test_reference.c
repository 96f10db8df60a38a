/* test_reference.c - what people write for a model of a registry. */
#include <criterion/criterion.h>
#include <string.h>

#include "reference.h"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(reference, each_form_is_read)
{
    struct model_reference r;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(reference_parse("yolo-v8.n", &r, &error), PEN_OK, "%s", error.text);
    cr_assert(strcmp(r.name, "yolo-v8.n") == 0 && r.version == 0 && !r.label[0] && !r.digest.hex[0]);
    cr_assert_eq(reference_parse("_a@17", &r, &error), PEN_OK);
    cr_assert(strcmp(r.name, "_a") == 0 && r.version == 17);
    cr_assert_eq(reference_parse("a:stable-2", &r, &error), PEN_OK);
    cr_assert(strcmp(r.label, "stable-2") == 0 && r.version == 0);
    cr_assert_eq(reference_parse("a@sha256:" DIGEST, &r, &error), PEN_OK);
    cr_assert(strcmp(r.digest.hex, DIGEST) == 0);
}

Test(reference, everything_else_is_refused_with_the_forms)
{
    static const char *const wrong[] = {
        "",           "@1",      ":x",       "a@",       "a@0",   "a@01",
        "a@1x",       "a:1",     "a:",       "a:b:c",    "a@1:b", "../a",
        "a/b",        ".a",      "-a",       "a b",      "a@-1",  "a@9999999999999999999",
        "a@sha256:0", "a:b/../", "a@sha256", "\xc3\xa4", "a:.x",  "a@sha256:" DIGEST "0"};
    struct model_reference r = {.version = 5};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pen_error error = {.status = PEN_OK};
        cr_assert_eq(reference_parse(wrong[i], &r, &error), PEN_ERR_INVALID, "'%s' is read", wrong[i]);
        cr_assert(strstr(error.text, "NAME@VERSION"), "%s", error.text);
        cr_assert_eq(r.version, 5, "a refusal changes nothing");
    }
}

Test(reference, names_have_a_bound)
{
    char text[400];
    struct model_reference r;
    memset(text, 'a', sizeof text);
    text[128] = '\0';
    cr_assert_eq(reference_parse(text, &r, NULL), PEN_OK);
    text[128] = 'a';
    text[129] = '\0';
    cr_assert_eq(reference_parse(text, &r, NULL), PEN_ERR_INVALID);
    memcpy(text, "a:", 2);
    text[2 + 64] = '\0';
    cr_assert_eq(reference_parse(text, &r, NULL), PEN_OK);
    text[2 + 64] = 'a';
    text[2 + 65] = '\0';
    cr_assert_eq(reference_parse(text, &r, NULL), PEN_ERR_INVALID);
}
