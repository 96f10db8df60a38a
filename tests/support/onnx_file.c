#include "onnx_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "onnx_writer.h"
#include "process.h"

static const char *const symbols[ONNX_DIMS_MAX] = {"N", "N", "N", "N", "N", "N", "N", "N"};

static void add_node(struct onnx_writer *w, const struct onnx_node *node)
{
    const char *inputs[5] = {NULL}, *outputs[3] = {NULL}; /* the lists that the writer takes end with NULL */
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = node->ints_name, .ints = node->ints, .count = 4},
                                      {.type = ONNX_ATTR_END}};
    memcpy(inputs, node->inputs, sizeof node->inputs);
    memcpy(outputs, node->outputs, sizeof node->outputs);
    onnx_writer_node(w, node->op, inputs, outputs, node->ints_name ? attrs : NULL);
}

static void add_weight(struct onnx_writer *w, const struct onnx_value *value)
{
    size_t elements = 1;
    if (value->file) {
        onnx_writer_external(w, value->name, value->dtype, value->rank, value->dims, value->file);
        return;
    }
    for (size_t i = 0; i < value->rank; i++) {
        elements *= (size_t)value->dims[i];
    }
    onnx_writer_constant(w, value->name, value->dtype, value->rank, value->dims, value->data, elements * sizeof(float));
}

uint8_t *onnx_bytes(const struct onnx_model *model, size_t *ret_size)
{
    struct onnx_writer *w = onnx_writer_new("test");
    for (size_t i = 0; i < model->nodes_count; i++) {
        add_node(w, &model->nodes[i]);
    }
    for (size_t i = 0; i < model->weights_count; i++) {
        add_weight(w, &model->weights[i]);
    }
    for (size_t i = 0; i < model->inputs_count; i++) {
        const struct onnx_value *in = &model->inputs[i];
        onnx_writer_input(w, in->name, in->dtype, in->rank, in->dims, symbols);
    }
    for (size_t i = 0; i < model->outputs_count; i++) {
        const struct onnx_value *out = &model->outputs[i];
        onnx_writer_output(w, out->name, out->dtype, out->rank, out->dims, symbols);
    }
    uint8_t *bytes = onnx_writer_bytes(w, 17, ret_size);
    onnx_writer_free(w);
    return bytes;
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

void onnx_write_sum(const char *path)
{
    const struct onnx_node node = {.op = "Add", .inputs = {"x", "w"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = 1, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = 1, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value weight = {.name = "w", .dtype = 1, .dims = {2}, .rank = 1, .file = "w.data"};
    onnx_write(path, &(struct onnx_model){.nodes = &node,
                                          .nodes_count = 1,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = &out,
                                          .outputs_count = 1,
                                          .weights = &weight,
                                          .weights_count = 1});
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
