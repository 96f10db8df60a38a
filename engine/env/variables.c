/* variables.c - flags from the variables of the process. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "env/env.h"
#include "env/rows.h"
#include "words.h"

#define PREFIX       "PENSTOCK_ENGINE_"
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define NAME_BYTES   64
#define SHORT_BYTES  6 /* shorter names are near to others by chance */

extern char **environ;

/* "VK_CONV" -> "vk_conv"; false where it is too long to be a flag's. */
static bool name_lower(const char *from, size_t bytes, char name[NAME_BYTES])
{
    if (bytes >= NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        name[i] = (char)tolower((unsigned char)from[i]);
    }
    name[bytes] = '\0';
    return true;
}

/* Other programs have variables of this prefix, too: only what looks like a slip is refused. */
static enum pen_status near_check(const char *variable, const char *name, struct pen_error *reterr)
{
    struct nearest nearest;
    char upper[NAME_BYTES];
    if (strlen(name) < SHORT_BYTES) {
        return PEN_OK; /* PENSTOCK_ENGINE_MODEL is another program's, and near to "mode" by chance */
    }
    nearest_begin_strict(&nearest, name, strlen(name), 2);
    for (size_t row = 0; row < ROWS_COUNT; row++) {
        nearest_offer(&nearest, rows[row].name);
    }
    if (nearest.found == NULL) {
        return PEN_OK;
    }
    size_t bytes = strlen(nearest.found);
    for (size_t i = 0; i <= bytes; i++) {
        upper[i] = (char)toupper((unsigned char)nearest.found[i]);
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "no flag has the variable %s; did you mean " PREFIX "%s?", variable,
                         upper);
}

static enum pen_status variable_read(struct pen_env *env, const char *from, const char *equals,
                                     struct pen_error *reterr)
{
    char name[NAME_BYTES], variable[NAME_BYTES + PREFIX_BYTES];
    if (!name_lower(from + PREFIX_BYTES, (size_t)(equals - from) - PREFIX_BYTES, name)) {
        return PEN_OK;
    }
    snprintf(variable, sizeof variable, "%.*s", (int)(equals - from), from);
    return pen_flag_find(name) != NULL ? pen_env_set(env, name, equals + 1, PEN_ORIGIN_VARIABLE, variable, reterr)
                                       : near_check(variable, name, reterr);
}

enum pen_status pen_env_read_variables(struct pen_env *env, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (char **at = environ; status == PEN_OK && at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (equals != NULL && strncmp(*at, PREFIX, PREFIX_BYTES) == 0) {
            status = variable_read(env, *at, equals, reterr);
        }
    }
    return status;
}
