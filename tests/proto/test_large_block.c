#include "large_block.h"

#include <criterion/criterion.h>
#include <string.h>

#include "deadline.h"

#define MIB (1024u * 1024u)

static void *take(size_t bytes, void **ret_hint)
{
    unsigned char *data = large_block_take(bytes, ret_hint);
    cr_assert_not_null(data);
    cr_assert_eq((uintptr_t)data % 4096, 0);
    data[0] = data[bytes - 1] = 1;
    return data;
}

Test(large_block, what_was_given_back_is_taken_again)
{
    void *hint, *again;
    large_block_keep(64 * MIB);
    void *data = take(20 * MIB, &hint);
    large_block_give(data, hint);
    cr_expect_eq(take(20 * MIB - 5, &again), data, "the same memory");
    large_block_give(data, again);
}

Test(large_block, far_too_large_a_block_is_left_for_others)
{
    void *hint, *other;
    large_block_keep(64 * MIB);
    void *data = take(40 * MIB, &hint);
    large_block_give(data, hint);
    void *small = take(10 * MIB, &other);
    cr_expect_neq(small, data);
    large_block_give(small, other);
}

Test(large_block, no_more_is_kept_than_allowed)
{
    void *data[4], *hints[4];
    large_block_keep(25 * MIB);
    for (int i = 0; i < 4; i++)
        data[i] = take(9 * MIB, &hints[i]);
    for (int i = 0; i < 4; i++)
        large_block_give(data[i], hints[i]);
    size_t kept = large_block_trim(clock_now_us(), UINT64_MAX / 2);
    cr_expect(kept >= 18 * MIB && kept <= 25 * MIB, "%zu bytes", kept);
}

Test(large_block, nothing_is_kept_unless_asked)
{
    void *hint;
    void *data = take(9 * MIB, &hint);
    large_block_give(data, hint);
    cr_expect_eq(large_block_trim(clock_now_us(), UINT64_MAX / 2), 0);
}

Test(large_block, what_nobody_uses_goes_back)
{
    void *hint;
    large_block_keep(64 * MIB);
    void *data = take(9 * MIB, &hint);
    large_block_give(data, hint);
    uint64_t now_us = clock_now_us();
    cr_expect_gt(large_block_trim(now_us, 2000000), 0, "not yet");
    cr_expect_eq(large_block_trim(now_us + 2000001, 2000000), 0);
}

Test(large_block, a_size_beyond_the_address_space_is_no_memory)
{
    void *hint;
    cr_expect_null(large_block_take(SIZE_MAX - 5, &hint));
}
