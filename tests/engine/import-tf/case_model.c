#include "case_model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_tensor.h"
#include "folder.h"

struct pile {
    uint8_t *at;
    size_t size, room;
};

static void pile_put(struct pile *p, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    if (p->size + size > p->room) {
        p->room = 2 * (p->size + size) + 1024;
        p->at = realloc(p->at, p->room);
        if (!p->at)
            exit(2);
    }
    memcpy(p->at + p->size, bytes, size);
    p->size += size;
}

static void strings_put(struct pile *p, const cJSON *values)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, values)
    {
        const char *text = cJSON_GetStringValue(item);
        uint32_t length = (uint32_t)strlen(text);
        pile_put(p, &length, sizeof length);
        pile_put(p, text, length);
    }
}

/* The manifest of the case's weights, their data on the pile: [name, dtype, shape, values, quantization or nothing]. */
static cJSON *manifest(const cJSON *weights, struct pile *p)
{
    cJSON *groups = cJSON_CreateArray(), *group = cJSON_CreateObject(), *list = cJSON_CreateArray();
    const cJSON *json, *quantization;
    cJSON *paths = cJSON_AddArrayToObject(group, "paths");
    cJSON_AddItemToArray(paths, cJSON_CreateString("w.bin"));
    cJSON_AddItemToArray(paths, cJSON_CreateString("w2.bin"));
    cJSON_ArrayForEach(json, weights)
    {
        cJSON *entry = cJSON_CreateObject();
        const char *dtype = cJSON_GetStringValue(cJSON_GetArrayItem(json, 1));
        cJSON_AddItemToObject(entry, "name", cJSON_Duplicate(cJSON_GetArrayItem(json, 0), 1));
        cJSON_AddItemToObject(entry, "shape", cJSON_Duplicate(cJSON_GetArrayItem(json, 2), 1));
        quantization = cJSON_GetArrayItem(json, 4);
        if (quantization)
            cJSON_AddItemToObject(entry, "quantization", cJSON_Duplicate(quantization, 1));
        cJSON_AddStringToObject(entry, "dtype", quantization ? "float32" : dtype);
        if (strcmp(dtype, "string") == 0) {
            strings_put(p, cJSON_GetArrayItem(json, 3));
        } else {
            struct case_tensor t;
            case_tensor_init(&t, json);
            pile_put(p, t.tensor.data, t.tensor.bytes);
            case_tensor_fini(&t);
        }
        cJSON_AddItemToArray(list, entry);
    }
    cJSON_AddItemToObject(group, "weights", list);
    cJSON_AddItemToArray(groups, group);
    return groups;
}

/* Placeholders of -1 x -1 ... */
static void shapes_open(cJSON *model)
{
    cJSON *node, *dim;
    cJSON_ArrayForEach(node, cJSON_GetObjectItem(cJSON_GetObjectItem(model, "modelTopology"), "node"))
    {
        cJSON *shape = cJSON_GetObjectItem(cJSON_GetObjectItem(node, "attr"), "shape");
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(node, "op")), "Placeholder") != 0)
            continue;
        cJSON_ArrayForEach(dim, cJSON_GetObjectItem(cJSON_GetObjectItem(shape, "shape"), "dim"))
        {
            cJSON_ReplaceItemInObject(dim, "size", cJSON_CreateString("-1"));
        }
    }
}

static void tfjs_write(const cJSON *line, const char *folder, bool open)
{
    char path[FOLDER_PATH_BYTES + 32];
    struct pile p = {0};
    cJSON *model = cJSON_Duplicate(cJSON_GetObjectItem(line, "model"), 1);
    if (open)
        shapes_open(model);
    cJSON_AddItemToObject(model, "weightsManifest", manifest(cJSON_GetObjectItem(line, "w"), &p));
    char *text = cJSON_PrintUnformatted(model);
    size_t cut = p.size < 2 ? p.size : p.size / 2 | 1; /* an odd place, inside a number as a rule */
    snprintf(path, sizeof path, "%s/w.bin", folder);
    file_write(path, p.at ? (const void *)p.at : "", cut);
    snprintf(path, sizeof path, "%s/w2.bin", folder);
    file_write(path, p.at ? (const void *)(p.at + cut) : "", p.size - cut);
    snprintf(path, sizeof path, "%s/model.json", folder);
    file_write(path, text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(model);
    free(p.at);
}

void case_model_write(const cJSON *line, const char *folder, bool open, char *path, size_t bytes)
{
    bool lite = cJSON_GetObjectItem(line, "sub") != NULL;
    snprintf(path, bytes, "%s/model.%s", folder, lite ? "tflite" : "json");
    if (lite)
        case_lite_write(line, path, open);
    else
        tfjs_write(line, folder, open);
}
