/*
 * settings_env.c - names of environment variables: which one a setting has, what it was called before, and those that
 * were mistyped.
 *
 * Most settings are read from PENSTOCK_<NAME>. Where two programs mean different things by one name, all but one have a
 * name of their own (PENSTOCK_WORKER_BROKER), so that one shell can hold the settings of all. An environment that has
 * none of a program's own names was written before they existed: there the old name counts, with a warning.
 */
#include "settings_internal.h"

#include <stdlib.h>
#include <string.h>

#include "words.h"

extern char **environ;

#define WARNINGS_MAX 5u  /* per start */
#define NEAR_EDITS   2u  /* edits between a mistyped variable and the known one; */
#define SHORT_BYTES  6u  /* for a name with fewer letters behind the prefix: one edit */
#define SHOWN_BYTES  80u /* how much of an unknown name is printed */
#define PREFIX_BYTES (sizeof SETTINGS_ENV_PREFIX - 1)

bool settings_old_never(const char *value)
{
    (void)value;
    return false;
}

static const struct setting_variable *variable_find(const struct settings_program *program, const char *setting)
{
    for (const struct setting_variable *v = program->variables; v && v->setting; v++)
        if (strcmp(v->setting, setting) == 0)
            return v;
    return NULL;
}

/* "PENSTOCK_QUEUE_LIMIT" for "queue-limit". */
static const char *usual_name(const char *setting, char text[SETTINGS_ENV_BYTES])
{
    size_t used = PREFIX_BYTES;
    memcpy(text, SETTINGS_ENV_PREFIX, used);
    for (; *setting && used + 1 < SETTINGS_ENV_BYTES; setting++)
        text[used++] = *setting == '-'                      ? '_'
                       : *setting >= 'a' && *setting <= 'z' ? (char)(*setting - 'a' + 'A')
                                                            : *setting;
    text[used] = '\0';
    return text;
}

const char *setting_env_name(const struct settings_program *program, const char *setting, char text[SETTINGS_ENV_BYTES])
{
    const struct setting_variable *own = variable_find(program, setting);
    if (own)
        snprintf(text, SETTINGS_ENV_BYTES, "%s", own->name);
    return own ? text : usual_name(setting, text);
}

/* True when the environment has one of the program's own names. */
static bool has_own(const struct settings_program *program)
{
    for (const struct setting_variable *v = program->variables; v && v->setting; v++)
        if (*v->name && getenv(v->name))
            return true;
    return false;
}

const char *setting_env_value(const struct settings_program *program, const char *setting,
                              char ret_name[SETTINGS_ENV_BYTES])
{
    char old[SETTINGS_ENV_BYTES];
    const struct setting_variable *own = variable_find(program, setting);
    const char *value = *setting_env_name(program, setting, ret_name) ? getenv(ret_name) : NULL;
    if (value || !own || !*own->name || has_own(program))
        return value;
    value = getenv(usual_name(setting, old));
    if (!value || !*value || (own->old_is_meant && !own->old_is_meant(value)))
        return NULL;
    fprintf(stderr, "%s: %s is read as %s; write that, because other programs read %s in another sense\n",
            program->name, old, own->name, old);
    memcpy(ret_name, old, sizeof old);
    return value;
}

static bool is_known(const char *name, size_t bytes)
{
    for (size_t i = 0; i < settings_names_count; i++)
        if (strlen(settings_names[i]) == bytes && memcmp(settings_names[i], name, bytes) == 0)
            return true;
    return false;
}

/* True: a warning was printed. */
static bool warn_mistyped(const struct settings_program *program, const char *name, size_t bytes)
{
    char names[SETTINGS_TABLE_MAX][SETTINGS_ENV_BYTES];
    struct nearest nearest;
    size_t count = 0;
    nearest_begin_strict(&nearest, name, bytes, bytes < SHORT_BYTES ? 1 : NEAR_EDITS);
    for (const struct setting *s = program->table; s->name && count < SETTINGS_TABLE_MAX; s++, count++)
        if (strlen(setting_env_name(program, s->name, names[count])) > PREFIX_BYTES)
            nearest_offer(&nearest, names[count] + PREFIX_BYTES);
    if (!nearest.found)
        return false;
    fprintf(stderr, "%s: no program reads the variable %s%.*s; did you mean %s%s?\n", program->name,
            SETTINGS_ENV_PREFIX, bytes > SHOWN_BYTES ? (int)SHOWN_BYTES : (int)bytes, name, SETTINGS_ENV_PREFIX,
            nearest.found);
    return true;
}

void settings_env_check(const struct settings_program *program)
{
    unsigned warnings = 0;
    for (char **at = environ; at && *at && warnings < WARNINGS_MAX; at++) {
        const char *equals = strchr(*at, '=');
        if (!equals || strncmp(*at, SETTINGS_ENV_PREFIX, PREFIX_BYTES) != 0)
            continue;
        const char *name = *at + PREFIX_BYTES;
        size_t bytes = (size_t)(equals - name);
        if (!is_known(name, bytes))
            warnings += warn_mistyped(program, name, bytes);
    }
}
