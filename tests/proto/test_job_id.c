#include "job_id.h"

#include <criterion/criterion.h>

Test(job_id, text_and_back)
{
    char text[JOB_ID_TEXT_BYTES];
    struct job_id back;
    struct job_id ids[] = {{1, 1}, {UINT64_MAX, UINT64_MAX}, {0x00ABCDEF12345678u, 1234567890}};
    static const char *const texts[] = {"0000000000000001-1", "ffffffffffffffff-18446744073709551615",
                                        "00abcdef12345678-1234567890"};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_str_eq(job_id_text(ids[i], text), texts[i]);
        cr_assert_eq(job_id_parse(text, &back), 0);
        cr_assert(job_id_equal(back, ids[i]));
    }
}

Test(job_id, other_texts_are_refused)
{
    static const char *const texts[] = {"",
                                        "-",
                                        "0000000000000001",
                                        "0000000000000001-",
                                        "0000000000000001-0",
                                        "0000000000000001-01",
                                        "0000000000000000-1",
                                        "000000000000001-1",
                                        "00000000000000001-1",
                                        "000000000000000G-1",
                                        "00000000000000AB-1",
                                        "0000000000000001-1 ",
                                        "0000000000000001-+1",
                                        "0000000000000001--1",
                                        "0000000000000001-18446744073709551616",
                                        "0000000000000001-99999999999999999999999",
                                        NULL};
    struct job_id id = {3, 4};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_assert_eq(job_id_parse(texts[i], &id), -1, "text %zu", i);
    cr_assert(job_id_equal(id, (struct job_id){3, 4}));
}

Test(job_id, hash_spreads_neighbours)
{
    unsigned buckets[64] = {0};
    for (uint64_t i = 1; i <= 6400; i++)
        buckets[job_id_hash((struct job_id){42, i}) & 63]++;
    for (size_t i = 0; i < 64; i++)
        cr_assert(buckets[i] > 50 && buckets[i] < 160, "bucket %zu holds %u of 6400", i, buckets[i]);
    cr_assert_neq(job_id_hash((struct job_id){1, 2}), job_id_hash((struct job_id){2, 1}));
    cr_assert_eq(job_id_hash((struct job_id){1, 2}), job_id_hash((struct job_id){1, 2}));
}

Test(job_id, random_numbers_differ_and_are_never_0)
{
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t value = random_u64();
        cr_assert_neq(value, 0);
        cr_assert_neq(value, last);
        last = value;
    }
}
