/*
 * inventory.h - what a model file asks for, noted while it is read: its operators, how many nodes use each, and the nodes that this build has no meaning for.
 *
 * A reader is given one by `graph_limits.inventory`. Every function takes NULL, which notes nothing.
 * Threads: one-at-a-time.
 */
#ifndef INVENTORY_H
#define INVENTORY_H

#include <stdbool.h>
#include <stdint.h>

#define INVENTORY_OPS_MAX   1024 /* different operators; more are not noted */
#define INVENTORY_NODES_MAX 4096 /* names of missing nodes, all operators together */

struct inventory_op {
    char name[112];  /* as the file calls it: "Conv", "com.microsoft::Foo", "custom Bar" */
    uint32_t nodes;  /* that use it */
    uint32_t missed; /* of those: not understood */
};

struct inventory_node {
    uint32_t op; /* index */
    char name[120];
};

struct inventory {
    struct inventory_op *ops;
    uint32_t op_count, op_room;
    struct inventory_node *nodes; /* the missing ones */
    uint32_t node_count, node_room;
    char maker[160], versions[160]; /* "pytorch 2.5", "opset 17, com.microsoft 1"; "" = the file does not say */
    bool layers;                    /* a model of layers, not of nodes (TensorFlow.js) */
    char entries[400];              /* "encode, decode": of a file with several entry points */
};

void inventory_fini(struct inventory *i);
void inventory_note(struct inventory *i, const char *op);
/* A node of `op` that is not understood. */
void inventory_miss(struct inventory *i, const char *op, const char *node);
/* Appends to maker or versions, a comma between. */
void inventory_append(char *text, uint32_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
