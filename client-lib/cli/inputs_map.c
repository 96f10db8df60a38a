/* inputs_map.c - a JSON object as a map of the model. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "inputs.h"

/* The keys of the map are texts. */
static bool keys_are_texts(const struct pen_model *model, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < model->inputs_count; i++) {
        const struct pen_signature *sig = &model->inputs[i];
        if (strncmp(sig->name, name, length) == 0 && strcmp(sig->name + length, ".keys") == 0) {
            return sig->dtype == PEN_DTYPE_STRING;
        }
    }
    return true;
}

static enum pen_status entry_of(const cJSON *item, bool texts, struct pen_map_entry *e, struct pen_error *reterr)
{
    char *end = NULL;
    *e = (struct pen_map_entry){.key = texts ? item->string : NULL};
    errno = 0;
    if (!texts) {
        e->key_number = strtoll(item->string, &end, 10);
        if (errno || end == item->string || *end) {
            return pen_error_set(reterr, PEN_ERR_DTYPE, "the key \"%.64s\" is no integer.", item->string);
        }
    }
    if (cJSON_IsString(item)) {
        e->text = item->valuestring;
    } else if (cJSON_IsNumber(item) || cJSON_IsBool(item)) {
        e->value = cJSON_IsNumber(item) ? item->valuedouble : cJSON_IsTrue(item);
    } else {
        return pen_error_set(reterr, PEN_ERR_DTYPE, "the value of the key \"%.64s\" is no number and no text.",
                             item->string);
    }
    return PEN_OK;
}

static enum pen_status object_add(struct inputs *inputs, const struct pen_model *model, const char *name,
                                  const cJSON *object, struct pen_error *reterr)
{
    struct pen_tensor halves[2];
    size_t count = 0, room = (size_t)cJSON_GetArraySize(object);
    struct pen_map_entry *entries = calloc(room + 1, sizeof(*entries));
    enum pen_status status =
        entries ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a map of %zu entries.", room);
    bool texts = keys_are_texts(model, name);
    for (const cJSON *item = object->child; item && status == PEN_OK; item = item->next) {
        status = entry_of(item, texts, &entries[count++], reterr);
    }
    status = status == PEN_OK ? pen_model_map(model, name, entries, count, halves, reterr) : status;
    free(entries);
    for (size_t i = 0; i < 2 && status == PEN_OK; i++) {
        inputs->memory[inputs->count] = i == 0 ? (void *)(uintptr_t)halves[0].data : NULL; /* one block has both */
        inputs->tensors[inputs->count++] = halves[i];
    }
    return status;
}

enum pen_status inputs_add_map(struct inputs *inputs, const struct pen_model *model, const char *name, const char *text,
                               struct pen_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (inputs->count + 2 > INPUTS_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "more than %d inputs.", INPUTS_MAX);
    }
    if (*text != '{') {
        enum pen_status status = inputs_read_file(text, &bytes, &size, reterr);
        if (status != PEN_OK) {
            return status;
        }
    }
    cJSON *object = cJSON_Parse(bytes ? (const char *)bytes : text);
    enum pen_status status =
        cJSON_IsObject(object)
            ? object_add(inputs, model, name, object, reterr)
            : pen_error_set(reterr, PEN_ERR_INVALID,
                            "input \"%s\" is a map: give a JSON object, {\"key\": value, ...}, or a file with one.",
                            name);
    cJSON_Delete(object);
    free(bytes);
    return status;
}
