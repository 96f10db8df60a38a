#include "backend/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "auto|direct" and the word's number in it; false where it is none of them. */
static bool choice_find(const char *choices, const char *word, size_t bytes, uint32_t *ret_number)
{
    *ret_number = 0;
    for (const char *at = choices;; (*ret_number)++) {
        const size_t length = strcspn(at, "|");
        if (length == bytes && memcmp(at, word, bytes) == 0) {
            return true;
        }
        if (at[length] == '\0') {
            return false;
        }
        at += length + 1;
    }
}

static bool digits_read(const struct pen_backend_option *o, const char *text, size_t bytes, uint32_t *ret_number)
{
    char digits[12] = "", *end = NULL;
    if (bytes == 0 || bytes >= sizeof digits || strspn(text, "0123456789") < bytes) {
        return false;
    }
    memcpy(digits, text, bytes);
    const unsigned long long number = strtoull(digits, &end, 10);
    *ret_number = (uint32_t)number;
    return number >= o->least && number <= o->most;
}

static bool value_read(const struct pen_backend_option *o, const char *text, size_t bytes, uint32_t *ret_number)
{
    return o->choices != NULL ? choice_find(o->choices, text, bytes, ret_number)
                              : digits_read(o, text, bytes, ret_number);
}

/* "BACKEND.NAME=VALUE", one of several. */
struct entry {
    const char *name, *value;
    size_t name_bytes, value_bytes;
};

/* The one that begins at `at`; where the next one begins. */
static const char *entry_next(const char *at, struct entry *ret_entry)
{
    const size_t all = strcspn(at, ","), name = strcspn(at, "=,");
    const size_t sign = name < all ? 1 : 0;
    *ret_entry = (struct entry){at, at + name + sign, name, all - name - sign};
    return at + all + (at[all] == ',' ? 1 : 0);
}

static bool entry_is(const struct entry *e, const struct backend_ops *ops, const char *name)
{
    const size_t front = strlen(ops->name), back = strlen(name);
    return e->name_bytes == front + 1 + back && memcmp(e->name, ops->name, front) == 0 && e->name[front] == '.' &&
           memcmp(e->name + front + 1, name, back) == 0;
}

static const struct pen_backend_option *option_of(const struct entry *e)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    for (size_t i = 0; i < count; i++) {
        for (const struct pen_backend_option *o = table[i]->options; o != NULL && o->name != NULL; o++) {
            if (entry_is(e, table[i], o->name)) {
                return o;
            }
        }
    }
    return NULL;
}

static void names_list(char *text, size_t bytes)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    snprintf(text, bytes, "this build has none");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        for (const struct pen_backend_option *o = table[i]->options; o != NULL && o->name != NULL && used < bytes;
             o++) {
            const int more =
                snprintf(text + used, bytes - used, "%s%s.%s", used > 0 ? ", " : "there is: ", table[i]->name, o->name);
            used += more > 0 ? (size_t)more : 0;
        }
    }
}

static enum pen_status entry_check(const struct entry *e, struct pen_error *reterr)
{
    char names[320];
    uint32_t ignored = 0;
    const struct pen_backend_option *o = option_of(e);
    const int name = (int)(e->name_bytes < 64 ? e->name_bytes : 64),
              value = (int)(e->value_bytes < 64 ? e->value_bytes : 64);
    if (o == NULL) {
        names_list(names, sizeof names);
        return pen_error_set(reterr, PEN_ERR_INVALID, "backend_options: no backend has an option '%.*s'; %s", name,
                             e->name, names);
    }
    if (value_read(o, e->value, e->value_bytes, &ignored)) {
        return PEN_OK;
    }
    if (o->choices != NULL) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "backend_options: %.*s is one of %s, not '%.*s'", name, e->name,
                             o->choices, value, e->value);
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "backend_options: %.*s is a number from %u to %u, not '%.*s'", name,
                         e->name, o->least, o->most, value, e->value);
}

enum pen_status backend_options_check(const char *text, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    struct entry e;
    for (const char *at = text != NULL ? text : ""; *at != '\0' && status == PEN_OK;) {
        at = entry_next(at, &e);
        status = entry_check(&e, reterr);
    }
    return status;
}

uint32_t backend_option(const struct backend_ops *ops, const struct backend_config *config, const char *name)
{
    uint32_t number = 0, given = 0;
    struct entry e;
    for (const struct pen_backend_option *o = ops->options; o != NULL && o->name != NULL; o++) {
        if (strcmp(o->name, name) != 0) {
            continue;
        }
        (void)value_read(o, o->value, strlen(o->value), &number);
        for (const char *at = config->options != NULL ? config->options : ""; *at != '\0';) {
            at = entry_next(at, &e);
            number = entry_is(&e, ops, name) && value_read(o, e.value, e.value_bytes, &given) ? given : number;
        }
    }
    return number;
}
