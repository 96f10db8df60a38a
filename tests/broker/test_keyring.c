/* The file of keys: what its lines say, lists that are changed, damaged or sealed, quotas, the audit log. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "keys_text.h"
#include "key_list.h"

TestSuite(keyring, .init = keys_path_make, .fini = keys_path_remove);

Test(keyring, lines_are_read_with_roles_and_quotas)
{
    struct keyring *keyring =
        keys_text_keyring("# a comment\n\n" A " alice submit,observe tenant=red rate=10 bytes=2MiB share=25\n" W
                          "\tw1 worker # this one\n");
    const struct identity *alice = keyring_find(keyring, A);
    cr_assert_not_null(alice);
    cr_assert_str_eq(alice->tenant, "red");
    cr_assert_eq(alice->roles, ROLE_SUBMIT | ROLE_OBSERVE);
    cr_assert_eq(alice->bytes_max, 2u << 20);
    cr_assert_eq(alice->share, 25);
    cr_assert_str_eq(keyring_find(keyring, W)->tenant, "w1", "its name, unless another is given");
    cr_expect_eq(keyring_count(keyring), 2);
    cr_assert_null(keyring_find(keyring, B));
    cr_assert_null(keyring_find(keyring, NULL));
    uint8_t key[KEY_BYTES];
    key_parse(W, key, NULL);
    cr_assert(keyring_knows(keyring, key));
    key_parse(B, key, NULL);
    cr_assert_not(keyring_knows(keyring, key));
    keyring_free(keyring);
}

Test(keyring, bad_lines_are_named)
{
    static const char *const bad[] = {"xyz alice submit\n",
                                      A " alice\n",
                                      A " a:b submit\n",
                                      A " alice king\n",
                                      A " alice submit,king\n",
                                      A " alice submit rate=0\n",
                                      A " alice submit rate=x\n",
                                      A " alice submit share=101\n",
                                      A " alice submit bytes=1TB\n",
                                      A " alice submit color=red\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct keyring *keyring = NULL;
        struct pen_error error = {.status = PEN_OK};
        char text[256];
        snprintf(text, sizeof text, "# first\n%s", bad[i]);
        keys_text_write(text);
        cr_assert_eq(keyring_new(keys_path, &keyring, &error), PEN_ERR_INVALID, "%s", bad[i]);
        cr_assert_not_null(strstr(error.text, ":2:"), "%s", error.text);
    }
}

/* Reading a folder fails where a file would end: it must not pass for an empty list. */
Test(keyring, list_that_cannot_be_read_to_its_end_is_refused)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(keyring_new("/tmp", &keyring, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "/tmp"), "%s", error.text);
}

Test(keyring, pipe_is_refused_at_once_and_a_link_to_a_file_is_followed, .timeout = 30)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    keyring_free(keys_text_keyring(A " alice submit\n"));
    char other[sizeof keys_path + 8];
    snprintf(other, sizeof other, "%s.other", keys_path);
    cr_assert_eq(mkfifo(other, 0600), 0);
    cr_assert_eq(keyring_new(other, &keyring, &error), PEN_ERR_IO);
    cr_assert_not_null(strstr(error.text, "no ordinary file"), "%s", error.text);
    unlink(other);
    cr_assert_eq(symlink(keys_path, other), 0);
    cr_assert_eq(keyring_new(other, &keyring, &error), PEN_OK, "%s", error.text);
    keyring_free(keyring);
    unlink(other);
}

Test(keyring, changed_file_is_taken_over_and_a_bad_one_changes_nothing)
{
    struct keyring *keyring = keys_text_keyring(A " alice submit\n");
    struct pen_error error = {.status = PEN_OK};
    struct identity *alice = keyring_find(keyring, A);
    cr_assert_not(keyring_refresh(keyring, &error), "nothing new");
    keys_text_write(A " alice submit,admin\n" B " bob submit\n");
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_eq(keyring_find(keyring, A), alice, "sessions may point to it");
    cr_assert_eq(alice->roles, ROLE_SUBMIT | ROLE_ADMIN);
    cr_assert_not_null(keyring_find(keyring, B));
    keys_text_write(B " bob nonsense\n");
    cr_assert_not(keyring_refresh(keyring, &error));
    cr_assert_eq(error.status, PEN_ERR_INVALID);
    cr_assert_not_null(keyring_find(keyring, A));
    keys_text_write(B " bob submit\n");
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_null(keyring_find(keyring, A), "gone");
    keyring_free(keyring);
}

static void write_bytes(const char *text, size_t bytes)
{
    keys_text_write("");
    FILE *file = fopen(keys_path, "w");
    cr_assert_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

/* What power cuts, full disks and half-done copies leave of ALICE and WORKER, and the word by which a person knows it. */
static const struct {
    const char *text;
    size_t bytes;
    const char *says;
} damaged[] = {{"", 0, "holds no key"},
               {"# nobody\n\n", 10, "holds no key"},
               {ALICE "\0\0\0\0\n", sizeof ALICE + 4, "a byte of the list is 0"},
               {"\0\0\0\0\0\0\0\0", 8, "a byte of the list is 0"},
               {ALICE W " w1 work", sizeof ALICE - 1 + sizeof W - 1 + 8, "ends within a line"},
               {ALICE W " w1 worker", sizeof ALICE - 1 + sizeof W - 1 + 10, "ends within a line"},
               {ALICE W, sizeof ALICE - 1 + sizeof W - 1, "ends within a line"}};

Test(keyring, damaged_list_is_refused_and_the_last_good_one_stays)
{
    struct keyring *keyring = keys_text_keyring(ALICE WORKER);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct pen_error error = {.status = PEN_OK};
        write_bytes(damaged[i].text, damaged[i].bytes);
        for (int again = 0; again < 3; again++)
            cr_assert_not(keyring_refresh(keyring, again ? NULL : &error));
        cr_assert_eq(error.status, PEN_ERR_INVALID, "%zu", i);
        cr_assert_not_null(strstr(error.text, damaged[i].says), "%s", error.text);
        cr_assert_not_null(strstr(error.text, keys_path), "%s", error.text);
        cr_assert(keyring_find(keyring, A) && keyring_find(keyring, W), "the good list holds");
    }
    struct pen_error error = {.status = PEN_OK};
    keys_text_write(ALICE);
    cr_assert(keyring_refresh(keyring, &error), "whole, and shorter: somebody was taken off");
    cr_assert_null(keyring_find(keyring, W));
    keyring_free(keyring);
}

Test(keyring, nothing_starts_with_a_damaged_list)
{
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct keyring *keyring = NULL;
        struct pen_error error = {.status = PEN_OK};
        write_bytes(damaged[i].text, damaged[i].bytes);
        cr_assert_eq(keyring_new(keys_path, &keyring, &error), PEN_ERR_INVALID, "%zu", i);
        cr_assert_not_null(strstr(error.text, damaged[i].says), "%s", error.text);
    }
}

/* Writes the list with its seal, as `penstock keys --seal` does, and leaves off its last bytes. */
static void write_sealed(const char *text, const char *line, size_t cut)
{
    struct key_list list = {.text = NULL};
    struct pen_error error = {.status = PEN_OK};
    keys_text_write(text);
    cr_assert_eq(key_list_read(keys_path, KEY_SEAL_ANY, &list, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(key_list_write(keys_path, &list, line, KEYS_SEALED, &error), PEN_OK, "%s", error.text);
    key_list_fini(&list);
    struct stat facts;
    cr_assert_eq(stat(keys_path, &facts), 0);
    cr_assert_eq(truncate(keys_path, facts.st_size - (off_t)cut), 0);
}

Test(keyring, sealed_list_that_was_cut_behind_a_line_is_refused)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    write_sealed(ALICE, WORKER, 0);
    cr_assert_eq(keyring_new(keys_path, &keyring, &error), PEN_OK, "%s", error.text);
    cr_assert(keyring_find(keyring, A) && keyring_find(keyring, W));
    write_sealed(ALICE, WORKER, sizeof WORKER - 1);
    cr_assert_not(keyring_refresh(keyring, &error));
    cr_assert_not_null(strstr(error.text, "not the list that its first line was written for (it has 1 keys now)"), "%s",
                       error.text);
    cr_assert(keyring_find(keyring, W));
    write_sealed(ALICE, NULL, 0);
    cr_assert(keyring_refresh(keyring, &error));
    cr_assert_null(keyring_find(keyring, W), "a seal for the shorter list");
    write_sealed("# nobody\n", NULL, 0);
    cr_assert(keyring_refresh(keyring, &error), "a seal says that nobody is meant");
    cr_assert_null(keyring_find(keyring, A));
    keyring_free(keyring);
}

/* A new file under the old name, with the old one's rights: never half of it. */
Test(keyring, list_is_written_under_another_name_first)
{
    struct stat before, after;
    struct key_list list = {.text = NULL};
    struct pen_error error = {.status = PEN_OK};
    keys_text_write(ALICE);
    cr_assert_eq(chmod(keys_path, 0640), 0);
    cr_assert_eq(stat(keys_path, &before), 0);
    cr_assert_eq(key_list_read(keys_path, KEY_SEAL_FITS, &list, &error), PEN_OK, "%s", error.text);
    cr_assert_not(list.sealed);
    cr_assert_eq(key_list_write(keys_path, &list, WORKER, KEYS_SEALED, &error), PEN_OK, "%s", error.text);
    key_list_fini(&list);
    cr_assert_eq(stat(keys_path, &after), 0);
    cr_assert_neq(before.st_ino, after.st_ino, "another file");
    cr_assert_eq(after.st_mode & 0777, 0640);
    cr_assert_eq(key_list_read(keys_path, KEY_SEAL_FITS, &list, &error), PEN_OK, "%s", error.text);
    cr_assert(list.sealed && list.keys == 2);
    cr_assert_str_eq(list.text + list.body, ALICE WORKER);
    key_list_fini(&list);
    cr_assert_eq(key_list_write("/nowhere/keys", &list, WORKER, KEYS_UNSEALED, &error), PEN_ERR_IO);
}

Test(keyring, list_may_be_as_long_as_a_broker_takes_and_no_longer)
{
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    for (unsigned more = 0; more < 2; more++) {
        FILE *file = fopen(keys_path, "w");
        for (unsigned i = 0; i < IDENTITIES_MAX + more; i++)
            fprintf(file, "%064x k%u submit\n", i + 1, i);
        fputs("# the end\n", file);
        fclose(file);
        cr_assert_eq(keyring_new(keys_path, &keyring, &error), more ? PEN_ERR_INVALID : PEN_OK, "%s", error.text);
        if (!more)
            keyring_free(keyring);
    }
    cr_assert_not_null(strstr(error.text, ":4097: more keys than"), "%s", error.text);
}

Test(keyring, quotas_bound_rate_bytes_and_share)
{
    struct identity id = {.name = "a", .rate = 10, .tokens = 10, .bytes_max = 1000, .share = 10};
    struct pen_error error = {.status = PEN_OK};
    uint64_t wait_us;
    for (int i = 0; i < 10; i++)
        cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 1000, &wait_us, &error), PEN_OK);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 1000, &wait_us, &error), PEN_ERR_BUSY,
                 "the second's ten are used");
    cr_assert_leq(wait_us, 100001);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 101001, &wait_us, &error), PEN_OK,
                 "a tenth of a second later: one more");
    quota_take(&id, 995);
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 10000000, &wait_us, &error), PEN_ERR_BUSY);
    cr_assert_not_null(strstr(error.text, "bytes"));
    quota_give(&id, 995);
    id.jobs = 100;
    cr_assert_eq(quota_check(&id, 1, 10, 1000, 1 << 30, 10000000, &wait_us, &error), PEN_ERR_BUSY, "10 %% of 1000");
    cr_assert_not_null(strstr(error.text, "share"));
    cr_assert_eq(id.refused, 3);
}

Test(keyring, job_that_never_fits_its_quota_is_not_told_to_come_again)
{
    struct identity id = {.name = "a", .bytes_max = 1000, .share = 10};
    struct pen_error error = {.status = PEN_OK};
    uint64_t wait_us;
    cr_assert_eq(quota_check(&id, 1, 1001, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_TOO_LARGE);
    cr_assert_not_null(strstr(error.text, "1001 bytes; the quota of a is 1000"), "%s", error.text);
    cr_assert_eq(quota_check(&id, 1, 1000, 1000, 1 << 30, 1, &wait_us, &error), PEN_OK);
    cr_assert_eq(quota_check(&id, 1, 901, 1000, 9000, 1, &wait_us, &error), PEN_ERR_TOO_LARGE);
    cr_assert_not_null(strstr(error.text, "10 per cent of the queue (share=), which are 900 bytes"), "%s", error.text);
    quota_take(&id, 1);
    cr_assert_eq(quota_check(&id, 1, 1000, 1000, 1 << 30, 1, &wait_us, &error), PEN_ERR_BUSY, "later");
    cr_assert_eq(id.refused, 3);
}

/* A power cut may leave half a line in the audit log, too. */
Test(keyring, audit_begins_a_new_line_behind_half_a_one)
{
    struct audit *audit = NULL;
    struct pen_error error = {.status = PEN_OK};
    char text[512] = "";
    static const char *const before[] = {"ts=2026\n", "ts=2026 who=\"al", "t"};
    static const char *const after[] = {"ts=2026\nts=", "who=\"al\nts=", "t\nts="};
    for (int i = 0; i < 3; i++) {
        memset(text, 0, sizeof text);
        write_bytes(before[i], strlen(before[i]));
        cr_assert_eq(audit_new(keys_path, &audit, &error), PEN_OK, "%s", error.text);
        audit_note(audit, "bob", 1, "kick", "w", PEN_OK);
        audit_free(audit);
        FILE *file = fopen(keys_path, "r");
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        cr_assert_not_null(strstr(text, after[i]), "%s", text);
    }
}
