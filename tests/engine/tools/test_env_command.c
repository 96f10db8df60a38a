/* penstock-engine env: what is set from where, the page of all flags, and what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

TestSuite(env_command, .init = fixture_setup, .fini = fixture_teardown);

static char *file_text(const char *path)
{
    static char text[65536];
    FILE *f = fopen(path, "re");
    cr_assert_not_null(f, "%s", path);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

Test(env_command, the_page_is_the_tables)
{
    struct printed p = engine(ARGS("env", "--markdown"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_expect_str_eq(p.out, file_text(PENSTOCK_SOURCE "/engine/FLAGS.md"),
                     "`penstock-engine env --markdown > engine/FLAGS.md` writes it anew");
}

static const cJSON *flag_in(const cJSON *json, const char *name)
{
    const cJSON *one = NULL;
    cJSON_ArrayForEach(one, cJSON_GetObjectItem(json, "flags"))
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(one, "name")), name) == 0) {
            return one;
        }
    }
    cr_assert_fail("no flag %s", name);
    return NULL;
}

static void is(const cJSON *json, const char *name, const char *value, const char *origin, const char *where)
{
    const cJSON *flag = flag_in(json, name);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(flag, "value")), value);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(flag, "origin")), origin);
    cr_expect_not_null(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(flag, "where")), where), "%s", name);
}

Test(env_command, each_origin_is_told)
{
    text_write("flags.conf", "vk-cache-dir = /tmp\nvk-kernels = simple\n");
    setenv("PENSTOCK_ENGINE_WARMUP", "compile", 1);
    setenv("PENSTOCK_VK_KERNELS", "tiled", 1);
    struct printed p = engine(ARGS("env", "--json", "--config", path_of("flags.conf"), "--threads", "3", "--flag",
                                   "cpu_forward=on", "--backend", "reference"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cJSON *json = json_of(&p);
    is(json, "vk_cache_dir", "/tmp", "file", "flags.conf:1");
    is(json, "vk_kernels", "tiled", "variable", "PENSTOCK_VK_KERNELS");
    is(json, "warmup", "compile", "variable", "PENSTOCK_ENGINE_WARMUP");
    is(json, "threads", "3", "flag", "--threads");
    is(json, "cpu_forward", "on", "flag", "--flag");
    is(json, "precision", "f32", "detected", "");
    is(json, "pin", "off", "default", "");
    cr_expect_gt(cJSON_GetArraySize(cJSON_GetObjectItem(json, "facts")), 3);
    cJSON_Delete(json);
}

Test(env_command, what_contradicts_is_refused)
{
    static const struct {
        const char *one, *other, *words;
    } wrong[] = {
        {"mode=prod", "compare=reference", "contradict each other: prod compares nothing"},
        {"vk_conv=cm", "precision=f32", "cooperative matrices multiply f16 or bf16"},
        {"cpu_forward=off", "cpu_forward_max_elems=9", "counts only with cpu_forward=on"},
        {"vk_layout=graph", "placement=strict", "which strict forbids"},
        {"vk_kernel=cm", "threads=1", "did you mean 'vk_kernels'?"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct printed p = engine(ARGS("env", "--flag", wrong[i].one, "--flag", wrong[i].other));
        cr_expect_eq(p.status, 2, "%s", wrong[i].one);
        cr_expect_not_null(strstr(p.err, wrong[i].words), "%s", p.err);
    }
    struct printed twice = engine(ARGS("env", "--vk-kernels", "simple", "--flag", "vk_kernels=tiled"));
    cr_expect_eq(twice.status, 2);
    cr_expect_not_null(strstr(twice.err, "leave one of them away"), "%s", twice.err);
}
