#include "tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEBUG_JOBS "debug_jobs"

#define FLAG '\x01' /* the first byte of a flag's item */

static bool is_on(const char *value)
{
    static const char *const off[] = {"", "off", "no", "none", "false", "0"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        if (strcmp(value, off[i]) == 0)
            return false;
    }
    return strncmp(value, "unavailable", 11) != 0 && strncmp(value, "failed", 6) != 0;
}

static size_t worker_bytes(const Penstock__WorkerHello *hello)
{
    size_t bytes = 1;
    for (size_t i = 0; i < hello->n_tags; i++)
        bytes += strlen(hello->tags[i]) + 1;
    for (size_t i = 0; i < hello->n_flags; i++)
        bytes += 2 * strlen(hello->flags[i]->name) + strlen(hello->flags[i]->value) + 5;
    return bytes;
}

/* A value of several lines can only be demanded by its name. */
static char *add_flag(char *end, const Penstock__Flag *flag)
{
    if (strchr(flag->name, '\n'))
        return end;
    if (is_on(flag->value)) {
        *end++ = FLAG;
        end = stpcpy(end, flag->name);
        *end++ = '\n';
    }
    if (strchr(flag->value, '\n'))
        return end;
    *end++ = FLAG;
    end = stpcpy(end, flag->name);
    *end++ = '=';
    end = stpcpy(end, flag->value);
    *end++ = '\n';
    return end;
}

char *tags_of_worker(const Penstock__WorkerHello *hello)
{
    char *list = malloc(worker_bytes(hello)), *end = list;
    if (!list)
        return NULL;
    for (size_t i = 0; i < hello->n_tags; i++) {
        if (*hello->tags[i] == FLAG)
            continue; /* a tag is no flag */
        end = stpcpy(end, hello->tags[i]);
        *end++ = '\n';
    }
    for (size_t i = 0; i < hello->n_flags; i++)
        end = add_flag(end, hello->flags[i]);
    *end = '\0';
    return list;
}

static enum pen_status add(char list[TAGS_BYTES], size_t *used, const char *item, bool flag, struct pen_error *reterr)
{
    size_t length = strlen(item);
    if (*used + flag + length + 2 > TAGS_BYTES || strchr(item, '\n'))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "the tags and the flags it requires have more than %u bytes, or one has a line break",
                             TAGS_BYTES);
    if (flag)
        list[(*used)++] = FLAG;
    memcpy(list + *used, item, length);
    *used += length;
    list[(*used)++] = '\n';
    return PEN_OK;
}

enum pen_status tags_of_job(const Penstock__JobMeta *meta, char ret_list[TAGS_BYTES], struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    size_t used = 0;
    for (size_t i = 0; status == PEN_OK && i < meta->n_tags; i++)
        status = add(ret_list, &used, meta->tags[i], false, reterr);
    for (size_t i = 0; status == PEN_OK && i < meta->n_needs; i++)
        status = add(ret_list, &used, meta->needs[i], true, reterr);
    if (status == PEN_OK && meta->debug)
        status = add(ret_list, &used, DEBUG_JOBS, true, reterr);
    ret_list[used] = '\0';
    return status;
}

const char *tags_text(const char *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const char *item = list; item && *item && used < bytes; item += strcspn(item, "\n") + 1) {
        const char *name = item + (*item == FLAG);
        int length = (int)strcspn(name, "\n");
        bool debug =
            name > item && (size_t)length == strlen(DEBUG_JOBS) && strncmp(name, DEBUG_JOBS, strlen(DEBUG_JOBS)) == 0;
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s%s", used ? ", " : "", length, name,
                                 debug ? " (the worker's --allow-debug)" : "");
    }
    return text;
}

static bool has(const char *list, const char *item, size_t length)
{
    while (*list) {
        size_t own = strcspn(list, "\n");
        if (own == length && memcmp(list, item, length) == 0)
            return true;
        list += own + (list[own] ? 1 : 0);
    }
    return false;
}

bool tags_have(const char *list, const char *wanted)
{
    while (*wanted) {
        size_t length = strcspn(wanted, "\n");
        if (!has(list, wanted, length))
            return false;
        wanted += length + (wanted[length] ? 1 : 0);
    }
    return true;
}
