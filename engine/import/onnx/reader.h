/*
 * reader.h - what reading one ONNX model keeps: scopes of names, functions, and one call (a node with its inputs resolved) at a time.
 *
 * Threads: one-at-a-time.
 */
#ifndef ONNX_READER_H
#define ONNX_READER_H

#include "graph/kept.h"
#include "graph/graph.h"
#include "import/onnx/external.h"
#include "import/onnx/message.h"
#include "import/onnx/names.h"
#include "import/onnx/tensor.h"

#define ONNX_OPSET_MAX   28 /* newest opset of ai.onnx we know the meaning of */
#define ONNX_MISSING_MAX 50 /* listed by name */

struct opset {
    struct bytes domain;
    int64_t version;
};

/* An input that is a map: two inputs [rows, entries], NAME.keys and NAME.values. A node that reads the map is given the values. */
struct map_input {
    uint32_t keys, values;
};

struct reader {
    struct tensor_source source;
    struct external external;
    struct pb_function *functions;
    uint32_t function_count;
    struct opset *opsets; /* of the model */
    uint32_t opset_count;
    char missing[768]; /* operators without a meaning here: "Foo (node bar), ..." */
    size_t missing_bytes;
    uint32_t missing_count;
    bool other_floats;       /* some tensor is f16, bf16 or f64: constants made from attributes need a CastLike */
    int64_t nchwc_block;     /* upgrade_nchwc.c: channels in a block, 0 = not known yet */
    struct graph *facts_of;  /* facts.c: which graph they are about */
    struct shape_env *facts; /* what is known of its values so far */
    bool blind;              /* nothing can be known of it */
    struct map_input *maps;  /* ml_maps.c */
    uint32_t map_count;
    struct pen_error *reterr;
};

struct call;

/* Names of one graph, or of one inlined function inside a graph. */
struct scope {
    struct reader *r;
    struct graph *g;
    struct scope *outer; /* lexically around a subgraph; NULL for the model's graph and for functions */
    struct names names;
    const struct opset *opsets;
    uint32_t opset_count;
    const struct call *binding; /* function: the call whose attributes its nodes may refer to */
    struct bytes defaults;      /* function: its message, for default attributes */
    uint32_t *captures;         /* subgraph: values of outer->g, in the order of the extra inputs of g */
    uint32_t capture_count, capture_room;
    struct bytes message; /* the GraphProto; empty for functions and bodies */
    uint32_t depth;
};

/* An attribute and the scope a subgraph in it belongs to. */
struct call_attr {
    struct pb_attr pb;
    struct scope *home;
};

/* One node of the file, names resolved. status latches the first failure, so that upgrades need no check after each step. */
struct call {
    struct scope *scope;
    struct graph *g;
    struct reader *r;
    struct bytes op_type, domain, overload;
    int64_t version; /* opset of the node's domain */
    char name[160];
    const char *origin;
    uint32_t *in, *out;
    uint32_t in_count, out_count;
    struct call_attr *attrs;
    uint32_t attr_count;
    enum pen_status status;
};

/* ---- scope.c ------------------------------------------------------------------------------------------------------------------- */

/* Reads a GraphProto into scope->g. */
enum pen_status scope_read_graph(struct scope *s, struct bytes message);
/* Reads a GraphProto whose inputs are values that scope->g has already; gives the values of its outputs. */
enum pen_status scope_read_body(struct scope *s, struct bytes message, const uint32_t *inputs, uint32_t input_count,
                                uint32_t *ret_outputs, uint32_t output_count);
/* Brings a value of the surrounding graph in as an extra input. */
enum pen_status scope_capture(struct scope *s, uint32_t outer_value, uint32_t *ret_value);
/* The value a name stands for here; captures it when it lies outside. VALUE_NONE for the empty name. */
enum pen_status scope_resolve(struct scope *s, struct bytes name, uint32_t *ret_value);
void scope_fini(struct scope *s);
/* Reads and emits all nodes with this field number of a GraphProto or FunctionProto. */
enum pen_status scope_read_nodes(struct scope *s, struct bytes message, uint32_t number);
int64_t opset_version(const struct opset *opsets, uint32_t count, struct bytes domain);
/* A value of the graph with this name. */
enum pen_status scope_value(struct scope *s, struct bytes name, uint32_t *ret_value);
enum pen_status read_opsets(struct bytes message, uint32_t number, struct opset **ret_opsets, uint32_t *ret_count,
                            struct pen_error *reterr);

/* ---- function.c ------------------------------------------------------------------------------------------------------------------ */

const struct pb_function *function_find(const struct reader *r, struct bytes domain, struct bytes name,
                                        struct bytes overload);
enum pen_status function_inline(struct call *c, const struct pb_function *f);

/* ---- control.c ------------------------------------------------------------------------------------------------------------------- */

void control_if(struct call *c);
void control_loop(struct call *c);
void control_scan(struct call *c);
void control_sequence_map(struct call *c);

/* ---- call.c: for upgrades -------------------------------------------------------------------------------------------------------- */

const struct pb_attr *call_attr(const struct call *c, const char *name); /* NULL when absent */
int64_t call_int(const struct call *c, const char *name, int64_t def);
float call_float(const struct call *c, const char *name, float def);
bool call_text_is(const struct call *c, const char *name, const char *text);
/* Integers of a list attribute: *ret_items lives in the arena; false when absent. */
bool call_ints(struct call *c, const char *name, const int64_t **ret_items, uint32_t *ret_count);
bool call_floats(struct call *c, const char *name, const float **ret_items, uint32_t *ret_count);

uint32_t call_input(const struct call *c, uint32_t index); /* VALUE_NONE when omitted */
bool call_wants(const struct call *c, uint32_t output);
uint32_t call_i64(struct call *c, const int64_t *items, uint32_t count, bool scalar);
/* A float constant of the element type of `like`: direct when the model is all f32. */
uint32_t call_float_like(struct call *c, float value, uint32_t like);

/* Emits a node; gives its id (NODE_NONE after a failure). */
uint32_t call_emit(struct call *c, enum op op, const uint32_t *in, uint32_t in_count, const uint32_t *out,
                   uint32_t out_count);
/* Emits a node with one fresh output; gives that value. */
uint32_t call_value(struct call *c, enum op op, const uint32_t *in, uint32_t in_count);
uint32_t call_value_axis(struct call *c, enum op op, const uint32_t *in, uint32_t in_count, int64_t axis);
/* Copies the file's attributes onto the node, but those named in `except` (NULL-terminated; may be NULL). */
void call_copy_attrs(struct call *c, uint32_t node, const char *const *except);
void call_set_int(struct call *c, uint32_t node, enum attr_key key, int64_t value);
void call_set_float(struct call *c, uint32_t node, enum attr_key key, float value);
void call_set_text(struct call *c, uint32_t node, enum attr_key key, const char *text);
void call_fail(struct call *c, enum pen_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- ml_maps.c ------------------------------------------------------------------------------------------------------------------- */

#define MAP_INPUTS_MAX 64
/* Gives the graph the two inputs that an input of this map type stands for. */
enum pen_status map_input_add(struct scope *s, const struct pb_type *type);

/* ---- facts.c --------------------------------------------------------------------------------------------------------------------- */

/* What is known of a value's shape, be it declared or inferred from the nodes so far. */
struct shape call_shape(struct call *c, uint32_t value);
void reader_forget(struct reader *r); /* when the reading ends */

/* ---- map.c ----------------------------------------------------------------------------------------------------------------------- */

/* Turns the call into nodes of our operators. An operator we do not know is noted in reader.missing. */
void call_translate(struct call *c);

typedef void (*upgrade_fn)(struct call *c);
struct op_row {
    const char *domain, *name;
    int since, until; /* opset versions, inclusive */
    enum op op;       /* when upgrade is NULL: same form, another name */
    upgrade_fn upgrade;
};
/* A form that is turned into ours, if it is in this build; a name for one of our operators. */
#define UP_ROW(domain, name, since, until, op, upgrade)                                                                \
    {                                                                                                                  \
        domain, #name, since, until, op, KEPT_IMPORT(onnx, name, upgrade)                                              \
    }
#define UP_SAME(domain, name, since, until, op)                                                                        \
    {                                                                                                                  \
        domain, #name, since, until, op, NULL                                                                          \
    }
extern const struct op_row rows_onnx[]; /* upgrade_*.c; each ends with a row without a name */
extern const struct op_row rows_shape[];
extern const struct op_row rows_microsoft[];
extern const struct op_row rows_fused[];
extern const struct op_row rows_contrib[];
extern const struct op_row rows_attention[];
extern const struct op_row rows_quantised[];
extern const struct op_row rows_lowered[];
extern const struct op_row rows_nchwc[];

#endif
