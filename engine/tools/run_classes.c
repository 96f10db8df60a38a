#include "tools/run_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "classes.h"
#include "tools/case.h"

static enum pen_status names_room(struct class_names *names, size_t count, const char *path, struct rt_arena *arena,
                                  struct pen_error *reterr)
{
    names->names = rt_arena_alloc(arena, (count ? count : 1) * sizeof *names->names);
    return names->names ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the labels of %s", path);
}

/* output.labels of a config.json. */
static enum pen_status names_of_config(const char *text, const char *path, struct rt_arena *arena,
                                       struct class_names *names, struct pen_error *reterr)
{
    cJSON *config = cJSON_Parse(text);
    const cJSON *labels = cJSON_GetObjectItem(cJSON_GetObjectItem(config, "output"), "labels"), *label;
    enum pen_status status =
        cJSON_IsArray(labels) ? names_room(names, (size_t)cJSON_GetArraySize(labels), path, arena, reterr)
                              : pen_error_set(reterr, PEN_ERR_INVALID,
                                              "%s has no list output.labels; give a file with one label a line", path);
    cJSON_ArrayForEach(label, labels)
    {
        const char *name = cJSON_GetStringValue(label);
        char *copy = status == PEN_OK && name ? rt_arena_alloc(arena, strlen(name) + 1) : NULL;
        if (copy != NULL) {
            memcpy(copy, name, strlen(name) + 1);
            names->names[names->count++] = copy;
        } else if (status == PEN_OK) {
            status = pen_error_set(reterr, PEN_ERR_INVALID, "%s: a label of output.labels is no text", path);
        }
    }
    cJSON_Delete(config);
    return status;
}

/* One a line; zeros follow the text. */
static enum pen_status names_of_lines(char *text, size_t size, const char *path, struct rt_arena *arena,
                                      struct class_names *names, struct pen_error *reterr)
{
    const char *after = text + size;
    size_t lines = 1;
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n' || text[i] == '\0';
    }
    enum pen_status status = names_room(names, lines, path, arena, reterr);
    for (char *end; status == PEN_OK && text < after; text = end + 1) {
        end = text + strcspn(text, "\n");
        *end = '\0';
        if (end > text && end[-1] == '\r') {
            end[-1] = '\0';
        }
        names->names[names->count++] = text;
    }
    return status;
}

enum pen_status class_names_read(const char *path, struct rt_arena *arena, struct class_names *ret,
                                 struct pen_error *reterr)
{
    void *bytes = NULL;
    size_t size = 0;
    *ret = (struct class_names){0};
    if (*path == '\0') {
        return PEN_OK;
    }
    enum pen_status status = case_file(arena, path, &bytes, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    return size > 0 && *(char *)bytes == '{' ? names_of_config(bytes, path, arena, ret, reterr)
                                             : names_of_lines(bytes, size, path, arena, ret, reterr);
}

static void class_tell(const struct pen_tensor *output, uint32_t row, const struct class_score *best,
                       const struct class_names *names, cJSON *list)
{
    char number[32];
    snprintf(number, sizeof number, "class %zu", best->index);
    const char *name = best->index < names->count ? names->names[best->index] : number;
    if (list == NULL) {
        printf("  %8.4f  %s\n", best->score, name);
        return;
    }
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "output", output->name);
    cJSON_AddNumberToObject(one, "row", row);
    cJSON_AddNumberToObject(one, "index", (double)best->index);
    cJSON_AddNumberToObject(one, "score", best->score);
    cJSON_AddStringToObject(one, "label", best->index < names->count ? name : "");
    cJSON_AddItemToArray(list, one);
}

enum pen_status classes_show(const struct pen_tensor *outputs, size_t count, const struct class_names *names,
                             size_t top, cJSON *list, struct pen_error *reterr)
{
    struct class_score best[CLASSES_MAX];
    size_t classes = 0, i = 0;
    for (; i < count; i++) {
        classes = classes_count(&outputs[i], classes_rows(&outputs[i]), names->count);
        if (classes > 0 && (names->count == 0 || classes == names->count)) {
            break;
        }
    }
    if (i == count) {
        return names->count == 0 ? PEN_OK
                                 : pen_error_set(reterr, PEN_ERR_SHAPE,
                                                 "the labels name %zu classes, but no output has %zu numbers a row",
                                                 names->count, names->count);
    }
    for (uint32_t row = 0; row < classes_rows(&outputs[i]); row++) {
        size_t kept = classes_best(&outputs[i], row * classes, classes, CLASSES_AUTO, NULL,
                                   top < CLASSES_MAX ? top : CLASSES_MAX, best);
        for (size_t k = 0; k < kept; k++) {
            class_tell(&outputs[i], row, &best[k], names, list);
        }
    }
    return PEN_OK;
}
