/* Keys: made, written where only their owner reads them, read back, refused when something is wrong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys.h"

static char path[64];

static void setup(void)
{
    snprintf(path, sizeof path, "/tmp/penstock-key-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    unlink(path);
}

static void teardown(void)
{
    unlink(path);
}

TestSuite(keys, .init = setup, .fini = teardown);

static void overwrite(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
}

Test(keys, pair_survives_its_file_and_no_file_is_overwritten)
{
    struct key_pair pair, back;
    struct pen_error error = {.status = PEN_OK};
    struct stat facts;
    cr_assert_eq(key_pair_new(&pair), PEN_OK);
    cr_assert_eq(key_file_write(path, &pair, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(stat(path, &facts), 0);
    cr_assert_eq(facts.st_mode & 0777, 0600);
    cr_assert_eq(key_file_read(path, &back, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(memcmp(&pair, &back, sizeof pair), 0);
    cr_assert_eq(key_file_write(path, &pair, &error), PEN_ERR_INVALID);
}

Test(keys, file_that_others_may_read_is_refused)
{
    struct key_pair pair;
    struct pen_error error = {.status = PEN_OK};
    key_pair_new(&pair);
    key_file_write(path, &pair, &error);
    chmod(path, 0640);
    cr_assert_eq(key_file_read(path, &pair, &error), PEN_ERR_DENIED);
    cr_assert_not_null(strstr(error.text, "chmod 600"));
}

Test(keys, broken_files_are_refused_without_repeating_them)
{
    static const char *const texts[] = {"", "public = 12\nsecret = 34\n", "secret = zz\n", "nonsense"};
    struct key_pair pair, other;
    struct pen_error error = {.status = PEN_OK};
    char a[KEY_TEXT_BYTES], b[KEY_TEXT_BYTES], text[256];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        overwrite(texts[i], 0600);
        cr_assert_eq(key_file_read(path, &pair, &error), PEN_ERR_CORRUPT);
    }
    key_pair_new(&pair);
    key_pair_new(&other);
    snprintf(text, sizeof text, "public = %s\nsecret = %s\n", key_text(pair.public_key, a),
             key_text(other.secret_key, b));
    overwrite(text, 0600);
    cr_assert_eq(key_file_read(path, &pair, &error), PEN_ERR_CORRUPT, "they do not belong together");
    cr_assert_null(strstr(error.text, b));
}

/* A whole pair with what a power cut leaves behind it. */
Test(keys, file_with_bytes_that_are_zero_is_refused)
{
    struct key_pair pair;
    struct pen_error error = {.status = PEN_OK};
    key_pair_new(&pair);
    key_file_write(path, &pair, &error);
    FILE *file = fopen(path, "a");
    fwrite("\0\0\0\0", 1, 4, file);
    fclose(file);
    cr_assert_eq(key_file_read(path, &pair, &error), PEN_ERR_CORRUPT);
    cr_assert_not_null(strstr(error.text, "is 0"), "%s", error.text);
}

Test(keys, text_is_64_hex_digits)
{
    uint8_t key[KEY_BYTES];
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(key_parse("0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef", key, &error), PEN_OK);
    cr_assert_eq(key[1], 0x23);
    static const char *const bad[] = {"", "0123", "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdeg",
                                      "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef0"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(key_parse(bad[i], key, &error), PEN_ERR_INVALID);
}

Test(keys, one_without_the_other_is_refused)
{
    struct key_set set;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(key_set_read("", NULL, &set, &error), PEN_OK);
    cr_assert_not(set.used);
    cr_assert_eq(key_set_read("/some/file", "", &set, &error), PEN_ERR_INVALID);
    cr_assert_eq(key_set_read(NULL, "00", &set, &error), PEN_ERR_INVALID);
}
