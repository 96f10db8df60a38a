#include "error_complete.h"
#include "penstock/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(status, every_code_has_its_own_name)
{
    for (int i = 0; i < PEN_STATUS_COUNT; i++) {
        cr_assert_str_neq(pen_status_name((enum pen_status)i), "UNKNOWN");
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(pen_status_name((enum pen_status)i), pen_status_name((enum pen_status)j));
    }
    cr_assert_str_eq(pen_status_name(PEN_ERR_WORKER_LOST), "WORKER_LOST");
}

Test(status, a_code_of_the_future_is_unknown)
{
    cr_assert_str_eq(pen_status_name(PEN_STATUS_COUNT), "UNKNOWN");
    cr_assert_str_eq(pen_status_name((enum pen_status)255), "UNKNOWN");
    cr_assert(!pen_status_retryable((enum pen_status)255));
}

Test(status, five_codes_are_worth_a_retry)
{
    int count = 0;
    for (int i = 0; i < PEN_STATUS_COUNT; i++)
        count += pen_status_retryable((enum pen_status)i);
    cr_assert_eq(count, 5);
    cr_assert(pen_status_retryable(PEN_ERR_BUSY));
    cr_assert(pen_status_retryable(PEN_ERR_TIMEOUT));
    cr_assert(!pen_status_retryable(PEN_ERR_DEADLINE));
}

Test(status, error_set_fills_text_and_returns_the_status)
{
    struct pen_error error = {0};
    cr_assert_eq(pen_error_set(&error, PEN_ERR_IO, "cannot open '%s': %d", "x", 5), PEN_ERR_IO);
    cr_assert_eq(error.status, PEN_ERR_IO);
    cr_assert_str_eq(error.text, "cannot open 'x': 5");
    cr_assert_eq(pen_error_set(NULL, PEN_ERR_BUSY, "nobody listens"), PEN_ERR_BUSY);
}

Test(status, a_long_text_is_cut_between_characters)
{
    struct pen_error error = {0};
    char text[PEN_ERROR_TEXT_BYTES + 40];
    for (size_t pad = 0; pad < 5; pad++) {
        memset(text, 'a', pad);
        for (size_t i = pad; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4); /* the euro sign */
        pen_error_set(&error, PEN_ERR_INVALID, "%s", text);
        size_t length = strlen(error.text);
        cr_assert_lt(length, sizeof error.text);
        cr_assert_geq(length, sizeof error.text - 4);
        cr_assert_eq((length - pad) % 3, 0, "pad %zu length %zu", pad, length);
    }
}

Test(complete, a_failure_without_a_sentence_gets_one)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    cr_expect_eq(error_complete(&error, PEN_ERR_NO_MEMORY, "load the model"), PEN_ERR_NO_MEMORY);
    cr_expect_eq(error.status, PEN_ERR_NO_MEMORY);
    cr_expect_str_eq(error.text, "no memory to load the model");
    error = (struct pen_error){.status = PEN_ERR_SHAPE, .text = "of another failure, which was got over"};
    cr_expect_eq(error_complete(&error, PEN_ERR_NO_MEMORY, "run the model"), PEN_ERR_NO_MEMORY);
    cr_expect_str_eq(error.text, "no memory to run the model");
    cr_expect_eq(error_complete(NULL, PEN_ERR_NO_MEMORY, "run the model"), PEN_ERR_NO_MEMORY);
    error = (struct pen_error){.status = PEN_ERR_DEVICE_LOST, .text = ""};
    cr_expect_eq(error_complete(&error, PEN_ERR_DEVICE_LOST, "run the model"), PEN_ERR_DEVICE_LOST);
    cr_expect_str_eq(error.text, "cannot run the model (DEVICE_LOST)");
}

Test(complete, what_has_its_sentence_keeps_it)
{
    struct pen_error error = {.status = PEN_ERR_SHAPE, .text = "input 'x' must be [1, 2]"};
    cr_expect_eq(error_complete(&error, PEN_ERR_SHAPE, "run the model"), PEN_ERR_SHAPE);
    cr_expect_str_eq(error.text, "input 'x' must be [1, 2]");
    error = (struct pen_error){.status = PEN_OK, .text = ""};
    cr_expect_eq(error_complete(&error, PEN_OK, "run the model"), PEN_OK);
    cr_expect(error.status == PEN_OK && error.text[0] == '\0', "a success says nothing");
}
