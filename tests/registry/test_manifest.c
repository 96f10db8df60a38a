/* test_manifest.c - manifests: written and read again; each rule, broken once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest.h"

#define DIGEST                       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_OF(path, bytes, digest) "{\"path\":\"" path "\",\"bytes\":" bytes ",\"sha256\":\"" digest "\"}"
#define MANIFEST(files)              "{\"format\":\"penstock-model/1\",\"model\":\"m\",\"version\":3,\"files\":[" files "]}"

static enum pen_status read_text(const char *text, struct pen_error *error)
{
    struct manifest manifest;
    memset(error, 0, sizeof *error);
    enum pen_status status = manifest_parse(text, strlen(text), &manifest, error);
    if (status == PEN_OK)
        manifest_fini(&manifest);
    return status;
}

Test(manifest, what_is_written_is_read_again)
{
    struct manifest manifest = {.version = 999999999999999}, again;
    struct content_digest digest = content_digest_of("abc", 3);
    struct pen_error error = {.status = PEN_OK};
    char path[64], *text = NULL;
    size_t bytes = 0;
    strcpy(manifest.model, "some.model");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "part-%02u/\xc3\xa4 \\u\"%u.bin", 99 - i, i);
        path[8] = i % 2 ? '-' : path[8];
        for (char *c = path; *c; c++)
            *c = *c == '\\' ? '+' : *c;
        cr_assert_eq(manifest_add(&manifest, path, UINT64_C(1) << (i % 33), &digest, &error), PEN_OK, "%s", error.text);
    }
    manifest_sort(&manifest);
    cr_assert_eq(manifest_write(&manifest, &text, &bytes, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(manifest_parse(text, bytes, &again, &error), PEN_OK, "%s", error.text);
    cr_assert(again.count == 100 && again.version == manifest.version && again.bytes == manifest.bytes &&
              strcmp(again.model, manifest.model) == 0);
    for (size_t i = 0; i < 100; i++)
        cr_assert(strcmp(again.files[i].path, manifest.files[i].path) == 0 &&
                  again.files[i].bytes == manifest.files[i].bytes &&
                  strcmp(again.files[i].digest.hex, digest.hex) == 0);
    manifest_fini(&manifest);
    manifest_fini(&again);
    free(text);
}

Test(manifest, no_path_leads_out_or_hides)
{
    static const char *const wrong[] = {
        "../x", "a/../x", "/x", "a//x", "a/", "", ".", "..", ".x", "a/.x", "a\\\\x", "a\\u0001", "1/2/3/4/5/6/7/8/9",
        "./x",  "a\\n"};
    struct pen_error error;
    char text[1024];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, MANIFEST(FILE_OF("%s", "1", DIGEST)), wrong[i]);
        cr_assert_eq(read_text(text, &error), PEN_ERR_CORRUPT, "'%s' is read", wrong[i]);
        cr_assert(strstr(error.text, "no path"), "%s: %s", wrong[i], error.text);
    }
    cr_assert_eq(read_text(MANIFEST(FILE_OF("1/2/3/4/5/6/7/8", "1", DIGEST)), &error), PEN_OK, "%s", error.text);
}

Test(manifest, each_rule_is_kept)
{
    static const struct {
        const char *text, *says;
        enum pen_status status;
    } wrong[] = {
        {"", "no JSON", PEN_ERR_CORRUPT},
        {"[]", "no JSON object", PEN_ERR_CORRUPT},
        {"{}", "format", PEN_ERR_VERSION},
        {"{\"format\":\"penstock-model/2\"}", "penstock-model/2", PEN_ERR_VERSION},
        {MANIFEST(""), "no files", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("b", "1", DIGEST) "," FILE_OF("a", "1", DIGEST)), "order", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1", DIGEST) "," FILE_OF("a", "1", DIGEST)), "twice", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "-1", DIGEST)), "bytes", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1.5", DIGEST)), "bytes", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1e300", DIGEST)), "bytes", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1", "0")), "sha256", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1", "G123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")), "sha256",
         PEN_ERR_CORRUPT},
        {MANIFEST("5"), "each file", PEN_ERR_CORRUPT},
        {MANIFEST(FILE_OF("a", "1099511627776", DIGEST) "," FILE_OF("b", "1", DIGEST)), "1 TiB", PEN_ERR_TOO_LARGE},
        {"{\"format\":\"penstock-model/1\",\"model\":\"../m\",\"version\":3,\"files\":[]}", "model", PEN_ERR_CORRUPT},
        {"{\"format\":\"penstock-model/1\",\"model\":\"m\",\"version\":0,\"files\":[]}", "version", PEN_ERR_CORRUPT},
    };
    struct pen_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(read_text(wrong[i].text, &error), wrong[i].status, "%s: %s", wrong[i].text, error.text);
        cr_assert(strstr(error.text, wrong[i].says), "%s: %s", wrong[i].text, error.text);
    }
}

Test(manifest, files_and_bytes_have_a_bound)
{
    struct manifest manifest = {.version = 1};
    struct content_digest digest = content_digest_of("", 0);
    struct pen_error error = {.status = PEN_OK};
    char path[32], *large = calloc(1, MANIFEST_BYTES_MAX + 1);
    for (unsigned i = 0; i < MANIFEST_FILES_MAX; i++) {
        snprintf(path, sizeof path, "%u", i);
        cr_assert_eq(manifest_add(&manifest, path, 1, &digest, &error), PEN_OK);
    }
    cr_assert_eq(manifest_add(&manifest, "x", 1, &digest, &error), PEN_ERR_TOO_LARGE);
    manifest_fini(&manifest);
    cr_assert_eq(manifest_parse(large, MANIFEST_BYTES_MAX + 1, &manifest, &error), PEN_ERR_TOO_LARGE);
    free(large);
}
