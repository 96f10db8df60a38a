/* test_env.c - flags: where their values come from, what is refused and in which words, and when they stand still. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "env/env.h"
#include "penstock/engine.h"

static struct pen_env *env;
static struct pen_error error;

static void begin(void)
{
    error = (struct pen_error){0};
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK);
}

static void end(void)
{
    pen_env_free(env);
    env = NULL;
}

TestSuite(env, .init = begin, .fini = end);

static const struct pen_flag *flag_of(const struct pen_env *in, const char *name)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_env_flags(in, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    cr_assert_fail("no flag %s", name);
    return NULL;
}

static void says(const char *words)
{
    cr_expect_not_null(strstr(error.text, words), "'%s' lacks '%s'", error.text, words);
}

Test(env, every_flag_has_its_default_and_a_meaning)
{
    size_t count = 0, rows = 0;
    const struct pen_flag_row *row = pen_flag_rows(&rows);
    const struct pen_flag *flags = pen_env_flags(env, &count);
    cr_assert_gt(count, rows);
    for (size_t i = 0; i < rows; i++) {
        cr_expect_str_eq(flags[i].name, row[i].name);
        cr_expect_eq(flags[i].origin, PEN_ORIGIN_DEFAULT, "%s", row[i].name);
        cr_expect_str_eq(flags[i].value, row[i].def);
        cr_expect_gt(strlen(flags[i].meaning), 10u, "%s", row[i].name);
        cr_expect_eq(pen_flag_find(row[i].option), &row[i], "the option of %s", row[i].name);
    }
    for (size_t i = rows; i < count; i++) {
        cr_expect_eq(flags[i].origin, PEN_ORIGIN_DETECTED, "%s", flags[i].name);
        cr_expect_gt(strlen(flags[i].meaning), 10u, "the fact %s is not in facts.def", flags[i].name);
    }
}

Test(env, options_and_flags_have_the_same_defaults)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    struct pen_env *same = NULL;
    cr_assert_eq(env_from_options(&options, &same, &error), PEN_OK, "%s", error.text);
    size_t count = 0;
    const struct pen_flag *flags = pen_env_flags(same, &count);
    for (size_t i = 0; i < count; i++) {
        cr_expect_leq(flags[i].origin, PEN_ORIGIN_DETECTED, "%s", flags[i].name);
    }
    pen_env_free(same);
}

Test(env, the_strongest_origin_counts_in_any_order)
{
    cr_assert_eq(pen_env_set(env, "threads", "3", PEN_ORIGIN_VARIABLE, "PENSTOCK_ENGINE_THREADS", &error), PEN_OK);
    cr_assert_eq(pen_env_set(env, "threads", "2", PEN_ORIGIN_FILE, "a.conf:1", &error), PEN_OK);
    cr_expect_str_eq(pen_env_get(env, "threads"), "3");
    cr_expect_str_eq(flag_of(env, "threads")->where, "PENSTOCK_ENGINE_THREADS");
    cr_assert_eq(pen_env_assign(env, "threads=4", PEN_ORIGIN_FLAG, "--flag", &error), PEN_OK);
    cr_expect_str_eq(pen_env_get(env, "threads"), "4");
    cr_expect_eq(pen_env_options(env)->threads, 4u);
    cr_expect_eq(flag_of(env, "threads")->origin, PEN_ORIGIN_FLAG);
}

Test(env, values_reach_their_fields)
{
    static const char *const sets[] = {"placement=strict",  "mode=prod",          "warmup=none",
                                       "vk-kernels=tiled",  "fold_bytes=2MiB",    "optimise=no",
                                       "precision=int8",    "vk_in_flight=2",     "vk_device=0, llvm",
                                       "vk_cache_dir=/tmp", "check_numerics=warn"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        cr_assert_eq(pen_env_assign(env, sets[i], PEN_ORIGIN_FLAG, "", &error), PEN_OK, "%s", error.text);
    }
    const struct pen_engine_options *o = pen_env_options(env);
    cr_expect(o->strict && o->mode == PEN_MODE_PROD && o->warmup == PEN_WARMUP_NONE && !o->optimise);
    cr_expect_eq(o->check_numerics, PEN_CHECK_WARN);
    cr_expect_eq(o->fold_bytes, 2u << 20);
    cr_expect_eq(o->precision, PEN_PRECISION_INT8);
    cr_expect_eq(o->vulkan.in_flight, 2u);
    cr_expect_str_eq(o->vulkan.kernels, "tiled");
    cr_expect_str_eq(o->vulkan.cache_dir, "/tmp");
    cr_expect_str_eq(o->vulkan.device, "0");
    cr_assert_eq(o->vulkan.beside_count, 1u);
    cr_expect_str_eq(o->vulkan.beside[0], "llvm");
}

Test(env, what_does_not_fit_is_refused_with_the_nearest_right_one)
{
    static const struct {
        const char *set, *words;
    } wrong[] = {{"thread=2", "no flag is called 'thread'; did you mean 'threads'?"},
                 {"nonsense=2", "`penstock-engine env` lists all"},
                 {"cpu_isa=avx2", "cpu_isa is found out on this host and cannot be set"},
                 {"threads=-1", "a number from 1 to 1024"},
                 {"threads=1025", "a number from 1 to 1024"},
                 {"threads=2x", "'2x' does not fit"},
                 {"threads=", "a number"},
                 {"fold_bytes=99999999999TiB", "a size such as 64KiB"},
                 {"warmup=exec", "did you mean 'execute'?"},
                 {"warmup=compile|execute", "one of none|compile|execute"},
                 {"optimise=maybe", "give on or off"},
                 {"vk_device=0,1,2,3,4,5,6,7,8,9,a,b,c,d,e,f,g", "at most 16 items"},
                 {"threads", "write it as NAME=VALUE"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_expect_eq(pen_env_assign(env, wrong[i].set, PEN_ORIGIN_FLAG, "--flag", &error), PEN_ERR_INVALID);
        says(wrong[i].words);
    }
    char *text = malloc(PEN_FLAG_VALUE_BYTES + 2);
    memset(text, 'a', PEN_FLAG_VALUE_BYTES + 1);
    text[PEN_FLAG_VALUE_BYTES + 1] = '\0';
    cr_expect_eq(pen_env_set(env, "vk_cache_dir", text, PEN_ORIGIN_FLAG, "--flag", &error), PEN_ERR_INVALID);
    says("give a shorter value");
    free(text);
}

Test(env, variables_are_read_and_slips_refused)
{
    setenv("PENSTOCK_ENGINE_THREADS", "5", 1);
    setenv("PENSTOCK_ENGINE_MODEL", "of the tool", 1);
    cr_assert_eq(pen_env_read_variables(env, &error), PEN_OK, "%s", error.text);
    cr_expect_str_eq(pen_env_get(env, "threads"), "5");
    cr_expect_eq(flag_of(env, "threads")->origin, PEN_ORIGIN_VARIABLE);
    setenv("PENSTOCK_ENGINE_VK_KERNEL", "tiled", 1);
    cr_expect_eq(pen_env_read_variables(env, &error), PEN_ERR_INVALID);
    says("did you mean PENSTOCK_ENGINE_VK_KERNELS?");
    unsetenv("PENSTOCK_ENGINE_VK_KERNEL");
    setenv("PENSTOCK_ENGINE_THREADS", "many", 1);
    cr_expect_eq(pen_env_read_variables(env, &error), PEN_ERR_INVALID);
    says("flag threads (PENSTOCK_ENGINE_THREADS): 'many' does not fit");
}

Test(env, contradictions_are_refused)
{
    pen_env_set(env, "mode", "prod", PEN_ORIGIN_FLAG, "--mode", NULL);
    cr_expect_eq(pen_env_check(env, &error), PEN_OK);
    pen_env_set(env, "check_numerics", "fail", PEN_ORIGIN_VARIABLE, "PENSTOCK_ENGINE_CHECK_NUMERICS", NULL);
    cr_expect_eq(pen_env_check(env, &error), PEN_ERR_INVALID);
    says("mode=prod (flag --mode) and check_numerics=fail (variable PENSTOCK_ENGINE_CHECK_NUMERICS) contradict");
    struct pen_engine *engine = NULL;
    cr_expect_eq(pen_engine_open(env, &engine, &error), PEN_ERR_INVALID);
}

Test(env, a_mode_gives_values_to_what_nobody_set)
{
    pen_env_set(env, "mode", "debug", PEN_ORIGIN_FLAG, "--mode", NULL);
    pen_env_set(env, "profile", "off", PEN_ORIGIN_FLAG, "--profile", NULL);
    env_imply(env);
    cr_expect_str_eq(pen_env_get(env, "check_numerics"), "fail");
    cr_expect_str_eq(flag_of(env, "check_numerics")->where, "mode=debug");
    cr_expect_str_eq(pen_env_get(env, "profile"), "off");
}

/* ---- engines ---- */

static struct pen_engine *engine_open(void)
{
    struct pen_engine *engine = NULL;
    cr_assert_eq(pen_engine_open(env, &engine, &error), PEN_OK, "%s", error.text);
    return engine;
}

static const char *engine_flag(const struct pen_engine *engine, const char *name, enum pen_origin *ret_origin)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            *ret_origin = flags[i].origin;
            return flags[i].value;
        }
    }
    return "";
}

Test(env, an_engine_tells_what_it_chose)
{
    enum pen_origin origin = PEN_ORIGIN_DEFAULT;
    struct pen_engine *engine = engine_open();
    cr_expect_str_eq(engine_flag(engine, "backend", &origin), pen_engine_backend(engine));
    cr_expect_eq(origin, PEN_ORIGIN_DETECTED);
    cr_expect_str_eq(engine_flag(engine, "precision", &origin), "f32");
    pen_engine_free(engine);
    cr_expect_str_eq(pen_env_get(env, "backend"), "auto", "the environment itself is as it was");
}

Test(env, flags_of_an_engine_change_until_it_loads_a_model)
{
    enum pen_origin origin = PEN_ORIGIN_DEFAULT;
    struct pen_engine *engine = engine_open();
    cr_assert_eq(pen_engine_set(engine, "backend", "reference", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK);
    cr_expect_str_eq(pen_engine_backend(engine), "reference");
    cr_expect_neq(pen_engine_set(engine, "backend", "quantum", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK);
    cr_expect_str_eq(pen_engine_backend(engine), "reference", "a change that fails changes nothing");
    struct pen_model *model = NULL;
    cr_assert_eq(pen_model_load(engine, PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx", &model, &error), PEN_OK,
                 "%s", error.text);
    cr_expect_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_ERR_INVALID);
    says("has loaded a model");
    pen_model_free(model);
    cr_expect_eq(pen_engine_set(engine, "threads", "2", PEN_ORIGIN_FLAG, "a test", &error), PEN_ERR_INVALID);
    cr_expect_str_eq(engine_flag(engine, "threads", &origin), "1");
    pen_engine_free(engine);
}

Test(env, every_fact_of_an_engine_has_a_meaning)
{
    pen_env_set(env, "vk_allow_software", "on", PEN_ORIGIN_FLAG, "a test", NULL);
    struct pen_engine *engine = engine_open();
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        cr_expect_gt(strlen(flags[i].meaning), 10u, "the fact %s is not in facts.def", flags[i].name);
    }
    pen_engine_free(engine);
}
