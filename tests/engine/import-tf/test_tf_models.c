/* The real TFLite and TF.js models: each is read, and its inputs and outputs are those of its golden cases. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "import/importer.h"
#include "mapped.h"

typedef enum pen_status (*read_fn)(const void *bytes, size_t size, const char *folder,
                                   const struct graph_limits *limits, struct graph **ret_graph,
                                   struct import_extra *ret_extra, struct pen_error *reterr);

static cJSON *json_of(const char *path)
{
    size_t bytes;
    char *text = mapped_read(path, &bytes);
    cJSON *json = text ? cJSON_ParseWithLength(text, bytes) : NULL;
    free(text);
    return json;
}

static void check_shape(const struct value *v, const cJSON *shape, const char *where)
{
    if (v->shape.rank < 0)
        return;
    cr_expect_eq(v->shape.rank, cJSON_GetArraySize(shape), "%s: %s has rank %d", where, v->name, v->shape.rank);
    for (int32_t i = 0; i < v->shape.rank && i < cJSON_GetArraySize(shape); i++) {
        int64_t want = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        cr_expect(v->shape.dim[i] < 0 || v->shape.dim[i] == want, "%s: axis %d of %s", where, i, v->name);
    }
}

/* names: whether they must agree too (two layers models and run-time names of TF.js differ, data.md). */
static void check_ends(const struct graph *g, const uint32_t *ids, uint32_t count, const cJSON *list, bool names,
                       const char *where)
{
    cr_assert_eq(count, (uint32_t)cJSON_GetArraySize(list), "%s: %u ends", where, count);
    for (uint32_t i = 0; i < count; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, (int)i);
        const struct value *v = &g->values[ids[i]];
        const char *name = cJSON_GetObjectItem(item, "name")->valuestring;
        check_shape(v, cJSON_GetObjectItem(item, "shape"), where);
        if (names)
            cr_expect_str_eq(v->name, name, "%s: '%s' is not '%s'", where, v->name, name);
    }
}

static void check_case(const char *folder, const char *name, read_fn read)
{
    char path[1600];
    snprintf(path, sizeof path, "%s/golden/%s", folder, name);
    cJSON *golden = json_of(path);
    cr_assert(golden, "%s", path);
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", folder, cJSON_GetObjectItem(golden, "model")->valuestring);
    void *file = mapped_read(path, &bytes);
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    cr_assert(file, "%s", path);
    cr_assert_eq(read(file, bytes, folder, NULL, &g, &extra, &error), PEN_OK, "%s: %s", path, error.text);
    bool layers = memmem(file, bytes, "\"model_config\"", 14) != NULL;
    check_ends(g, g->inputs, g->input_count, cJSON_GetObjectItem(golden, "inputs"), !layers, path);
    check_ends(g, g->outputs, g->output_count, cJSON_GetObjectItem(golden, "outputs"), !layers, path);
    graph_free(g);
    import_extra_fini(&extra);
    free(file);
    cJSON_Delete(golden);
}

static unsigned each_case(const char *folder, read_fn read)
{
    char path[1600];
    unsigned count = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/golden", folder);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)) != NULL) {
        size_t bytes = strlen(entry->d_name);
        if (bytes > 5 && strcmp(entry->d_name + bytes - 5, ".json") == 0) {
            check_case(folder, entry->d_name, read);
            count++;
        }
    }
    if (dir)
        closedir(dir);
    return count;
}

static void each_model(const char *format, read_fn read, unsigned least)
{
    char path[1024];
    unsigned count = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/models/%s", PENSTOCK_SHARED, format);
    DIR *dir = opendir(path);
    reference_evaluator_register();
    if (!dir)
        cr_skip_test("no test data at %s", path);
    while ((entry = readdir(dir)) != NULL) {
        char folder[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(folder, sizeof folder, "%s/models/%s/%.200s", PENSTOCK_SHARED, format, entry->d_name);
        count += each_case(folder, read);
    }
    closedir(dir);
    cr_expect_geq(count, least, "%u cases", count);
}

Test(tf_models, every_tflite_model_has_the_ends_of_its_goldens)
{
    each_model("tflite", tflite_read, 16);
}

Test(tf_models, every_tfjs_model_has_the_ends_of_its_goldens)
{
    each_model("tfjs", tfjs_read, 14);
}
