/* content_coding.h and hold.h: what is packed comes back, and memory has its bounds. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "content_coding.h"

static struct bytes pack(enum content_coding coding, const char *data, size_t bytes)
{
    struct bytes to = {.data = NULL};
    struct content_packer *packer = content_packer_new(coding);
    content_packer_add(packer, data, bytes / 2, &to);
    content_packer_add(packer, data + bytes / 2, bytes - bytes / 2, &to);
    content_packer_end(packer, &to);
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
    cr_assert_eq(hold_budget_used(), 900);
    hold_retain(hold);
    hold_release(hold);
    cr_assert_eq(hold_budget_used(), 900, "one still needs it");
    hold_release(hold);
    cr_assert_eq(hold_budget_used(), 0);
    hold_release(NULL);
}
