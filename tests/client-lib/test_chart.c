/* Charts in characters and as SVG; sweeps as options name them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart.h"
#include "load_sweep.h"

static char *drawn(const struct chart *chart, bool svg)
{
    static char *text;
    static size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (svg) {
        chart_svg(chart, out);
    } else {
        chart_print(chart, out, 60, 10);
    }
    fclose(out);
    return text;
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

Test(chart, points_lie_where_their_values_say)
{
    const struct chart_point points[] = {{0.0, 1.0}, {50.0, 5.0}, {100.0, 10.0}};
    struct chart chart = {
        .title = "t", .x_label = "x", .y_label = "y", .series = {{"s", points, 3}}, .series_count = 1};
    char *text = drawn(&chart, false), *rest = NULL;
    long top = -1, low = -1;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *mark = strchr(line, '|') ? strchr(line, 'o') : NULL;
        top = mark && top < 0 ? mark - line : top;
        low = mark ? mark - line : low;
    }
    cr_assert_eq(top, 59, "the largest x is at the right edge, in the highest line");
    cr_assert_eq(low, 10, "x = 0 is at the axis, in the lowest line");
    free(text);
}

Test(chart, a_wide_range_is_logarithmic_and_what_is_no_number_is_left_out)
{
    const struct chart_point points[] = {{1.0, 1.0}, {2.0, 1000.0}, {3.0, INFINITY}, {4.0, NAN}, {5.0, 0.0}};
    struct chart chart = {.title = "a < b & \"c\"",
                          .x_label = "x",
                          .y_label = "y",
                          .series = {{"s", points, 5}},
                          .series_count = 1,
                          .limit = 30.0,
                          .limit_name = "limit"};
    char *svg = drawn(&chart, true);
    cr_assert(strstr(svg, "a &lt; b &amp; \"c\""), "%s", svg);
    cr_assert_eq(count_of(svg, "<circle"), 2);
    cr_assert(strstr(svg, "stroke-dasharray") && strstr(svg, ">limit<"));
    cr_assert(strstr(svg, ">10</text>") && strstr(svg, ">100</text>"), "powers of ten: %s", svg);
    cr_assert(!strstr(svg, "nan") && !strstr(svg, "inf"));
    free(svg);
}

Test(chart, nothing_to_draw_is_no_crash)
{
    const struct chart_point none[] = {{NAN, NAN}};
    struct chart chart = {.title = "t", .x_label = "x", .y_label = "y", .series = {{"s", none, 1}}, .series_count = 1};
    char *text = drawn(&chart, false), *svg = drawn(&chart, true);
    cr_assert_str_eq(text, "");
    cr_assert(strstr(svg, "</svg>"));
    cr_assert_eq(chart_save(&chart, "/nowhere/at/all.svg", NULL), PEN_ERR_IO);
    free(text);
    free(svg);
}

Test(sweep, values_double_or_follow_the_step_and_end_at_the_last)
{
    struct load_sweep sweep;
    cr_assert_eq(sweep_parse("concurrency=1..64", &sweep, NULL), PEN_OK);
    cr_assert(!sweep.rates && sweep.count == 7 && sweep.values[6] == 64.0);
    cr_assert_eq(sweep_parse("concurrency=3..20", &sweep, NULL), PEN_OK);
    cr_assert(sweep.count == 4 && sweep.values[2] == 12.0 && sweep.values[3] == 20.0);
    cr_assert_eq(sweep_parse("rate=100..450:100", &sweep, NULL), PEN_OK);
    cr_assert(sweep.rates && sweep.count == 5 && sweep.values[3] == 400.0 && sweep.values[4] == 450.0);
    cr_assert_eq(sweep_parse("rate=0.5..0.5", &sweep, NULL), PEN_OK);
    cr_assert_eq(sweep.count, 1);
}

Test(sweep, what_is_no_sweep_is_refused_with_an_example)
{
    const char *const bad[] = {"",
                               "64",
                               "concurrency=",
                               "concurrency=1",
                               "concurrency=1..",
                               "concurrency=64..1",
                               "concurrency=0..4",
                               "concurrency=1..5000",
                               "concurrency=1.5..4",
                               "rate=1..10:0",
                               "rate=1..10:x",
                               "rate=1..1000:1",
                               "rate=nan..5",
                               "batch=1..8",
                               "concurrency=1..4:2:3",
                               "rate=-5..5",
                               "rate=1..1e9"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct load_sweep sweep;
        struct pen_error error;
        cr_expect_eq(sweep_parse(bad[i], &sweep, &error), PEN_ERR_INVALID, "%s", bad[i]);
        cr_expect(strstr(error.text, "concurrency=1..64"), "%s", error.text);
    }
}
