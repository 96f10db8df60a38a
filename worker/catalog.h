/*
 * catalog.h - the models of a folder: DIR/<name>/<version>/model.onnx with an optional config.json in <name>/ or in <version>/ (that one wins).
 *
 * Two steps, because what the configs say (instance_group) decides how the engine is opened: scan reads folders and configs, load reads models.
 * What cannot be served is logged (evt=model_failed, one sentence) and counted; the rest serves.
 *
 * Ownership: owns its models. Threads: one-at-a-time while it is built, immutable afterwards.
 */
#ifndef CATALOG_H
#define CATALOG_H

#include "served.h"

#define CATALOG_MODELS_MAX 256u

struct catalog_entry; /* a model found, not yet loaded */

struct catalog {
    struct served **models;
    size_t count;
    size_t failed;
    struct catalog_entry *entries;
    size_t entries_count, entries_room;
};

/*
 * choices: "name" or "name:version", what to serve; none = every model by its version_policy. Fails only when the folder itself cannot be read.
 */
enum pen_status catalog_scan(const char *folder, const char *const *choices, size_t choices_count,
                             struct catalog *catalog, struct pen_error *reterr);

/* The largest instance_group count of what was found; at least 1. */
uint32_t catalog_instances(const struct catalog *catalog);

/* Loads what scan found. `stop` (may be NULL) is asked between models: true ends the loading early. */
enum pen_status catalog_load(struct catalog *catalog, struct pen_engine *engine, bool (*stop)(void),
                             struct pen_error *reterr);
/* Takes a model that cannot be warmed out again. */
void catalog_remove(struct catalog *catalog, size_t index);

void catalog_fini(struct catalog *catalog);

/* version 0 = the highest there is. NULL when there is none. */
struct served *catalog_find(const struct catalog *catalog, const char *name, uint64_t version);

#endif
