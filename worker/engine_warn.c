#include "engine_warn.h"

#include <string.h>

#include "logline.h"

static const char *flag_value(const struct pen_flag *flags, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(flags[i].name, name) == 0)
            return flags[i].value;
    return "";
}

/* What the open backend says under a name with this ending, whichever backend it is. */
static const char *fact_value(const struct pen_flag *flags, size_t count, const char *ending)
{
    for (size_t i = 0; i < count; i++) {
        const size_t all = strlen(flags[i].name), bytes = strlen(ending);
        if (all > bytes && strcmp(flags[i].name + all - bytes, ending) == 0)
            return flags[i].value;
    }
    return "";
}

static void files_check(const struct pen_flag *flags, size_t count)
{
    const char *tuned = fact_value(flags, count, ".tuned"), *cache = fact_value(flags, count, ".pipeline_cache");
    if (strcmp(tuned, "corrupt") == 0 || strcmp(tuned, "foreign") == 0)
        log_event(LOG_WARN, "tuning_ignored", "table=%s", tuned);
    if (strncmp(cache, "unusable: ", 10) == 0)
        log_event(LOG_WARN, "cache_unusable",
                  "folder=%s error=%s: compiled kernels are not kept, every start is cold; name a folder that this "
                  "user may write with --vk-cache-dir",
                  flag_value(flags, count, "vk_cache_dir"), cache + 10);
}

static void kernels_check(const struct pen_flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(flags[i].name, "selftest.", 9) == 0 && strncmp(flags[i].value, "wrong", 5) == 0)
            log_event(LOG_WARN, "kernels_wrong", "test=%s error=%s: a newer driver may mend it", flags[i].name,
                      flags[i].value);
}

void engine_warn(const struct pen_engine *engine)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    files_check(flags, count);
    kernels_check(flags, count);
}
