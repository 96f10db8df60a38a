#include "words.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(words, a_noun_follows_its_number)
{
    cr_assert_str_eq(words_plural(0, "job", "jobs"), "jobs");
    cr_assert_str_eq(words_plural(1, "job", "jobs"), "job");
    cr_assert_str_eq(words_plural(2, "batch", "batches"), "batches");
}

Test(words, an_article_follows_the_sound_of_its_noun)
{
    cr_assert_str_eq(words_article("input"), "an");
    cr_assert_str_eq(words_article("model"), "a");
    cr_assert_str_eq(words_article(""), "a");
}

static const char *nearest_of(const char *word)
{
    static const char *const known[] = {"top", "submit", "models", "model", "quarantine"};
    struct nearest nearest;
    nearest_begin(&nearest, word, strlen(word));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        nearest_offer_begun(&nearest, known[i]);
    return nearest.found ? nearest.found : "";
}

Test(words, the_nearest_word_is_found_and_a_strange_one_has_none)
{
    cr_assert_str_eq(nearest_of("sumbit"), "submit");
    cr_assert_str_eq(nearest_of("sbmit"), "submit");
    cr_assert_str_eq(nearest_of("modle"), "model");
    cr_assert_str_eq(nearest_of("modelss"), "models");
    cr_assert_str_eq(nearest_of("tpo"), "top");
    cr_assert_str_eq(nearest_of("quar"), "quarantine");
    cr_assert_str_eq(nearest_of("foo"), "");
    cr_assert_str_eq(nearest_of("entirely"), "");
    cr_assert_str_eq(nearest_of(""), "");
}

Test(words, words_of_any_length_are_taken)
{
    char word[300], known[300];
    for (size_t bytes = 0; bytes < sizeof word; bytes++) {
        struct nearest nearest;
        memset(word, 'a', bytes);
        memset(known, 'a', bytes);
        known[bytes] = '\0';
        nearest_begin(&nearest, word, bytes);
        nearest_offer(&nearest, known);
        nearest_offer(&nearest, "b");
        nearest_begin_strict(&nearest, word, bytes, 2);
        nearest_offer(&nearest, known);
        cr_assert_eq(nearest.found != NULL, bytes > 0 && bytes <= NEAREST_BYTES_MAX, "%zu bytes", bytes);
    }
}
