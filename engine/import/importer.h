/*
 * importer.h - model files to graphs: recognise by content, read with budgets, and read the value files of ONNX's test cases.
 *
 * Every reader takes bytes that stay mapped while the result lives: constants are borrowed from them in place where alignment allows.
 * Threads: one-at-a-time per graph; different files in parallel.
 */
#ifndef IMPORTER_H
#define IMPORTER_H

#include "graph/graph.h"

struct graph_arena;

/* A file beside the model (external tensor data), mapped read-only. */
struct import_file {
    char *name; /* relative to the model's folder, as the model names it */
    void *data;
    size_t bytes;
};

/* What must outlive the graph, sorted by name (the order of the model digest). */
struct import_extra {
    struct import_file *files;
    uint32_t file_count;
    int64_t ir_version, opset; /* as the file states them; 0 = not stated */
};
void import_extra_fini(struct import_extra *extra); /* unmaps; after the graph is freed */

/* ---- which formats ---- */

/* A format that files are known by. read is NULL where PENSTOCK_IMPORTERS left its importer out: such a file is refused by name. */
struct importer {
    const char *name, *title; /* "tfjs", "TensorFlow.js" */
    bool (*probe)(const void *bytes, size_t size);
    enum pen_status (*read)(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                            struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr);
};
/* importer_table.c, generated from PENSTOCK_IMPORTERS: every format in the order in which probes are asked. */
const struct importer *importer_table(size_t *ret_count);
extern const char importer_names[]; /* those built in: "tflite, tfjs, onnx" */

/* ---- ONNX ---------------------------------------------------------------------------------------------------------------------- */

/* Cheap: looks like a ModelProto (an ir_version and a graph or opsets among the first fields), or like the front of one that was cut off. */
bool onnx_probe(const void *bytes, size_t size);

/*
 * Reads a model; *ret_graph is verified, sorted, and its values know their types and shapes as far as these follow from the inputs.
 * folder: where external data lies, NULL = none allowed. limits: NULL = defaults.
 * An initialiser that is also a graph input is a constant here, whatever the IR version says: it is not among the graph's inputs.
 * PEN_ERR_UNSUPPORTED lists every operator without a meaning here by name and node (the first 50).
 */
enum pen_status onnx_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                          struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr);

/* A value of a test case: TensorProto, SequenceProto or OptionalProto. */
struct onnx_value {
    const char *name; /* "" when the file gives none */
    enum value_kind kind;
    enum pen_dtype dtype;
    struct shape shape;
    const void *data; /* strings: struct string_view[] */
    size_t bytes;
    struct onnx_value *items; /* SEQUENCE: the elements; OPTIONAL: 0 or 1 */
    uint32_t item_count;
};

/* The message type is not in the file: `kind` says what to read. Memory comes from the arena; data may be borrowed from `bytes`. */
enum pen_status onnx_value_read(const void *bytes, size_t size, enum value_kind kind, struct graph_arena *arena,
                                struct onnx_value *ret_value, struct pen_error *reterr);
/* onnx_value_read for the common case. */
enum pen_status onnx_tensor_read(const void *bytes, size_t size, struct graph_arena *arena,
                                 struct onnx_value *ret_value, struct pen_error *reterr);

/* ---- TFLite -------------------------------------------------------------------------------------------------------------------- */

bool tflite_probe(const void *bytes, size_t size); /* the identifier TFL3 */
/* As onnx_read; everything is in the one file, so that `folder` is not looked at and *ret_extra holds no files. */
enum pen_status tflite_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                            struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr);

/* ---- TensorFlow.js ------------------------------------------------------------------------------------------------------------- */

/* A JSON object with a modelTopology and a weightsManifest, or the front of one with a modelTopology. */
bool tfjs_probe(const void *bytes, size_t size);
/* The text ends inside its outermost bracket: a file that was cut off. */
bool json_cut(const void *bytes, size_t size);
/* As onnx_read, for graph models and layers models; the shards lie in `folder`. */
enum pen_status tfjs_read(const void *bytes, size_t size, const char *folder, const struct graph_limits *limits,
                          struct graph **ret_graph, struct import_extra *ret_extra, struct pen_error *reterr);

#endif
