/*
 * message.h - the ONNX messages we read, as views into the file. Lists stay in the file and are walked again with each_*.
 *
 * Threads: any.
 */
#ifndef ONNX_MESSAGE_H
#define ONNX_MESSAGE_H

#include "graph/graph.h"
#include "import/onnx/wire.h"

struct pb_model {
    int64_t ir_version;
    struct bytes graph;
    bool has_graph;
    struct bytes self; /* opset_import and functions are walked in here */
};

struct pb_node {
    struct bytes name, op_type, domain, overload;
    uint32_t in_count, out_count, attr_count;
    struct bytes self;
};

enum pb_attr_type {
    PB_UNDEFINED = 0,
    PB_FLOAT = 1,
    PB_INT = 2,
    PB_STRING = 3,
    PB_TENSOR = 4,
    PB_GRAPH = 5,
    PB_FLOATS = 6,
    PB_INTS = 7,
    PB_STRINGS = 8,
    PB_SPARSE_TENSOR = 11,
    PB_TYPE_PROTO = 13,
};

struct pb_attr {
    struct bytes name, ref;
    enum pb_attr_type type;
    float f;
    int64_t i;
    struct bytes s, message; /* message: tensor, sparse tensor, graph or type */
    uint32_t count;          /* of floats, ints, strings */
    struct bytes self;
};

struct pb_function {
    struct bytes name, domain, overload;
    uint32_t in_count, out_count;
    struct bytes self;
};

/* Field numbers, where callers walk messages themselves. */
enum {
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_OPSET = 8,
    MODEL_FUNCTION = 25,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_SPARSE = 15,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_ATTRIBUTE = 5,
    FUNCTION_INPUT = 4,
    FUNCTION_OUTPUT = 5,
    FUNCTION_NODE = 7,
    FUNCTION_OPSET = 9,
    FUNCTION_DEFAULT = 11,
};

bool pb_model_parse(struct bytes message, struct pb_model *ret);
bool pb_node_parse(struct bytes message, struct pb_node *ret);
bool pb_attr_parse(struct bytes message, struct pb_attr *ret);
bool pb_function_parse(struct bytes message, struct pb_function *ret);
bool pb_opset_parse(struct bytes message, struct bytes *ret_domain, int64_t *ret_version);

/* ValueInfoProto and TypeProto: kind, element type, shape; dims beyond PEN_MAX_RANK fail. symbols: dim_param per axis (size 0 = none).
 * A map, or a sequence of maps: dtype is that of the values. */
struct pb_type {
    struct bytes name;
    enum value_kind kind;
    enum pen_dtype dtype;
    enum pen_dtype key; /* of a map; NONE: it is none */
    struct shape shape;
    struct bytes symbol[PEN_MAX_RANK];
};
bool pb_value_info_parse(struct bytes message, struct pb_type *ret);
bool pb_type_parse(struct bytes message, struct pb_type *ret);

/* Walks the sub-messages or texts with this field number: 1 = *ret holds the next one, 0 = end, -1 = broken. */
int pb_each(struct bytes *cursor, uint32_t number, struct bytes *ret);

#endif
