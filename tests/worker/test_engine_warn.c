#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "engine_warn.h"

/* What the log says of an engine's facts; -Wl,--wrap puts these facts in the place of an engine's. */
static const struct pen_flag facts[] = {{.name = "selftest.vulkan.f32", .value = "ok"},
                                        {.name = "selftest.vulkan.tiled", .value = "wrong, not used: off by 3"},
                                        {.name = "vulkan.tuned", .value = "off"},
                                        {.name = "swift.pipeline_cache", .value = "unusable: Not a directory"},
                                        {.name = "vk_cache_dir", .value = "/nowhere"}};

const struct pen_flag *__wrap_pen_engine_flags(const struct pen_engine *engine, size_t *ret_count);
const struct pen_flag *__wrap_pen_engine_flags(const struct pen_engine *engine, size_t *ret_count)
{
    (void)engine;
    *ret_count = sizeof facts / sizeof facts[0];
    return facts;
}

Test(engine_warn, kernels_that_compute_wrong_are_logged)
{
    char text[2048] = "";
    cr_redirect_stderr();
    engine_warn(NULL);
    fflush(stderr);
    FILE *log = cr_get_redirected_stderr();
    size_t bytes = fread(text, 1, sizeof text - 1, log);
    text[bytes] = '\0';
    cr_expect_neq(strstr(text, "evt=kernels_wrong test=selftest.vulkan.tiled"), NULL, "%s", text);
    cr_expect_neq(strstr(text, "off by 3"), NULL, "%s", text);
    cr_expect_eq(strstr(text, "selftest.vulkan.f32"), NULL, "%s", text);
    cr_expect_eq(strstr(text, "evt=tuning_ignored"), NULL, "%s", text);
}

Test(engine_warn, a_cache_that_any_backend_cannot_keep_is_logged)
{
    char text[2048] = "";
    cr_redirect_stderr();
    engine_warn(NULL);
    fflush(stderr);
    FILE *log = cr_get_redirected_stderr();
    text[fread(text, 1, sizeof text - 1, log)] = '\0';
    cr_expect_neq(strstr(text, "evt=cache_unusable folder=/nowhere error=\"Not a directory: "), NULL, "%s", text);
}
