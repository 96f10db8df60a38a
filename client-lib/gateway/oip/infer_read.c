#include "infer_read.h"

#include <string.h>

#include "infer_parameters.h"
#include "json_read.h"
#include "json_tensor.h"

struct input_text {
    char name[PARAMETER_NAME_BYTES];
    char datatype[16];
    bool has_shape, has_data;
    const char *data; /* [data_bytes], an array in JSON */
    size_t data_bytes;
    struct tensor_parameters parameters;
};

struct infer_reader {
    const struct infer_source *source;
    struct inference *inference;
    struct json json;
    struct pen_error *error;
    size_t binary_at; /* in the body */
};

static bool fail(struct infer_reader *reader, enum pen_status status, const char *format, const char *name)
{
    if (!reader->error->status)
        pen_error_set(reader->error, status, format, name); /* one %s in each format */
    return json_fail(&reader->json, "");
}

/* ---- inputs ---- */

static bool read_shape(struct infer_reader *reader, struct pen_tensor *tensor)
{
    bool first = true;
    tensor->rank = 0;
    json_open(&reader->json, '[');
    while (json_element(&reader->json, &first)) {
        int64_t dim = 0;
        if (tensor->rank == PEN_MAX_RANK)
            return json_fail(&reader->json, "a shape has at most 8 dimensions");
        if (!json_i64(&reader->json, &dim))
            return false;
        if (dim < 0)
            return json_fail(&reader->json, "a dimension of a request is not negative");
        tensor->dims[tensor->rank++] = dim;
    }
    return !reader->json.why;
}

static bool read_input_members(struct infer_reader *reader, struct input_text *input, struct pen_tensor *tensor)
{
    struct json *json = &reader->json;
    char member[32];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "name") == 0)
            json_string(json, input->name, sizeof input->name);
        else if (strcmp(member, "datatype") == 0)
            json_string(json, input->datatype, sizeof input->datatype);
        else if (strcmp(member, "shape") == 0)
            input->has_shape = read_shape(reader, tensor);
        else if (strcmp(member, "parameters") == 0)
            tensor_parameters_read(json, &input->parameters);
        else if (strcmp(member, "data") == 0)
            input->has_data = json_skip_array(json, &input->data, &input->data_bytes);
        else
            json_skip(json);
    }
    return !json->why;
}

static bool take_json(struct infer_reader *reader, const struct input_text *input, struct pen_tensor *tensor,
                      uint64_t elements)
{
    struct pen_error error = {.status = PEN_OK};
    struct bytes texts = {.limit = 4 * input->data_bytes + 16};
    char *data = NULL;
    if (elements > input->data_bytes)
        return fail(reader, PEN_ERR_INVALID, "input '%s': there are fewer elements than its shape has", input->name);
    if (tensor->dtype == PEN_DTYPE_STRING) {
        json_tensor_read_texts(input->data, input->data_bytes, elements, &texts, &error);
        tensor->bytes = texts.used;
        data = hold_take(reader->source->hold, texts.used + 1);
        if (data && texts.used)
            memcpy(data, texts.data, texts.used);
        bytes_fini(&texts);
    } else if (pen_dtype_bytes(tensor->dtype, elements, &tensor->bytes) == 0) {
        data = hold_take(reader->source->hold, tensor->bytes + 1);
        if (data)
            json_tensor_read(input->data, input->data_bytes, tensor->dtype, elements, data, &error);
    }
    if (error.status != PEN_OK) {
        pen_error_set(reader->error, error.status, "input '%s': %.900s", input->name, error.text);
        return json_fail(&reader->json, "");
    }
    tensor->data = data;
    return data || fail(reader, PEN_ERR_NO_MEMORY,
                        "no memory is left for input '%s'; send it again later, or raise --body-memory", input->name);
}

static bool take_binary(struct infer_reader *reader, const struct input_text *input, struct pen_tensor *tensor)
{
    uint64_t left = reader->source->bytes - reader->binary_at;
    if (input->parameters.binary_bytes > left)
        return fail(reader, PEN_ERR_INVALID,
                    "unexpected size for input '%s': the body ends before all of its binary data", input->name);
    tensor->data = reader->source->body + reader->binary_at;
    tensor->bytes = (size_t)input->parameters.binary_bytes;
    reader->binary_at += tensor->bytes;
    return true;
}

static bool take_shared(struct infer_reader *reader, const struct input_text *input, struct pen_tensor *tensor)
{
    const struct tensor_parameters *from = &input->parameters;
    struct pen_error error = {.status = PEN_OK};
    if (!reader->source->regions)
        return fail(reader, PEN_ERR_DENIED, "input '%s': shared memory is for clients on this host", input->name);
    tensor->bytes = (size_t)from->region_bytes;
    if (regions_read(reader->source->regions, from->region, from->region_offset, tensor->bytes, reader->source->hold,
                     &tensor->data, &error) == PEN_OK)
        return true;
    *reader->error = error;
    return json_fail(&reader->json, "");
}

/* The bytes must be those that shape and datatype need, whichever way they came. */
static bool check_size(struct infer_reader *reader, const struct input_text *input, const struct pen_tensor *tensor)
{
    struct pen_error error = {.status = PEN_OK};
    if (pen_tensor_check(tensor, &error) == PEN_OK)
        return true;
    pen_error_set(reader->error, PEN_ERR_INVALID, "unexpected size for input '%s': %.900s", input->name, error.text);
    return json_fail(&reader->json, "");
}

static bool take_input(struct infer_reader *reader, const struct input_text *input, struct pen_tensor *tensor)
{
    uint64_t elements = 0;
    int ways = input->has_data + input->parameters.has_binary + (*input->parameters.region != '\0');
    tensor->name = inference_text(reader->inference, input->name);
    tensor->dtype = datatype_parse(input->datatype);
    if (!*input->name || !tensor->name)
        return fail(reader, PEN_ERR_INVALID, "an input has no name%s", "");
    if (tensor->dtype == PEN_DTYPE_NONE)
        return fail(reader, PEN_ERR_INVALID, "input '%s' has no datatype that the protocol knows, such as FP32",
                    input->name);
    if (!input->has_shape || pen_tensor_elements(tensor, &elements) != PEN_OK)
        return fail(reader, PEN_ERR_INVALID, "input '%s' has no shape, or one with more elements than can be counted",
                    input->name);
    if (ways != 1)
        return fail(reader, PEN_ERR_INVALID,
                    "input '%s' must have either data, binary_data_size or a shared_memory_region", input->name);
    bool well = input->has_data                ? take_json(reader, input, tensor, elements)
                : input->parameters.has_binary ? take_binary(reader, input, tensor)
                                               : take_shared(reader, input, tensor);
    return well && check_size(reader, input, tensor);
}

static void read_inputs(struct infer_reader *reader)
{
    bool first = true;
    json_open(&reader->json, '[');
    while (json_element(&reader->json, &first)) {
        struct inference *inference = reader->inference;
        struct input_text input = {.data = NULL};
        struct pen_tensor tensor = {.rank = 0};
        if (inference->inputs_count == INFERENCE_TENSORS_MAX) {
            json_fail(&reader->json, "a request has at most 64 inputs");
            return;
        }
        if (!read_input_members(reader, &input, &tensor) || !take_input(reader, &input, &tensor))
            return;
        inference->inputs[inference->inputs_count++] = tensor;
    }
}

/* ---- outputs ---- */

static bool take_output(struct infer_reader *reader, const char *name, const struct tensor_parameters *parameters)
{
    struct inference *inference = reader->inference;
    struct inference_output *output = &inference->outputs[inference->outputs_count];
    if (inference->outputs_count == INFERENCE_TENSORS_MAX || !*name)
        return json_fail(&reader->json, "a request has at most 64 outputs, each with its name");
    *output = (struct inference_output){.name = inference_text(inference, name),
                                        .binary = parameters->has_binary_data ? parameters->binary_data
                                                                              : inference->binary_default,
                                        .classes = parameters->classes};
    if (*parameters->region) {
        if (!reader->source->regions)
            return fail(reader, PEN_ERR_DENIED, "output '%s': shared memory is for clients on this host", name);
        output->target = (struct inference_target){inference_text(inference, parameters->region),
                                                   parameters->region_offset, parameters->region_bytes};
    }
    inference->outputs_count++;
    return output->name || fail(reader, PEN_ERR_NO_MEMORY, "no memory is left for output '%s'", name);
}

static void read_outputs(struct infer_reader *reader)
{
    bool first_output = true;
    json_open(&reader->json, '[');
    while (json_element(&reader->json, &first_output)) {
        struct tensor_parameters parameters = {.binary_bytes = 0};
        char name[PARAMETER_NAME_BYTES] = "", member[32];
        bool first = true;
        json_open(&reader->json, '{');
        while (json_member(&reader->json, &first, member, sizeof member)) {
            if (strcmp(member, "name") == 0)
                json_string(&reader->json, name, sizeof name);
            else if (strcmp(member, "parameters") == 0)
                tensor_parameters_read(&reader->json, &parameters);
            else
                json_skip(&reader->json);
        }
        if (reader->json.why || !take_output(reader, name, &parameters))
            return;
    }
}

/* ---- the request ---- */

static void read_id(struct infer_reader *reader)
{
    char id[PARAMETER_TEXT_BYTES];
    if (json_string(&reader->json, id, sizeof id))
        reader->inference->id = inference_text(reader->inference, id);
}

static void read_members(struct infer_reader *reader, const char **outputs, size_t *outputs_bytes)
{
    char member[32];
    bool first = true;
    json_open(&reader->json, '{');
    while (json_member(&reader->json, &first, member, sizeof member)) {
        if (strcmp(member, "id") == 0)
            read_id(reader);
        else if (strcmp(member, "parameters") == 0)
            request_parameters_read(&reader->json, reader->inference);
        else if (strcmp(member, "inputs") == 0)
            read_inputs(reader);
        else if (strcmp(member, "outputs") == 0)
            json_skip_array(&reader->json, outputs, outputs_bytes);
        else
            json_skip(&reader->json);
    }
    json_finish(&reader->json);
}

/* Outputs come last: what the request says of all of them may stand behind them. */
static void read_json(struct infer_reader *reader)
{
    const char *outputs = NULL;
    size_t outputs_bytes = 0;
    json_init(&reader->json, reader->source->body, reader->source->json_bytes);
    read_members(reader, &outputs, &outputs_bytes);
    if (!reader->json.why && outputs) {
        size_t before = (size_t)(outputs - reader->source->body);
        json_init(&reader->json, outputs, outputs_bytes);
        reader->json.begin -= before;
        read_outputs(reader);
    }
    if (!reader->json.why && reader->binary_at != reader->source->bytes)
        pen_error_set(reader->error, PEN_ERR_INVALID,
                      "unexpected additional input data: %zu bytes stand behind those of the inputs",
                      reader->source->bytes - reader->binary_at);
    if (reader->json.why && reader->error->status == PEN_OK)
        pen_error_set(reader->error, PEN_ERR_INVALID, "the request's JSON is wrong at byte %zu: %s",
                      json_where(&reader->json), reader->json.why);
}

/* ---- raw requests ---- */

/* At most one dimension is free beside the batch; the bytes say how large it is. */
static bool deduce_shape(struct infer_reader *reader, const struct pen_signature *from, struct pen_tensor *tensor)
{
    uint64_t known = 1;
    int open = -1;
    for (uint32_t i = 0; i < from->rank; i++) {
        bool free_dim = from->dims[i] < 0;
        tensor->dims[i] = free_dim ? 1 : from->dims[i];
        known *= (uint64_t)tensor->dims[i];
        if (free_dim && open > 0)
            return fail(reader, PEN_ERR_INVALID,
                        "input '%s' has more than one free dimension: its shape cannot be deduced from the bytes of a "
                        "raw request",
                        from->name);
        open = free_dim ? (int)i : open;
    }
    size_t unit = 0;
    if (pen_dtype_bytes(tensor->dtype, known, &unit) != 0 || unit == 0 || tensor->bytes % unit != 0 ||
        (open < 0 && tensor->bytes != unit))
        return fail(reader, PEN_ERR_INVALID,
                    "unexpected size for input '%s': the body is no whole number of its elements", from->name);
    if (open >= 0)
        tensor->dims[open] = (int64_t)(tensor->bytes / unit);
    return true;
}

/* A raw request for BYTES is one element without its length. */
static bool take_one_text(struct infer_reader *reader, struct pen_tensor *tensor)
{
    uint32_t length = (uint32_t)reader->source->bytes;
    char *data = hold_take(reader->source->hold, sizeof length + reader->source->bytes);
    if (!data)
        return fail(reader, PEN_ERR_NO_MEMORY, "no memory is left for input '%s'", tensor->name);
    memcpy(data, &length, sizeof length);
    memcpy(data + sizeof length, reader->source->body, reader->source->bytes);
    tensor->data = data;
    tensor->bytes = sizeof length + reader->source->bytes;
    for (uint32_t i = 0; i < tensor->rank; i++)
        tensor->dims[i] = 1;
    return true;
}

static void read_raw(struct infer_reader *reader)
{
    const struct infer_source *source = reader->source;
    const struct pen_model *model = source->signature;
    if (!model || model->inputs_count != 1) {
        pen_error_set(reader->error, model ? PEN_ERR_INVALID : PEN_ERR_NOT_FOUND,
                      model ? "model '%s' has not exactly one input, which a raw request needs"
                            : "there is no model '%s' of that version",
                      source->model);
        return;
    }
    const struct pen_signature *from = &model->inputs[0];
    struct pen_tensor tensor = {.name = inference_text(reader->inference, from->name),
                                .dtype = from->dtype,
                                .rank = from->rank,
                                .data = source->body,
                                .bytes = source->bytes};
    reader->inference->binary_default = true;
    if (!tensor.name)
        fail(reader, PEN_ERR_NO_MEMORY, "no memory is left for input '%s'", from->name);
    else if (from->dtype == PEN_DTYPE_STRING ? take_one_text(reader, &tensor) : deduce_shape(reader, from, &tensor))
        reader->inference->inputs[reader->inference->inputs_count++] = tensor;
}

enum pen_status infer_read(const struct infer_source *source, struct inference **ret_inference,
                           struct pen_error *reterr)
{
    struct pen_error error = {.status = PEN_OK};
    struct infer_reader reader = {
        .source = source, .inference = inference_new(source->hold), .error = &error, .binary_at = source->json_bytes};
    if (!reader.inference)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the request");
    reader.inference->model = inference_text(reader.inference, source->model);
    reader.inference->version = inference_text(reader.inference, source->version);
    if (!reader.inference->model || !reader.inference->version)
        pen_error_set(&error, PEN_ERR_NO_MEMORY,
                      "no memory is left for the request; send it again later, or raise --body-memory");
    else if (source->raw)
        read_raw(&reader);
    else
        read_json(&reader);
    if (error.status == PEN_OK) {
        *ret_inference = reader.inference;
        return PEN_OK;
    }
    inference_free(reader.inference);
    if (reterr)
        *reterr = error;
    return error.status;
}
