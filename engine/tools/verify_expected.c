#include "tools/verify.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum pen_status entry_add(struct expected_list *list, const char *name, const char *reason)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 32 : list->room * 2;
        struct expected_entry *items = realloc(list->items, room * sizeof *items);
        if (items == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        list->items = items;
        list->room = room;
    }
    struct expected_entry *e = &list->items[list->count++];
    *e = (struct expected_entry){.name = strdup(name), .reason = strdup(reason)};
    return e->name != NULL && e->reason != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static enum pen_status line_read(struct expected_list *list, const char *path, unsigned number, char *line,
                                 struct pen_error *reterr)
{
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#') {
        return PEN_OK;
    }
    char *tab = strchr(line, '\t');
    if (tab == NULL || tab == line || tab[1] == '\0') {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s:%u: write the case's name, a tab and the reason why it fails",
                             path, number);
    }
    *tab = '\0';
    return entry_add(list, line, tab + 1);
}

enum pen_status expected_read(const char *path, struct expected_list *ret, struct pen_error *reterr)
{
    char line[1024];
    unsigned number = 0;
    *ret = (struct expected_list){0};
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot read the expected failures %s: %s", path, strerror(errno));
    }
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && fgets(line, sizeof line, f) != NULL) {
        status = line_read(ret, path, ++number, line, reterr);
    }
    fclose(f);
    if (status != PEN_OK) {
        expected_fini(ret);
    }
    return status;
}

void expected_fini(struct expected_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        free(list->items[i].reason);
    }
    free(list->items);
    *list = (struct expected_list){0};
}

/* The pattern fits the whole name or what follows one of its slashes. And the name may be the shorter one: verify names cases relative to its PATH. */
static bool names(const char *pattern, const char *case_name)
{
    for (const char *at = case_name; at != NULL; at = strchr(at, '/'), at = at != NULL ? at + 1 : NULL) {
        if (fnmatch(pattern, at, 0) == 0) {
            return true;
        }
    }
    for (const char *at = strchr(pattern, '/'); at != NULL; at = strchr(at + 1, '/')) {
        if (fnmatch(at + 1, case_name, 0) == 0) {
            return true;
        }
    }
    return false;
}

void expected_apply(struct expected_list *list, const char *case_name, struct verify_result *r)
{
    for (size_t i = 0; i < list->count; i++) {
        struct expected_entry *e = &list->items[i];
        if (!names(e->name, case_name)) {
            continue;
        }
        char found[sizeof r->reason];
        snprintf(found, sizeof found, "%s", r->reason);
        e->used = true;
        bool random = strncmp(e->reason, "random", 6) == 0;
        if (r->outcome == CASE_PASS && random) {
            r->outcome = CASE_SKIP;
            snprintf(r->reason, sizeof r->reason, "passed by chance: %.200s", e->reason);
        } else if (r->outcome == CASE_PASS) {
            r->outcome = CASE_FAIL;
            snprintf(r->reason, sizeof r->reason, "expected to fail but passed; take it off the list: %.200s",
                     e->reason);
        } else {
            r->outcome = CASE_SKIP; /* a refusal is a failure that was said in time */
            snprintf(r->reason, sizeof r->reason, "expected to fail: %.160s (%.160s)", e->reason, found);
        }
        return;
    }
}
