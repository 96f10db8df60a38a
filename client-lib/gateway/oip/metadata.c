/* metadata.c - what the server and its models are. */
#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "json_tensor.h"
#include "version.h"

enum pen_status answer_server(struct call *call, struct pen_error *reterr)
{
    (void)reterr;
    bytes_text(&call->text,
               "{\"name\":\"penstock\",\"version\":\"" PENSTOCK_VERSION
               "\",\"extensions\":[\"classification\",\"sequence\",\"model_repository\",\"schedule_policy\","
               "\"model_configuration\",\"system_shared_memory\",\"binary_tensor_data\",\"parameters\",\"statistics\","
               "\"trace\",\"logging\"]}");
    return PEN_OK;
}

/* The batch is a dimension of the metadata, and none of the configuration. */
static void write_dims(const struct pen_signature *tensor, uint32_t from, struct bytes *to)
{
    bytes_text(to, "[");
    for (uint32_t i = from; i < tensor->rank; i++)
        bytes_format(to, "%s%" PRId64, i > from ? "," : "", i == 0 && tensor->batched ? -1 : tensor->dims[i]);
    bytes_text(to, "]");
}

static void write_tensors(const struct pen_signature *tensors, size_t count, struct bytes *to)
{
    for (size_t i = 0; i < count; i++) {
        const char *datatype = datatype_name(tensors[i].dtype);
        bytes_text(to, i ? ",{\"name\":" : "{\"name\":");
        bytes_json_text(to, tensors[i].name);
        bytes_format(to, ",\"datatype\":\"%s\",\"shape\":", datatype ? datatype : pen_dtype_name(tensors[i].dtype));
        write_dims(&tensors[i], 0, to);
        bytes_text(to, "}");
    }
}

/* All versions of that name, the one that was asked for among them. */
static void write_versions(const struct listing *listing, const struct pen_model *model, bool one, struct bytes *to)
{
    bool first = true;
    for (size_t i = 0; i < listing->models->count; i++) {
        const struct pen_model *other = listing->models->models[i];
        if (strcmp(other->name, model->name) != 0 || (one && other != model))
            continue;
        bytes_format(to, "%s\"%" PRIu64 "\"", first ? "" : ",", other->version);
        first = false;
    }
}

enum pen_status answer_model(struct call *call, struct pen_error *reterr)
{
    const struct listing *listing = NULL;
    const struct pen_model *model = NULL;
    struct bytes *to = &call->text;
    enum pen_status status = call_listing(call, &listing, reterr);
    if (status == PEN_OK)
        status = call_model(call, listing, &model, reterr);
    if (status == PEN_OK) {
        bytes_text(to, "{\"name\":");
        bytes_json_text(to, model->name);
        bytes_text(to, ",\"versions\":[");
        write_versions(listing, model, *call->version != '\0', to);
        bytes_text(to, "],\"platform\":");
        bytes_json_text(to, model->platform);
        bytes_text(to, ",\"inputs\":[");
        write_tensors(model->inputs, model->inputs_count, to);
        bytes_text(to, "],\"outputs\":[");
        write_tensors(model->outputs, model->outputs_count, to);
        bytes_text(to, "]}");
    }
    listing_release(listing);
    return status;
}

static void write_config_tensors(const struct pen_signature *tensors, size_t count, struct bytes *to)
{
    for (size_t i = 0; i < count; i++) {
        const char *datatype = datatype_name(tensors[i].dtype);
        bytes_text(to, i ? ",{\"name\":" : "{\"name\":");
        bytes_json_text(to, tensors[i].name);
        bytes_format(to, ",\"data_type\":\"TYPE_%s\",\"dims\":",
                     tensors[i].dtype == PEN_DTYPE_STRING ? "STRING"
                     : datatype                           ? datatype
                                                          : "INVALID");
        write_dims(&tensors[i], tensors[i].batched ? 1 : 0, to);
        bytes_format(to, ",\"optional\":%s}", tensors[i].optional ? "true" : "false");
    }
}

/* The input that takes files of pictures, for clients that would send some. */
static void write_pictures(const struct pen_model *model, struct bytes *to)
{
    for (size_t i = 0; i < model->inputs_count; i++)
        if (model->inputs[i].pictures) {
            bytes_text(to, ",\"parameters\":{\"pictures\":{\"string_value\":");
            bytes_json_text(to, model->inputs[i].name);
            bytes_text(to, "}}");
            return;
        }
}

static bool is_cacheable(const struct pen_model *model)
{
    return model->offers_count > 0 && model->offers[0]->cacheable;
}

static void write_links(const char *name, const struct pen_ensemble_link *links, size_t count, struct bytes *to)
{
    bytes_format(to, ",\"%s\":{", name);
    for (size_t i = 0; i < count; i++) {
        bytes_text(to, i ? "," : "");
        bytes_json_text(to, links[i].tensor);
        bytes_text(to, ":");
        bytes_json_text(to, links[i].name);
    }
    bytes_text(to, "}");
}

/* model_version as Triton has it: -1 = whichever there is. */
static void write_steps(const struct pen_model *model, struct bytes *to)
{
    bytes_text(to, ",\"ensemble_scheduling\":{\"step\":[");
    for (size_t i = 0; i < model->steps_count; i++) {
        const struct pen_ensemble_step *step = &model->steps[i];
        bytes_text(to, i ? ",{\"model_name\":" : "{\"model_name\":");
        bytes_json_text(to, step->model);
        bytes_format(to, ",\"model_version\":%" PRId64, step->version ? (int64_t)step->version : (int64_t)-1);
        write_links("input_map", step->inputs, step->inputs_count, to);
        write_links("output_map", step->outputs, step->outputs_count, to);
        bytes_text(to, "}");
    }
    bytes_text(to, "]}");
}

/* One of the three, by which clients know what kind of model it is. */
static void write_scheduling(const struct pen_model *model, struct bytes *to)
{
    const struct pen_model_offer *first = model->offers_count ? model->offers[0] : NULL;
    if (model->steps_count)
        write_steps(model, to);
    else if (first && first->sequences)
        bytes_format(to, ",\"sequence_batching\":{\"max_sequence_idle_microseconds\":%" PRIu64 "}",
                     first->sequence_idle_us);
    else if (model_batch_max(model) > 0)
        bytes_text(to, ",\"dynamic_batching\":{}");
}

static void write_config(const struct pen_model *model, struct bytes *to)
{
    uint32_t batch = model_batch_max(model);
    bytes_text(to, "{\"name\":");
    bytes_json_text(to, model->name);
    bytes_text(to, ",\"platform\":");
    bytes_json_text(to, model->platform);
    bytes_text(to, ",\"backend\":");
    bytes_json_text(to, model->offers_count ? model->offers[0]->backend : "");
    bytes_format(to,
                 ",\"version_policy\":{\"specific\":{\"versions\":[%" PRIu64 "]}},\"max_batch_size\":%" PRIu32
                 ",\"input\":[",
                 model->version, batch);
    write_config_tensors(model->inputs, model->inputs_count, to);
    bytes_text(to, "],\"output\":[");
    write_config_tensors(model->outputs, model->outputs_count, to);
    bytes_format(to, "],\"instance_group\":[{\"count\":%zu}]", model->offers_count);
    write_pictures(model, to);
    write_scheduling(model, to);
    bytes_format(to, ",\"response_cache\":{\"enable\":%s},\"model_transaction_policy\":{\"decoupled\":false}}",
                 is_cacheable(model) ? "true" : "false");
}

enum pen_status answer_config(struct call *call, struct pen_error *reterr)
{
    const struct listing *listing = NULL;
    const struct pen_model *model = NULL;
    enum pen_status status = call_listing(call, &listing, reterr);
    if (status == PEN_OK)
        status = call_model(call, listing, &model, reterr);
    if (status == PEN_OK)
        write_config(model, &call->text);
    listing_release(listing);
    return status;
}

enum pen_status answer_model_ready(struct call *call, struct pen_error *reterr)
{
    const struct listing *listing = NULL;
    const struct pen_model *model = NULL;
    enum pen_status status = call_listing(call, &listing, reterr);
    if (status == PEN_OK)
        status = call_model(call, listing, &model, reterr);
    if (status == PEN_OK && !model_is_ready(model))
        status =
            pen_error_set(reterr, PEN_ERR_INVALID, "model '%s' is not ready: no worker serves it now", call->model);
    listing_release(listing);
    return status;
}
