/* decimal.h against strtod and strtof: every bit. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decimal.h"

static bool scan(const char *text, struct decimal *ret_number)
{
    const char *at = text;
    return decimal_scan(&at, text + strlen(text), ret_number) && *at == '\0';
}

static void check(const char *text)
{
    struct decimal number;
    double want = strtod(text, NULL), got;
    float want_single = strtof(text, NULL), got_single;
    cr_assert(scan(text, &number), "%s is a number", text);
    got = decimal_f64(&number);
    got_single = decimal_f32(&number);
    cr_assert(memcmp(&want, &got, sizeof want) == 0, "%s: %a is not %a", text, got, want);
    cr_assert(memcmp(&want_single, &got_single, sizeof got_single) == 0, "%s: %a is not %a", text, (double)got_single,
              (double)want_single);
}

static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

Test(decimal, reads_what_strtod_reads)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.0",
                                        "-0.0e5",
                                        "1",
                                        "-1",
                                        "0.1",
                                        "1e22",
                                        "1e23",
                                        "9007199254740993",
                                        "9007199254740992.5",
                                        "123456789012345678901234567890",
                                        "0.30000001192092896",
                                        "1.7976931348623157e308",
                                        "4.9e-324",
                                        "2.2250738585072011e-308",
                                        "1e400",
                                        "1e-400",
                                        "3.4028235e38",
                                        "3.4028236e38",
                                        "1.1754943e-38",
                                        "1e-45",
                                        "18446744073709551616",
                                        "0.000000000000000000000000000001",
                                        "16777217",
                                        "16777219",
                                        "33554433.0000000000000000001",
                                        "5e-1",
                                        "1E+5",
                                        "8.5899345920000000001e9",
                                        "0.00000000000000000000000000000000000000000000000000000000000000012345"};
    char text[2200], *to = text;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(texts[i]);
    to += sprintf(to, "0.");
    for (int i = 0; i < 2000; i++)
        *to++ = (char)('0' + i % 10);
    *to = '\0';
    check(text);
}

Test(decimal, reads_random_numbers_to_the_last_bit)
{
    char text[64];
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = draw();
        double value;
        float single;
        uint32_t half = (uint32_t)(bits >> 13);
        memcpy(&value, &bits, sizeof value);
        memcpy(&single, &half, sizeof single);
        if (!isfinite(value) || !isfinite(single))
            continue;
        snprintf(text, sizeof text, "%.*g", 1 + (int)(bits % 20), value);
        check(text);
        snprintf(text, sizeof text, "%.*g", 6 + (int)(bits % 12), (double)single);
        check(text);
        snprintf(text, sizeof text, "%llu.%llue-%d", (unsigned long long)(bits % 100000),
                 (unsigned long long)(bits >> 8), (int)(bits % 31));
        check(text);
    }
}

Test(decimal, halves_between_two_floats_go_to_the_even_one)
{
    char text[64];
    for (int i = 0; i < 20000; i++) {
        uint32_t low = (uint32_t)(draw() % 0x00ffffff) + 0x3f000000u, high = low + 1;
        float a, b;
        memcpy(&a, &low, sizeof a);
        memcpy(&b, &high, sizeof b);
        snprintf(text, sizeof text, "%.30f", ((double)a + (double)b) / 2);
        check(text);
    }
}

Test(decimal, refuses_what_json_does_not_know)
{
    static const char *const texts[] = {"",    "-",   "+1",   ".5", "5.",  "01",  "-01",     "1e",
                                        "1e+", "0x1", "1.e5", "e5", "--1", "NaN", "Infinity"};
    struct decimal number;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_assert(!scan(texts[i], &number), "%s is no number", texts[i]);
}

Test(decimal, whole_numbers_keep_their_ranges)
{
    struct decimal number;
    uint64_t plain;
    int64_t either;
    cr_assert(scan("18446744073709551615", &number) && decimal_u64(&number, UINT64_MAX, &plain) && plain == UINT64_MAX);
    cr_assert(scan("18446744073709551616", &number) && !decimal_u64(&number, UINT64_MAX, &plain));
    cr_assert(scan("-9223372036854775808", &number) && decimal_i64(&number, INT64_MIN, INT64_MAX, &either) &&
              either == INT64_MIN);
    cr_assert(scan("9223372036854775808", &number) && !decimal_i64(&number, INT64_MIN, INT64_MAX, &either));
    cr_assert(scan("-0", &number) && decimal_u64(&number, 5, &plain) && plain == 0);
    cr_assert(scan("-1", &number) && !decimal_u64(&number, 5, &plain));
    cr_assert(scan("1.0", &number) && !decimal_u64(&number, 5, &plain));
    cr_assert(scan("1e0", &number) && !decimal_i64(&number, -5, 5, &either));
    cr_assert(scan("256", &number) && !decimal_u64(&number, 255, &plain));
    cr_assert(scan("100000000000000000000", &number) && !decimal_u64(&number, UINT64_MAX, &plain));
}

static void check_written(double value, float single)
{
    char text[DECIMAL_BYTES + 1];
    text[decimal_write_f64(value, text)] = '\0';
    double back = strtod(text, NULL);
    cr_assert(memcmp(&back, &value, sizeof value) == 0, "%s is not %a", text, value);
    text[decimal_write_f32(single, text)] = '\0';
    float back_single = strtof(text, NULL);
    cr_assert(memcmp(&back_single, &single, sizeof single) == 0, "%s is not %a", text, (double)single);
    cr_assert(strlen(text) <= 20, "%s is long", text);
}

Test(decimal, what_is_written_reads_back_as_the_same)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = draw();
        uint32_t half = (uint32_t)(bits >> 20);
        double value;
        float single;
        memcpy(&value, &bits, sizeof value);
        memcpy(&single, &half, sizeof single);
        if (isfinite(value) && isfinite(single))
            check_written(value, single);
        check_written((double)(bits >> 40) / 1000.0, (float)(bits >> 44) / 64.0f);
    }
}

Test(decimal, short_numbers_stay_short)
{
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.1f, "0.1"},      {-0.0f, "-0.0"},          {1.0f, "1.0"}, {255.0f, "255.0"},          {1.5f, "1.5"},
                 {3e-5f, "0.00003"}, {1e10f, "10000000000.0"}, {0.3f, "0.3"}, {16777216.0f, "16777216.0"}};
    char text[DECIMAL_BYTES + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text[decimal_write_f32(cases[i].value, text)] = '\0';
        cr_assert_str_eq(text, cases[i].text);
    }
    text[decimal_write_f64(0.1, text)] = '\0';
    cr_assert_str_eq(text, "0.1");
    text[decimal_write_i64(INT64_MIN, text)] = '\0';
    cr_assert_str_eq(text, "-9223372036854775808");
    text[decimal_write_f64((double)INFINITY, text)] = '\0';
    cr_assert_str_eq(text, "Infinity");
}
