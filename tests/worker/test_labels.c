#include "labels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static char *names[] = {(char[]){"zero"}, (char[]){"one"}, (char[]){"two"}};

static const struct classes_quant none;

static struct pen_tensor scores_of(const float *values, size_t count)
{
    return (struct pen_tensor){.name = "y", .dtype = PEN_DTYPE_F32, .data = values, .bytes = count * sizeof(float)};
}

Test(labels, best_come_first_per_row)
{
    const float values[] = {0.1f, 0.7f, 0.2f, 0.5f, 0.25f, 0.25f};
    struct config config = {.labels = names, .labels_count = 3};
    struct pen_tensor scores = scores_of(values, 6);
    struct label_text texts[8];
    cr_assert(labels_write(&config, &scores, &none, 2, 2, texts, 8) == 4);
    cr_expect_str_eq(texts[0].text, "0.7 one");
    cr_expect_str_eq(texts[1].text, "0.2 two");
    cr_expect_str_eq(texts[2].text, "0.5 zero");
    cr_expect_str_eq(texts[3].text, "0.25 one", "equal scores go by index");
}

Test(labels, softmax_is_of_the_whole_row)
{
    const float values[] = {0, logf(3), 1000, 1000};
    struct config config = {.labels = names, .labels_count = 3, .softmax = true};
    struct pen_tensor scores = scores_of(values, 4);
    struct label_text texts[4];
    cr_assert(labels_write(&config, &scores, &none, 2, 1, texts, 4) == 2);
    cr_expect_str_eq(texts[0].text, "0.75 one");
    cr_expect_str_eq(texts[1].text, "0.5 zero", "large scores do not overflow");
}

Test(labels, classes_without_a_name_are_numbers)
{
    const float values[] = {0, 0, 0, 9};
    struct config config = {.labels = names, .labels_count = 3};
    struct pen_tensor scores = scores_of(values, 4);
    struct label_text texts[4];
    cr_assert(labels_write(&config, &scores, &none, 1, 1, texts, 4) == 1);
    cr_expect_str_eq(texts[0].text, "9 3");
}

Test(labels, nan_is_last_and_all_are_listed_once)
{
    const float values[] = {NAN, 1, NAN, -INFINITY};
    struct config config = {.labels_count = 0};
    struct pen_tensor scores = scores_of(values, 4);
    struct label_text texts[9];
    cr_assert(labels_write(&config, &scores, &none, 1, 9, texts, 9) == 4);
    cr_expect_str_eq(texts[0].text, "1 1");
    cr_expect_str_eq(texts[1].text, "-inf 3");
    cr_expect(strstr(texts[2].text, " 0") && strstr(texts[3].text, " 2"));
}

Test(labels, what_is_no_score_gives_none)
{
    const float values[] = {1, 2, 3};
    struct config config = {.labels_count = 0};
    struct pen_tensor scores = scores_of(values, 3), whole = scores;
    struct label_text texts[4];
    whole.dtype = PEN_DTYPE_I32;
    cr_expect(labels_write(&config, &scores, &none, 2, 1, texts, 4) == 0);
    cr_expect(labels_write(&config, &whole, &none, 1, 1, texts, 4) == 0);
    cr_expect(labels_write(&config, &scores, &none, 1, 2, texts, 1) == 1, "room is a limit");
}

Test(labels, quantised_scores_are_told_as_real_numbers)
{
    const int8_t values[] = {-128, 127, 0, 64, -128, -64};
    struct config config = {.labels = names, .labels_count = 3};
    struct pen_tensor scores = {.name = "y", .dtype = PEN_DTYPE_I8, .data = values, .bytes = 6};
    struct classes_quant quant = {true, 1.0f / 256, -128};
    struct label_text texts[4];
    cr_assert(labels_write(&config, &scores, &quant, 2, 2, texts, 4) == 4);
    cr_expect_str_eq(texts[0].text, "0.9961 one");
    cr_expect_str_eq(texts[1].text, "0.5 two");
    cr_expect_str_eq(texts[2].text, "0.75 zero");
    cr_expect_str_eq(texts[3].text, "0.25 two");
    scores.dtype = PEN_DTYPE_U8; /* the same bits: 128, 127, 0 | 64, 128, 192 */
    cr_assert(labels_write(&config, &scores, &(struct classes_quant){true, 0.5f, 100}, 2, 1, texts, 4) == 2);
    cr_expect_str_eq(texts[0].text, "14 zero");
    cr_expect_str_eq(texts[1].text, "46 two");
}
