#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/case.h"

#define DEPTH_MAX 8

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text);
    size_t b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static char *text_format(const char *a, const char *b, const char *c)
{
    size_t room = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = malloc(room);
    if (text != NULL) {
        snprintf(text, room, "%s%s%s", a, b, c);
    }
    return text;
}

static enum pen_status list_add(struct case_list *list, enum case_kind kind, const char *path, const char *name)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 256 : list->room * 2;
        struct case_ref *items = realloc(list->items, room * sizeof *items);
        if (items == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        list->items = items;
        list->room = room;
    }
    struct case_ref *ref = &list->items[list->count];
    *ref = (struct case_ref){.kind = kind, .path = text_format(path, "", ""), .name = text_format(name, "", "")};
    list->count++;
    return ref->path != NULL && ref->name != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

/* model.onnx beside at least one test_data_set_0. */
static bool is_onnx_folder(const char *folder)
{
    char *model = text_format(folder, "/model.onnx", "");
    char *set = text_format(folder, "/test_data_set_0", "");
    struct stat st;
    bool yes = model != NULL && set != NULL && is_file(model) && stat(set, &st) == 0 && S_ISDIR(st.st_mode);
    free(model);
    free(set);
    return yes;
}

/* X.onnx beside X_output_0.pb. */
static bool is_light(const char *path)
{
    if (!ends_with(path, ".onnx")) {
        return false;
    }
    char *output = text_format(path, "", "_output_0.pb");
    if (output == NULL) {
        return false;
    }
    snprintf(output + strlen(path) - 5, sizeof "_output_0.pb", "%s", "_output_0.pb");
    bool yes = is_file(output);
    free(output);
    return yes;
}

static bool is_golden(const char *path)
{
    const char *slash = strrchr(path, '/');
    return ends_with(path, ".json") && slash != NULL && slash - path >= 7 && strncmp(slash - 7, "/golden", 7) == 0;
}

static enum pen_status walk(const char *path, const char *name, int depth, struct case_list *list,
                            struct pen_error *reterr);

static enum pen_status walk_folder(const char *path, const char *name, int depth, struct case_list *list,
                                   struct pen_error *reterr)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return pen_error_set(reterr, PEN_ERR_IO, "cannot open folder %s: %s", path, strerror(errno));
    }
    enum pen_status status = PEN_OK;
    for (struct dirent *entry = readdir(dir); status == PEN_OK && entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char *child = text_format(path, "/", entry->d_name);
        char *child_name = text_format(name, name[0] != '\0' ? "/" : "", entry->d_name);
        status =
            child != NULL && child_name != NULL ? walk(child, child_name, depth + 1, list, reterr) : PEN_ERR_NO_MEMORY;
        free(child);
        free(child_name);
    }
    closedir(dir);
    return status;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static enum pen_status walk(const char *path, const char *name, int depth, struct case_list *list,
                            struct pen_error *reterr)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no case or folder %s: %s", path, strerror(errno));
    }
    const char *shown = name[0] != '\0' ? name : base_name(path);
    if (S_ISDIR(st.st_mode)) {
        if (is_onnx_folder(path)) {
            return list_add(list, CASE_ONNX_FOLDER, path, shown);
        }
        return depth < DEPTH_MAX ? walk_folder(path, name, depth, list, reterr) : PEN_OK;
    }
    if (is_golden(path)) {
        return list_add(list, CASE_GOLDEN, path, shown);
    }
    if (is_light(path)) {
        return list_add(list, CASE_LIGHT, path, shown);
    }
    return depth > 0 ? PEN_OK
                     : pen_error_set(reterr, PEN_ERR_INVALID,
                                     "%s is no case: give an ONNX test folder, a golden/*.json, a model with its "
                                     "_output_0.pb, or a folder of these",
                                     path);
}

static int compare_refs(const void *a, const void *b)
{
    return strcmp(((const struct case_ref *)a)->name, ((const struct case_ref *)b)->name);
}

enum pen_status case_find(const char *path, struct case_list *list, struct pen_error *reterr)
{
    size_t before = list->count;
    enum pen_status status = walk(path, "", 0, list, reterr);
    if (list->count > before) {
        qsort(list->items + before, list->count - before, sizeof *list->items, compare_refs);
    }
    return status;
}

void case_list_fini(struct case_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].path);
        free(list->items[i].name);
    }
    free(list->items);
    *list = (struct case_list){0};
}
