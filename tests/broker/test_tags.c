/* test_tags.c - tags and flags of a worker, and what jobs demand of them. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "tags.h"

static char *own_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* Whether a worker with that flag meets that demand. */
static bool meets(const char *name, const char *value, const char *need)
{
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    Penstock__Flag flag = PENSTOCK__FLAG__INIT, *flags[] = {&flag};
    char *needs[] = {own_text(need)}, wanted[TAGS_BYTES];
    struct pen_error error = {.status = PEN_OK};
    flag.name = own_text(name);
    flag.value = own_text(value);
    hello.flags = flags;
    hello.n_flags = 1;
    job.needs = needs;
    job.n_needs = 1;
    cr_assert_eq(tags_of_job(&job, wanted, &error), PEN_OK, "%s", error.text);
    char *list = tags_of_worker(&hello);
    bool met = tags_have(list, wanted);
    free(list);
    return met;
}

Test(tags, a_flag_is_on_or_has_a_value)
{
    static const char *const off[] = {"", "off", "no", "none", "false", "0", "unavailable: no device", "failed: 3"};
    cr_expect(meets("vk_i8", "yes", "vk_i8"));
    cr_expect(meets("vk_i8", "yes", "vk_i8=yes"));
    cr_expect_not(meets("vk_i8", "yes", "vk_i8=no"));
    cr_expect_not(meets("vk_i8", "yes", "vk_i"));
    cr_expect_not(meets("vk_i8", "yes", "vk_i8="));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        char need[64] = "f=";
        cr_expect_not(meets("f", off[i], "f"), "'%s' is off", off[i]);
        cr_expect(meets("f", off[i], strcat(need, off[i])), "'%s' can be demanded by its value", off[i]);
    }
}

Test(tags, a_job_in_debug_mode_demands_its_flag)
{
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    char wanted[TAGS_BYTES];
    job.debug = true;
    cr_assert_eq(tags_of_job(&job, wanted, NULL), PEN_OK);
    cr_expect_str_eq(wanted, "\x01"
                             "debug_jobs\n");
    cr_expect(meets("debug_jobs", "on", "debug_jobs"));
    cr_expect_not(meets("debug_jobs", "off", "debug_jobs"));
    char text[64], little[8];
    cr_expect_str_eq(tags_text("blue\n\x01"
                               "cpu_isa\ndebug_jobs\n",
                               text, sizeof text),
                     "blue, cpu_isa, debug_jobs", "a tag of that name is no flag");
    cr_expect_str_eq(tags_text("blue\ngreen\n", little, sizeof little), "blue, g");
    cr_expect_str_eq(tags_text(NULL, text, sizeof text), "");
}

Test(tags, a_tag_is_no_flag)
{
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    char *tags[] = {own_text("gpu"), own_text("\x01vk_i8")};
    hello.tags = tags;
    hello.n_tags = 2;
    char *list = tags_of_worker(&hello);
    cr_expect_str_eq(list, "gpu\n");
    free(list);
}

Test(tags, values_of_several_lines_are_demanded_by_name_only)
{
    cr_expect(meets("driver", "a\nb", "driver"));
    cr_expect_not(meets("driver", "a\nb", "driver=a"));
}

Test(tags, too_many_bytes_and_line_breaks_are_refused)
{
    Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
    char text[TAGS_BYTES], list[TAGS_BYTES], *needs[] = {text};
    struct pen_error error = {.status = PEN_OK};
    job.needs = needs;
    job.n_needs = 1;
    memset(text, 'x', sizeof text);
    text[TAGS_BYTES - 2] = '\0';
    cr_expect_eq(tags_of_job(&job, list, &error), PEN_ERR_INVALID);
    text[TAGS_BYTES - 3] = '\0';
    cr_expect_eq(tags_of_job(&job, list, &error), PEN_OK);
    cr_expect_eq(strlen(list), TAGS_BYTES - 1);
    strcpy(text, "a\nb");
    cr_expect_eq(tags_of_job(&job, list, &error), PEN_ERR_INVALID);
}
