/* bytes.h: numbers, texts that are formatted, and texts in a place of a fixed size. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "bytes.h"

static void check(struct bytes *bytes, const char *wanted)
{
    bytes_add(bytes, "", 1);
    cr_assert_str_eq(bytes->data, wanted);
    bytes_fini(bytes);
}

Test(bytes, numbers_have_all_their_digits)
{
    struct bytes bytes = {.data = NULL};
    bytes_unsigned(&bytes, 0);
    bytes_text(&bytes, " ");
    bytes_unsigned(&bytes, UINT64_MAX);
    bytes_text(&bytes, " ");
    bytes_signed(&bytes, INT64_MIN);
    bytes_text(&bytes, " ");
    bytes_signed(&bytes, INT64_MAX);
    bytes_text(&bytes, " ");
    bytes_signed(&bytes, -1);
    check(&bytes, "0 18446744073709551615 -9223372036854775808 9223372036854775807 -1");
}

/* At each fill of the place: where the text just fits, where it just does not, and where there is no place yet. */
Test(bytes, a_formatted_text_is_whole_wherever_it_begins)
{
    for (size_t filled = 0; filled <= 600; filled++) {
        struct bytes bytes = {.data = NULL};
        for (size_t i = 0; i < filled; i++)
            bytes_add(&bytes, "x", 1);
        bytes_format(&bytes, "%s=%d", "some name", 42);
        cr_assert_eq(bytes.used, filled + 12);
        cr_assert_arr_eq(bytes.data + filled, "some name=42", 12);
        bytes_fini(&bytes);
    }
}

Test(bytes, a_buffer_at_its_limit_takes_no_format)
{
    struct bytes bytes = {.limit = 8};
    bytes_format(&bytes, "%s", "123456789");
    cr_assert(bytes.failed);
    bytes_format(&bytes, "%s", "1");
    bytes_unsigned(&bytes, 1);
    cr_assert_eq(bytes.used, 0);
    bytes_fini(&bytes);
}

Test(bytes, a_fixed_text_takes_what_fits_and_says_what_did_not)
{
    char place[8];
    struct fixed_text text;
    fixed_begin(&text, place, sizeof place);
    fixed_add(&text, "abc");
    fixed_unsigned(&text, 1234);
    cr_assert(!text.full);
    cr_assert_str_eq(place, "abc1234");
    fixed_add(&text, "");
    cr_assert(!text.full);
    fixed_unsigned(&text, 5);
    cr_assert(text.full);
    cr_assert_str_eq(place, "abc1234", "what does not fit is left out whole");
}
