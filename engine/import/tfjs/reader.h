/*
 * reader.h - what reading one TF.js model keeps: weights, the scopes of nodes (the graph, functions, loop bodies), and one call (a node) at a time.
 *
 * As in TF.js itself, int64 and uint8 are int32 and double is float.
 * Threads: one-at-a-time.
 */
#ifndef TFJS_READER_H
#define TFJS_READER_H

#include "graph/kept.h"
#include "import/build/build.h"
#include "import/build/window.h"
#include "import/tfjs/json.h"
#include "import/tfjs/weights.h"

#define CALL_INPUTS_MAX 4096

/* A lookup table that a node made: its value in b's graph. */
struct scope;
struct table_made {
    struct build *b;
    struct scope *scope;
    uint32_t value;
};

struct tfjs {
    struct weights weights;
    struct build_missing missing;
    struct pen_error *reterr;
    const cJSON *functions;    /* list of function definitions, NULL = none */
    uint32_t expansions;       /* function bodies and branches written so far */
    uint64_t copied;           /* nodes seen once more by a region */
    uint32_t nesting;          /* of evaluations */
    bool placed;               /* weights are named as Keras 3 does it */
    struct table_made *tables; /* in the graph's arena */
    uint32_t table_count, table_room;
};

enum gstate { NODE_NEW = 0, NODE_OPEN, NODE_DONE };

/* A node of a graph or function, and what its outputs became in this scope. */
struct gnode {
    const cJSON *json;
    const char *name, *op;
    enum gstate state;
    uint32_t *out;
    uint32_t out_count;
    struct needs
        *needs; /* of the control flow of TensorFlow 1: what must be there before the whole is written; else NULL */
};

/* flow.c: what of the nodes around it a loop or a pair of branches reads. */
struct needs {
    struct gnode **nodes;
    uint32_t count;
};

/* Part of a scope written into a graph of its own: the body of a frame, or one branch. What it reads from outside is captured. */
struct region {
    const char *frame; /* frame's name; NULL: a branch */
    const char *pred;  /* reference that decides the branch */
    bool *inside;      /* [scope's nodes] of a branch: depends on a Switch of that predicate */
    struct captures {
        uint32_t *outer, *inner;
        uint32_t count, room;
    } * captures;
};

/* Nodes seen from one graph of ours. A region looks at the nodes of `outer` with values of its own. */
struct scope {
    struct tfjs *r;
    struct build *b;
    struct gnode *nodes;
    uint32_t count;
    struct names names;   /* of nodes; of a function's arguments behind them: index count + i */
    const char *function; /* whose nodes these are; NULL: the model's */
    const uint32_t *args;
    uint32_t arg_count;
    uint32_t depth;
    struct scope *outer;
    struct region *region; /* NULL: no region */
};

struct call {
    struct scope *s;
    struct build *b;
    struct gnode *n;
    const cJSON *attrs;
    uint32_t *in;
    uint32_t in_count;
    int op; /* of the table's row */
};

typedef void (*lower_fn)(struct call *c);
struct tfjs_row {
    const char *name;
    lower_fn lower; /* NULL: not in this build */
    int op;
};
#define JS_ROW(name, lower, op)                                                                                        \
    {                                                                                                                  \
#name, KEPT_IMPORT(tfjs, name, lower), op                                                                      \
    }
extern const struct tfjs_row js_rows_math[], js_rows_conv[], js_rows_shape[], js_rows_control[], js_rows_list[],
    js_rows_flow[], js_rows_array[], js_rows_sparse[], js_rows_complex[], js_rows_image[], js_rows_random[],
    js_rows_text[], js_rows_table[];              /* end without a name */
const struct tfjs_row *js_row_at(uint32_t index); /* all rows one after the other; NULL behind the last */

/* ---- model.c ---------------------------------------------------------------------------------------------------------------------- */

enum pen_status js_graph_model(struct tfjs *r, struct graph *g, const cJSON *root);
enum pen_status js_layers_model(struct tfjs *r, struct graph *g, const cJSON *root);
/* A constant of this graph for a weight; VALUE_NONE when the manifest has none of that name. */
uint32_t js_weight(struct tfjs *r, struct build *b, const char *name);

/* ---- node.c ----------------------------------------------------------------------------------------------------------------------- */

bool js_scope_init(struct scope *s, const cJSON *nodes); /* false after a failure */
void js_scope_fini(struct scope *s);
struct gnode *js_scope_node(const struct scope *s, const char *name, size_t bytes); /* NULL when absent */
/* The value a reference stands for: "name", "name:1", "name:output:0"; evaluates what it needs. */
uint32_t js_scope_value(struct scope *s, const char *reference);
void js_lower(struct scope *s, struct gnode *n);

/* ---- flow.c ----------------------------------------------------------------------------------------------------------------------- */

/* True when a region takes the node's value from outside. */
bool js_region_outside(const struct scope *s, const struct gnode *n);
uint32_t js_region_value(struct scope *s, const struct gnode *n, const char *reference);
/* The value of the outer graph as one of the inner: a constant again, or an input. */
uint32_t js_capture(struct scope *s, uint32_t value, enum pen_dtype type);
struct needs *js_needs(struct scope *s, struct gnode *n); /* of an Exit or Merge */
bool js_scope_region(struct scope *inner, struct scope *outer, struct build *b, struct region *region);
/* ops_control.c: graphs of their own */
struct graph *js_child_new(struct call *c);
void js_child_done(struct call *c, struct build *inner);
void js_outputs_add(struct build *inner, const uint32_t *out, uint32_t count);
uint32_t *js_ids_new(struct call *c, uint32_t count);
/* Splits a reference; false for a control input. */
bool js_reference(const char *reference, size_t *ret_name, const char **ret_output, size_t *ret_output_bytes,
                  uint32_t *ret_index);

/* ---- attr.c: a node's attributes --------------------------------------------------------------------------------------------------- */

const cJSON *js_attr_get(const struct call *c, const char *name);
int64_t js_attr_int(const struct call *c, const char *name, int64_t def);
float js_attr_float(const struct call *c, const char *name, float def);
bool js_attr_bool(const struct call *c, const char *name, bool def);
/* Texts are base64 in the file; decoded and cut to fit. "" when absent. */
const char *js_attr_text(const struct call *c, const char *name, char *text, size_t bytes);
enum pen_dtype js_attr_dtype(const struct call *c, const char *name, enum pen_dtype def);
enum pen_dtype js_dtype(const cJSON *type);                                         /* DT_FLOAT or its number */
int js_attr_ints(const struct call *c, const char *name, int64_t *items, int room); /* -1 when absent or too long */
int js_attr_list_size(const struct call *c, const char *name, const char *kind);
const char *js_attr_list_text(const struct call *c, const char *name, int index, char *text, size_t bytes);
const char *js_attr_func(const struct call *c, const char *name); /* NULL when absent */
struct shape js_shape(const cJSON *shape);                        /* unknown where it says so */

/* The operators fused behind a convolution or product: a bias (input 2), then an activation (PRelu's slope is input 3). */
struct fused {
    bool bias, prelu;
    enum tf_activation act;
    float alpha;
};
struct fused js_fused(struct call *c);

/* ---- calls ------------------------------------------------------------------------------------------------------------------------- */

uint32_t js_in(const struct call *c, uint32_t index);
void js_give(struct call *c, uint32_t index, uint32_t value);
bool js_integers(const struct call *c);                  /* attribute T is an integer type */
bool js_complex_mul(struct call *c);                     /* ops_complex.c: false when the factors are real */
bool js_complex_cast(struct call *c, enum pen_dtype to); /* the same: false when neither type is complex */
bool js_complex_parts(struct call *c,
                      lower_fn lower);           /* moves complex numbers as two parts; false when it moves none */
uint32_t js_i64(struct call *c, uint32_t index); /* a list of integers as int64 */
/* A constant scalar integer input. */
bool js_scalar(struct call *c, uint32_t index, int64_t *ret);

#endif
