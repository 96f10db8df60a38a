#include "infer_write.h"

#include <inttypes.h>
#include <string.h>

#include "json_tensor.h"
#include "provenance.h"

static const struct inference_output *wanted(const struct inference *inference, const char *name)
{
    for (size_t i = 0; i < inference->outputs_count; i++)
        if (strcmp(inference->outputs[i].name, name) == 0)
            return &inference->outputs[i];
    return NULL;
}

static bool is_binary(const struct inference *inference, const struct inference_output *output)
{
    return output ? output->binary : inference->binary_default;
}

bool infer_classifies(const struct inference *inference)
{
    for (size_t i = 0; i < inference->outputs_count; i++)
        if (inference->outputs[i].classes)
            return true;
    return false;
}

size_t infer_json_bytes(const struct inference *inference, const pen_result *result)
{
    size_t bytes = 0;
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *tensor = pen_result_output(result, i);
        bytes += is_binary(inference, wanted(inference, tensor->name)) ? 0 : tensor->bytes;
    }
    return bytes;
}

static void write_shape(const struct pen_tensor *tensor, struct bytes *to)
{
    bytes_text(to, "[");
    for (uint32_t i = 0; i < tensor->rank; i++) {
        bytes_text(to, i ? "," : "");
        bytes_signed(to, tensor->dims[i]);
    }
    bytes_text(to, "]");
}

/* The answer says nothing of the region: clients in C++ take "parameters" of an output for the announcement of binary data, and fail without its size. */
static enum pen_status write_shared(const struct pen_tensor *tensor, const struct inference_target *target,
                                    struct regions *regions, struct pen_error *reterr)
{
    return regions_write(regions, target->region, target->offset, target->bytes, tensor->data, tensor->bytes, reterr);
}

static enum pen_status write_tensor(const struct inference *inference, const struct pen_tensor *tensor,
                                    struct regions *regions, struct infer_content *content, struct pen_error *reterr)
{
    const struct inference_output *output = wanted(inference, tensor->name);
    const char *datatype = datatype_name(tensor->dtype);
    enum pen_status status = PEN_OK;
    struct bytes *to = &content->text;
    if (!datatype)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "output %s is %s, which the protocol has no datatype for",
                             tensor->name, pen_dtype_name(tensor->dtype));
    bytes_text(to, "{\"name\":");
    bytes_json_text(to, tensor->name);
    bytes_text(to, ",\"datatype\":\"");
    bytes_text(to, datatype);
    bytes_text(to, "\",\"shape\":");
    write_shape(tensor, to);
    if (output && output->target.region) {
        status = write_shared(tensor, &output->target, regions, reterr);
    } else if (is_binary(inference, output)) {
        bytes_text(to, ",\"parameters\":{\"binary_data_size\":");
        bytes_unsigned(to, tensor->bytes);
        bytes_text(to, "}");
        content->parts[content->parts_count++] = (struct iovec){(void *)(uintptr_t)tensor->data, tensor->bytes};
        content->binary = true;
    } else {
        bytes_text(to, ",\"data\":");
        status = json_tensor_write(tensor, to, reterr);
    }
    bytes_text(to, "}");
    return status;
}

static enum pen_status write_output(const struct inference *inference, const struct pen_tensor *tensor,
                                    const struct pen_model *model, struct regions *regions,
                                    struct infer_content *content, struct pen_error *reterr)
{
    const struct inference_output *output = wanted(inference, tensor->name);
    struct pen_tensor classes;
    if (!output || !output->classes)
        return write_tensor(inference, tensor, regions, content, reterr);
    enum pen_status status = inference_classify(tensor, output->classes, model && model_batch_max(model) > 0, model,
                                                inference->hold, &classes, reterr);
    return status == PEN_OK ? write_tensor(inference, &classes, regions, content, reterr) : status;
}

static void write_parameters(const struct inference *inference, const pen_result *result, struct bytes *to)
{
    struct provenance list[PROVENANCE_MAX];
    bool sequence = inference->sequence_id && inference->sequence_id <= INT64_MAX;
    size_t count = provenance_list(inference, result, list);
    if (!sequence && count == 0)
        return;
    bytes_text(to, ",\"parameters\":{");
    if (sequence)
        bytes_format(to, "\"sequence_id\":%" PRIu64 ",\"sequence_start\":%s,\"sequence_end\":%s",
                     inference->sequence_id, inference->sequence_start ? "true" : "false",
                     inference->sequence_end ? "true" : "false");
    for (size_t i = 0; i < count; i++) {
        bytes_format(to, "%s\"penstock_%s\":", sequence || i > 0 ? "," : "", list[i].name);
        bytes_json_text(to, list[i].value);
    }
    bytes_text(to, "}");
}

static void write_begin(const struct inference *inference, const pen_result *result, struct bytes *to)
{
    const struct pen_result_info *info = pen_result_info(result);
    bytes_text(to, "{\"model_name\":");
    bytes_json_text(to, inference->model);
    if (info->version) {
        bytes_text(to, ",\"model_version\":\"");
        bytes_unsigned(to, info->version);
        bytes_text(to, "\"");
    }
    if (inference->id) {
        bytes_text(to, ",\"id\":");
        bytes_json_text(to, inference->id);
    }
    write_parameters(inference, result, to);
    bytes_text(to, ",\"outputs\":[");
}

/* In the order in which they were asked for. */
static const struct pen_tensor *output_at(const struct inference *inference, const pen_result *result, size_t index)
{
    return inference->outputs_count ? pen_result_find(result, inference->outputs[index].name)
                                    : pen_result_output(result, index);
}

enum pen_status infer_write(const struct inference *inference, const pen_result *result, const struct pen_model *model,
                            struct regions *regions, struct infer_content *ret_content, struct pen_error *reterr)
{
    size_t count = inference->outputs_count ? inference->outputs_count : pen_result_outputs(result);
    enum pen_status status = PEN_OK;
    struct bytes *to = &ret_content->text;
    write_begin(inference, result, to);
    for (size_t i = 0; i < count && i < INFERENCE_TENSORS_MAX && status == PEN_OK; i++) {
        const struct pen_tensor *tensor = output_at(inference, result, i);
        bytes_text(to, i ? "," : "");
        status = tensor ? write_output(inference, tensor, model, regions, ret_content, reterr)
                        : pen_error_set(reterr, PEN_ERR_INTERNAL, "the pool's answer lacks output '%s'",
                                        inference->outputs[i].name);
    }
    bytes_text(to, "]}");
    ret_content->json_bytes = to->used;
    if (status == PEN_OK && to->failed)
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the answer");
    return status;
}

bool infer_content_pack(struct infer_content *content, enum content_coding coding)
{
    if (!content_pack(coding, &content->text, content->parts, content->parts_count))
        return false;
    content->parts_count = 0;
    return true;
}
