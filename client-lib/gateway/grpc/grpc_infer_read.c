#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grpc_infer.h"
#include "grpc_service.pb-c.h"
#include "infer_parameters.h"
#include "json_tensor.h"

typedef Inference__ModelInferRequest request_message;
typedef Inference__ModelInferRequest__InferInputTensor input_message;
typedef Inference__ModelInferRequest__InferRequestedOutputTensor output_message;
typedef Inference__InferTensorContents contents_message;
typedef Inference__InferParameter parameter_message;

struct grpc_reader {
    const struct grpc_infer_source *source;
    const request_message *message;
    struct inference *inference;
    struct pen_error *error;
    size_t raw_at; /* the next of raw_input_contents */
    bool final;
};

/* False: the request is wrong. */
__attribute__((format(printf, 2, 3))) static bool fail(struct grpc_reader *reader, const char *format, ...)
{
    va_list arguments;
    char text[sizeof reader->error->text];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pen_error_set(reader->error, PEN_ERR_INVALID, "%s", text);
    return false;
}

static bool no_memory(struct grpc_reader *reader)
{
    pen_error_set(reader->error, PEN_ERR_NO_MEMORY,
                  "no memory is left for the request; send it again later, or raise --body-memory");
    return false;
}

/* protobuf-c does not look whether a string is UTF-8. */
static bool is_text(const char *text, size_t room)
{
    size_t bytes = strlen(text);
    return bytes < room && utf8_valid(text, bytes);
}

/* ---- parameters ---- */

static bool parameter_u64(const parameter_message *value, uint64_t *ret_value)
{
    if (value && value->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM)
        *ret_value = value->uint64_param;
    else if (value && value->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM &&
             value->int64_param >= 0)
        *ret_value = (uint64_t)value->int64_param;
    else
        return false;
    return true;
}

static bool parameter_flag(const parameter_message *value, bool *ret_value)
{
    if (!value || value->parameter_choice_case != INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
        return false;
    *ret_value = value->bool_param;
    return true;
}

static const char *parameter_text(const parameter_message *value)
{
    return value && value->parameter_choice_case == INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM
               ? value->string_param
               : NULL;
}

static bool take_number(struct grpc_reader *reader, const char *name, const parameter_message *value, uint64_t max,
                        uint64_t *ret_value)
{
    return (parameter_u64(value, ret_value) && *ret_value <= max) ||
           fail(reader, "parameter '%.255s' is a whole number that is not negative, at most %llu", name,
                (unsigned long long)max);
}

static bool take_flag(struct grpc_reader *reader, const char *name, const parameter_message *value, bool *ret_value)
{
    return parameter_flag(value, ret_value) || fail(reader, "parameter '%.255s' is a bool_param", name);
}

static bool take_sequence(struct grpc_reader *reader, const parameter_message *value)
{
    const char *text = parameter_text(value);
    if (text && is_text(text, PARAMETER_NAME_BYTES) && sequence_id_of_text(text, &reader->inference->sequence_id))
        return true;
    return parameter_u64(value, &reader->inference->sequence_id) ||
           fail(reader, "a sequence_id is a number or a text of at most %d bytes", PARAMETER_NAME_BYTES - 1);
}

static bool take_custom(struct grpc_reader *reader, const char *name, const parameter_message *value)
{
    struct inference *inference = reader->inference;
    struct pen_parameter *to = &inference->parameters[inference->parameters_count];
    if (inference->parameters_count == INFERENCE_PARAMETERS_MAX || !*name || !is_text(name, PARAMETER_NAME_BYTES))
        return fail(reader, "a request has at most 64 parameters, each with a name of at most 255 bytes");
    *to = (struct pen_parameter){.name = name};
    inference->parameters_count++;
    switch (value ? value->parameter_choice_case : INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE__NOT_SET) {
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM:
        to->kind = PEN_PARAMETER_FLAG;
        to->value.flag = value->bool_param;
        return true;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_INT64_PARAM:
        to->kind = PEN_PARAMETER_INTEGER;
        to->value.integer = value->int64_param;
        return true;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM:
        to->kind = PEN_PARAMETER_INTEGER;
        to->value.integer = (int64_t)value->uint64_param;
        return value->uint64_param <= INT64_MAX || fail(reader, "parameter '%s' is larger than 2^63 - 1", name);
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_DOUBLE_PARAM:
        to->kind = PEN_PARAMETER_NUMBER;
        to->value.number = value->double_param;
        return true;
    case INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM:
        to->kind = PEN_PARAMETER_TEXT;
        to->value.text = value->string_param;
        return is_text(value->string_param, PARAMETER_TEXT_BYTES) ||
               fail(reader, "parameter '%s' is no UTF-8, or has more than 4095 bytes", name);
    default:
        return fail(reader, "parameter '%s' has no value", name);
    }
}

static bool take_precision(struct grpc_reader *reader, const parameter_message *value)
{
    reader->inference->provenance = true;
    reader->inference->precision = parameter_text(value);
    return (reader->inference->precision && is_text(reader->inference->precision, PARAMETER_TEXT_BYTES)) ||
           fail(reader, "penstock_precision is a string_param");
}

static bool take_require(struct grpc_reader *reader, const parameter_message *value)
{
    const char *text = parameter_text(value);
    if (!text || !is_text(text, PARAMETER_TEXT_BYTES))
        return fail(reader, "%s is a string_param of at most 4095 bytes", INFERENCE_REQUIRE);
    const char *why = inference_require(reader->inference, text);
    return !why || fail(reader, "%s", why);
}

static bool take_request_parameter(struct grpc_reader *reader, const char *name, const parameter_message *value)
{
    struct inference *inference = reader->inference;
    uint64_t number = 0;
    bool ignored = false;
    if (strcmp(name, "sequence_id") == 0)
        return take_sequence(reader, value);
    if (strcmp(name, "sequence_start") == 0)
        return take_flag(reader, name, value, &inference->sequence_start);
    if (strcmp(name, "sequence_end") == 0)
        return take_flag(reader, name, value, &inference->sequence_end);
    if (strcmp(name, "timeout") == 0)
        return take_number(reader, name, value, INT64_MAX, &inference->timeout_us);
    if (strcmp(name, "binary_data_output") == 0) /* of HTTP; here all outputs are bytes */
        return take_flag(reader, name, value, &ignored);
    if (strcmp(name, "penstock_precision") == 0)
        return take_precision(reader, value);
    if (strcmp(name, "penstock_provenance") == 0)
        return take_flag(reader, name, value, &inference->provenance);
    if (strcmp(name, INFERENCE_DEBUG) == 0)
        return take_flag(reader, name, value, &inference->debug);
    if (strcmp(name, "triton_enable_empty_final_response") == 0)
        return take_flag(reader, name, value, &reader->final);
    if (strcmp(name, INFERENCE_REQUIRE) == 0)
        return take_require(reader, value);
    if (strcmp(name, "priority") != 0)
        return take_custom(reader, name, value);
    if (!take_number(reader, name, value, UINT8_MAX, &number))
        return false;
    inference->priority = (uint8_t)number;
    return true;
}

/* Of an input or an output; what is not known is passed over, as it is over HTTP. */
static bool take_tensor_parameter(struct grpc_reader *reader, const char *name, const parameter_message *value,
                                  struct inference_target *target, uint32_t *classes)
{
    uint64_t number = 0;
    if (strcmp(name, "shared_memory_region") == 0)
        return (target->region = parameter_text(value)) || fail(reader, "shared_memory_region is a string_param");
    if (strcmp(name, "shared_memory_offset") == 0)
        return take_number(reader, name, value, INT64_MAX, &target->offset);
    if (strcmp(name, "shared_memory_byte_size") == 0)
        return take_number(reader, name, value, INT64_MAX, &target->bytes);
    if (!classes || strcmp(name, "classification") != 0)
        return true;
    if (!take_number(reader, name, value, INFERENCE_CLASSES_MAX, &number))
        return false;
    *classes = (uint32_t)number;
    return true;
}

/* ---- typed contents ---- */

static const struct contents_field {
    enum pen_dtype dtype;
    unsigned width; /* bytes of an element in the message's memory */
    size_t count_at, data_at;
    int64_t min, max; /* of narrow types */
} contents_fields[] = {
#define FIELD(dtype, width, name, min, max)                                                                            \
    {                                                                                                                  \
        dtype, width, offsetof(contents_message, n_##name), offsetof(contents_message, name), min, max                 \
    }
    FIELD(PEN_DTYPE_BOOL, sizeof(protobuf_c_boolean), bool_contents, 0, 1),
    FIELD(PEN_DTYPE_I8, 4, int_contents, INT8_MIN, INT8_MAX),
    FIELD(PEN_DTYPE_I16, 4, int_contents, INT16_MIN, INT16_MAX),
    FIELD(PEN_DTYPE_I32, 4, int_contents, INT32_MIN, INT32_MAX),
    FIELD(PEN_DTYPE_I64, 8, int64_contents, 0, 0),
    FIELD(PEN_DTYPE_U8, 4, uint_contents, 0, UINT8_MAX),
    FIELD(PEN_DTYPE_U16, 4, uint_contents, 0, UINT16_MAX),
    FIELD(PEN_DTYPE_U32, 4, uint_contents, 0, 0),
    FIELD(PEN_DTYPE_U64, 8, uint64_contents, 0, 0),
    FIELD(PEN_DTYPE_F32, 4, fp32_contents, 0, 0),
    FIELD(PEN_DTYPE_F64, 8, fp64_contents, 0, 0),
    FIELD(PEN_DTYPE_STRING, sizeof(ProtobufCBinaryData), bytes_contents, 0, 0),
#undef FIELD
};

static const struct contents_field *contents_field_of(enum pen_dtype dtype)
{
    for (size_t i = 0; i < sizeof contents_fields / sizeof *contents_fields; i++)
        if (contents_fields[i].dtype == dtype)
            return &contents_fields[i];
    return NULL;
}

static bool contents_are_empty(const contents_message *contents)
{
    return !contents || contents->n_bool_contents + contents->n_int_contents + contents->n_int64_contents +
                                contents->n_uint_contents + contents->n_uint64_contents + contents->n_fp32_contents +
                                contents->n_fp64_contents + contents->n_bytes_contents ==
                            0;
}

/* A text's length, then its bytes. */
static bool take_texts(struct grpc_reader *reader, const ProtobufCBinaryData *texts, size_t count,
                       struct pen_tensor *tensor)
{
    size_t bytes = 0, used = 0;
    for (size_t i = 0; i < count; i++)
        bytes += sizeof(uint32_t) + texts[i].len;
    char *data = hold_take(reader->source->hold, bytes + 1);
    for (size_t i = 0; data && i < count; i++) {
        uint32_t length = (uint32_t)texts[i].len;
        memcpy(data + used, &length, sizeof length);
        if (length)
            memcpy(data + used + sizeof length, texts[i].data, length);
        used += sizeof length + length;
    }
    tensor->data = data;
    tensor->bytes = bytes;
    return data || no_memory(reader);
}

/* Elements of 4 bytes as one or two. */
static bool take_narrow(struct grpc_reader *reader, const struct contents_field *field, const void *from, size_t count,
                        struct pen_tensor *tensor)
{
    bool is_unsigned = field->min == 0 && field->dtype != PEN_DTYPE_BOOL;
    size_t width = field->max == 1 || field->max == UINT8_MAX || field->max == INT8_MAX ? 1 : 2;
    unsigned char *data = hold_take(reader->source->hold, count * width + 1);
    for (size_t i = 0; data && i < count; i++) {
        int32_t value;
        memcpy(&value, (const char *)from + 4 * i, sizeof value);
        int64_t wide = is_unsigned ? (int64_t)(uint32_t)value : value;
        if (wide < field->min || wide > field->max)
            return fail(reader, "input '%s': element %zu does not fit %s", tensor->name, i,
                        datatype_name(tensor->dtype));
        memcpy(data + i * width, &value, width); /* little end first, as all machines here are */
    }
    tensor->data = data;
    tensor->bytes = count * width;
    return data || no_memory(reader);
}

static bool take_contents(struct grpc_reader *reader, const contents_message *contents, uint64_t elements,
                          struct pen_tensor *tensor)
{
    const struct contents_field *field = contents_field_of(tensor->dtype);
    size_t count = 0;
    const void *data = NULL;
    if (!field)
        return fail(reader, "input '%s': %s comes in raw_input_contents only", tensor->name,
                    datatype_name(tensor->dtype));
    if (contents) {
        memcpy(&count, (const char *)contents + field->count_at, sizeof count);
        memcpy(&data, (const char *)contents + field->data_at, sizeof data);
    }
    if (count != elements)
        return fail(reader, "unexpected size for input '%s': its contents have %zu elements of %s, its shape %llu",
                    tensor->name, count, datatype_name(tensor->dtype), (unsigned long long)elements);
    if (tensor->dtype == PEN_DTYPE_STRING)
        return take_texts(reader, data, count, tensor);
    if (field->max != 0 && field->dtype != PEN_DTYPE_I32)
        return take_narrow(reader, field, data, count, tensor);
    tensor->data = data ? data : "";
    tensor->bytes = count * field->width;
    return true;
}

/* ---- tensors ---- */

static bool take_raw(struct grpc_reader *reader, const input_message *input, struct pen_tensor *tensor)
{
    const request_message *message = reader->message;
    if (!contents_are_empty(input->contents))
        return fail(reader, "input '%s' has contents although the request has raw_input_contents", tensor->name);
    if (reader->raw_at == message->n_raw_input_contents)
        return fail(reader, "there are fewer raw_input_contents than inputs: input '%s' has none", tensor->name);
    const ProtobufCBinaryData *raw = &message->raw_input_contents[reader->raw_at++];
    tensor->data = raw->data ? (const void *)raw->data : "";
    tensor->bytes = raw->len;
    return true;
}

static bool take_shared(struct grpc_reader *reader, const struct inference_target *target, struct pen_tensor *tensor)
{
    if (!reader->source->regions) {
        pen_error_set(reader->error, PEN_ERR_DENIED, "input '%s': shared memory is for clients on this host",
                      tensor->name);
        return false;
    }
    tensor->bytes = (size_t)target->bytes;
    return regions_read(reader->source->regions, target->region, target->offset, tensor->bytes, reader->source->hold,
                        &tensor->data, reader->error) == PEN_OK;
}

/* The bytes must be those that shape and datatype need, whichever way they came. */
static bool check_size(struct grpc_reader *reader, const struct pen_tensor *tensor)
{
    struct pen_error error = {.status = PEN_OK};
    return pen_tensor_check(tensor, &error) == PEN_OK ||
           fail(reader, "unexpected size for input '%s': %.900s", tensor->name, error.text);
}

static bool take_shape(struct grpc_reader *reader, const input_message *input, struct pen_tensor *tensor)
{
    if (input->n_shape > PEN_MAX_RANK)
        return fail(reader, "input '%s': a shape has at most 8 dimensions", input->name);
    tensor->rank = (uint32_t)input->n_shape;
    for (size_t i = 0; i < input->n_shape; i++) {
        tensor->dims[i] = input->shape[i];
        if (tensor->dims[i] < 0)
            return fail(reader, "input '%s': a dimension of a request is not negative", input->name);
    }
    return true;
}

static bool take_input(struct grpc_reader *reader, const input_message *input, struct pen_tensor *tensor)
{
    struct inference_target target = {.region = NULL};
    uint64_t elements = 0;
    *tensor = (struct pen_tensor){.name = input->name, .dtype = datatype_parse(input->datatype)};
    if (!*input->name || !is_text(input->name, PARAMETER_NAME_BYTES))
        return fail(reader, "an input has no name, or one that is no UTF-8 or has more than 255 bytes");
    if (tensor->dtype == PEN_DTYPE_NONE)
        return fail(reader, "input '%s' has no datatype that the protocol knows, such as FP32", input->name);
    if (!take_shape(reader, input, tensor))
        return false;
    if (pen_tensor_elements(tensor, &elements) != PEN_OK)
        return fail(reader, "input '%s' has more elements than can be counted", input->name);
    for (size_t i = 0; i < input->n_parameters; i++)
        if (!take_tensor_parameter(reader, input->parameters[i]->key, input->parameters[i]->value, &target, NULL))
            return false;
    bool well = target.region                               ? take_shared(reader, &target, tensor)
                : reader->message->n_raw_input_contents > 0 ? take_raw(reader, input, tensor)
                                                            : take_contents(reader, input->contents, elements, tensor);
    return well && check_size(reader, tensor);
}

static bool take_inputs(struct grpc_reader *reader)
{
    const request_message *message = reader->message;
    struct inference *inference = reader->inference;
    if (message->n_inputs > INFERENCE_TENSORS_MAX)
        return fail(reader, "a request has at most 64 inputs");
    for (size_t i = 0; i < message->n_inputs; i++)
        if (!take_input(reader, message->inputs[i], &inference->inputs[inference->inputs_count++]))
            return false;
    if (reader->raw_at != message->n_raw_input_contents)
        return fail(reader,
                    "unexpected additional input data: there are more raw_input_contents than inputs that need them");
    return true;
}

static bool take_output(struct grpc_reader *reader, const output_message *from)
{
    struct inference *inference = reader->inference;
    struct inference_output *output = &inference->outputs[inference->outputs_count++];
    *output = (struct inference_output){.name = from->name, .binary = true};
    if (!*from->name || !is_text(from->name, PARAMETER_NAME_BYTES))
        return fail(reader, "an output has no name, or one that is no UTF-8 or has more than 255 bytes");
    for (size_t i = 0; i < from->n_parameters; i++)
        if (!take_tensor_parameter(reader, from->parameters[i]->key, from->parameters[i]->value, &output->target,
                                   &output->classes))
            return false;
    if (output->target.region && !reader->source->regions) {
        pen_error_set(reader->error, PEN_ERR_DENIED, "output '%s': shared memory is for clients on this host",
                      from->name);
        return false;
    }
    return true;
}

static bool take_outputs(struct grpc_reader *reader)
{
    if (reader->message->n_outputs > INFERENCE_TENSORS_MAX)
        return fail(reader, "a request has at most 64 outputs");
    for (size_t i = 0; i < reader->message->n_outputs; i++)
        if (!take_output(reader, reader->message->outputs[i]))
            return false;
    return true;
}

static bool take_request(struct grpc_reader *reader)
{
    const request_message *message = reader->message;
    struct inference *inference = reader->inference;
    if (!*message->model_name || !is_text(message->model_name, CALL_NAME_BYTES) || !is_text(message->model_version, 64))
        return fail(reader, "a model's name is UTF-8 of 1 to 255 bytes, its version of at most 63");
    if (!is_text(message->id, PARAMETER_TEXT_BYTES))
        return fail(reader, "an id is UTF-8 of at most 4095 bytes");
    inference->model = message->model_name;
    inference->version = message->model_version;
    inference->id = *message->id ? message->id : NULL;
    inference->binary_default = true;
    for (size_t i = 0; i < message->n_parameters; i++)
        if (!take_request_parameter(reader, message->parameters[i]->key, message->parameters[i]->value))
            return false;
    return take_inputs(reader) && take_outputs(reader);
}

enum pen_status grpc_infer_read(const struct grpc_infer_source *source, struct inference **ret_inference,
                                bool *ret_final, struct pen_error *reterr)
{
    struct pen_error error = {.status = PEN_OK};
    struct grpc_reader reader = {.source = source, .inference = inference_new(source->hold), .error = &error};
    reader.message = (const void *)grpc_unpack(&inference__model_infer_request__descriptor, source->message,
                                               source->bytes, source->hold, &error);
    if (!reader.inference)
        no_memory(&reader);
    else if (reader.message && take_request(&reader)) {
        *ret_inference = reader.inference;
        *ret_final = reader.final;
        return PEN_OK;
    }
    inference_free(reader.inference);
    if (reterr)
        *reterr = error;
    return error.status;
}
