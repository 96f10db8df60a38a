/*
 * needs.h - tells whoever asks what models need of a build: each operator that occurs in a graph, is computed by a reference kernel, or is placed on a backend.
 *
 * `penstock-engine kernels` watches while it loads and runs models. Without a watcher a note costs one load.
 * Threads: notes: any; a watcher is set while nothing loads or runs, and may be called by any thread.
 */
#ifndef NEEDS_H
#define NEEDS_H

#include "graph/graph.h"

struct needs_watcher {
    /* where: "graph", or a backend's name. type: of the first input; NONE = there is none, or it is not known. */
    void (*note)(void *context, const char *where, enum op op, enum pen_dtype type);
    void *context;
};

void needs_watch(const struct needs_watcher *watcher); /* NULL = nobody watches */
void needs_note(const char *where, enum op op, enum pen_dtype type);
/* A node of the graph, and the operator of the activation that was fused into it. */
void needs_note_node(const struct graph *g, const struct node *n);

#endif
