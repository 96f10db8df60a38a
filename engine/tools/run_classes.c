#include "tools/run_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "classes.h"
#include "tools/case.h"

enum pen_status class_names_read(const char *path, struct rt_arena *arena, struct class_names *ret,
                                 struct pen_error *reterr)
{
    void *bytes = NULL;
    size_t size = 0, lines = 1;
    *ret = (struct class_names){0};
    if (*path == '\0') {
        return PEN_OK;
    }
    enum pen_status status = case_file(arena, path, &bytes, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    char *text = bytes; /* zeros follow */
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
    }
    ret->names = rt_arena_alloc(arena, lines * sizeof *ret->names);
    if (ret->names == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the labels of %s", path);
    }
    for (char *end; text < (char *)bytes + size; text = end + 1) {
        end = text + strcspn(text, "\n");
        bool last = *end == '\0';
        *end = '\0';
        end[-(end > text && end[-1] == '\r')] = '\0';
        ret->names[ret->count++] = text;
        if (last) {
            break;
        }
    }
    return PEN_OK;
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
