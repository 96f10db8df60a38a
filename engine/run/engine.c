#include "run/internal.h"
#include "run/precision.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"

static void __attribute__((format(printf, 3, 4)))
flag_add(struct pen_engine *e, const char *name, const char *format, ...)
{
    if (e->flag_count == ENGINE_FLAGS_MAX) {
        return;
    }
    size_t i = e->flag_count++;
    va_list args;
    va_start(args, format);
    vsnprintf(e->flag_values[i], sizeof e->flag_values[i], format, args);
    va_end(args);
    snprintf(e->flag_names[i], sizeof e->flag_names[i], "%s", name);
    e->flags[i] = (struct pen_flag){.name = e->flag_names[i], .value = e->flag_values[i]};
}

static const char *cpu_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return __builtin_cpu_supports("avx512vnni") ? "avx512-vnni" : "avx512";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "avx2";
    }
    return __builtin_cpu_supports("avx") ? "avx" : "sse2";
#elif defined(__aarch64__)
    return "neon";
#else
    return "generic";
#endif
}

static void fact_say(void *context, const char *name, const char *value)
{
    flag_add(context, name, "%s", value);
}

/* Opens one backend behind those already open. */
static enum pen_status backend_add(struct pen_engine *e, const struct backend_ops *ops, enum pen_precision precision,
                                   struct pen_error *reterr)
{
    struct backend_caps caps = {0};
    struct backend_config config = {.precision = precision,
                                    .threads = e->options.threads,
                                    .check_numerics = e->options.check_numerics,
                                    .profile = e->options.profile_nodes,
                                    .vulkan = e->options.vulkan};
    char name[48];
    snprintf(name, sizeof name, "backend.%s", ops->name);
    enum pen_status status = backend_probe(ops, &config, &caps);
    if (status != PEN_OK || !caps.available) {
        flag_add(e, name, "unavailable: %s", caps.reason);
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "backend %s cannot be used on this host: %s", ops->name,
                             caps.reason[0] != '\0' ? caps.reason : "probe failed");
    }
    if ((caps.precisions & (1u << precision)) == 0) {
        flag_add(e, name, "no %s", pen_engine_precision_name(precision));
        return precision_refuse(&e->options, ops, pen_engine_precision_name(precision), reterr);
    }
    struct pen_error why = {0};
    struct backend *self = NULL;
    status = ops->open(&config, &self, &why);
    if (status != PEN_OK) {
        flag_add(e, name, "failed: %s", why.text);
        return pen_error_set(reterr, status, "%s", why.text);
    }
    if (e->backend_count == 0) {
        e->caps = caps;
    }
    e->backends[e->backend_count++] = (struct open_backend){.ops = ops, .self = self};
    flag_add(e, name, "available");
    snprintf(name, sizeof name, "selftest.%s.%s", ops->name, pen_engine_precision_name(precision));
    flag_add(e, name, "ok");
    if (ops->describe != NULL) {
        ops->describe(self, fact_say, e);
    }
    return PEN_OK;
}

static void names_list(char *text, size_t bytes)
{
    size_t count = 0;
    size_t used = 0;
    const struct backend_ops *const *table = backend_table(&count);
    text[0] = '\0';
    for (size_t i = 0; i < count && used < bytes; i++) {
        int more = snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", table[i]->name);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* "auto": by falling priority, the first that opens; what failed is kept as a flag with its reason. */
static enum pen_status choose_auto(struct pen_engine *e, struct pen_error *reterr)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    enum pen_status status = PEN_ERR_UNSUPPORTED;
    for (size_t i = 0; i < count && e->backend_count == 0; i++) {
        status = backend_add(e, table[i], e->options.precision, reterr);
    }
    if (e->backend_count == 0 && e->options.precision != PEN_PRECISION_F32) {
        return precision_refuse(&e->options, NULL, pen_engine_precision_name(e->options.precision), reterr);
    }
    return e->backend_count > 0 ? PEN_OK : status;
}

static enum pen_status choose(struct pen_engine *e, struct pen_error *reterr)
{
    const char *name = e->options.backend;
    if (name == NULL || strcmp(name, "auto") == 0) {
        return choose_auto(e, reterr);
    }
    const struct backend_ops *ops = backend_find(name);
    if (ops == NULL) {
        char names[256];
        names_list(names, sizeof names);
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "no backend is called '%s' in this build: it has %s, and auto to choose among them", name,
                             names);
    }
    return backend_add(e, ops, e->options.precision, reterr);
}

/* Behind the chosen backend every lower one that opens in f32 may take what it cannot: the last is always reference. */
static enum pen_status fallbacks_add(struct pen_engine *e, struct pen_error *reterr)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    int chosen = e->backends[0].ops->priority;
    for (size_t i = 0; i < count && e->backend_count < BACKENDS_MAX; i++) {
        if (table[i]->priority >= chosen) {
            continue;
        }
        enum pen_status status = backend_add(e, table[i], PEN_PRECISION_F32, reterr);
        if (status != PEN_OK && i + 1 == count) {
            return status;
        }
    }
    return PEN_OK;
}

enum pen_status pen_engine_new(const struct pen_engine_options *options, struct pen_engine **ret_engine,
                               struct pen_error *reterr)
{
    struct pen_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an engine");
    }
    reference_evaluator_register(); /* graphs are read only with an engine */
    e->options = *options;
    pthread_mutex_init(&e->load_lock, NULL);
    e->options.threads = options->threads == 0 ? 1 : options->threads;
    e->options.precision = options->precision == PEN_PRECISION_ANY ? PEN_PRECISION_F32 : options->precision;
    e->limits = graph_limits_default();
    e->limits.folded_bytes = options->fold_bytes > 0 ? options->fold_bytes : e->limits.folded_bytes;
    if (options->budget_bytes > 0) {
        e->limits.model_bytes = options->budget_bytes;
        e->limits.tensor_bytes = options->budget_bytes;
        e->limits.folded_bytes =
            options->budget_bytes < e->limits.folded_bytes ? options->budget_bytes : e->limits.folded_bytes;
        e->limits.arena_bytes = options->budget_bytes;
    }
    flag_add(e, "engine.version", "%s", pen_engine_version());
    flag_add(e, "cpu.isa", "%s", cpu_isa());
    enum pen_status status = choose(e, reterr);
    if (status == PEN_OK && !e->options.strict) {
        status = fallbacks_add(e, reterr);
    }
    if (status != PEN_OK) {
        pen_engine_free(e);
        return status;
    }
    e->options.backend = e->backends[0].ops->name;
    flag_add(e, "precision", "%s", pen_engine_precision_name(e->options.precision));
    flag_add(e, "threads", "%u", e->options.threads);
    flag_add(e, "placement", "%s", e->options.strict ? "strict" : "fallback");
    flag_add(e, "check_numerics", "%s", e->options.check_numerics ? "fail" : "off");
    flag_add(e, "compare", "%s", e->options.compare_reference ? "reference" : "none");
    *ret_engine = e;
    return PEN_OK;
}

enum pen_status pen_engine_tune(struct pen_engine *engine, uint64_t class_us, pen_tune_row_function *say, void *context,
                                bool *ret_stored, struct pen_error *reterr)
{
    const struct open_backend *chosen = &engine->backends[0];
    *ret_stored = false;
    if (chosen->ops->tune == NULL) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "the backend %s has no kernels to choose among",
                             chosen->ops->name);
    }
    return chosen->ops->tune(chosen->self, class_us, say, context, ret_stored, reterr);
}

void pen_engine_free(struct pen_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    for (uint32_t i = 0; i < engine->backend_count; i++) {
        engine->backends[i].ops->close(engine->backends[i].self);
    }
    pthread_mutex_destroy(&engine->load_lock);
    free(engine);
}

const struct pen_flag *pen_engine_flags(const struct pen_engine *engine, size_t *ret_count)
{
    *ret_count = engine->flag_count;
    return engine->flags;
}

const char *pen_engine_backend(const struct pen_engine *engine)
{
    return engine->backends[0].ops->name;
}

const char *pen_engine_device(const struct pen_engine *engine)
{
    return engine->caps.device;
}

const char *pen_engine_library(const struct pen_engine *engine)
{
    return engine->caps.library;
}

enum pen_precision pen_engine_precision(const struct pen_engine *engine)
{
    return engine->options.precision;
}

uint64_t pen_engine_compiled(const struct pen_engine *engine)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < engine->backend_count; i++) {
        const struct backend_ops *ops = engine->backends[i].ops;
        count += ops->compiled != NULL ? ops->compiled(engine->backends[i].self) : 0;
    }
    return count;
}

struct source_options engine_source_options(const struct pen_engine *e)
{
    return (struct source_options){.limits = e->limits,
                                   .optimise = e->options.optimise,
                                   .promote = e->options.precision == PEN_PRECISION_F32 ||
                                              e->options.precision == PEN_PRECISION_F16_STORAGE,
                                   .nhwc = !backend_is_reference(e->backends[0].ops)};
}
