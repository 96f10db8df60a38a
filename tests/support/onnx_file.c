#include "onnx_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "process.h"

/* Field numbers are those of onnx.proto: ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, ValueInfoProto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET_IMPORT = 8,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP_TYPE = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_TYPE_INTS = 7,
    TENSOR_DIMS = 1,
    TENSOR_DATA_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW_DATA = 9,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    LOCATION_EXTERNAL = 1,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEM = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    DIM_PARAM = 2,
};

struct bytes {
    uint8_t *data;
    size_t size, capacity;
};

static void put(struct bytes *to, const void *data, size_t size)
{
    if (to->size + size > to->capacity) {
        to->capacity = 2 * (to->size + size) + 64;
        to->data = realloc(to->data, to->capacity);
        if (!to->data) {
            support_fail("out of memory");
        }
    }
    if (size > 0) {
        memcpy(to->data + to->size, data, size);
    }
    to->size += size;
}

static void put_varint(struct bytes *to, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(to, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_int(struct bytes *to, unsigned field, int64_t value)
{
    put_varint(to, field << 3);
    put_varint(to, (uint64_t)value);
}

static void put_blob(struct bytes *to, unsigned field, const void *data, size_t size)
{
    put_varint(to, field << 3 | 2);
    put_varint(to, size);
    put(to, data, size);
}

static void put_text(struct bytes *to, unsigned field, const char *text)
{
    put_blob(to, field, text, strlen(text));
}

/* Puts a finished message into its parent and frees it. */
static void put_message(struct bytes *to, unsigned field, struct bytes *message)
{
    put_blob(to, field, message->data, message->size);
    free(message->data);
    *message = (struct bytes){0};
}

static void put_value_info(struct bytes *graph, unsigned field, const struct onnx_value *value)
{
    struct bytes shape = {0}, tensor = {0}, type = {0}, info = {0};
    for (size_t i = 0; i < value->rank; i++) {
        struct bytes dim = {0};
        if (value->dims[i] < 0) {
            put_text(&dim, DIM_PARAM, "N");
        } else {
            put_int(&dim, DIM_VALUE, value->dims[i]);
        }
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_int(&tensor, TENSOR_TYPE_ELEM, value->dtype);
    put_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    put_message(&type, TYPE_TENSOR, &tensor);
    put_text(&info, VALUE_NAME, value->name);
    put_message(&info, VALUE_TYPE, &type);
    put_message(graph, field, &info);
}

static void put_weight(struct bytes *graph, const struct onnx_value *value)
{
    struct bytes tensor = {0};
    size_t elements = 1;
    for (size_t i = 0; i < value->rank; i++) {
        put_int(&tensor, TENSOR_DIMS, value->dims[i]);
        elements *= (size_t)value->dims[i];
    }
    put_int(&tensor, TENSOR_DATA_TYPE, value->dtype);
    put_text(&tensor, TENSOR_NAME, value->name);
    if (value->file) {
        struct bytes entry = {0};
        put_text(&entry, ENTRY_KEY, "location");
        put_text(&entry, ENTRY_VALUE, value->file);
        put_message(&tensor, TENSOR_EXTERNAL_DATA, &entry);
        put_int(&tensor, TENSOR_DATA_LOCATION, LOCATION_EXTERNAL);
    } else {
        put_blob(&tensor, TENSOR_RAW_DATA, value->data, elements * sizeof(float));
    }
    put_message(graph, GRAPH_INITIALIZER, &tensor);
}

static void put_node(struct bytes *graph, const struct onnx_node *from, size_t index)
{
    struct bytes node = {0};
    char name[32];
    for (size_t i = 0; i < 4 && from->inputs[i]; i++) {
        put_text(&node, NODE_INPUT, from->inputs[i]);
    }
    for (size_t i = 0; i < 2 && from->outputs[i]; i++) {
        put_text(&node, NODE_OUTPUT, from->outputs[i]);
    }
    snprintf(name, sizeof name, "node_%zu", index);
    put_text(&node, NODE_NAME, name);
    put_text(&node, NODE_OP_TYPE, from->op);
    if (from->ints_name) {
        struct bytes attribute = {0};
        put_text(&attribute, ATTRIBUTE_NAME, from->ints_name);
        for (size_t i = 0; i < 4; i++) {
            put_int(&attribute, ATTRIBUTE_INTS, from->ints[i]);
        }
        put_int(&attribute, ATTRIBUTE_TYPE, ATTRIBUTE_TYPE_INTS);
        put_message(&node, NODE_ATTRIBUTE, &attribute);
    }
    put_message(graph, GRAPH_NODE, &node);
}

uint8_t *onnx_bytes(const struct onnx_model *model, size_t *ret_size)
{
    struct bytes graph = {0}, opset = {0}, file = {0};
    for (size_t i = 0; i < model->nodes_count; i++) {
        put_node(&graph, &model->nodes[i], i);
    }
    put_text(&graph, GRAPH_NAME, "test");
    for (size_t i = 0; i < model->weights_count; i++) {
        put_weight(&graph, &model->weights[i]);
    }
    for (size_t i = 0; i < model->inputs_count; i++) {
        put_value_info(&graph, GRAPH_INPUT, &model->inputs[i]);
    }
    for (size_t i = 0; i < model->outputs_count; i++) {
        put_value_info(&graph, GRAPH_OUTPUT, &model->outputs[i]);
    }
    put_int(&file, MODEL_IR_VERSION, 8);
    put_int(&opset, OPSET_VERSION, 17);
    put_message(&file, MODEL_OPSET_IMPORT, &opset);
    put_message(&file, MODEL_GRAPH, &graph);
    *ret_size = file.size;
    return file.data;
}

void onnx_write(const char *path, const struct onnx_model *model)
{
    size_t size;
    uint8_t *bytes = onnx_bytes(model, &size);
    file_write(path, bytes, size);
    free(bytes);
}

void onnx_write_identity(const char *path)
{
    const struct onnx_node node = {.op = "Identity", .inputs = {"bytes"}, .outputs = {"copy"}};
    const struct onnx_value in = {.name = "bytes", .dtype = 2, .dims = {-1, 1024}, .rank = 2};
    const struct onnx_value out = {.name = "copy", .dtype = 2, .dims = {-1, 1024}, .rank = 2};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

void onnx_identity_folder(const char *models, const char *name)
{
    char file[FOLDER_PATH_BYTES + 32];
    snprintf(file, sizeof file, "%s/identity.onnx", models);
    onnx_write_identity(file);
    model_folder_make(models, name, file, "{\"max_batch_size\": 0}");
    unlink(file);
}

#define SLOW_CHANNELS   16
#define SLOW_LAYERS_MAX 256

void onnx_write_slow(const char *path, size_t layers)
{
    static float weight[SLOW_CHANNELS * SLOW_CHANNELS * 9];
    static char names[SLOW_LAYERS_MAX + 1][16];
    static struct onnx_node nodes[SLOW_LAYERS_MAX];
    if (layers == 0 || layers > SLOW_LAYERS_MAX) {
        support_fail("1 to %d layers", SLOW_LAYERS_MAX);
    }
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) {
        weight[i] = (float)((i * 7919u) % 17u) /
                    1224.0f; /* an output is about the mean of its inputs: neither grows nor fades */
    }
    for (size_t i = 0; i <= layers; i++) {
        snprintf(names[i], sizeof names[i], i == 0 ? "x" : i == layers ? "y" : "x%zu", i);
    }
    for (size_t i = 0; i < layers; i++) {
        nodes[i] = (struct onnx_node){.op = "Conv",
                                      .inputs = {names[i], "weight"},
                                      .outputs = {names[i + 1]},
                                      .ints_name = "pads",
                                      .ints = {1, 1, 1, 1}};
    }
    const struct onnx_value in = {.name = "x", .dtype = 1, .dims = {-1, SLOW_CHANNELS, 64, 64}, .rank = 4};
    const struct onnx_value out = {.name = "y", .dtype = 1, .dims = {-1, SLOW_CHANNELS, 64, 64}, .rank = 4};
    const struct onnx_value kernel = {
        .name = "weight", .dtype = 1, .dims = {SLOW_CHANNELS, SLOW_CHANNELS, 3, 3}, .rank = 4, .data = weight};
    onnx_write(path, &(struct onnx_model){.nodes = nodes,
                                          .nodes_count = layers,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = &out,
                                          .outputs_count = 1,
                                          .weights = &kernel,
                                          .weights_count = 1});
}
