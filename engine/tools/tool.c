#include "tools/tool.h"
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

const struct setting_variable tool_variables[] = {
    {"backend", "PENSTOCK_ENGINE_BACKEND", NULL},
    {"precision", "PENSTOCK_ENGINE_PRECISION", NULL},
    {"threads", "PENSTOCK_ENGINE_THREADS", NULL},
    {"placement", "PENSTOCK_ENGINE_PLACEMENT", NULL},
    {"model", "PENSTOCK_ENGINE_MODEL", settings_old_never},
    {"input", "PENSTOCK_ENGINE_INPUT", settings_old_never},
    {"output-dir", "PENSTOCK_ENGINE_OUTPUT_DIR", settings_old_never},
    {"filter", "PENSTOCK_ENGINE_FILTER", settings_old_never},
    {"config", "PENSTOCK_ENGINE_CONFIG", settings_old_never},
    {.setting = NULL},
};

int tool_fail(const struct pen_error *error)
{
    fprintf(stderr, "penstock-engine: %s (%s)\n",
            error->text[0] != '\0' ? error->text : "failed without a text: please report this",
            pen_status_name(error->status));
    return error->status == PEN_ERR_UNSUPPORTED ? TOOL_UNAVAILABLE : TOOL_FAILED;
}

static int command_run(const struct tool_command *c, const char *name, const char *const *paths, size_t count)
{
    if (c->model != NULL && (*c->model == NULL || **c->model == '\0')) {
        fprintf(stderr, "penstock-engine: %s needs --model FILE\n", name);
        return TOOL_USAGE;
    }
    return c->run(c->options, paths, count);
}

int tool_run(const struct tool_command *command, int argc, char **argv)
{
    struct settings_store *store = NULL;
    enum settings_outcome outcome = SETTINGS_RUN;
    struct pen_error error = {0};
    size_t count = 0;
    const char **paths = calloc(command->paths_max + 1, sizeof *paths);
    if (paths == NULL) {
        pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for the arguments");
        return tool_fail(&error);
    }
    int code = TOOL_OK;
    const struct settings_call call = {command->program, argc, argv, paths, command->paths_max};
    if (settings_load(&call, command->options, &count, &outcome, &store, &error) != PEN_OK) {
        tool_fail(&error);
        code = TOOL_USAGE;
    } else if (outcome == SETTINGS_RUN) {
        if (command->tool != NULL) {
            command->tool->settings = store;
        }
        code = command_run(command, argv[0], paths, count);
    }
    settings_free(store);
    free((void *)paths);
    return code;
}

const char *tool_flag(const struct pen_engine *engine, const char *name)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return flags[i].value;
        }
    }
    return "";
}

const char *tool_fact(const struct pen_engine *engine, const char *ending)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        const size_t all = strlen(flags[i].name), bytes = strlen(ending);
        if (all > bytes && strcmp(flags[i].name + all - bytes, ending) == 0) {
            return flags[i].value;
        }
    }
    return "";
}

/* A table of tuned kernels that cannot be used is no error, but a person may want to tune again. */
static void tuning_warn(const struct pen_engine *engine)
{
    const char *tuned = tool_fact(engine, ".tuned");
    if (strcmp(tuned, "corrupt") == 0 || strcmp(tuned, "foreign") == 0) {
        fprintf(stderr,
                "penstock-engine: the table of tuned kernels is %s and is ignored: run `penstock-engine tune` again\n",
                tuned);
    }
}

/* Without its folder the tool does the same, but every start compiles all kernels again. */
static void cache_warn(const struct pen_engine *engine)
{
    const char *cache = tool_fact(engine, ".pipeline_cache");
    if (strncmp(cache, "unusable: ", 10) == 0) {
        fprintf(stderr,
                "penstock-engine: compiled kernels cannot be kept in %s: %s; name a folder that this user may write "
                "with --vk-cache-dir\n",
                tool_flag(engine, "vk_cache_dir"), cache + 10);
    }
}

#define IN_FLIGHT_MAX  3                   /* the largest choice of vk_in_flight */
#define DEFAULT_BUDGET (UINT64_C(4) << 30) /* what the engine grants by itself */

void tool_engine_options(struct pen_engine_options *ret_options)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    pen_engine_options_init(ret_options);
    uint64_t most = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 * 3 : 0;
    if (most > DEFAULT_BUDGET) {
        ret_options->budget_bytes = most;
    }
}

static const enum pen_origin origins[] = {[SETTING_BY_DEFAULT] = PEN_ORIGIN_DEFAULT,
                                          [SETTING_BY_FILE] = PEN_ORIGIN_FILE,
                                          [SETTING_BY_VARIABLE] = PEN_ORIGIN_VARIABLE,
                                          [SETTING_BY_OPTION] = PEN_ORIGIN_FLAG};

struct env_making {
    struct pen_env *env;
    enum pen_status status;
    struct pen_error *reterr;
};

static bool flag_take(void *context, const struct setting *setting, const struct setting_given *given)
{
    struct env_making *m = context;
    if (setting->offset == SETTING_KEPT && strcmp(setting->name, "precision") != 0) {
        m->status = pen_env_set(m->env, setting->name, given->value, origins[given->origin], given->where, m->reterr);
    }
    return m->status == PEN_OK;
}

/* After the flags that say which devices count: what there is depends on them. */
static enum pen_status precision_take(const struct tool_options *options, struct pen_env *env, struct pen_error *reterr)
{
    enum pen_precision precision;
    struct setting_given given;
    if (!settings_given(options->settings, "precision", &given)) {
        return PEN_OK;
    }
    enum pen_status status = pen_engine_precision_find(pen_env_options(env), given.value, &precision, reterr);
    return status == PEN_OK ? pen_env_set(env, "precision", given.value, origins[given.origin], given.where, reterr)
                            : status;
}

/* --flag NAME=VALUE ... */
static enum pen_status flags_take(const struct tool_options *options, struct pen_env *env, struct pen_error *reterr)
{
    struct setting_given given = {.origin = SETTING_BY_DEFAULT};
    enum pen_status status = PEN_OK;
    settings_given(options->settings, "flag", &given);
    for (size_t i = 0; status == PEN_OK && i < options->flags.count; i++) {
        status = pen_env_assign(env, options->flags.items[i], origins[given.origin], given.where, reterr);
    }
    return status;
}

/* What a subcommand's own settings say. */
static enum pen_status own_take(const struct tool_options *options, struct pen_env *env, struct pen_error *reterr)
{
    char in_flight[24], budget[24];
    struct pen_engine_options defaults;
    tool_engine_options(&defaults);
    snprintf(in_flight, sizeof in_flight, "%" PRId64,
             options->in_flight > IN_FLIGHT_MAX ? IN_FLIGHT_MAX : options->in_flight);
    snprintf(budget, sizeof budget, "%" PRIu64, defaults.budget_bytes);
    const struct {
        bool there;
        const char *flag, *value, *where;
        enum pen_origin origin;
    } own[] = {{true, "budget_bytes", budget, "", PEN_ORIGIN_DETECTED},
               {options->profile_nodes, "profile", "op", "--profile", PEN_ORIGIN_FLAG},
               {options->debug, "mode", "debug", "--debug", PEN_ORIGIN_FLAG},
               {options->debug, "check_numerics", "warn", "--debug", PEN_ORIGIN_FLAG},
               {options->prod, "mode", "prod", "--modes", PEN_ORIGIN_FLAG},
               {options->check_numerics, "check_numerics", "fail", "--check-numerics", PEN_ORIGIN_FLAG},
               {options->compare_reference, "compare", "reference", "--compare", PEN_ORIGIN_FLAG},
               {options->in_flight > 0, "vk_in_flight", in_flight, "--in-flight",
                options->in_flight_given ? PEN_ORIGIN_FLAG : PEN_ORIGIN_DETECTED}};
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof own / sizeof own[0]; i++) {
        status =
            own[i].there ? pen_env_set(env, own[i].flag, own[i].value, own[i].origin, own[i].where, reterr) : PEN_OK;
    }
    return status;
}

int tool_env(const struct tool_options *options, struct pen_env **ret_env)
{
    struct pen_error error = {0};
    struct env_making m = {.reterr = &error};
    m.status = pen_env_new(&m.env, &error);
    if (m.status == PEN_OK) {
        m.status = pen_env_read_variables(m.env, &error);
    }
    if (m.status == PEN_OK) {
        settings_each(options->settings, flag_take, &m);
    }
    if (m.status == PEN_OK) {
        m.status = flags_take(options, m.env, &error);
    }
    if (m.status == PEN_OK) {
        m.status = precision_take(options, m.env, &error);
    }
    if (m.status == PEN_OK) {
        m.status = own_take(options, m.env, &error);
    }
    if (m.status == PEN_OK) {
        *ret_env = m.env;
        return TOOL_OK;
    }
    pen_env_free(m.env);
    int code = tool_fail(&error);
    return error.status == PEN_ERR_INVALID ? TOOL_USAGE : code;
}

int tool_engine(const struct tool_options *options, bool strict, struct pen_engine **ret_engine)
{
    struct pen_env *env = NULL;
    struct pen_error error = {0};
    int code = tool_env(options, &env);
    enum pen_status status =
        code == TOOL_OK && strict ? pen_env_set(env, "placement", "strict", PEN_ORIGIN_FLAG, "strict", &error) : PEN_OK;
    if (code == TOOL_OK && status == PEN_OK) {
        pen_env_explain(env, options->explain);
        status = pen_engine_open(env, ret_engine, &error);
    }
    if (status != PEN_OK) {
        code = tool_fail(&error);
        code = status == PEN_ERR_INVALID ? TOOL_USAGE : code;
    } else if (code == TOOL_OK) {
        tuning_warn(*ret_engine);
        cache_warn(*ret_engine);
    }
    pen_env_free(env);
    return code;
}

void tool_profile_json(struct cJSON *object, struct pen_session *session)
{
    size_t count = 0;
    const struct pen_profile_row *row = pen_session_profile_rows(session, &count);
    cJSON *nodes = count > 0 ? cJSON_AddArrayToObject(object, "nodes") : NULL;
    for (size_t i = 0; i < count; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "backend", row[i].backend);
        cJSON_AddStringToObject(o, "op", row[i].op);
        cJSON_AddStringToObject(o, "node", row[i].node);
        cJSON_AddNumberToObject(o, "us", (double)row[i].total_ns / 1000.0 / (double)row[i].runs);
        cJSON_AddNumberToObject(o, "macs", (double)row[i].macs);
        cJSON_AddItemToArray(nodes, o);
    }
}

void tool_profile_print(struct pen_session *session)
{
    size_t count = 0;
    const struct pen_profile_row *row = pen_session_profile_rows(session, &count);
    for (size_t i = 0; i < count; i++) {
        printf("  %-10s %-24s %-32s %12.3f us\n", row[i].backend, row[i].op, row[i].node,
               (double)row[i].total_ns / 1000.0 / (double)row[i].runs);
    }
}

uint64_t tool_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t tool_now_us(void)
{
    return tool_now_ns() / 1000u;
}

const char *tool_time_text(double ms, char *text, size_t bytes)
{
    static const struct {
        const char *unit;
        double from, per_ms; /* the unit is used from so many ms on */
    } units[] = {{"s", 10000.0, 0.001}, {"ms", 1.0, 1.0}, {"us", 0.001, 1000.0}, {"ns", 0.0, 1000000.0}};
    size_t i = 0;
    while (ms < units[i].from) {
        i++;
    }
    double value = ms * units[i].per_ms;
    int digits = value >= 100.0 || i == 3 ? 0 : value >= 10.0 ? 1 : 2;
    snprintf(text, bytes, "%.*f %s", digits, value, units[i].unit);
    return text;
}

/* Of this program: getrusage would count what its parent held when it forked. */
/* A line of /proc/self/status in bytes: "VmRSS:". */
static uint64_t status_bytes(const char *name)
{
    char line[128];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && kib == 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoul(line + strlen(name), NULL, 10);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return (uint64_t)kib * 1024u;
}

uint64_t tool_peak_rss_bytes(void)
{
    return status_bytes("VmHWM:");
}

uint64_t tool_rss_bytes(void)
{
    return status_bytes("VmRSS:");
}

int tool_shape_parse(const char *text, int64_t *dims, uint32_t *ret_rank)
{
    uint32_t rank = 0;
    while (*text != '\0') {
        char *end = NULL;
        long long dim = strtoll(text, &end, 10);
        if (end == text || dim < 0 || rank == PEN_MAX_RANK || (*end != 'x' && *end != '\0') ||
            (*end == 'x' && end[1] == '\0')) {
            return -1;
        }
        dims[rank++] = dim;
        text = *end == 'x' ? end + 1 : end;
    }
    *ret_rank = rank;
    return 0;
}

static const char *shape_for(const struct setting_list *shapes, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < shapes->count; i++) {
        if (strncmp(shapes->items[i], name, length) == 0 && shapes->items[i][length] == '=') {
            return shapes->items[i] + length + 1;
        }
    }
    return NULL;
}

static enum pen_status shapes_known(const struct pen_tensor *sigs, size_t count, const struct setting_list *shapes,
                                    struct pen_error *reterr)
{
    for (size_t i = 0; i < shapes->count; i++) {
        const char *equals = strchr(shapes->items[i], '=');
        bool found = false;
        for (size_t k = 0; equals != NULL && !found && k < count; k++) {
            found = strlen(sigs[k].name) == (size_t)(equals - shapes->items[i]) &&
                    strncmp(sigs[k].name, shapes->items[i], strlen(sigs[k].name)) == 0;
        }
        if (!found) {
            return pen_error_set(
                reterr, PEN_ERR_NOT_FOUND,
                "--shape %s names no input of the model; write name=1x3x224x224 with one of its input names",
                shapes->items[i]);
        }
    }
    return PEN_OK;
}

enum pen_status tool_inputs(const struct pen_model *model, const struct setting_list *shapes, int64_t batch,
                            struct pen_tensor *ret_inputs, size_t room, size_t *ret_count, struct pen_error *reterr)
{
    size_t count = 0;
    const struct pen_tensor *sigs = pen_model_inputs(model, &count);
    if (count > room) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model has %zu %s, this tool takes %zu", count,
                             words_plural(count, "input", "inputs"), room);
    }
    enum pen_status status = shapes_known(sigs, count, shapes, reterr);
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        struct pen_tensor *t = &ret_inputs[i];
        *t = sigs[i];
        const char *given = shape_for(shapes, t->name);
        if (given != NULL && tool_shape_parse(given, t->dims, &t->rank) != 0) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "--shape %s=%s is no shape; write it as 1x3x224x224", t->name,
                                 given);
        }
        for (uint32_t d = 0; given == NULL && d < t->rank; d++) {
            if (t->dims[d] < 0) {
                t->dims[d] = d == 0 && batch > 0 ? batch : 1;
            } else if (d == 0 && batch > 1 && t->dims[d] != batch) {
                return pen_error_set(reterr, PEN_ERR_SHAPE,
                                     "input '%s' has a fixed first dimension of %" PRId64 ": --batch %" PRId64
                                     " does not apply",
                                     t->name, t->dims[d], batch);
            }
        }
        uint64_t elements = 0;
        status = pen_tensor_elements(t, &elements);
        if (status == PEN_OK && t->dtype != PEN_DTYPE_STRING && pen_dtype_bytes(t->dtype, elements, &t->bytes) != 0) {
            status = pen_error_set(reterr, PEN_ERR_TOO_LARGE, "input '%s' is too large", t->name);
        }
    }
    *ret_count = count;
    return status;
}
