#include <stdlib.h>
#include <string.h>

#include "import/inventory.h"
#include "import/importer.h"
#include "import/tfjs/reader.h"

/* Who made the file. */
static void origin_note(const cJSON *root, struct inventory *to)
{
    static const char *const keys[] = {"generatedBy", "convertedBy"};
    for (size_t i = 0; to && i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = cJSON_GetStringValue(tfjs_json_get(root, keys[i]));
        if (text)
            inventory_append(to->maker, sizeof to->maker, "%.60s", text);
    }
    const char *format = cJSON_GetStringValue(tfjs_json_get(root, "format"));
    if (to && format)
        inventory_append(to->versions, sizeof to->versions, "%.60s", format);
}

static enum pen_status layers_read(struct tfjs *r, struct graph *g, const cJSON *root)
{
    if (g->limits.inventory)
        g->limits.inventory->layers = true;
    if (!KEPT(import_tfjs) && !KEPT(import_tfjs_layers))
        return pen_error_set(
            r->reterr, PEN_ERR_UNSUPPORTED,
            "this build does not read models of layers: add the line \"import tfjs layers\" to the list "
            "of -DPENSTOCK_KERNELS");
    return js_layers_model(r, g, root);
}

static enum pen_status read_json(struct tfjs *r, struct graph *g, const cJSON *root)
{
    const cJSON *topology = tfjs_json_get(root, "modelTopology");
    origin_note(root, g->limits.inventory);
    enum pen_status status = weights_read(&r->weights, tfjs_json_list(root, "weightsManifest"));
    if (status != PEN_OK)
        return status;
    if (tfjs_json_get(topology, "node"))
        status = js_graph_model(r, g, root);
    else if (tfjs_json_get(topology, "model_config") || tfjs_json_get(topology, "class_name"))
        status = layers_read(r, g, root);
    else
        return pen_error_set(r->reterr, PEN_ERR_CORRUPT, "the model's topology holds neither nodes nor layers");
    if (status == PEN_OK)
        status = build_missing_error(&r->missing, "tfjs", KEPT(import_tfjs), r->reterr);
    if (status == PEN_OK && g->output_count == 0)
        status = pen_error_set(r->reterr, PEN_ERR_INVALID, "the model's graph has no outputs");
    return status == PEN_OK ? graph_verify(g, r->reterr) : status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct import_file *)a)->name, ((const struct import_file *)b)->name);
}

enum pen_status tfjs_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                          struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr)
{
    struct graph_limits caps = limits ? *limits : graph_limits_default();
    struct pen_error error = {0};
    struct import_extra extra = {0};
    struct graph *g = NULL;
    cJSON *root = NULL;
    if (size > caps.model_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model file has %zu bytes, the budget is %llu", size,
                             (unsigned long long)caps.model_bytes);
    enum pen_status status = tfjs_json_parse(bytes, size, &root, reterr);
    if (status != PEN_OK)
        return status;
    if (graph_new(&caps, &g) != PEN_OK) {
        cJSON_Delete(root);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a graph");
    }
    struct external external = {
        .folder = folder, .what = "weight shard", .budget = caps.model_bytes - size, .to = &extra};
    struct tfjs r = {.weights = {.g = g, .external = &external, .reterr = &error}, .reterr = &error};
    status = read_json(&r, g, root);
    weights_fini(&r.weights);
    cJSON_Delete(root);
    if (status != PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
        return pen_error_set(reterr, status, "%s", error.text[0] ? error.text : "no memory to read the model");
    }
    if (extra.file_count > 1)
        qsort(extra.files, extra.file_count, sizeof *extra.files, by_name);
    *ret_graph = g;
    *ret_extra = extra;
    return PEN_OK;
}
