/* Which variable a setting is read from, its old name, and variables that nobody reads. */
#include "settings.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *broker, *cache, *key;
};

#define AT(field) offsetof(struct options, field)
static const struct setting table[] = {
    {"broker", SETTING_TEXT, AT(broker), "default", NULL, 0, 0, NULL, "The workers' end."},
    {"cache", SETTING_TEXT, AT(cache), "default", NULL, 0, 0, NULL, "A cache."},
    {"key", SETTING_TEXT, AT(key), "default", NULL, 0, 0, NULL, "Not of the environment."},
    {.name = NULL},
};

static bool is_ours(const char *value)
{
    return strcmp(value, "theirs") != 0;
}

static const struct setting_variable variables[] = {{"broker", "PENSTOCK_WORKER_BROKER", is_ours},
                                                    {"key", "", NULL},
                                                    {"config", "PENSTOCK_WORKER_CONFIG", NULL},
                                                    {.setting = NULL}};
static const struct settings_program program = {"prog", "prog", "About it.", NULL, table, variables};

static struct options options;

static void load_it(void)
{
    static struct settings_store *store; /* the texts of options: they live until the next load */
    struct pen_error error = {.status = PEN_OK};
    enum settings_outcome outcome;
    settings_free(store);
    store = NULL;
    cr_assert_eq(settings_load(&(struct settings_call){&program, 1, (char *[]){"prog", NULL}, NULL, 0}, &options, NULL,
                               &outcome, &store, &error),
                 PEN_OK, "%s", error.text);
}

/* What was printed on stderr so far. */
static const char *told(void)
{
    static char text[4096];
    FILE *err = cr_get_redirected_stderr();
    fflush(stderr);
    fclose(stderr);
    text[fread(text, 1, sizeof text - 1, err)] = '\0';
    return text;
}

TestSuite(settings_env, .init = cr_redirect_stderr);

Test(settings_env, two_programs_of_one_shell_read_different_variables)
{
    setenv("PENSTOCK_BROKER", "the clients' end", 1);
    setenv("PENSTOCK_WORKER_BROKER", "the workers' end", 1);
    setenv("PENSTOCK_KEY", "somebody's", 1);
    setenv("PENSTOCK_CONFIG", "/somebody's", 1);
    load_it();
    cr_assert_str_eq(options.broker, "the workers' end");
    cr_assert_str_eq(options.key, "default");
    cr_assert_str_eq(told(), "");
}

Test(settings_env, the_old_name_counts_with_a_warning_where_there_is_no_new_one)
{
    setenv("PENSTOCK_BROKER", "old", 1);
    load_it();
    cr_assert_str_eq(options.broker, "old");
    cr_assert_not_null(strstr(told(), "prog: PENSTOCK_BROKER is read as PENSTOCK_WORKER_BROKER; write that"));
}

Test(settings_env, the_old_name_does_not_count_for_what_is_meant_for_others)
{
    setenv("PENSTOCK_BROKER", "theirs", 1);
    load_it();
    cr_assert_str_eq(options.broker, "default");
    cr_assert_str_eq(told(), "");
}

Test(settings_env, the_old_name_does_not_count_beside_any_new_one)
{
    setenv("PENSTOCK_BROKER", "old", 1);
    setenv("PENSTOCK_WORKER_CONFIG", "", 1);
    load_it();
    cr_assert_str_eq(options.broker, "default");
    cr_assert_str_eq(told(), "");
}

Test(settings_env, a_mistyped_variable_gets_one_line)
{
    setenv("PENSTOCK_CASHE", "none", 1);
    setenv("PENSTOCK_WORKER_BROKRE", "x", 1);
    load_it();
    const char *text = told();
    cr_assert_not_null(strstr(text, "PENSTOCK_CASHE; did you mean PENSTOCK_CACHE?\n"), "%s", text);
    cr_assert_not_null(strstr(text, "PENSTOCK_WORKER_BROKRE; did you mean PENSTOCK_WORKER_BROKER?\n"), "%s", text);
    const char *first = strchr(text, '\n'), *second = strchr(first + 1, '\n');
    cr_assert_eq(second[1], '\0', "%s", text);
}

/* Kubernetes and Docker put addresses of services there, scripts what they like; other programs have variables too. */
Test(settings_env, variables_of_others_are_not_spoken_of)
{
    setenv("PENSTOCK_CACHE_TTL", "1h", 1);
    setenv("PENSTOCK_PORT", "tcp://10.0.0.1:5550", 1);
    setenv("PENSTOCK_BROKER_PORT_5550_TCP_ADDR", "10.0.0.1", 1);
    setenv("PENSTOCK_BROKER_KEY", "00", 1);
    setenv("PENSTOCK_ENTIRELY_DIFFERENT", "1", 1);
    load_it();
    cr_assert_str_eq(told(), "");
}

Test(settings_env, help_names_the_variable_of_each)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    settings_help(&program, out);
    settings_table_markdown(&program, out);
    settings_man(&program, out);
    fclose(out);
    cr_assert_not_null(strstr(text, "[default: default; PENSTOCK_WORKER_BROKER]"), "%s", text);
    cr_assert_not_null(strstr(text, "[default: default; PENSTOCK_CACHE]"), "%s", text);
    cr_assert_not_null(strstr(text, "[default: default]"), "%s", text);
    cr_assert_not_null(strstr(text, "[PENSTOCK_WORKER_CONFIG]"), "%s", text);
    cr_assert_not_null(strstr(text, "| `--key TEXT` | default |  |  | Not"), "%s", text);
    cr_assert_null(strstr(text, "PENSTOCK_KEY"), "%s", text);
}
