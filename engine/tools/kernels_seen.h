/*
 * kernels_seen.h - what models were seen to need of a build: a set of operators with types and backends, parts of importers, precisions; and its two forms.
 *
 * Threads: one-at-a-time; while it watches, any thread may compute.
 */
#ifndef KERNELS_SEEN_H
#define KERNELS_SEEN_H

#include "penstock/engine.h"

struct kernels_seen;

/* Watches from here on (graph/needs.h), until it is freed. NULL without memory. */
struct kernels_seen *kernels_seen_new(void);
void kernels_seen_free(struct kernels_seen *seen); /* NULL is fine */
void kernels_seen_precision(struct kernels_seen *seen, enum pen_precision precision);
/* Reads the file once more for the operators that it uses, as its format calls them. */
void kernels_seen_import(struct kernels_seen *seen, const char *path, const char *format);
/* A model that did not run to its end, and why. */
void kernels_seen_note(struct kernels_seen *seen, const char *path, const char *why);

/* The list as -DPENSTOCK_KERNELS= reads it; a JSON object. */
void kernels_seen_text(const struct kernels_seen *seen, const char *backend);
void kernels_seen_json(const struct kernels_seen *seen, const char *backend);

#endif
