#include <stdio.h>
#include <string.h>

#include "import/onnx/wire.h"
#include "run/internal.h"
#include "tools/case.h"

#define DEPTH_MAX 16

static void ops_add(struct case_ops *ops, const char *name)
{
    for (uint32_t i = 0; i < ops->count; i++) {
        if (strcmp(ops->names[i], name) == 0) {
            return;
        }
    }
    if (ops->count < CASE_OPS_MAX) {
        snprintf(ops->names[ops->count++], sizeof ops->names[0], "%s", name);
    }
}

static void graph_walk(struct bytes graph, int depth, struct case_ops *ops);

/* AttributeProto: g = 6, graphs = 11. */
static void attribute_walk(struct bytes attribute, int depth, struct case_ops *ops)
{
    struct wire_field f;
    while (wire_next(&attribute, &f) == 1) {
        if (f.type == WIRE_BYTES && (f.number == 6 || f.number == 11)) {
            graph_walk(f.bytes, depth + 1, ops);
        }
    }
}

/* NodeProto: op_type = 4, attribute = 5, domain = 7. */
static void node_walk(struct bytes node, int depth, struct case_ops *ops)
{
    struct wire_field f;
    struct bytes op = {0};
    struct bytes domain = {0};
    while (wire_next(&node, &f) == 1) {
        if (f.type == WIRE_BYTES && f.number == 4) {
            op = f.bytes;
        } else if (f.type == WIRE_BYTES && f.number == 7) {
            domain = f.bytes;
        } else if (f.type == WIRE_BYTES && f.number == 5) {
            attribute_walk(f.bytes, depth, ops);
        }
    }
    char name[80];
    bool plain = domain.size == 0 || bytes_are(domain, "ai.onnx");
    snprintf(name, sizeof name, "%.*s%s%.*s", plain ? 0 : (int)(domain.size > 36 ? 36 : domain.size),
             (const char *)domain.at, plain ? "" : "::", (int)(op.size > 36 ? 36 : op.size), (const char *)op.at);
    ops_add(ops, name);
}

/* GraphProto: node = 1. */
static void graph_walk(struct bytes graph, int depth, struct case_ops *ops)
{
    struct wire_field f;
    while (depth < DEPTH_MAX && wire_next(&graph, &f) == 1) {
        if (f.type == WIRE_BYTES && f.number == 1) {
            node_walk(f.bytes, depth, ops);
        }
    }
}

static void loaded_walk(const struct graph *g, struct case_ops *ops)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        ops_add(ops, g->nodes[i].origin != NULL ? g->nodes[i].origin : op_def(g->nodes[i].op)->name);
    }
}

void case_ops_read(const char *model_path, const struct pen_model *model, struct rt_arena *arena,
                   struct case_ops *ret_ops)
{
    void *file = NULL;
    size_t size = 0;
    struct wire_field f;
    ret_ops->count = 0;
    if (case_file(arena, model_path, &file, &size, NULL) == PEN_OK && onnx_probe(file, size)) {
        struct bytes message = {.at = file, .size = size};
        while (wire_next(&message, &f) == 1) { /* ModelProto: graph = 7 */
            if (f.type == WIRE_BYTES && f.number == 7) {
                graph_walk(f.bytes, 0, ret_ops);
            }
        }
    } else if (model != NULL) {
        loaded_walk(model->graph, ret_ops);
    }
}
