/* statistics.c - /v2/models/stats: what went through this gateway, model by model, with a split by backend. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

static void write_time(const char *name, struct usage_time time, bool last, struct bytes *to)
{
    bytes_format(to, "\"%s\":{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}%s", name, time.count, time.ns, last ? "" : ",");
}

static uint64_t rounded(double value)
{
    return (uint64_t)(value + 0.5);
}

static void write_batch(const struct usage_batch *batch, struct bytes *to)
{
    uint64_t count = rounded(batch->executions);
    bytes_format(to, "{\"batch_size\":%" PRIu32 ",", batch->size);
    write_time("compute_input", (struct usage_time){count, batch->input_ns}, false, to);
    write_time("compute_infer", (struct usage_time){count, batch->infer_ns}, false, to);
    write_time("compute_output", (struct usage_time){count, batch->output_ns}, true, to);
    bytes_text(to, "}");
}

static void write_backend(const struct usage_backend *backend, struct bytes *to)
{
    bytes_text(to, "{\"backend\":");
    bytes_json_text(to, backend->name);
    bytes_format(to, ",\"success\":%" PRIu64 ",\"inference_count\":%" PRIu64 ",", backend->count, backend->rows);
    write_time("compute_infer", backend->infer, true, to);
    bytes_text(to, "}");
}

static void write_times(const struct usage_model *model, struct bytes *to)
{
    write_time("success", model->success, false, to);
    write_time("fail", model->fail, false, to);
    write_time("queue", model->queue, false, to);
    write_time("compute_input", model->input, false, to);
    write_time("compute_infer", model->infer, false, to);
    write_time("compute_output", model->output, false, to);
    write_time("cache_hit", model->hit, false, to);
    write_time("cache_miss", model->miss, true, to);
}

static void write_model(const struct usage_model *model, struct bytes *to)
{
    bytes_text(to, "{\"name\":");
    bytes_json_text(to, model->name);
    bytes_format(to,
                 ",\"version\":\"%" PRIu64 "\",\"last_inference\":%" PRIu64 ",\"inference_count\":%" PRIu64
                 ",\"execution_count\":%" PRIu64 ",\"inference_stats\":{",
                 model->version, model->last_ms, model->rows, rounded(model->executions));
    write_times(model, to);
    bytes_text(to, "},\"response_stats\":{},\"batch_stats\":[");
    for (size_t i = 0; i < model->batches_count; i++) {
        bytes_text(to, i ? "," : "");
        write_batch(&model->batches[i], to);
    }
    bytes_text(to, "],\"memory_usage\":[],\"backend_stats\":[");
    for (size_t i = 0; i < model->backends_count; i++) {
        bytes_text(to, i ? "," : "");
        write_backend(&model->backends[i], to);
    }
    bytes_text(to, "]}");
}

/* Models that nobody has asked yet have zeros. */
static size_t write_unused(struct call *call, uint64_t version, size_t written)
{
    const struct listing *listing = directory_peek(call->session->directory);
    for (size_t i = 0; listing && i < listing->models->count; i++) {
        const struct pen_model *model = listing->models->models[i];
        size_t at = 0;
        if ((*call->model && strcmp(call->model, model->name) != 0) || (version && version != model->version) ||
            usage_next(call->gateway->usage, model->name, model->version, &at))
            continue;
        struct usage_model none = {.version = model->version};
        strncpy(none.name, model->name, sizeof none.name - 1);
        bytes_text(&call->text, written++ ? "," : "");
        write_model(&none, &call->text);
    }
    listing_release(listing);
    return written;
}

enum pen_status answer_statistics(struct call *call, struct pen_error *reterr)
{
    const char *name = *call->model ? call->model : NULL;
    uint64_t version = strtoull(call->version, NULL, 10);
    const struct usage_model *model;
    size_t at = 0, written = 0;
    bytes_text(&call->text, "{\"model_stats\":[");
    while ((model = usage_next(call->gateway->usage, name, version, &at))) {
        bytes_text(&call->text, written++ ? "," : "");
        write_model(model, &call->text);
    }
    written = write_unused(call, version, written);
    bytes_text(&call->text, "]}");
    if (written == 0 && name)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "requested model '%s' is not available: the pool has none of that name and version", name);
    return PEN_OK;
}
