/* cmd_models.c - `penstock models`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "failed.h"
#include "inputs.h"
#include "measured.h"

struct options {
    struct common common;
};

static const struct setting settings[] = {COMMON_SETTINGS(struct options), {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock models",
    .usage = "penstock models [NAME] [options]",
    .about =
        "Lists the models of the pool, or one of them: inputs, outputs, and which workers have it on which backend;\n"
        "and those that a worker has and could not load, with the reason.",
    .after =
        "JSON: {\"models\": [{name, version, platform, inputs: [{name, dtype, dims, batched, optional, "
        "pictures}], outputs: "
        "[...], labels,\n"
        "preprocess, queued, running, jobs_done, jobs_failed, jobs_cancelled, cache_hits, forms, spread, "
        "version_labels: "
        "[{label, "
        "share}], offers: "
        "[{worker, backend, device, "
        "placement, precision,\n"
        "max_batch_size, ready, cacheable, memory_bytes, measured: {max_relative_error, mean_relative_error, inputs, "
        "source,\nrepeatable} or null, warm: [{batch, cold_us, warm_us}]}]}],\n"
        "failed: [{worker, name, version, status, error, since_unix_us, serving}]}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

static void signatures_json(cJSON *json, const char *key, const struct pen_signature *sigs, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(json, key);
    for (size_t i = 0; i < count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "name", sigs[i].name);
        cJSON_AddStringToObject(one, "dtype", pen_dtype_name(sigs[i].dtype));
        cJSON *dims = cJSON_AddArrayToObject(one, "dims");
        for (uint32_t d = 0; d < sigs[i].rank; d++) {
            cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)sigs[i].dims[d]));
        }
        cJSON_AddBoolToObject(one, "batched", sigs[i].batched);
        cJSON_AddBoolToObject(one, "optional", sigs[i].optional);
        cJSON_AddBoolToObject(one, "pictures", sigs[i].pictures);
        cJSON_AddItemToArray(list, one);
    }
}

/* The offer's own, in the form that a worker's list has. */
static struct pen_offered_error error_of(const struct pen_model_offer *o)
{
    return (struct pen_offered_error){.precision = o->precision,
                                      .measured = o->measured,
                                      .measures = o->measures,
                                      .largest = o->error_largest,
                                      .mean = o->error_mean,
                                      .inputs = o->error_inputs,
                                      .source = o->error_source,
                                      .repeatable = o->error_repeatable};
}

static cJSON *offer_json(const struct pen_model_offer *o)
{
    cJSON *json = cJSON_CreateObject();
    const struct pen_offered_error error = error_of(o);
    cJSON_AddStringToObject(json, "worker", o->worker);
    cJSON_AddStringToObject(json, "backend", o->backend);
    cJSON_AddStringToObject(json, "device", o->device);
    cJSON_AddStringToObject(json, "placement", o->placement);
    cJSON_AddStringToObject(json, "precision", pen_precision_name(o->precision));
    cJSON_AddNumberToObject(json, "max_batch_size", o->max_batch_size);
    cJSON_AddBoolToObject(json, "ready", o->ready);
    cJSON_AddBoolToObject(json, "cacheable", o->cacheable);
    cJSON_AddNumberToObject(json, "memory_bytes", (double)o->memory_bytes);
    cJSON_AddItemToObject(json, "measured", measured_json(&error));
    cJSON *warm = cJSON_AddArrayToObject(json, "warm");
    for (size_t i = 0; i < o->warm_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "batch", o->warm[i].batch);
        cJSON_AddNumberToObject(one, "cold_us", (double)o->warm[i].cold_us);
        cJSON_AddNumberToObject(one, "warm_us", (double)o->warm[i].warm_us);
        cJSON_AddItemToArray(warm, one);
    }
    return json;
}

static cJSON *model_json(const struct pen_model *m)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", m->name);
    cJSON_AddNumberToObject(json, "version", (double)m->version);
    cJSON_AddStringToObject(json, "platform", m->platform);
    signatures_json(json, "inputs", m->inputs, m->inputs_count);
    signatures_json(json, "outputs", m->outputs, m->outputs_count);
    cJSON *labels = cJSON_AddArrayToObject(json, "labels");
    for (size_t i = 0; i < m->labels_count; i++) {
        cJSON_AddItemToArray(labels, cJSON_CreateString(m->labels[i]));
    }
    cJSON *preprocess = *m->preprocess ? cJSON_Parse(m->preprocess) : NULL;
    cJSON_AddItemToObject(json, "preprocess", preprocess ? preprocess : cJSON_CreateNull());
    cJSON_AddNumberToObject(json, "queued", (double)m->queued);
    cJSON_AddNumberToObject(json, "running", (double)m->running);
    cJSON_AddNumberToObject(json, "jobs_done", (double)m->jobs_done);
    cJSON_AddNumberToObject(json, "jobs_failed", (double)m->jobs_failed);
    cJSON_AddNumberToObject(json, "jobs_cancelled", (double)m->jobs_cancelled);
    cJSON_AddNumberToObject(json, "forms", m->forms);
    cJSON_AddBoolToObject(json, "spread", m->spread);
    cJSON_AddNumberToObject(json, "cache_hits", (double)m->cache_hits);
    cJSON *names = cJSON_AddArrayToObject(json, "version_labels");
    for (size_t i = 0; i < m->version_labels_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "label", m->version_labels[i].label);
        cJSON_AddNumberToObject(one, "share", m->version_labels[i].share);
        cJSON_AddItemToArray(names, one);
    }
    cJSON *offers = cJSON_AddArrayToObject(json, "offers");
    for (size_t i = 0; i < m->offers_count; i++) {
        cJSON_AddItemToArray(offers, offer_json(m->offers[i]));
    }
    return json;
}

static void signatures_text(const char *what, const struct pen_signature *sigs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char shape[128];
        printf("  %s %s: %s %s%s%s%s\n", what, sigs[i].name, pen_dtype_name(sigs[i].dtype),
               pen_shape_text(sigs[i].dims, sigs[i].rank, shape, sizeof shape), sigs[i].batched ? ", batched" : "",
               sigs[i].optional ? ", optional" : "", sigs[i].pictures ? ", or files of pictures" : "");
    }
}

static void model_text(const struct pen_model *m)
{
    printf("%s:%" PRIu64 "  %" PRIu64 " queued, %" PRIu64 " running, %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64
           " from the cache\n",
           m->name, m->version, m->queued, m->running, m->jobs_done, m->jobs_failed, m->cache_hits);
    if (m->spread) {
        printf("  no worker has the whole ensemble; its jobs run across those that have the steps\n");
    }
    if (m->forms > 1) {
        printf(
            "  offered in %u forms: its workers differ in inputs, outputs or batch size; each job goes to those that "
            "take it\n",
            m->forms);
    }
    for (size_t i = 0; i < m->version_labels_count; i++) {
        const struct pen_version_label *l = &m->version_labels[i];
        printf("  label %s", l->label);
        printf(l->share > 0 ? ", %.3g %% of the jobs without a version\n" : "\n", l->share * 100);
    }
    signatures_text("in ", m->inputs, m->inputs_count);
    signatures_text("out", m->outputs, m->outputs_count);
    for (size_t i = 0; i < m->offers_count; i++) {
        const struct pen_model_offer *o = m->offers[i];
        char batches[32] = "no batches";
        if (o->max_batch_size > 1) {
            snprintf(batches, sizeof batches, "batches up to %u", o->max_batch_size);
        }
        char text[MEASURED_TEXT_BYTES];
        const struct pen_offered_error error = error_of(o);
        printf("  on  %s: %s, %s, %s, %s, %s%s%s\n", o->worker, o->backend, pen_precision_name(o->precision),
               measured_text(&error, text), o->placement, batches, o->warm_count ? "" : ", not warm",
               o->ready ? "" : ", not ready");
    }
}

static void failure_text(const struct pen_failed_model *f)
{
    char name[FAILED_NAME_BYTES];
    printf("%s  %s by %s%s: %s\n", failed_name(f, name), f->serving ? "a change is REFUSED" : "NOT SERVED", f->worker,
           f->serving ? ", what was loaded before serves on" : "", f->error);
}

/* How many were shown. */
static size_t failures(const struct pen_model_list *list, const char *name, cJSON *array)
{
    size_t shown = 0;
    for (size_t i = 0; i < list->failures_count; i++) {
        const struct pen_failed_model *f = &list->failures[i];
        if (name && strcmp(f->name, name) != 0) {
            continue;
        }
        shown++;
        if (array) {
            cJSON_AddItemToArray(array, failed_json(f));
        } else {
            failure_text(f);
        }
    }
    return shown;
}

static int models(const struct options *o, const char *name)
{
    struct pen_model_list *list = NULL;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    int code = EXIT_OK;
    size_t shown = 0;
    pen_client *client = command_connect(&o->common, "penstock models", &code);
    if (!client) {
        return code;
    }
    cJSON *json = cJSON_CreateObject(), *array = cJSON_AddArrayToObject(json, "models");
    enum pen_status status = pen_client_models(client, o->common.timeout_us, &list, &error);
    for (size_t i = 0; status == PEN_OK && i < list->count; i++) {
        if (name && strcmp(list->models[i]->name, name) != 0) {
            continue;
        }
        shown++;
        if (o->common.json) {
            cJSON_AddItemToArray(array, model_json(list->models[i]));
        } else {
            model_text(list->models[i]);
        }
    }
    if (status == PEN_OK) {
        shown += failures(list, name, o->common.json ? cJSON_AddArrayToObject(json, "failed") : NULL);
    }
    if (status == PEN_OK && name && !shown) {
        status = model_missing(list, name, 0, &error);
    }
    if (status != PEN_OK) {
        code = command_fail(&o->common, &error);
    } else if (o->common.json) {
        command_print(json);
        json = NULL;
    } else if (!shown) {
        printf("No models: no worker is connected. Start one: penstock-worker --models DIR\n");
    }
    cJSON_Delete(json);
    pen_client_models_free(list);
    pen_client_free(client);
    return code;
}

int command_models(int argc, char **argv)
{
    struct options options;
    const char *name[1] = {NULL};
    struct command_line line = {.argc = argc, .argv = argv, .words = name, .words_max = 1};
    if (command_settings(&program, &line, &options)) {
        line.exit = models(&options, line.count ? name[0] : NULL);
        settings_free(line.store);
    }
    return line.exit;
}
