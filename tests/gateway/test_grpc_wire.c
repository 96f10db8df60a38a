#include <criterion/criterion.h>
#include <string.h>

#include "grpc_message.h"
#include "grpc_wire.h"

static uint64_t timeout_of(const char *text)
{
    uint64_t us = UINT64_MAX;
    return grpc_timeout_parse(text, strlen(text), &us) ? us : UINT64_MAX;
}

Test(grpc_timeout, each_unit_is_read)
{
    cr_assert_eq(timeout_of("2H"), 7200000000u);
    cr_assert_eq(timeout_of("3M"), 180000000u);
    cr_assert_eq(timeout_of("4S"), 4000000u);
    cr_assert_eq(timeout_of("250m"), 250000u);
    cr_assert_eq(timeout_of("7u"), 7u);
    cr_assert_eq(timeout_of("1001n"), 2u, "rounded up");
    cr_assert_eq(timeout_of("99999999H"), 99999999u * UINT64_C(3600000000));
}

Test(grpc_timeout, what_is_none_is_refused)
{
    const char *const bad[] = {"", "S", "5", "-1S", "1.5S", "5s", "5 S", "100000000S", "5SS"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(timeout_of(bad[i]), UINT64_MAX, "%s", bad[i]);
}

Test(grpc_text, is_percent_encoded_and_cut_between_characters)
{
    char text[32];
    cr_assert_eq(grpc_message_encode("50% \xc3\xb6\n~", text, sizeof text), strlen("50%25 %C3%B6%0A~"));
    cr_assert_str_eq(text, "50%25 %C3%B6%0A~");
    cr_assert_eq(grpc_message_encode("ab\xc3\xb6", text, 6), 5u);
    cr_assert_str_eq(text, "ab%C3");
    cr_assert_eq(grpc_message_encode("ab\xc3\xb6", text, 5), 2u, "an escape is not cut");
}

Test(grpc_code, follows_the_status)
{
    cr_assert_eq(grpc_code_of(PEN_OK), GRPC_OK);
    cr_assert_eq(grpc_code_of(PEN_ERR_DEADLINE), GRPC_DEADLINE_EXCEEDED);
    cr_assert_eq(grpc_code_of(PEN_ERR_BUSY), GRPC_UNAVAILABLE);
    cr_assert_eq(grpc_code_of(PEN_ERR_SHAPE), GRPC_INVALID_ARGUMENT);
    cr_assert_eq(grpc_code_of(PEN_ERR_TOO_LARGE), GRPC_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(grpc_code_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
}

/* In pieces of `step` bytes. */
static enum grpc_take take_all(struct grpc_message *message, const uint8_t *data, size_t bytes, size_t step,
                               size_t *ret_at)
{
    enum grpc_take found = GRPC_TAKE_MORE;
    size_t taken = 0;
    for (*ret_at = 0; *ret_at < bytes && found == GRPC_TAKE_MORE; *ret_at += taken) {
        size_t count = bytes - *ret_at < step ? bytes - *ret_at : step;
        found = grpc_message_take(message, data + *ret_at, count, 1000, &taken);
    }
    return found;
}

Test(grpc_message, comes_in_pieces_of_any_size)
{
    const uint8_t data[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0};
    for (size_t step = 1; step <= sizeof data; step++) {
        struct grpc_message message = {.hold = NULL};
        size_t at;
        cr_assert_eq(take_all(&message, data, sizeof data, step, &at), GRPC_TAKE_DONE);
        cr_assert_eq(at, 8u, "what is behind it is left");
        cr_assert(message.used == 3 && memcmp(message.data, "abc", 3) == 0);
        grpc_message_fini(&message);
        cr_assert_not(grpc_message_begun(&message));
    }
    cr_assert_eq(hold_budget_used(), 0u);
}

Test(grpc_message, may_be_empty)
{
    const uint8_t data[] = {0, 0, 0, 0, 0};
    struct grpc_message message = {.hold = NULL};
    size_t at;
    cr_assert_eq(take_all(&message, data, sizeof data, 5, &at), GRPC_TAKE_DONE);
    cr_assert_eq(message.used, 0u);
    grpc_message_fini(&message);
}

Test(grpc_message, faults_are_told_apart)
{
    const uint8_t large[] = {0, 0, 0, 4, 0}, odd[] = {2, 0, 0, 0, 1};
    const struct {
        const uint8_t *data;
        enum grpc_take found;
    } cases[] = {{large, GRPC_TAKE_LARGE}, {odd, GRPC_TAKE_MALFORMED}};
    for (size_t i = 0; i < 2; i++) {
        struct grpc_message message = {.hold = NULL};
        size_t at;
        cr_assert_eq(take_all(&message, cases[i].data, 5, 2, &at), cases[i].found);
        grpc_message_fini(&message);
    }
}

Test(grpc_message, an_announced_length_costs_nothing)
{
    const uint8_t data[] = {0, 0x3f, 0xff, 0xff, 0xff, 'a'};
    struct grpc_message message = {.hold = NULL};
    size_t taken;
    cr_assert_eq(grpc_message_take(&message, data, sizeof data, (size_t)1 << 30, &taken), GRPC_TAKE_MORE);
    cr_assert_leq(hold_budget_used(), 100000u);
    grpc_message_fini(&message);
}

Test(grpc_message, beyond_the_budget_there_is_no_memory)
{
    const uint8_t data[] = {0, 0, 0, 0xff, 0xff, 'a'};
    struct grpc_message message = {.hold = NULL};
    size_t taken;
    hold_budget_set(1000);
    cr_assert_eq(grpc_message_take(&message, data, sizeof data, 1 << 20, &taken), GRPC_TAKE_NO_MEMORY);
    grpc_message_fini(&message);
}

Test(grpc_message, a_prefix_is_read_back)
{
    unsigned char prefix[GRPC_PREFIX_BYTES];
    grpc_prefix_write(0x01020304, false, prefix);
    cr_assert(memcmp(prefix, "\0\1\2\3\4", 5) == 0);
    grpc_prefix_write(5, true, prefix);
    cr_assert(memcmp(prefix, "\1\0\0\0\5", 5) == 0);
}
