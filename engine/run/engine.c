#include "run/internal.h"
#include "run/precision.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/options.h"
#include "backend/reference/evaluate.h"
#include "error_complete.h"
#include "graph/explain.h"
#include "graph/pass.h"

/* A fact of words and numbers. */
static void __attribute__((format(printf, 3, 4)))
fact_add(struct pen_engine *e, const char *name, const char *format, ...)
{
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    env_fact(e->env, name, text);
}

static void fact_say(void *context, const char *name, const char *value)
{
    env_fact(context, name, value);
}

/* The last one opened. */
static void backend_explain(const struct pen_engine *e, const struct backend_ops *ops, enum pen_precision precision)
{
    bool first = e->backend_count == 1;
    const char *asked = e->options.backend;
    bool named = asked != NULL && strcmp(asked, "auto") != 0;
    explain_say(e->options.explain, PEN_CHOICE_BACKEND, ops->name, first ? "chosen" : "behind it", "%s, in %s",
                !first  ? "it takes what those before it cannot"
                : named ? "it was asked for by name"
                        : "of those that opened it has the highest priority",
                pen_engine_precision_name(precision));
}

static struct backend_config config_of(const struct pen_engine_options *o, enum pen_precision precision)
{
    const bool debug = o->mode == PEN_MODE_DEBUG;
    return (struct backend_config){.precision = precision,
                                   .threads = o->threads,
                                   /* in debug mode the log looks at every node's values first */
                                   .check_numerics = o->check_numerics == PEN_CHECK_FAIL && !debug,
                                   .pin = o->pin == PEN_PIN_CORES,
                                   .isa_max = o->cpu_isa_max,
                                   .measure_kernels = o->measure_kernels,
                                   .profile = o->profile_nodes || debug,
                                   .vulkan = o->vulkan,
                                   .options = o->backend_options};
}

/* Opens one backend behind those already open. */
static enum pen_status backend_add(struct pen_engine *e, const struct backend_ops *ops, enum pen_precision precision,
                                   struct pen_error *reterr)
{
    struct backend_caps caps = {0};
    const struct backend_config config = config_of(&e->options, precision);
    char name[48];
    snprintf(name, sizeof name, "backend.%s", ops->name);
    enum pen_status status = backend_probe(ops, &config, &caps);
    if (status != PEN_OK || !caps.available) {
        fact_add(e, name, "unavailable: %s", caps.reason);
        explain_say(e->options.explain, PEN_CHOICE_BACKEND, ops->name, "not used", "this host has none: %s",
                    caps.reason[0] != '\0' ? caps.reason : "probe failed");
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "backend %s cannot be used on this host: %s", ops->name,
                             caps.reason[0] != '\0' ? caps.reason : "probe failed");
    }
    if ((caps.precisions & (1u << precision)) == 0) {
        fact_add(e, name, "no %s", pen_engine_precision_name(precision));
        explain_say(e->options.explain, PEN_CHOICE_BACKEND, ops->name, "not used", "it does not offer precision %s",
                    pen_engine_precision_name(precision));
        return precision_refuse(&e->options, ops, pen_engine_precision_name(precision), reterr);
    }
    struct pen_error why = {0};
    struct backend *self = NULL;
    status = ops->open(&config, &self, &why);
    if (status != PEN_OK) {
        fact_add(e, name, "failed: %s", why.text);
        explain_say(e->options.explain, PEN_CHOICE_BACKEND, ops->name, "not used", "it did not open: %s", why.text);
        return pen_error_set(reterr, status, "%s", why.text);
    }
    if (e->backend_count == 0) {
        e->caps = caps;
    }
    e->backends[e->backend_count++] = (struct open_backend){.ops = ops, .self = self};
    fact_add(e, name, "available");
    backend_explain(e, ops, precision);
    snprintf(name, sizeof name, "selftest.%s.%s", ops->name, pen_engine_precision_name(precision));
    fact_add(e, name, "ok");
    if (ops->describe != NULL) {
        ops->describe(self, fact_say, e->env);
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
    for (size_t i = 0; i < count && e->backend_count == 0 && status != PEN_ERR_BUSY; i++) {
        status = backend_add(e, table[i], e->options.precision, reterr);
    }
    if (status == PEN_ERR_BUSY) {
        return status; /* a flag that contradicts another engine of the process: no reason to compute elsewhere */
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
        if ((status != PEN_OK && i + 1 == count) || status == PEN_ERR_BUSY) {
            return status;
        }
    }
    return PEN_OK;
}

static enum pen_status pass_unknown(const char *name, size_t bytes, struct pen_error *reterr)
{
    char names[200] = "";
    for (unsigned p = 0; p < PASS_COUNT; p++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", p > 0 ? ", " : "", pass_name((enum pass_id)p));
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "skip_passes: no graph pass is called '%.*s'; there is: %s",
                         (int)(bytes < 32 ? bytes : 32), name, names);
}

/* The passes that the options leave out. */
static enum pen_status passes_read(struct pen_engine *e, struct pen_error *reterr)
{
    const char *at = e->options.skip_passes != NULL ? e->options.skip_passes : "";
    while (*at != '\0') {
        char name[32];
        size_t bytes = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name - 1), at);
        enum pass_id pass = pass_find(name);
        if (pass == PASS_COUNT) {
            return pass_unknown(at, bytes, reterr);
        }
        e->passes_off |= 1u << pass;
        at += bytes + (at[bytes] == ',');
    }
    return PEN_OK;
}

/* Who set a flag: "--threads (flag)"; NULL = nobody. */
static const char *asked_by(const struct pen_engine *e, const char *name, char *text, size_t bytes)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_env_flags(e->env, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0 && flags[i].origin > PEN_ORIGIN_DETECTED) {
            snprintf(text, bytes, "it was asked for%s%s (%s)", flags[i].where[0] != '\0' ? " by " : "", flags[i].where,
                     pen_origin_name(flags[i].origin));
            return text;
        }
    }
    return NULL;
}

/* What is chosen where nobody asked. */
static void defaults_explain(const struct pen_engine *e)
{
    struct pen_explain *log = e->options.explain;
    char threads[16], by[200];
    snprintf(threads, sizeof threads, "%u", e->options.threads);
    const char *asked = asked_by(e, "threads", by, sizeof by);
    explain_say(log, PEN_CHOICE_THREADS, "each session", threads, "%s",
                asked != NULL ? asked : "nothing was asked: several sessions of one thread share a host better");
    asked = asked_by(e, "precision", by, sizeof by);
    explain_say(log, PEN_CHOICE_PRECISION, "the engine", pen_engine_precision_name(e->options.precision), "%s",
                asked != NULL ? asked : "nothing was asked: f32 is what models are made for");
}

static void limits_set(struct pen_engine *e)
{
    const struct pen_engine_options *o = &e->options;
    e->limits = graph_limits_default();
    e->limits.folded_bytes = o->fold_bytes > 0 ? o->fold_bytes : e->limits.folded_bytes;
    if (o->budget_bytes > 0) {
        e->limits.model_bytes = o->budget_bytes;
        e->limits.tensor_bytes = o->budget_bytes;
        e->limits.folded_bytes = o->budget_bytes < e->limits.folded_bytes ? o->budget_bytes : e->limits.folded_bytes;
        e->limits.arena_bytes = o->budget_bytes;
    }
}

/* Reads the flags: what was left open gets what others imply, or the default. */
static void options_settle(struct pen_engine *e)
{
    env_imply(e->env);
    e->options = *pen_env_options(e->env);
    e->options.precision = e->options.precision == PEN_PRECISION_ANY ? PEN_PRECISION_F32 : e->options.precision;
    limits_set(e);
}

/* Tells in the environment what was chosen. */
static void choice_tell(struct pen_engine *e)
{
    env_detected(e->env, "backend", e->backends[0].ops->name);
    env_detected(e->env, "precision", pen_engine_precision_name(e->options.precision));
    e->options.backend = e->backends[0].ops->name;
}

static enum pen_status backends_open(struct pen_engine *e, struct pen_error *reterr)
{
    enum pen_status status = pen_env_check(e->env, reterr);
    if (status != PEN_OK) {
        return status;
    }
    env_facts_clear(e->env);
    options_settle(e);
    fact_add(e, "engine_version", "%s", pen_engine_version());
    status = passes_read(e, reterr);
    if (status == PEN_OK) {
        status = backend_options_check(e->options.backend_options, reterr);
    }
    if (status == PEN_OK) {
        status = choose(e, reterr);
    }
    if (status == PEN_OK && !e->options.strict) {
        status = fallbacks_add(e, reterr);
    }
    if (status == PEN_OK) {
        defaults_explain(e);
        choice_tell(e);
    }
    return status;
}

/* Takes env. */
static enum pen_status engine_make(struct pen_env *env, struct pen_engine **ret_engine, struct pen_error *reterr)
{
    struct pen_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        pen_env_free(env);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an engine");
    }
    reference_evaluator_register(); /* graphs are read only with an engine */
    e->env = env;
    pthread_mutex_init(&e->load_lock, NULL);
    enum pen_status status = error_complete(reterr, backends_open(e, reterr), "open the backends");
    if (status != PEN_OK) {
        pen_engine_free(e);
        return status;
    }
    *ret_engine = e;
    return PEN_OK;
}

enum pen_status pen_engine_new(const struct pen_engine_options *options, struct pen_engine **ret_engine,
                               struct pen_error *reterr)
{
    struct pen_env *env = NULL;
    enum pen_status status = env_from_options(options, &env, reterr);
    return status == PEN_OK ? engine_make(env, ret_engine, reterr) : status;
}

enum pen_status pen_engine_open(const struct pen_env *env, struct pen_engine **ret_engine, struct pen_error *reterr)
{
    struct pen_env *copy = NULL;
    enum pen_status status = env_copy(env, &copy, reterr);
    return status == PEN_OK ? engine_make(copy, ret_engine, reterr) : status;
}

static void backends_close(struct pen_engine *e)
{
    for (uint32_t i = 0; i < e->backend_count; i++) {
        e->backends[i].ops->close(e->backends[i].self);
    }
    e->backend_count = 0;
}

/* Replaces what an engine has opened by what another has; frees the other. */
static void engine_take(struct pen_engine *e, struct pen_engine *from)
{
    backends_close(e);
    pen_env_free(e->env);
    e->env = from->env;
    e->options = from->options;
    e->limits = from->limits;
    e->passes_off = from->passes_off;
    e->caps = from->caps;
    memcpy(e->backends, from->backends, sizeof e->backends);
    e->backend_count = from->backend_count;
    e->paces = from->paces;
    from->env = NULL;
    from->backend_count = 0;
    pen_engine_free(from);
}

/* An engine in `env`, which it takes. What is one for the process may be in the way of itself: then the old backends close first, and open again on failure. */
static enum pen_status engine_make_again(struct pen_engine *old, struct pen_env *env, struct pen_engine **ret_engine,
                                         struct pen_error *reterr)
{
    struct pen_env *spare = NULL;
    enum pen_status status = env_copy(env, &spare, reterr);
    if (status != PEN_OK) {
        pen_env_free(env);
        return status;
    }
    status = engine_make(env, ret_engine, reterr);
    if (status != PEN_ERR_BUSY) {
        pen_env_free(spare);
        return status;
    }
    backends_close(old);
    status = engine_make(spare, ret_engine, reterr);
    return status == PEN_OK || backends_open(old, NULL) == PEN_OK
               ? status
               : pen_error_set(reterr, PEN_ERR_INTERNAL, "the engine's backends do not open again: free the engine");
}

enum pen_status pen_engine_set(struct pen_engine *engine, const char *name, const char *value, enum pen_origin origin,
                               const char *where, struct pen_error *reterr)
{
    struct pen_env *env = NULL;
    struct pen_engine *changed = NULL;
    enum pen_status status = env_copy(engine->env, &env, reterr);
    if (status == PEN_OK) {
        status = pen_env_set(env, name, value, origin, where, reterr);
    }
    if (status != PEN_OK) {
        pen_env_free(env);
        return status;
    }
    status = engine_make_again(engine, env, &changed, reterr);
    if (status == PEN_OK) {
        engine_take(engine, changed);
    }
    return status;
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
    backends_close(engine);
    pthread_mutex_destroy(&engine->load_lock);
    pen_env_free(engine->env);
    free(engine);
}

const struct pen_flag *pen_engine_flags(const struct pen_engine *engine, size_t *ret_count)
{
    return pen_env_flags(engine->env, ret_count);
}

const char *pen_engine_backend(const struct pen_engine *engine)
{
    return engine->backends[0].ops->name;
}

bool pen_engine_on_device(const struct pen_engine *engine)
{
    return engine->backends[0].ops->is_device;
}

const char *pen_engine_device(const struct pen_engine *engine)
{
    return engine->caps.device;
}

const char *pen_engine_isa(const struct pen_engine *engine)
{
    const char *isa = pen_env_get(engine->env, "cpu_isa");
    return isa != NULL ? isa : "";
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

/* Values are checked behind the backends: then each has to leave its partition. NaN that ends a run is found by the backends themselves. */
static bool values_looked_at(const struct pen_engine_options *o)
{
    return o->check_numerics == PEN_CHECK_WARN || o->f16_range_check != PEN_CHECK_OFF || o->mode == PEN_MODE_DEBUG;
}

struct placement_choice engine_placement_choice(struct pen_engine *e)
{
    const bool weighed = e->options.weigh_crossings && e->options.measure_kernels;
    return (struct placement_choice){.strict = e->options.strict,
                                     .paces = weighed ? &e->paces : NULL,
                                     .watch = e->options.compare_reference || values_looked_at(&e->options),
                                     .forward_max = e->options.cpu_forward ? e->options.cpu_forward_max_elems : 0};
}

struct source_options engine_source_options(const struct pen_engine *e)
{
    const struct backend_ops *ops = e->backends[0].ops;
    const struct backend_config config = config_of(&e->options, e->options.precision);
    return (struct source_options){.limits = e->limits,
                                   .passes_off = e->passes_off,
                                   .explain = e->options.explain,
                                   .trust = e->options.mode == PEN_MODE_PROD,
                                   .optimise = e->options.optimise,
                                   .nhwc = ops->wants_layout != NULL && ops->wants_layout(&config)};
}
