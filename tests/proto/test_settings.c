#include "settings.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool spin;
    int64_t queue_limit, cache_bytes, timeout_us, any_time_us;
    double share;
    const char *name, *backend;
    struct setting_list tags;
};

#define AT(field) offsetof(struct options, field)
static const struct setting table[] = {
    {"spin", SETTING_FLAG, AT(spin), "true", NULL, 0, 0, NULL, "Poll before sleeping."},
    {"queue-limit", SETTING_INT, AT(queue_limit), "1000", "jobs", 1, 5000, NULL, "Jobs that may wait."},
    {"cache-bytes", SETTING_BYTES, AT(cache_bytes), "64MiB", NULL, 0, 0, NULL, "Cache size."},
    {"timeout", SETTING_DURATION, AT(timeout_us), "5ms", NULL, 1, 60000000, NULL, "How long."},
    {"any-time", SETTING_DURATION, AT(any_time_us), NULL, NULL, 0, 0, NULL, "Any."},
    {"share", SETTING_NUMBER, AT(share), "0.5", NULL, 0, 1, NULL, "A part of 1."},
    {"name", SETTING_TEXT, AT(name), NULL, NULL, 0, 0, NULL, "Its name."},
    {"backend", SETTING_CHOICE, AT(backend), "auto", NULL, 0, 0, "auto|xnnpack|reference", "What computes."},
    {"tag", SETTING_LIST, AT(tags), "a,b", NULL, 0, 0, NULL, "Tags."},
    {.name = NULL},
};
static const struct settings_program program = {"prog", "prog [options]", "About it.", NULL, table, NULL};

static struct options options;
static struct pen_error error;
static struct settings_store *store;
static const char *positional[4];
static size_t positional_count;
static enum settings_outcome outcome;

#define LOAD(...) load((char *[]){"prog", __VA_ARGS__, NULL}, 0)
static enum pen_status load(char **argv, size_t max_positional)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(&error, 0, sizeof error);
    settings_free(store);
    store = NULL;
    return settings_load(&(struct settings_call){&program, argc, argv, positional, max_positional}, &options,
                         &positional_count, &outcome, &store, &error);
}

Test(settings, defaults_come_from_the_table)
{
    cr_assert_eq(load((char *[]){"prog", NULL}, 0), PEN_OK, "%s", error.text);
    cr_assert_eq(outcome, SETTINGS_RUN);
    cr_assert(options.spin);
    cr_assert_eq(options.queue_limit, 1000);
    cr_assert_eq(options.cache_bytes, 64 << 20);
    cr_assert_eq(options.timeout_us, 5000);
    cr_assert_eq(options.any_time_us, 0);
    cr_assert_eq(options.share, 0.5);
    cr_assert_str_eq(options.name, "");
    cr_assert_str_eq(options.backend, "auto");
    cr_assert_eq(options.tags.count, 2);
    cr_assert_str_eq(options.tags.items[1], "b");
}

static const char *file_of(const char *text)
{
    static char path[64];
    strcpy(path, "/tmp/penstock-settings-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

Test(settings, flag_before_environment_before_file_before_default)
{
    const char *path = file_of("queue-limit = 2\nname=file\nshare = 0.25\n");
    setenv("PENSTOCK_QUEUE_LIMIT", "3", 1);
    setenv("PENSTOCK_NAME", "environment", 1);
    cr_assert_eq(LOAD("--config", (char *)path, "--queue-limit=4"), PEN_OK, "%s", error.text);
    cr_assert_eq(options.queue_limit, 4);
    cr_assert_str_eq(options.name, "environment");
    cr_assert_eq(options.share, 0.25);
    cr_assert_eq(options.timeout_us, 5000);
    setenv("PENSTOCK_CONFIG", path, 1);
    unsetenv("PENSTOCK_QUEUE_LIMIT");
    cr_assert_eq(load((char *[]){"prog", NULL}, 0), PEN_OK);
    cr_assert_eq(options.queue_limit, 2);
    unlink(path);
}

Test(settings, a_list_is_replaced_by_the_stronger_source_and_adds_up_within_one)
{
    setenv("PENSTOCK_TAG", "x, y,,z", 1);
    cr_assert_eq(load((char *[]){"prog", NULL}, 0), PEN_OK);
    cr_assert_eq(options.tags.count, 3);
    cr_assert_str_eq(options.tags.items[1], "y");
    cr_assert_eq(LOAD("--tag", "one", "--tag=two,half"), PEN_OK);
    cr_assert_eq(options.tags.count, 2);
    cr_assert_str_eq(options.tags.items[1], "two,half");
}

Test(settings, what_was_given_is_told_with_its_origin)
{
    struct setting_given given = {.value = "untouched"};
    setenv("PENSTOCK_TAG", "c,d", 1);
    const char *path = file_of("name = x\nspin = no\n");
    cr_assert_eq(LOAD("--config", (char *)(uintptr_t)path, "--spin"), PEN_OK, "%s", error.text);
    unlink(path);
    cr_assert(settings_given(store, "spin", &given) && given.origin == SETTING_BY_OPTION);
    cr_expect_str_eq(given.value, "true");
    cr_expect_str_eq(given.where, "--spin");
    cr_assert(settings_given(store, "name", &given) && given.origin == SETTING_BY_FILE);
    cr_expect_not_null(strstr(given.where, ":1: name"));
    cr_assert(settings_given(store, "tag", &given) && given.origin == SETTING_BY_VARIABLE);
    cr_expect_str_eq(given.value, "c,d");
    given.value = "untouched";
    cr_expect_not(settings_given(store, "share", &given));
    cr_expect_str_eq(given.value, "untouched");
    cr_expect_not(settings_given(NULL, "spin", &given));
    cr_assert_eq(LOAD("--tag", "e", "--tag", "f,g"), PEN_OK);
    cr_assert(settings_given(store, "tag", &given) && given.origin == SETTING_BY_OPTION);
    cr_expect_str_eq(given.value, "e,f,g");
}

static bool first_told(void *context, const struct setting *setting, const struct setting_given *given)
{
    cr_expect(setting->name != NULL && given->value != NULL);
    return --*(int *)context > 0;
}

Test(settings, a_setting_without_a_field_is_checked_and_kept)
{
    static const struct setting rows[] = {
        {.name = "size", .type = SETTING_INT, .offset = SETTING_KEPT, .def = "4", .min = 1, .max = 9},
        {.name = "kind", .type = SETTING_LIST, .offset = SETTING_KEPT, .def = "a"},
        {.name = NULL}};
    const struct settings_program kept = {"prog", "prog [options]", "About it.", NULL, rows, NULL};
    char *good[] = {"prog", "--size", "7", "--kind", "b", NULL}, *bad[] = {"prog", "--size", "10", NULL};
    struct setting_given given;
    int left = 1;
    cr_assert_eq(settings_load(&(struct settings_call){&kept, 5, good, NULL, 0}, NULL, NULL, &outcome, &store, &error),
                 PEN_OK, "%s", error.text);
    cr_assert(settings_given(store, "size", &given));
    cr_expect_str_eq(given.value, "7");
    settings_each(store, first_told, &left);
    cr_expect_eq(left, 0, "it stops when it is told to");
    settings_free(store);
    store = NULL;
    cr_expect_neq(settings_load(&(struct settings_call){&kept, 3, bad, NULL, 0}, NULL, NULL, &outcome, &store, &error),
                  PEN_OK);
}

Test(settings, values_of_each_type)
{
    cr_assert_eq(LOAD("--no-spin", "--cache-bytes", "10MB", "--timeout", "7ms", "--any-time", "1.5s", "--backend",
                      "xnnpack", "--name", "-"),
                 PEN_OK, "%s", error.text);
    cr_assert(!options.spin);
    cr_assert_eq(options.cache_bytes, 10000000);
    cr_assert_eq(options.timeout_us, 7000);
    cr_assert_eq(options.any_time_us, 1500000);
    cr_assert_str_eq(options.backend, "xnnpack");
    cr_assert_str_eq(options.name, "-");
    cr_assert_eq(LOAD("--spin=off", "--cache-bytes=3GiB", "--timeout=250us", "--any-time=2min", "--share=1"), PEN_OK,
                 "%s", error.text);
    cr_assert(!options.spin);
    cr_assert_eq(options.cache_bytes, INT64_C(3) << 30);
    cr_assert_eq(options.timeout_us, 250);
    cr_assert_eq(options.any_time_us, 120000000);
    cr_assert_eq(LOAD("--cache-bytes", "12345", "--any-time", "0", "--queue-limit", "7", "--queue-limit", "8"), PEN_OK);
    cr_assert_eq(options.cache_bytes, 12345);
    cr_assert_eq(options.queue_limit, 8);
}

static void refused(const char *text, char **argv)
{
    cr_assert_eq(load(argv, 0), PEN_ERR_INVALID, "expected: %s", text);
    cr_assert(strstr(error.text, text), "'%s' is not in '%s'", text, error.text);
}

Test(settings, each_error_says_what_and_what_to_do)
{
    refused("give a whole number from 1 to 5000 jobs", (char *[]){"prog", "--queue-limit", "0", NULL});
    refused("--queue-limit: 'x'", (char *[]){"prog", "--queue-limit=x", NULL});
    refused("whole number", (char *[]){"prog", "--queue-limit=5 ", NULL});
    refused("whole number", (char *[]){"prog", "--queue-limit=99999999999999999999", NULL});
    refused("a size such as", (char *[]){"prog", "--cache-bytes=5parsec", NULL});
    refused("of at least 0", (char *[]){"prog", "--cache-bytes=-5", NULL});
    refused("from 1us", (char *[]){"prog", "--timeout=-0.5s", NULL});
    refused("a size such as", (char *[]){"prog", "--cache-bytes=9000000TiB", NULL});
    refused("from 1us to 1min", (char *[]){"prog", "--timeout=2min", NULL});
    refused("a time such as", (char *[]){"prog", "--any-time=5parsec", NULL});
    refused("a number from 0 to 1", (char *[]){"prog", "--share=1.5", NULL});
    refused("a number", (char *[]){"prog", "--share=nan", NULL});
    refused("one of auto|xnnpack|reference", (char *[]){"prog", "--backend=xnn", NULL});
    refused("one of", (char *[]){"prog", "--backend=auto|xnnpack", NULL});
    refused("true or false", (char *[]){"prog", "--spin=maybe", NULL});
    refused("--name needs a value", (char *[]){"prog", "--name", NULL});
    refused("--name needs a value", (char *[]){"prog", "--name", "--spin", NULL});
    refused("begin with two dashes", (char *[]){"prog", "-q", NULL});
    refused("unexpected argument 'file'", (char *[]){"prog", "file", NULL});
    refused("did you mean '--queue-limit'?", (char *[]){"prog", "--queue-limti=5", NULL});
    refused("did you mean '--no-spin'?", (char *[]){"prog", "--no-spni", NULL});
    refused("'prog --help' lists all", (char *[]){"prog", "--completely-different", NULL});
    refused("unknown option '--no-name'", (char *[]){"prog", "--no-name=x", NULL});
}

/* "--timeout 3" was three microseconds here and three seconds there. 0 is the same in every unit. */
Test(settings, a_time_without_a_unit_is_refused_wherever_it_stands)
{
    refused("--timeout: 3 what? write 3s or 3ms", (char *[]){"prog", "--timeout", "3", NULL});
    refused("--any-time: 1.5 what? write 1.5s or 1.5ms", (char *[]){"prog", "--any-time=1.5", NULL});
    refused("--any-time: 5 what? write 5s", (char *[]){"prog", "--any-time=5 ", NULL});
    refused("from 1us to 1min", (char *[]){"prog", "--timeout=0", NULL});
    setenv("PENSTOCK_ANY_TIME", "250", 1);
    refused("PENSTOCK_ANY_TIME: 250 what?", (char *[]){"prog", NULL});
    setenv("PENSTOCK_ANY_TIME", "0", 1);
    cr_assert_eq(load((char *[]){"prog", NULL}, 0), PEN_OK, "%s", error.text);
    const char *path = file_of("# times\nany-time = 7\n");
    refused(":2: any-time: 7 what?", (char *[]){"prog", "--config", (char *)path, NULL});
    unlink(path);
}

Test(settings, environment_errors_name_the_variable)
{
    setenv("PENSTOCK_QUEUE_LIMIT", "many", 1);
    refused("PENSTOCK_QUEUE_LIMIT: 'many'", (char *[]){"prog", NULL});
    setenv("PENSTOCK_QUEUE_LIMIT", "", 1);
    cr_assert_eq(load((char *[]){"prog", NULL}, 0), PEN_OK, "empty means unset");
    cr_assert_eq(options.queue_limit, 1000);
}

Test(settings, too_many_list_items)
{
    char value[400] = "";
    for (int i = 0; i < SETTING_LIST_MAX + 1; i++)
        strcat(value, "t,");
    setenv("PENSTOCK_TAG", value, 1);
    refused("more than 64 items", (char *[]){"prog", NULL});
}

Test(settings, arguments_that_are_no_flags_are_left_in_order)
{
    cr_assert_eq(load((char *[]){"prog", "submit", "--queue-limit", "5", "-", "--", "--name", NULL}, 4), PEN_OK, "%s",
                 error.text);
    cr_assert_eq(positional_count, 3);
    cr_assert_str_eq(positional[0], "submit");
    cr_assert_str_eq(positional[1], "-");
    cr_assert_str_eq(positional[2], "--name");
    cr_assert_eq(load((char *[]){"prog", "a", "b", NULL}, 1), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "one argument too many: 'b'"));
}

static const char *printed(void (*print)(const struct settings_program *, FILE *))
{
    static char text[8192];
    FILE *out = fmemopen(text, sizeof text, "w");
    print(&program, out);
    fclose(out);
    return text;
}

Test(settings, help_shows_every_row_within_80_columns)
{
    const char *text = printed(settings_help);
    for (const struct setting *row = table; row->name; row++)
        cr_assert(strstr(text, row->name) && strstr(text, row->help), "%s", row->name);
    cr_assert(strstr(text, "[default: 1000 jobs; 1 to 5000;"), "%s", text);
    cr_assert(strstr(text, "5ms; 1us to 1min; PENSTOCK_TIMEOUT"), "%s", text);
    cr_assert(strstr(text, "--[no-]spin"));
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
        cr_assert_leq(strcspn(at, "\n"), 80, "%.100s", at);
}

Test(settings, markdown_has_a_row_for_each)
{
    const char *text = printed(settings_table_markdown);
    size_t rows = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        rows++;
    cr_assert_eq(rows, 2 + sizeof table / sizeof table[0] - 1);
    cr_assert(strstr(text, "auto\\|xnnpack"));
}

Test(settings, help_and_version_end_the_program_well)
{
    static const char *const flags[] = {"--help", "-h", "--version", "--settings-markdown"};
    FILE *saved = stdout;
    for (size_t i = 0; i < 4; i++) {
        char text[8192] = "";
        stdout = fmemopen(text, sizeof text, "w");
        enum pen_status status = LOAD("--nonsense", (char *)flags[i]);
        fclose(stdout);
        stdout = saved;
        cr_assert_eq(status, PEN_OK);
        cr_assert_eq(outcome, SETTINGS_EXIT);
        cr_assert_gt(strlen(text), 10);
        cr_assert_null(store);
    }
}

/* A command may mean a model's version by it. */
Test(settings, a_row_called_version_is_the_commands_own)
{
    static const struct setting own[] = {
        {"version", SETTING_INT, AT(queue_limit), "1", NULL, 1, 9, NULL, "A version."},
        {.name = NULL},
    };
    static const struct settings_program other = {"prog", "prog [options]", "About it.", NULL, own, NULL};
    char *argv[] = {"prog", "--version", "7", NULL}, text[4096] = "";
    cr_assert_eq(
        settings_load(&(struct settings_call){&other, 3, argv, NULL, 0}, &options, NULL, &outcome, &store, &error),
        PEN_OK, "%s", error.text);
    cr_assert_eq(outcome, SETTINGS_RUN);
    cr_assert_eq(options.queue_limit, 7);
    FILE *out = fmemopen(text, sizeof text, "w");
    settings_help(&other, out);
    fclose(out);
    cr_assert_null(strstr(text, "Print version"), "%s", text);
}
