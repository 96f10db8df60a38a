#include "env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/rows.h"
#include "env/rules.h"
#include "words.h"

#define WHERE_BYTES  120
#define NAME_BYTES   48
#define FACT_BYTES   320
#define DEVICE_ITEMS (ROW_LIST_MAX)

struct state {
    char *text;   /* owned: as it was set */
    char *chosen; /* owned: what the engine chose where that left it open, or NULL */
    enum pen_origin origin;
    char where[WHERE_BYTES];
};

struct fact {
    char name[NAME_BYTES], value[FACT_BYTES];
};

struct pen_env {
    struct pen_engine_options options; /* texts lie in states */
    struct state states[ROWS_COUNT];
    char *devices; /* the list of vk_device, cut at its commas */
    const char *device_items[DEVICE_ITEMS];
    struct fact facts[ENV_FACTS_MAX];
    size_t fact_count;
    struct pen_flag flags[ROWS_COUNT + ENV_FACTS_MAX]; /* views of the above, for those who look */
    bool frozen;
};

const char *pen_origin_name(enum pen_origin origin)
{
    static const char *const names[PEN_ORIGIN_COUNT] = {[PEN_ORIGIN_DEFAULT] = "default",
                                                        [PEN_ORIGIN_DETECTED] = "detected",
                                                        [PEN_ORIGIN_FILE] = "file",
                                                        [PEN_ORIGIN_VARIABLE] = "variable",
                                                        [PEN_ORIGIN_FLAG] = "flag"};
    return (unsigned)origin < PEN_ORIGIN_COUNT ? names[origin] : "unknown";
}

/* ---- storing ---- */

static enum pen_status no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the engine's flags");
}

/* "0, llvmpipe" -> the device and those beside it. The only list there is. */
static bool devices_write(struct pen_env *env, const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    size_t count = 0;
    if (copy == NULL) {
        return false;
    }
    for (char *one = strtok_r(copy, ",", &rest); one != NULL && count < DEVICE_ITEMS;
         one = strtok_r(NULL, ",", &rest)) {
        one += strspn(one, " ");
        env->device_items[count++] = one;
    }
    free(env->devices);
    env->devices = copy;
    env->options.vulkan.device = count > 0 ? env->device_items[0] : NULL;
    env->options.vulkan.beside = env->device_items + 1;
    env->options.vulkan.beside_count = count > 1 ? count - 1 : 0;
    return true;
}

/* Keeps a value in both forms. False without memory: all stays as it was. */
static bool value_store(struct pen_env *env, size_t row, const struct row_value *value, enum pen_origin origin,
                        const char *where)
{
    struct state *s = &env->states[row];
    char *text = strdup(value->text);
    if (text == NULL || (rows[row].type == PEN_FLAG_LIST && !devices_write(env, text))) {
        free(text);
        return false;
    }
    free(s->text);
    free(s->chosen);
    s->text = text;
    s->chosen = NULL;
    s->origin = origin;
    snprintf(s->where, sizeof s->where, "%s", where);
    struct row_value kept = {.number = value->number, .text = text};
    row_write(row, &kept, &env->options);
    env->flags[row] = (struct pen_flag){rows[row].name, text, origin, s->where, rows[row].meaning};
    return true;
}

static bool text_store(struct pen_env *env, size_t row, const char *text, enum pen_origin origin, const char *where)
{
    struct row_value value;
    return row_parse(row, text, where, &value, NULL) == PEN_OK && value_store(env, row, &value, origin, where);
}

/* ---- new, copy, free ---- */

void env_defaults(struct pen_engine_options *ret_options)
{
    *ret_options = (struct pen_engine_options){.backend = NULL};
    for (size_t row = 0; row < ROWS_COUNT; row++) {
        struct row_value value;
        if (row_parse(row, rows[row].def, "", &value, NULL) == PEN_OK) {
            value.text = rows[row].def;
            row_write(row, &value, ret_options);
        }
    }
}

enum pen_status pen_env_new(struct pen_env **ret_env, struct pen_error *reterr)
{
    struct pen_env *env = calloc(1, sizeof *env);
    bool good = env != NULL;
    for (size_t row = 0; good && row < ROWS_COUNT; row++) {
        good = text_store(env, row, rows[row].def, PEN_ORIGIN_DEFAULT, "");
    }
    if (!good) {
        pen_env_free(env);
        return no_memory(reterr);
    }
    env_cpu_facts(env);
    *ret_env = env;
    return PEN_OK;
}

void pen_env_free(struct pen_env *env)
{
    if (env == NULL) {
        return;
    }
    for (size_t row = 0; row < ROWS_COUNT; row++) {
        free(env->states[row].text);
        free(env->states[row].chosen);
    }
    free(env->devices);
    free(env);
}

/* "0,llvmpipe": the devices of options as one text, or NULL without memory. */
static char *devices_join(const struct pen_vulkan_options *vulkan)
{
    const char *first = vulkan->device != NULL && vulkan->device[0] != '\0' ? vulkan->device : "auto";
    size_t bytes = strlen(first) + 1;
    for (size_t i = 0; i < vulkan->beside_count; i++) {
        bytes += strlen(vulkan->beside[i]) + 1;
    }
    char *text = malloc(bytes), *end = text != NULL ? stpcpy(text, first) : NULL;
    for (size_t i = 0; text != NULL && i < vulkan->beside_count; i++) {
        *end++ = ',';
        end = stpcpy(end, vulkan->beside[i]);
    }
    return text;
}

static enum pen_status row_take(struct pen_env *env, size_t row, const char *text, struct pen_error *reterr)
{
    struct row_value value;
    if (strcmp(text, env->states[row].text) == 0) {
        return PEN_OK;
    }
    enum pen_status status = row_parse(row, text, "", &value, reterr);
    if (status == PEN_OK && !value_store(env, row, &value, PEN_ORIGIN_FLAG, "")) {
        status = no_memory(reterr);
    }
    return status;
}

enum pen_status env_from_options(const struct pen_engine_options *options, struct pen_env **ret_env,
                                 struct pen_error *reterr)
{
    struct pen_env *env = NULL;
    enum pen_status status = pen_env_new(&env, reterr);
    for (size_t row = 0; status == PEN_OK && row < ROWS_COUNT; row++) {
        struct row_value value;
        char *devices = rows[row].type == PEN_FLAG_LIST ? devices_join(&options->vulkan) : NULL;
        if (rows[row].type == PEN_FLAG_LIST && devices == NULL) {
            status = no_memory(reterr);
        } else if (!row_read(row, options, &value)) {
            status = pen_error_set(reterr, PEN_ERR_INVALID, "flag %s: choice %u of %s does not exist", rows[row].name,
                                   (unsigned)value.number, rows[row].choices);
        } else if (value.number == 0 && rows[row].least > 0) {
            status = PEN_OK; /* a field that was left zeroed: the default */
        } else {
            status = row_take(env, row, devices != NULL ? devices : value.text, reterr);
        }
        free(devices);
    }
    if (status != PEN_OK) {
        pen_env_free(env);
        return status;
    }
    *ret_env = env;
    return PEN_OK;
}

enum pen_status env_copy(const struct pen_env *env, struct pen_env **ret_env, struct pen_error *reterr)
{
    struct pen_env *copy = NULL;
    enum pen_status status = pen_env_new(&copy, reterr);
    for (size_t row = 0; status == PEN_OK && row < ROWS_COUNT; row++) {
        const struct state *s = &env->states[row];
        status = text_store(copy, row, s->text, s->origin, s->where) ? PEN_OK : no_memory(reterr);
    }
    if (status != PEN_OK) {
        pen_env_free(copy);
        return status;
    }
    copy->frozen = env->frozen;
    *ret_env = copy;
    return PEN_OK;
}

const struct pen_engine_options *pen_env_options(const struct pen_env *env)
{
    return &env->options;
}

void env_freeze(struct pen_env *env)
{
    env->frozen = true;
}

/* ---- set ---- */

#define SHOWN 64 /* bytes of an unknown name that a sentence repeats */

static enum pen_status unknown(const struct pen_env *env, const char *name, size_t bytes, const char *where,
                               struct pen_error *reterr)
{
    struct nearest nearest;
    int shown = bytes > SHOWN ? SHOWN : (int)bytes;
    for (size_t i = 0; i < env->fact_count; i++) {
        if (strlen(env->facts[i].name) == bytes && memcmp(env->facts[i].name, name, bytes) == 0) {
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s: %s is found out on this host and cannot be set", where,
                                 env->facts[i].name);
        }
    }
    nearest_begin(&nearest, name, bytes);
    for (size_t row = 0; row < ROWS_COUNT; row++) {
        nearest_offer_begun(&nearest, rows[row].name);
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s: no flag is called '%.*s'; %s%s%s", where, shown, name,
                         nearest.found != NULL ? "did you mean '" : "",
                         nearest.found != NULL ? nearest.found : "`penstock-engine env` lists all",
                         nearest.found != NULL ? "'?" : "");
}

/* Two places of the same strength say different things. */
static bool twice(const struct state *s, const struct row_value *value, enum pen_origin origin, const char *where)
{
    return origin == s->origin && origin > PEN_ORIGIN_DETECTED && strcmp(s->where, where) != 0 &&
           strcmp(s->text, value->text) != 0;
}

static enum pen_status set(struct pen_env *env, const char *name, size_t name_bytes, const char *value,
                           enum pen_origin origin, const char *where, struct pen_error *reterr)
{
    size_t row = row_find(name, name_bytes);
    struct row_value parsed;
    if (row == ROWS_COUNT) {
        return unknown(env, name, name_bytes, where, reterr);
    }
    if (env->frozen) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "flag %s (%s): this engine has loaded a model, and its flags stay as they are from then "
                             "on; set it before, or open another engine",
                             rows[row].name, where);
    }
    enum pen_status status = row_parse(row, value, where, &parsed, reterr);
    if (status == PEN_OK && twice(&env->states[row], &parsed, origin, where)) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "flag %s: %s says %.60s and %s says %.60s; leave one of them away", rows[row].name,
                             env->states[row].where, env->states[row].text, where, value);
    }
    if (status == PEN_OK && origin >= env->states[row].origin && !value_store(env, row, &parsed, origin, where)) {
        status = no_memory(reterr);
    }
    return status;
}

enum pen_status pen_env_set(struct pen_env *env, const char *name, const char *value, enum pen_origin origin,
                            const char *where, struct pen_error *reterr)
{
    return set(env, name, strlen(name), value, origin, where != NULL ? where : "", reterr);
}

enum pen_status pen_env_assign(struct pen_env *env, const char *assignment, enum pen_origin origin, const char *where,
                               struct pen_error *reterr)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%.*s' sets no flag; write it as NAME=VALUE", where, SHOWN,
                             assignment);
    }
    return set(env, assignment, (size_t)(equals - assignment), equals + 1, origin, where, reterr);
}

void env_detected(struct pen_env *env, const char *flag, const char *value)
{
    size_t row = row_find(flag, strlen(flag));
    char *copy = row < ROWS_COUNT && strcmp(env->states[row].text, value) != 0 ? strdup(value) : NULL;
    if (copy != NULL) {
        free(env->states[row].chosen);
        env->states[row].chosen = copy;
        env->flags[row].value = copy;
        env->flags[row].origin = PEN_ORIGIN_DETECTED;
    }
}

/* ---- rules between flags ---- */

static size_t row_named(const char *name)
{
    return row_find(name, strlen(name));
}

/* The value is one of "a|b"; with '!' before, none of them. */
static bool one_of(const char *words, const char *value)
{
    uint64_t number = 0;
    bool inverse = words[0] == '!';
    return row_choice(words + inverse, value, &number) != inverse;
}

void env_imply(struct pen_env *env)
{
    for (size_t i = 0; i < env_implied_count; i++) {
        const struct env_implied *r = &env_implied[i];
        size_t from = row_named(r->flag), to = row_named(r->implied);
        char where[WHERE_BYTES];
        if (strcmp(env->states[from].text, r->value) == 0 && env->states[to].origin == PEN_ORIGIN_DEFAULT) {
            snprintf(where, sizeof where, "%s=%s", r->flag, r->value);
            text_store(env, to, r->implied_value, PEN_ORIGIN_DEFAULT, where);
        }
    }
}

static void state_words(const struct pen_env *env, size_t row, char *text, size_t bytes)
{
    const struct state *s = &env->states[row];
    snprintf(text, bytes, "%s=%.60s (%s%s%s)", rows[row].name, s->text, pen_origin_name(s->origin),
             s->where[0] != '\0' ? " " : "", s->where);
}

enum pen_status pen_env_check(const struct pen_env *env, struct pen_error *reterr)
{
    for (size_t i = 0; i < env_contradiction_count; i++) {
        const struct env_contradiction *c = &env_contradictions[i];
        size_t a = row_named(c->flag), b = row_named(c->other);
        char one[256], two[256];
        if (!one_of(c->values, env->states[a].text) || !one_of(c->other_values, env->states[b].text) ||
            env->states[b].origin <= PEN_ORIGIN_DETECTED) {
            continue;
        }
        state_words(env, a, one, sizeof one);
        state_words(env, b, two, sizeof two);
        return pen_error_set(reterr, PEN_ERR_INVALID, "the flags %s and %s contradict each other: %s", one, two,
                             c->sentence);
    }
    return PEN_OK;
}

/* ---- facts ---- */

void env_fact(struct pen_env *env, const char *name, const char *value)
{
    size_t i = 0;
    while (i < env->fact_count && strcmp(env->facts[i].name, name) != 0) {
        i++;
    }
    if (i == ENV_FACTS_MAX) {
        return;
    }
    env->fact_count = i == env->fact_count ? i + 1 : env->fact_count;
    snprintf(env->facts[i].name, sizeof env->facts[i].name, "%s", name);
    snprintf(env->facts[i].value, sizeof env->facts[i].value, "%s", value);
    env->flags[ROWS_COUNT + i] = (struct pen_flag){env->facts[i].name, env->facts[i].value, PEN_ORIGIN_DETECTED, "",
                                                   env_fact_meaning(env->facts[i].name)};
}

void env_facts_clear(struct pen_env *env)
{
    env->fact_count = 0;
    env_cpu_facts(env);
}

static const struct {
    const char *name, *meaning;
} fact_table[] = {
#define PEN_FACT(name_, meaning_) {name_, meaning_},
#include "env/facts.def"
#undef PEN_FACT
};
#define FACT_TABLE_COUNT (sizeof fact_table / sizeof fact_table[0])

const char *env_fact_name(size_t index)
{
    return index < FACT_TABLE_COUNT ? fact_table[index].name : NULL;
}

const char *env_fact_meaning(const char *name)
{
    for (size_t i = 0; i < FACT_TABLE_COUNT; i++) {
        size_t bytes = strlen(fact_table[i].name);
        bool family = fact_table[i].name[bytes - 1] == '.';
        if (family ? strncmp(fact_table[i].name, name, bytes) == 0 : strcmp(fact_table[i].name, name) == 0) {
            return fact_table[i].meaning;
        }
    }
    return "";
}

/* ---- look ---- */

const char *pen_env_get(const struct pen_env *env, const char *name)
{
    size_t row = row_find(name, strlen(name));
    if (row < ROWS_COUNT) {
        return env->flags[row].value;
    }
    for (size_t i = 0; i < env->fact_count; i++) {
        if (strcmp(env->facts[i].name, name) == 0) {
            return env->facts[i].value;
        }
    }
    return NULL;
}

const struct pen_flag *pen_env_flags(const struct pen_env *env, size_t *ret_count)
{
    *ret_count = ROWS_COUNT + env->fact_count;
    return env->flags;
}
