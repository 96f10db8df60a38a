/* content_coding.h and hold.h: what is packed comes back, and memory has its bounds. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "content_coding.h"

static struct bytes pack(enum content_coding coding, const char *data, size_t bytes)
{
    struct bytes to = {.data = NULL};
    const struct iovec parts[] = {{(void *)(uintptr_t)(data + bytes / 4), bytes / 4},
                                  {(void *)(uintptr_t)(data + bytes / 2), bytes - bytes / 2}};
    bytes_add(&to, data, bytes / 4);
    cr_assert(content_pack(coding, &to, parts, 2));
    return to;
}

Test(content_coding, what_is_packed_comes_back)
{
    size_t bytes = 300000, got_bytes = 0;
    char *data = malloc(bytes), *got = NULL;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * i / 7);
    for (enum content_coding coding = CODING_GZIP; coding <= CODING_DEFLATE; coding++) {
        struct bytes packed = pack(coding, data, bytes);
        struct hold *hold = hold_new();
        struct pen_error error = {.status = PEN_OK};
        cr_assert(content_unpack(coding, packed.data, packed.used, bytes, hold, &got, &got_bytes, &error) == PEN_OK,
                  "%s", error.text);
        cr_assert(got_bytes == bytes && memcmp(got, data, bytes) == 0);
        cr_assert(content_unpack(coding, packed.data, packed.used, bytes - 1, hold, &got, &got_bytes, &error) ==
                  PEN_ERR_TOO_LARGE);
        cr_assert(content_unpack(coding, packed.data, packed.used - 20, bytes, hold, &got, &got_bytes, &error) ==
                  PEN_ERR_INVALID);
        cr_assert(content_unpack(coding, data, bytes, bytes, hold, &got, &got_bytes, &error) == PEN_ERR_INVALID);
        hold_release(hold);
        bytes_fini(&packed);
    }
    free(data);
    cr_assert_eq(hold_budget_used(), 0);
}

Test(content_coding, members_of_gzip_follow_each_other_and_nothing_else_does)
{
    const char *data = "{\"inputs\": [1, 2, 3, 4]}";
    size_t bytes = strlen(data), got_bytes = 0;
    char *got = NULL;
    for (enum content_coding coding = CODING_GZIP; coding <= CODING_DEFLATE; coding++) {
        struct bytes packed = pack(coding, data, bytes), second = pack(coding, data, bytes);
        struct hold *hold = hold_new();
        struct pen_error error = {.status = PEN_OK};
        bytes_add(&packed, second.data, second.used);
        enum pen_status status = content_unpack(coding, packed.data, packed.used, 1000, hold, &got, &got_bytes, &error);
        cr_assert_eq(status, coding == CODING_GZIP ? PEN_OK : PEN_ERR_INVALID, "%s", error.text);
        if (status == PEN_OK)
            cr_assert(got_bytes == 2 * bytes && memcmp(got, data, bytes) == 0 && memcmp(got + bytes, data, bytes) == 0);
        cr_assert_neq(content_unpack(coding, packed.data, packed.used - 3, 1000, hold, &got, &got_bytes, &error),
                      PEN_OK, "the second one ends too early");
        bytes_add(&second, "hello", 5);
        cr_assert_eq(content_unpack(coding, second.data, second.used, 1000, hold, &got, &got_bytes, &error),
                     PEN_ERR_INVALID, "what follows is nothing of the kind");
        hold_release(hold);
        bytes_fini(&packed);
        bytes_fini(&second);
    }
}

Test(hold, blocks_live_together_under_one_budget)
{
    struct hold *hold = hold_new();
    hold_budget_set(1000);
    char *first = hold_take(hold, 600);
    cr_assert_not_null(first);
    cr_assert_null(hold_take(hold, 500), "beyond the budget");
    cr_assert_null(hold_resize(hold, 1001));
    first = hold_resize(hold, 900);
    cr_assert_not_null(first);
    memset(first, 1, 900);
    size_t with_head = hold_budget_used();
    cr_assert(with_head >= 900 && with_head < 1000);
    hold_retain(hold);
    hold_release(hold);
    cr_assert_eq(hold_budget_used(), with_head, "one still needs it");
    hold_release(hold);
    cr_assert_eq(hold_budget_used(), 0);
    hold_release(NULL);
}

Test(hold, small_pieces_share_blocks_and_cost_what_they_take)
{
    struct hold *hold = hold_new();
    size_t count = 1000;
    char *before = NULL;
    for (size_t i = 0; i < count; i++) {
        char *piece = hold_take(hold, 1 + i % 40);
        cr_assert(piece && (uintptr_t)piece % 16 == 0);
        memset(piece, 1, 1 + i % 40);
        cr_assert(!before || piece >= before + (1 + (i - 1) % 40) || piece < before, "pieces do not overlap");
        before = piece;
    }
    cr_assert(hold_budget_used() >= count * 16 && hold_budget_used() < count * 48);
    char *large = hold_take(hold, 5000);
    memset(large, 7, 5000);
    large = hold_resize(hold, 50000);
    cr_assert(large && large[4999] == 7);
    hold_release(hold);
    cr_assert_eq(hold_budget_used(), 0);
}
