/* settings.c - gathers a program's settings from command line, environment, config file and defaults. */
#include "settings.h"
#include "settings_internal.h"

#include "version.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

struct text_node {
    struct text_node *next;
    char text[];
};

/* What was given for one setting. Texts belong to the store. */
struct given_node {
    struct given_node *next;
    const struct setting *setting;
    struct setting_given given;
};

struct settings_store {
    struct text_node *texts;
    struct given_node *givens;
    enum setting_origin from; /* of the values that come now */
};

struct settings_store *settings_store_new(void)
{
    return calloc(1, sizeof(struct settings_store));
}

const char *settings_store_text(struct settings_store *store, const char *text, size_t bytes)
{
    struct text_node *node = malloc(sizeof *node + bytes + 1);
    if (!node)
        return NULL;
    memcpy(node->text, text, bytes);
    node->text[bytes] = '\0';
    node->next = store->texts;
    store->texts = node;
    return node->text;
}

void settings_free(struct settings_store *store)
{
    if (!store)
        return;
    for (struct text_node *node = store->texts, *next; node; node = next) {
        next = node->next;
        free(node);
    }
    for (struct given_node *node = store->givens, *next; node; node = next) {
        next = node->next;
        free(node);
    }
    free(store);
}

static struct given_node *given_find(const struct settings_store *store, const char *name)
{
    struct given_node *node = store ? store->givens : NULL;
    while (node && strcmp(node->setting->name, name) != 0)
        node = node->next;
    return node;
}

bool settings_given(const struct settings_store *store, const char *name, struct setting_given *ret_given)
{
    const struct given_node *node = given_find(store, name);
    if (node)
        *ret_given = node->given;
    return node != NULL;
}

void settings_each(const struct settings_store *store,
                   bool (*say)(void *context, const struct setting *setting, const struct setting_given *given),
                   void *context)
{
    for (const struct given_node *node = store ? store->givens : NULL;
         node && say(context, node->setting, &node->given); node = node->next) {
    }
}

void settings_store_from(struct settings_store *store, enum setting_origin origin)
{
    store->from = origin;
}

/* "a,b" of a list that goes on; NULL without memory. */
static const char *list_text(struct settings_store *store, const char *before, const char *more)
{
    size_t first = strlen(before), second = strlen(more);
    char *joined = malloc(first + second + 2);
    if (!joined)
        return NULL;
    memcpy(joined, before, first);
    joined[first] = ',';
    memcpy(joined + first + 1, more, second + 1);
    const char *kept = settings_store_text(store, joined, first + second + 1);
    free(joined);
    return kept;
}

bool settings_store_given(struct settings_store *store, const struct setting *setting, const char *value,
                          const char *where)
{
    struct given_node *node = given_find(store, setting->name);
    if (store->from == SETTING_BY_DEFAULT)
        return true;
    bool goes_on = node && setting->type == SETTING_LIST && node->given.origin == store->from;
    const char *text =
        goes_on ? list_text(store, node->given.value, value) : settings_store_text(store, value, strlen(value));
    const char *place = text ? settings_store_text(store, where, strlen(where)) : NULL;
    if (!place)
        return false;
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node)
            return false;
        node->next = store->givens;
        store->givens = node;
    }
    node->setting = setting;
    node->given = (struct setting_given){.value = text, .where = place, .origin = store->from};
    return true;
}

const struct setting *setting_find(const struct setting *table, const char *name, size_t bytes)
{
    for (; table->name; table++)
        if (strlen(table->name) == bytes && memcmp(table->name, name, bytes) == 0) /* the name may hold a zero byte */
            return table;
    return NULL;
}

const char *setting_suggest(const struct setting *table, const char *name, size_t bytes)
{
    struct nearest nearest;
    nearest_begin(&nearest, name, bytes);
    for (; table->name; table++)
        nearest_offer_begun(&nearest, table->name);
    nearest_offer_begun(&nearest, "config");
    nearest_offer_begun(&nearest, "help");
    nearest_offer_begun(&nearest, "version");
    return nearest.found;
}

/* A flag as it stands on the command line. */
struct argument {
    const char *name; /* behind "--" */
    size_t name_bytes;
    const char *value;             /* "=value", or NULL */
    const struct setting *setting; /* NULL: unknown */
    bool negated;                  /* --no-x */
};

static struct argument argument_parse(const struct setting *table, const char *text)
{
    struct argument arg = {.name = text + 2};
    const char *equals = strchr(arg.name, '=');
    arg.name_bytes = equals ? (size_t)(equals - arg.name) : strlen(arg.name);
    arg.value = equals ? equals + 1 : NULL;
    arg.setting = setting_find(table, arg.name, arg.name_bytes);
    if (!arg.setting && !arg.value && strncmp(arg.name, "no-", 3) == 0) {
        const struct setting *positive = setting_find(table, arg.name + 3, arg.name_bytes - 3);
        if (positive && positive->type == SETTING_FLAG) {
            arg.setting = positive;
            arg.negated = true;
        }
    }
    return arg;
}

static bool argument_is(const struct argument *arg, const char *name)
{
    return strlen(name) == arg->name_bytes && strncmp(arg->name, name, arg->name_bytes) == 0;
}

static bool is_flag(const char *text)
{
    return text[0] == '-' && text[1] != '\0';
}

struct loader {
    const struct settings_program *program;
    int argc;
    char **argv;
    void *options;
    struct settings_store *store;
    bool given[SETTINGS_TABLE_MAX]; /* rows already seen on the command line */
    const char **positional;
    size_t max_positional, positional_count;
    struct pen_error *reterr;
};

static enum pen_status defaults_apply(struct loader *loader)
{
    const struct setting *table = loader->program->table;
    for (const struct setting *setting = table; setting->name; setting++) {
        if ((size_t)(setting - table) >= SETTINGS_TABLE_MAX)
            return pen_error_set(loader->reterr, PEN_ERR_INTERNAL, "%s has more than %u settings",
                                 loader->program->name, SETTINGS_TABLE_MAX);
        setting_clear(setting, loader->options);
        if (!setting->def || !*setting->def)
            continue;
        enum pen_status status = setting_apply(setting, setting->def, strlen(setting->def), true, setting->name,
                                               loader->options, loader->store, loader->reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status environment_apply(struct loader *loader)
{
    for (const struct setting *setting = loader->program->table; setting->name; setting++) {
        char name[SETTINGS_ENV_BYTES];
        const char *value = setting_env_value(loader->program, setting->name, name);
        bool may_be_empty = setting->type == SETTING_TEXT || setting->type == SETTING_LIST;
        if (!value || (!*value && !may_be_empty))
            continue;
        if (setting->type == SETTING_LIST)
            setting_clear(setting, loader->options);
        enum pen_status status =
            setting_apply(setting, value, strlen(value), true, name, loader->options, loader->store, loader->reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status unknown_option(const struct loader *loader, const struct argument *arg)
{
    const char *name = loader->program->name;
    const char *near = setting_suggest(loader->program->table, arg->name, arg->name_bytes);
    const char *no = "";
    int shown = arg->name_bytes > 100 ? 100 : (int)arg->name_bytes;
    if (!near && strncmp(arg->name, "no-", 3) == 0) {
        near = setting_suggest(loader->program->table, arg->name + 3, arg->name_bytes - 3);
        no = "no-";
    }
    if (near)
        return pen_error_set(loader->reterr, PEN_ERR_INVALID, "unknown option '--%.*s'; did you mean '--%s%s'?", shown,
                             arg->name, no, near);
    return pen_error_set(loader->reterr, PEN_ERR_INVALID, "unknown option '--%.*s'; '%s --help' lists all", shown,
                         arg->name, name);
}

/* The value of the option at argv[*index]: behind '=' or the next argument (then *index moves on). NULL when it is missing. */
static const char *argument_value(const struct loader *loader, const struct argument *arg, int *index)
{
    if (arg->value)
        return arg->value;
    if (*index + 1 >= loader->argc || strncmp(loader->argv[*index + 1], "--", 2) == 0)
        return NULL;
    (*index)++;
    return loader->argv[*index];
}

static enum pen_status option_apply(struct loader *loader, int *index)
{
    char where[120];
    struct argument arg = argument_parse(loader->program->table, loader->argv[*index]);
    snprintf(where, sizeof where, "--%.*s", arg.name_bytes > 100 ? 100 : (int)arg.name_bytes, arg.name);
    bool is_config = !arg.setting && argument_is(&arg, "config");
    if (!arg.setting && !is_config)
        return unknown_option(loader, &arg);
    if (arg.setting && arg.setting->type == SETTING_FLAG && !arg.value)
        arg.value = arg.negated ? "false" : "true";
    const char *value = argument_value(loader, &arg, index);
    if (!value)
        return pen_error_set(loader->reterr, PEN_ERR_INVALID, "%s needs a value; write %s=VALUE", where, where);
    if (is_config)
        return PEN_OK; /* read before */
    bool *given = &loader->given[arg.setting - loader->program->table];
    if (!*given && arg.setting->type == SETTING_LIST)
        setting_clear(arg.setting, loader->options); /* a list given here replaces that of file or environment */
    *given = true;
    return setting_apply(arg.setting, value, strlen(value), false, where, loader->options, loader->store,
                         loader->reterr);
}

static enum pen_status positional_add(struct loader *loader, const char *text)
{
    if (loader->max_positional == 0)
        return pen_error_set(loader->reterr, PEN_ERR_INVALID, "unexpected argument '%.200s'; usage: %s", text,
                             loader->program->usage);
    if (loader->positional_count == loader->max_positional)
        return pen_error_set(loader->reterr, PEN_ERR_INVALID, "one argument too many: '%.200s'; usage: %s", text,
                             loader->program->usage);
    loader->positional[loader->positional_count++] = text;
    return PEN_OK;
}

static enum pen_status arguments_apply(struct loader *loader)
{
    enum pen_status status = PEN_OK;
    bool flags_over = false;
    for (int i = 1; i < loader->argc && status == PEN_OK; i++) {
        const char *text = loader->argv[i];
        if (flags_over || !is_flag(text))
            status = positional_add(loader, text);
        else if (strcmp(text, "--") == 0)
            flags_over = true;
        else if (text[1] != '-')
            status = pen_error_set(loader->reterr, PEN_ERR_INVALID,
                                   "unknown option '%.100s': options begin with two dashes; '%s --help' lists all",
                                   text, loader->program->name);
        else
            status = option_apply(loader, &i);
    }
    return status;
}

bool settings_version_builtin(const struct setting *table)
{
    return setting_find(table, "version", 7) == NULL;
}

/* The builtins win wherever they stand, so that --help works beside a mistake. */
static bool answered_at_once(const struct settings_program *program, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            settings_help(program, stdout);
        else if ((strcmp(argv[i], "--version") == 0 && settings_version_builtin(program->table)) ||
                 strcmp(argv[i], "-v") == 0 || strcmp(argv[i], "-V") == 0)
            puts(version_build());
        else if (strcmp(argv[i], "--settings-markdown") == 0)
            settings_table_markdown(program, stdout);
        else if (strcmp(argv[i], "--settings-man") == 0)
            settings_man(program, stdout);
        else
            continue;
        return true;
    }
    return false;
}

/* --config (the last one counts), else its variable, else NULL. */
static const char *config_path(const struct loader *loader)
{
    char name[SETTINGS_ENV_BYTES];
    const char *path = setting_env_value(loader->program, "config", name);
    for (int i = 1; i < loader->argc && strcmp(loader->argv[i], "--") != 0; i++) {
        if (strncmp(loader->argv[i], "--config=", 9) == 0)
            path = loader->argv[i] + 9;
        else if (strcmp(loader->argv[i], "--config") == 0 && i + 1 < loader->argc)
            path = loader->argv[i + 1];
    }
    return path && *path ? path : NULL;
}

static enum pen_status sources_apply(struct loader *loader)
{
    settings_env_check(loader->program);
    const char *path = config_path(loader);
    enum pen_status status = defaults_apply(loader);
    settings_store_from(loader->store, SETTING_BY_FILE);
    if (status == PEN_OK && path)
        status = settings_apply_file(loader->program, path, loader->options, loader->store, loader->reterr);
    settings_store_from(loader->store, SETTING_BY_VARIABLE);
    if (status == PEN_OK)
        status = environment_apply(loader);
    settings_store_from(loader->store, SETTING_BY_OPTION);
    if (status == PEN_OK)
        status = arguments_apply(loader);
    return status;
}

enum pen_status settings_load(const struct settings_call *call, void *options, size_t *ret_positional,
                              enum settings_outcome *ret_outcome, struct settings_store **ret_store,
                              struct pen_error *reterr)
{
    if (answered_at_once(call->program, call->argc, call->argv)) {
        *ret_store = NULL;
        *ret_outcome = SETTINGS_EXIT;
        return PEN_OK;
    }
    struct loader loader = {.program = call->program,
                            .argc = call->argc,
                            .argv = call->argv,
                            .options = options,
                            .store = settings_store_new(),
                            .positional = call->positional,
                            .max_positional = call->max_positional,
                            .reterr = reterr};
    if (!loader.store)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "out of memory while reading the settings");
    enum pen_status status = sources_apply(&loader);
    if (status != PEN_OK) {
        settings_free(loader.store);
        return status;
    }
    if (ret_positional)
        *ret_positional = loader.positional_count;
    *ret_outcome = SETTINGS_RUN;
    *ret_store = loader.store;
    return PEN_OK;
}
