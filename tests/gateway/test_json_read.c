/* json_read.h: what is JSON and what is not, text by text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "json_read.h"

static bool is_json(const char *text)
{
    struct json json;
    json_init(&json, text, strlen(text));
    return json_skip(&json) && json_finish(&json);
}

Test(json_read, takes_json_and_nothing_else)
{
    static const char *const good[] = {"{}",
                                       "[]",
                                       " [ 1 , 2.5e3 ] ",
                                       "\"\"",
                                       "true",
                                       "null",
                                       "-0",
                                       "{\"a\":{\"b\":[[[]]]},\"c\":\"\\u00e9\\ud83d\\ude00\\n\"}",
                                       "[\"\xc3\xa9\"]"};
    static const char *const bad[] = {"",      "{",     "[1,]",       "[,1]", "{\"a\"}",     "{\"a\":}",
                                      "{a:1}", "[1 2]", "'a'",        "\"a",  "\"\\x\"",     "\"\\u12g4\"",
                                      "truth", "[1]]",  "{\"a\":1,}", "01",   "\"\\ud800\"", "\"\n\"",
                                      "nul",   "[1}",   "{\"a\":1]",  "1 1",  "NaN",         "\"\\"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_assert(is_json(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!is_json(bad[i]), "%s", bad[i]);
}

Test(json_read, nesting_is_bounded)
{
    char text[302];
    memset(text, '[', 150);
    memset(text + 150, ']', 150);
    text[300] = '\0';
    cr_assert(!is_json(text));
    cr_assert(is_json(text + 50 + 0) == false);
    text[250] = '\0';
    cr_assert(is_json(text + 50), "100 levels are allowed");
}

Test(json_read, strings_are_unescaped)
{
    struct json json;
    char text[32];
    const char *from = "\"a\\u00e9\\ud83d\\ude00\\t\\/\"";
    json_init(&json, from, strlen(from));
    cr_assert(json_string(&json, text, sizeof text));
    cr_assert_str_eq(text, "a\xc3\xa9\xf0\x9f\x98\x80\t/");
    json_init(&json, "\"a\\u0000b\"", 10);
    cr_assert(!json_string(&json, text, sizeof text), "no zero in a name");
    json_init(&json, "\"a\xff\"", 4);
    cr_assert(!json_string(&json, text, sizeof text), "names are UTF-8");
    json_init(&json, "\"0123456789\"", 12);
    cr_assert(!json_string(&json, text, 10), "too long");
}

/* Plain strings are copied from where they stand, others go through a buffer: at every length both say the same. */
Test(json_read, plain_and_escaped_strings_have_one_limit)
{
    for (size_t length = 1; length <= 14; length++) {
        char plain[64], escaped[64], text[10], name[10];
        const char *letters = "abcdefghijklmn";
        struct json json;
        snprintf(plain, sizeof plain, "{\"%.*s\":\"%.*s\"}", (int)length, letters, (int)length, letters);
        snprintf(escaped, sizeof escaped, "{\"\\u0061%.*s\":\"\\u0061%.*s\"}", (int)length - 1, letters + 1,
                 (int)length - 1, letters + 1);
        const char *forms[] = {plain, escaped};
        for (int form = 0; form < 2; form++) {
            bool first = true, fits = length < sizeof text;
            json_init(&json, forms[form], strlen(forms[form]));
            cr_assert(json_open(&json, '{') && json_member(&json, &first, name, sizeof name));
            cr_assert(strlen(name) == (fits ? length : 0), "a name that is too long is nobody's");
            cr_assert_eq(json_string(&json, text, sizeof text), fits, "%zu letters, form %d", length, form);
            cr_assert(!fits || (strlen(text) == length && strncmp(text, letters, length) == 0));
        }
    }
}

Test(json_read, an_array_that_is_passed_over_keeps_its_strings)
{
    struct json json;
    const char *found, *from = "[\"]\\\"]\",[1]] ,";
    size_t bytes;
    json_init(&json, from, strlen(from));
    cr_assert(json_skip_array(&json, &found, &bytes) && bytes == 12 && found == from);
    json_init(&json, "[[1]", 4);
    cr_assert(!json_skip_array(&json, &found, &bytes));
    json_init(&json, "[\"a]", 4);
    cr_assert(!json_skip_array(&json, &found, &bytes));
}

Test(json_read, what_is_written_is_json)
{
    struct bytes to = {.data = NULL};
    bytes_json(&to, "a\"\\\x01\n\xff\xc3\xa9", 8);
    cr_assert(to.used > 0 && !to.failed);
    bytes_add(&to, "", 1);
    cr_assert_str_eq(to.data, "\"a\\\"\\\\\\u0001\\n\xef\xbf\xbd\xc3\xa9\"");
    cr_assert(is_json(to.data));
    bytes_fini(&to);
    struct bytes little = {.limit = 10};
    bytes_text(&little, "0123456789");
    cr_assert(!little.failed);
    bytes_text(&little, "0");
    cr_assert(little.failed, "there is a limit");
    bytes_fini(&little);
}
