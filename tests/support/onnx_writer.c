#include "onnx_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "process.h"

/* Field numbers of onnx.proto. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_TYPE = 20,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14,
    LOCATION_EXTERNAL = 1
};

struct text {
    uint8_t *data;
    size_t size, room;
};

struct name {
    struct name *next;
    char text[32];
};

struct onnx_writer {
    struct text graph;
    struct name *names;
    unsigned steps;
};

static void put(struct text *to, const void *data, size_t size)
{
    if (to->size + size > to->room) {
        to->room = 2 * to->room + size + 64;
        to->data = realloc(to->data, to->room);
        if (to->data == NULL) {
            support_fail("out of memory");
        }
    }
    if (size > 0) {
        memcpy(to->data + to->size, data, size);
    }
    to->size += size;
}

static void put_varint(struct text *to, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(to, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_int(struct text *to, unsigned field, int64_t value)
{
    put_varint(to, (uint64_t)field << 3);
    put_varint(to, (uint64_t)value);
}

static void put_blob(struct text *to, unsigned field, const void *data, size_t size)
{
    put_varint(to, (uint64_t)field << 3 | 2);
    put_varint(to, size);
    put(to, data, size);
}

static void put_string(struct text *to, unsigned field, const char *text)
{
    put_blob(to, field, text, strlen(text));
}

/* Puts a finished message into its parent and frees it. */
static void put_message(struct text *to, unsigned field, struct text *message)
{
    put_blob(to, field, message->data, message->size);
    free(message->data);
    *message = (struct text){0};
}

struct onnx_writer *onnx_writer_new(const char *name)
{
    struct onnx_writer *w = calloc(1, sizeof *w);
    if (w == NULL) {
        support_fail("out of memory");
    }
    put_string(&w->graph, GRAPH_NAME, name);
    return w;
}

void onnx_writer_free(struct onnx_writer *w)
{
    if (w == NULL) {
        return;
    }
    while (w->names != NULL) {
        struct name *next = w->names->next;
        free(w->names);
        w->names = next;
    }
    free(w->graph.data);
    free(w);
}

/* ValueInfoProto: name = 1, type = 2 { tensor = 1 { element = 1, shape = 2 { dim = 1 { value = 1, param = 2 } } } } */
static void put_value(struct onnx_writer *w, unsigned field, const char *name, int32_t dtype, size_t rank,
                      const int64_t *dims, const char *const *symbols)
{
    struct text shape = {0}, tensor = {0}, type = {0}, info = {0};
    for (size_t i = 0; i < rank; i++) {
        struct text dim = {0};
        if (dims[i] >= 0) {
            put_int(&dim, 1, dims[i]);
        } else if (symbols != NULL && *symbols != NULL) {
            put_string(&dim, 2, *symbols++);
        }
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, dtype);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_string(&info, 1, name);
    put_message(&info, 2, &type);
    put_message(&w->graph, field, &info);
}

void onnx_writer_input(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                       const char *const *symbols)
{
    put_value(w, GRAPH_INPUT, name, dtype, rank, dims, symbols);
}

void onnx_writer_output(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                        const char *const *symbols)
{
    put_value(w, GRAPH_OUTPUT, name, dtype, rank, dims, symbols);
}

/* type = 2 { sequence = 4 { element = 1 { tensor = 1 { element = 1 } } } } */
void onnx_writer_sequence(struct onnx_writer *w, const char *name, int32_t dtype)
{
    struct text tensor = {0}, element = {0}, sequence = {0}, type = {0}, info = {0};
    put_int(&tensor, 1, dtype);
    put_message(&element, 1, &tensor);
    put_message(&sequence, 1, &element);
    put_message(&type, 4, &sequence);
    put_string(&info, 1, name);
    put_message(&info, 2, &type);
    put_message(&w->graph, GRAPH_INPUT, &info);
}

static struct text tensor_head(const char *name, int32_t dtype, size_t rank, const int64_t *dims)
{
    struct text tensor = {0};
    for (size_t i = 0; i < rank; i++) {
        put_int(&tensor, TENSOR_DIMS, dims[i]);
    }
    put_int(&tensor, TENSOR_TYPE, dtype);
    put_string(&tensor, TENSOR_NAME, name);
    return tensor;
}

void onnx_writer_constant(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                          const void *data, size_t bytes)
{
    struct text tensor = tensor_head(name, dtype, rank, dims);
    put_blob(&tensor, TENSOR_RAW, data, bytes);
    put_message(&w->graph, GRAPH_INITIALIZER, &tensor);
}

void onnx_writer_external(struct onnx_writer *w, const char *name, int32_t dtype, size_t rank, const int64_t *dims,
                          const char *location)
{
    struct text tensor = tensor_head(name, dtype, rank, dims), entry = {0};
    put_string(&entry, 1, "location"); /* StringStringEntryProto: key = 1, value = 2 */
    put_string(&entry, 2, location);
    put_message(&tensor, TENSOR_EXTERNAL, &entry);
    put_int(&tensor, TENSOR_LOCATION, LOCATION_EXTERNAL);
    put_message(&w->graph, GRAPH_INITIALIZER, &tensor);
}

static void put_attr(struct text *node, const struct onnx_attr *a)
{
    static const int types[] = {
        [ONNX_ATTR_INT] = 2, [ONNX_ATTR_FLOAT] = 1, [ONNX_ATTR_INTS] = 7, [ONNX_ATTR_GRAPH] = 5};
    struct text attr = {0};
    put_string(&attr, ATTRIBUTE_NAME, a->name);
    if (a->type == ONNX_ATTR_INT) {
        put_int(&attr, ATTRIBUTE_INT, a->i);
    } else if (a->type == ONNX_ATTR_FLOAT) {
        put_varint(&attr, ATTRIBUTE_FLOAT << 3 | 5);
        put(&attr, &a->f, sizeof a->f);
    } else if (a->type == ONNX_ATTR_GRAPH) {
        put_blob(&attr, ATTRIBUTE_GRAPH, a->graph->graph.data, a->graph->graph.size);
    }
    for (size_t i = 0; a->type == ONNX_ATTR_INTS && i < a->count; i++) {
        put_int(&attr, ATTRIBUTE_INTS, a->ints[i]);
    }
    put_int(&attr, ATTRIBUTE_TYPE, types[a->type]);
    put_message(node, NODE_ATTRIBUTE, &attr);
}

void onnx_writer_node(struct onnx_writer *w, const char *op, const char *const *inputs, const char *const *outputs,
                      const struct onnx_attr *attrs)
{
    struct text node = {0};
    char name[48];
    for (; *inputs != NULL; inputs++) {
        put_string(&node, NODE_INPUT, *inputs);
    }
    for (; *outputs != NULL; outputs++) {
        put_string(&node, NODE_OUTPUT, *outputs);
    }
    snprintf(name, sizeof name, "%.32s_%u", op, w->steps++);
    put_string(&node, NODE_NAME, name);
    put_string(&node, NODE_OP, op);
    for (; attrs != NULL && attrs->type != ONNX_ATTR_END; attrs++) {
        put_attr(&node, attrs);
    }
    put_message(&w->graph, GRAPH_NODE, &node);
}

const char *onnx_writer_step(struct onnx_writer *w, const char *op, const char *const *inputs,
                             const struct onnx_attr *attrs)
{
    struct name *name = calloc(1, sizeof *name);
    if (name == NULL) {
        support_fail("out of memory");
    }
    snprintf(name->text, sizeof name->text, "t%u", w->steps);
    name->next = w->names;
    w->names = name;
    onnx_writer_node(w, op, inputs, ONNX_LIST(name->text), attrs);
    return name->text;
}

uint8_t *onnx_writer_bytes(const struct onnx_writer *w, int64_t opset, size_t *ret_size)
{
    struct text file = {0}, set = {0};
    put_int(&file, MODEL_IR_VERSION, 8);
    put_int(&set, OPSET_VERSION, opset);
    put_message(&file, MODEL_OPSET, &set);
    put_blob(&file, MODEL_GRAPH, w->graph.data, w->graph.size);
    *ret_size = file.size;
    return file.data;
}

void onnx_writer_save(const struct onnx_writer *w, int64_t opset, const char *path)
{
    size_t size = 0;
    uint8_t *bytes = onnx_writer_bytes(w, opset, &size);
    file_write(path, bytes, size);
    free(bytes);
}
