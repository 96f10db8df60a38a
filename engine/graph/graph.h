/*
 * graph.h - the intermediate representation: values (edges) and nodes in topological order, one arena, ids instead of pointers.
 *
 * Importers build a graph, passes rewrite it, then it is frozen and shared read-only by all plans and sessions of a model.
 * A subgraph (body of If, Loop, Scan) is a graph of its own; everything it captures from outside is an explicit extra input of its node, in
 * the order of the subgraph's extra inputs, so that dependencies are never hidden.
 * Threads: one-at-a-time while built, any once frozen.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/op.h"
#include "graph/shape.h"

#define VALUE_NONE UINT32_MAX /* an omitted optional input or output */
#define NODE_NONE  UINT32_MAX

struct graph;
struct graph_family;

/* What a peer's file may cost us, checked before allocation. Defaults: limits_default(). */
struct inventory;
struct graph_limits {
    uint64_t model_bytes;        /* file + external data, 4 GiB */
    uint64_t tensor_bytes;       /* one tensor, also a folded one, 2 GiB */
    uint64_t folded_bytes;       /* all folded constants together, 256 MiB; models from files get more (run/source.c) */
    uint64_t folded_steps;       /* multiply-adds and the like to compute them: seconds on the plain kernels, 2^32 */
    uint64_t arena_bytes;        /* run-time memory of one session, 4 GiB */
    uint32_t nodes;              /* 1,000,000 */
    uint32_t values;             /* 4,000,000 */
    uint32_t depth;              /* nesting of subgraphs and functions, 32 */
    const char *entry;           /* the entry point that is read, of a file with several; NULL = the first */
    struct inventory *inventory; /* where a reader notes the file's operators (import/inventory.h); NULL = nowhere */
};
struct graph_limits graph_limits_default(void);

enum value_kind { VALUE_TENSOR = 0, VALUE_SEQUENCE = 1, VALUE_OPTIONAL = 2 };

/* Affine quantisation carried by a value (TFLite; ONNX uses explicit Q/DQ nodes until a pass moves them here). Of a constant of floats: what it was made of. count = 1 or dim[axis]. */
struct quant {
    uint32_t count; /* 0 = not quantised */
    int32_t axis;
    const float *scale;
    const int32_t *zero_point;
};

/* A string element of a PEN_DTYPE_STRING tensor in memory (on the wire it is length-prefixed). */
struct string_view {
    const char *text;
    size_t bytes;
};

struct value {
    const char *name; /* unique within its graph; never NULL */
    enum value_kind kind;
    enum pen_dtype dtype;             /* element type (of the elements of a sequence); NONE = not known yet */
    struct shape shape;               /* as far as known with dynamic inputs */
    const char *symbol[PEN_MAX_RANK]; /* names of dynamic dims of graph inputs: "N", "batch"; NULL = none */
    const void *
        data; /* constant: borrowed from the mapped file or the graph's arena; NULL = computed. Aligned to its dtype, but for what askew.h says. */
    size_t bytes;  /* of data */
    bool released; /* every plan has its copy: the memory of data went back (release.h), it is still a constant */
    struct quant quant;
    uint32_t producer; /* node id, NODE_NONE for inputs and constants */
    uint32_t producer_output;
};

enum attr_type { ATTR_INT, ATTR_FLOAT, ATTR_TEXT, ATTR_INTS, ATTR_FLOATS, ATTR_TEXTS, ATTR_TENSOR, ATTR_GRAPH };

struct attr {
    enum attr_key key;
    enum attr_type type;
    uint32_t count; /* of INTS, FLOATS, TEXTS */
    union {
        int64_t i;
        float f;
        struct string_view text;
        const int64_t *ints;
        const float *floats;
        const struct string_view *texts;
        uint32_t value;      /* TENSOR: id of a constant value of the same graph */
        struct graph *graph; /* GRAPH */
    };
};

struct node {
    enum op op;
    const char *name;   /* never NULL; "Conv_12" when the file gives none */
    const char *origin; /* operator name as in the file, for messages: "FusedBatchNormV3" */
    uint32_t *in, *out; /* value ids or VALUE_NONE */
    uint32_t in_count, out_count;
    struct attr *attrs;
    uint32_t attr_count;
    bool dead; /* removed by a pass; skipped by everyone, dropped by graph_compact() */
};

/* Read access is direct; changes go through the functions below. */
/* What a file says of its tensors beside the computation. */
#define GRAPH_NOTES_CHANNELS 16
struct graph_notes {
    const char *labels; /* names of the classes of an output, one a line; NULL = none */
    size_t labels_bytes;
    float mean[GRAPH_NOTES_CHANNELS], deviation[GRAPH_NOTES_CHANNELS]; /* input 0 is (pixel - mean) / deviation */
    uint32_t channels; /* that have such; 1 = the same for all, 0 = not told */
};

struct pen_explain;

/* A mapped file that constants may lie in. */
struct graph_file {
    const void *at;
    size_t bytes;
};

struct graph {
    struct graph_limits limits;
    struct value *values;
    uint32_t value_count, value_room;
    struct node *nodes; /* topological order once frozen */
    uint32_t node_count, node_room;
    uint32_t *inputs; /* value ids that the caller feeds (initialisers with defaults are not here) */
    uint32_t input_count;
    uint32_t *outputs;
    uint32_t output_count;
    struct graph *parent;          /* of a subgraph */
    struct graph_arena *arena;     /* shared with subgraphs */
    struct graph_family *children; /* of a root: all subgraphs beneath it */
    uint64_t folded_bytes;
    const struct graph_file *files; /* of a root (askew.h) */
    uint32_t file_count;
    const char
        *narrow; /* why its 16-bit floats were not widened (pass_promote.h); NULL = they were, or there are none */
    const struct memo *memo;         /* of a root: where results of measurements are kept; NULL = nowhere */
    const struct graph_notes *notes; /* NULL = the file says nothing */
    struct pen_explain *explain;     /* of a root: its choices are told there (explain.h); NULL = nobody asks */
    bool stochastic;                 /* has OP_RANDOM or OP_STATEFUL nodes, also in subgraphs: never cache */
};

enum pen_status graph_new(const struct graph_limits *limits, struct graph **ret_graph);
enum pen_status graph_new_child(struct graph *parent, struct graph **ret_graph); /* same arena; freed with the parent */
void graph_free(struct graph *g);                                                /* NULL is fine; root only */

/* Memory that lives as long as the graph; zeroed, 64-byte aligned from 64 bytes up; NULL without memory. */
void *graph_alloc(struct graph *g, size_t bytes);
void *graph_alloc_data(
    struct graph *g,
    size_t bytes); /* the same for the contents of a constant that follow at once; release.h may give it back */
const char *graph_text(struct graph *g, const char *text, size_t bytes); /* NUL-terminated copy */

/* name may be NULL: a fresh one is made. dtype and shape start unknown. */
enum pen_status graph_value(struct graph *g, const char *name, uint32_t *ret_value);
/* A constant; data is borrowed when `copy` is false (it must outlive the graph: a mapped file), else copied. */
enum pen_status graph_constant(struct graph *g, const char *name, enum pen_dtype dtype, const struct shape *shape,
                               const void *data, size_t bytes, bool copy, uint32_t *ret_value);
/* Convenience for importers that turn attributes into inputs. */
enum pen_status graph_constant_i64(struct graph *g, const int64_t *items, size_t count, bool scalar,
                                   uint32_t *ret_value);
enum pen_status graph_constant_f32(struct graph *g, const float *items, size_t count, bool scalar, uint32_t *ret_value);

/* Appends a node; arrays are copied; producers of `out` are set. Arity is checked against op.def. */
enum pen_status graph_node(struct graph *g, enum op op, const char *name, const uint32_t *in, uint32_t in_count,
                           const uint32_t *out, uint32_t out_count, uint32_t *ret_node);
enum pen_status graph_attr_set(struct graph *g, uint32_t node,
                               const struct attr *attr); /* replaces one of the same key */
enum pen_status graph_attr_int(struct graph *g, uint32_t node, enum attr_key key, int64_t value);
enum pen_status graph_attr_float(struct graph *g, uint32_t node, enum attr_key key, float value);
enum pen_status graph_attr_ints(struct graph *g, uint32_t node, enum attr_key key, const int64_t *items,
                                uint32_t count);
enum pen_status graph_attr_text(struct graph *g, uint32_t node, enum attr_key key, const char *text);
void graph_attr_drop(struct graph *g, uint32_t node, enum attr_key key); /* nothing when absent */

/* Readers, with the default when absent. */
const struct attr *node_attr(const struct node *n, enum attr_key key); /* NULL when absent */
int64_t node_int(const struct node *n, enum attr_key key, int64_t def);
float node_float(const struct node *n, enum attr_key key, float def);
const int64_t *node_ints(const struct node *n, enum attr_key key, uint32_t *ret_count); /* NULL and 0 when absent */
/* Item `index` of a list of numbers; def when the list is absent or has none there. */
int64_t node_item(const struct node *n, enum attr_key key, int64_t index, int64_t def);
bool node_text_is(const struct node *n, enum attr_key key, const char *text, bool when_absent);
/* Input `index` as a value, NULL when omitted. */
const struct value *node_in(const struct graph *g, const struct node *n, uint32_t index);
const struct value *node_out(const struct graph *g, const struct node *n, uint32_t index);

/* Rewriting. replace: every user of `from` (and the graph's outputs) uses `to` instead. */
enum pen_status graph_replace(struct graph *g, uint32_t from, uint32_t to);
void graph_kill(struct graph *g, uint32_t node);
uint32_t graph_uses(const struct graph *g, uint32_t value); /* consumers + 1 per graph output */
enum pen_status graph_compact(
    struct graph *g); /* drops dead nodes and unused values' nodes, restores topological order */

/* verify.c: ids in range, arity, acyclic, single producer, names unique; a sentence naming the node otherwise. Sorts nodes topologically. */
enum pen_status graph_verify(struct graph *g, struct pen_error *reterr);

#endif
