#include "settings_internal.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    int64_t limit;
    const char *name;
    struct setting_list tags;
};

static const struct setting table[] = {
    {"limit", SETTING_INT, offsetof(struct options, limit), "1", NULL, 0, 100, NULL, ""},
    {"name", SETTING_TEXT, offsetof(struct options, name), NULL, NULL, 0, 0, NULL, ""},
    {"tag", SETTING_LIST, offsetof(struct options, tags), NULL, NULL, 0, 0, NULL, ""},
    {.name = NULL},
};
static const struct settings_program program = {"prog", "prog", NULL, NULL, table, NULL};
static struct options options;
static struct settings_store *store;
static struct pen_error error;

static enum pen_status apply(const char *text)
{
    if (!store)
        store = settings_store_new();
    memset(&error, 0, sizeof error);
    return settings_apply_text(&program, "x.conf", text, strlen(text), &options, store, &error);
}

Test(settings_file, lines_comments_quotes_and_blanks)
{
    cr_assert_eq(apply("# a comment\n\n  limit =  7 # behind\r\nname = \" a # b \"\ntag = x,y\ntag=z"), PEN_OK, "%s",
                 error.text);
    cr_assert_eq(options.limit, 7);
    cr_assert_str_eq(options.name, " a # b ");
    cr_assert_eq(options.tags.count, 3);
    cr_assert_str_eq(options.tags.items[2], "z");
    cr_assert_eq(apply("name = tcp://h:1#frag"), PEN_OK);
    cr_assert_str_eq(options.name, "tcp://h:1#frag");
    cr_assert_eq(apply(""), PEN_OK);
    cr_assert_eq(apply("\xef\xbb\xbflimit = 9"), PEN_OK, "with the mark of an editor: %s", error.text);
    cr_assert_eq(options.limit, 9);
}

static void refused(const char *text, const char *expected)
{
    cr_assert_eq(apply(text), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, expected), "'%s' is not in '%s'", expected, error.text);
}

Test(settings_file, errors_name_file_and_line)
{
    refused("limit=1\n\nlimmit=2", "x.conf:3: unknown setting 'limmit'; did you mean 'limit'?");
    refused("\nlimit 5", "x.conf:2: a line must read 'name = value'");
    refused("limit=1\nlimit=2", "x.conf:2: 'limit' was set before in line 1");
    refused("limit=101", "x.conf:1: limit: '101'");
    refused("= 5", "unknown setting ''");
    refused("limit=", "x.conf:1: limit: ''");
    cr_assert_eq(settings_apply_text(&program, "x.conf", "name=a\0b", 8, &options, store, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "zero byte"));
    cr_assert_eq(settings_apply_text(&program, "x.conf", "limit=5\n\0\0\0\0", 12, &options, store, &error),
                 PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "x.conf:2: a zero byte"), "%s", error.text);
    cr_assert_eq(settings_apply_text(&program, "x.conf", "# a\0b\n", 7, &options, store, &error), PEN_ERR_INVALID);
    cr_assert_eq(settings_apply_text(&program, "x.conf", "limit\0\0\0=5", 10, &options, store, &error),
                 PEN_ERR_INVALID);
}

Test(settings_file, a_file_that_cannot_be_read)
{
    store = settings_store_new();
    cr_assert_eq(settings_apply_file(&program, "/nonexistent/x.conf", &options, store, &error), PEN_ERR_NOT_FOUND);
    cr_assert(strstr(error.text, "/nonexistent/x.conf"));
    cr_assert_eq(settings_apply_file(&program, "/", &options, store, &error), PEN_ERR_IO);
    cr_assert_eq(settings_apply_file(&program, "/dev/zero", &options, store, &error), PEN_ERR_TOO_LARGE);
}
