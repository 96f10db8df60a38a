#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "grpc_infer.h"
#include "json_tensor.h"
#include "provenance.h"
#include "transcode.h"

#define PACK_BYTES 1024u /* smaller answers go as they are */

/* The numbers of grpc_service.proto. */
enum response_field {
    RESPONSE_MODEL = 1,
    RESPONSE_VERSION,
    RESPONSE_ID,
    RESPONSE_PARAMETERS,
    RESPONSE_OUTPUTS,
    RESPONSE_RAW
};
enum tensor_field { TENSOR_NAME = 1, TENSOR_DATATYPE, TENSOR_SHAPE, TENSOR_PARAMETERS };
enum parameter_field { PARAMETER_BOOL = 1, PARAMETER_INT64, PARAMETER_STRING };
enum stream_field { STREAM_ERROR = 1, STREAM_RESPONSE };

/* An entry of a map from names to parameters. */
static void write_parameter(struct bytes *to, uint32_t map, const char *name, const struct bytes *value)
{
    struct bytes entry = {.data = NULL};
    wire_text(&entry, 1, name);
    wire_bytes(&entry, 2, value->data, value->used);
    wire_bytes(to, map, entry.data, entry.used);
    to->failed |= entry.failed || value->failed;
    bytes_fini(&entry);
}

static void write_number(struct bytes *to, uint32_t map, const char *name, uint32_t field, uint64_t number)
{
    struct bytes value = {.data = NULL};
    wire_number(&value, field, number);
    write_parameter(to, map, name, &value);
    bytes_fini(&value);
}

static void write_text(struct bytes *to, uint32_t map, const char *name, const char *text)
{
    struct bytes value = {.data = NULL};
    wire_text(&value, PARAMETER_STRING, text);
    write_parameter(to, map, name, &value);
    bytes_fini(&value);
}

/* ---- outputs ---- */

static const struct inference_output *wanted(const struct inference *inference, const char *name)
{
    for (size_t i = 0; i < inference->outputs_count; i++)
        if (strcmp(inference->outputs[i].name, name) == 0)
            return &inference->outputs[i];
    return NULL;
}

static void write_shape(const struct pen_tensor *tensor, struct bytes *to)
{
    struct bytes shape = {.data = NULL};
    for (uint32_t i = 0; i < tensor->rank; i++)
        wire_varint(&shape, (uint64_t)tensor->dims[i]);
    if (tensor->rank)
        wire_bytes(to, TENSOR_SHAPE, shape.data, shape.used);
    to->failed |= shape.failed;
    bytes_fini(&shape);
}

/* One raw_output_contents; an output in shared memory has an empty one, so that the others are found by their place. */
static void add_raw(const void *data, size_t bytes, struct grpc_content *content)
{
    struct bytes head = {.data = NULL};
    unsigned char *place = content->heads[content->parts_count / 2];
    wire_head(&head, RESPONSE_RAW, bytes);
    content->text.failed |= head.failed || head.used > GRPC_HEAD_BYTES;
    if (!content->text.failed)
        memcpy(place, head.data, head.used);
    content->parts[content->parts_count++] = (struct iovec){place, head.used};
    content->parts[content->parts_count++] = (struct iovec){(void *)(uintptr_t)data, bytes};
    bytes_fini(&head);
}

static enum pen_status write_tensor(const struct pen_tensor *tensor, const struct inference_target *target,
                                    struct regions *regions, struct grpc_content *content, struct pen_error *reterr)
{
    const char *datatype = datatype_name(tensor->dtype);
    enum pen_status status = PEN_OK;
    struct bytes output = {.data = NULL};
    if (!datatype)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "output %s is %s, which the protocol has no datatype for",
                             tensor->name, pen_dtype_name(tensor->dtype));
    wire_text(&output, TENSOR_NAME, tensor->name);
    wire_text(&output, TENSOR_DATATYPE, datatype);
    write_shape(tensor, &output);
    if (target && target->region) {
        status =
            regions_write(regions, target->region, target->offset, target->bytes, tensor->data, tensor->bytes, reterr);
        write_text(&output, TENSOR_PARAMETERS, "shared_memory_region", target->region);
        write_number(&output, TENSOR_PARAMETERS, "shared_memory_byte_size", PARAMETER_INT64, tensor->bytes);
        if (target->offset)
            write_number(&output, TENSOR_PARAMETERS, "shared_memory_offset", PARAMETER_INT64, target->offset);
        add_raw("", 0, content);
    } else {
        add_raw(tensor->data, tensor->bytes, content);
    }
    wire_bytes(&content->text, RESPONSE_OUTPUTS, output.data, output.used);
    content->text.failed |= output.failed;
    bytes_fini(&output);
    return status;
}

static enum pen_status write_output(const struct inference *inference, const struct pen_tensor *tensor,
                                    const struct pen_model *model, struct regions *regions,
                                    struct grpc_content *content, struct pen_error *reterr)
{
    const struct inference_output *output = wanted(inference, tensor->name);
    const struct inference_target *target = output ? &output->target : NULL;
    struct pen_tensor classes;
    if (!output || !output->classes)
        return write_tensor(tensor, target, regions, content, reterr);
    enum pen_status status = inference_classify(tensor, output->classes, model && model_batch_max(model) > 0, model,
                                                inference->hold, &classes, reterr);
    return status == PEN_OK ? write_tensor(&classes, target, regions, content, reterr) : status;
}

/* ---- responses ---- */

static void write_provenance(const struct inference *inference, const pen_result *result, struct bytes *to)
{
    struct provenance list[PROVENANCE_MAX];
    size_t count = provenance_list(inference, result, list);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "penstock_%s", list[i].name);
        write_text(to, RESPONSE_PARAMETERS, name, list[i].value);
    }
}

static void write_begin(const struct inference *inference, const pen_result *result, bool final, struct bytes *to)
{
    const struct pen_result_info *info = pen_result_info(result);
    char version[24];
    snprintf(version, sizeof version, "%" PRIu64, info->version);
    wire_text(to, RESPONSE_MODEL, inference->model);
    if (info->version)
        wire_text(to, RESPONSE_VERSION, version);
    if (inference->id)
        wire_text(to, RESPONSE_ID, inference->id);
    if (inference->sequence_id && inference->sequence_id <= INT64_MAX) {
        write_number(to, RESPONSE_PARAMETERS, "sequence_id", PARAMETER_INT64, inference->sequence_id);
        write_number(to, RESPONSE_PARAMETERS, "sequence_start", PARAMETER_BOOL, inference->sequence_start);
        write_number(to, RESPONSE_PARAMETERS, "sequence_end", PARAMETER_BOOL, inference->sequence_end);
    }
    write_provenance(inference, result, to);
    if (final)
        write_number(to, RESPONSE_PARAMETERS, "triton_final_response", PARAMETER_BOOL, 1);
}

/* The response's own head before all of it. */
static void wrap(struct grpc_content *content)
{
    struct bytes whole = {.data = NULL};
    uint64_t bytes = content->text.used;
    for (size_t i = 0; i < content->parts_count; i++)
        bytes += content->parts[i].iov_len;
    wire_head(&whole, STREAM_RESPONSE, bytes);
    bytes_add(&whole, content->text.data, content->text.used);
    whole.failed |= content->text.failed;
    bytes_fini(&content->text);
    content->text = whole;
}

enum pen_status grpc_infer_write(const struct inference *inference, const pen_result *result,
                                 const struct pen_model *model, struct regions *regions, struct grpc_infer_form form,
                                 struct grpc_content *ret_content, struct pen_error *reterr)
{
    size_t count = inference->outputs_count ? inference->outputs_count : pen_result_outputs(result);
    enum pen_status status = PEN_OK;
    write_begin(inference, result, form.final, &ret_content->text);
    for (size_t i = 0; i < count && i < INFERENCE_TENSORS_MAX && status == PEN_OK; i++) {
        const struct pen_tensor *tensor = inference->outputs_count ? pen_result_find(result, inference->outputs[i].name)
                                                                   : pen_result_output(result, i);
        status = tensor ? write_output(inference, tensor, model, regions, ret_content, reterr)
                        : pen_error_set(reterr, PEN_ERR_INTERNAL, "the pool's answer lacks output '%s'",
                                        inference->outputs[i].name);
    }
    if (form.stream)
        wrap(ret_content);
    if (status == PEN_OK && ret_content->text.failed)
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the answer");
    return status;
}

static uint64_t content_bytes(const struct grpc_content *content)
{
    uint64_t bytes = content->text.used;
    for (size_t i = 0; i < content->parts_count; i++)
        bytes += content->parts[i].iov_len;
    return bytes;
}

void grpc_content_pack(struct grpc_content *content, enum content_coding coding)
{
    content->packed = content_bytes(content) >= PACK_BYTES &&
                      content_pack(coding, &content->text, content->parts, content->parts_count);
    content->parts_count = content->packed ? 0 : content->parts_count;
}

void grpc_infer_write_error(const char *id, const char *text, struct bytes *to)
{
    struct bytes response = {.data = NULL};
    wire_text(to, STREAM_ERROR, text);
    if (id) {
        wire_text(&response, RESPONSE_ID, id);
        wire_bytes(to, STREAM_RESPONSE, response.data, response.used);
    }
    bytes_fini(&response);
}
