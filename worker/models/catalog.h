/*
 * catalog.h - the models of a folder: DIR/<name>/<version>/ with one model (model_file.h) and an optional config.json
 * in <name>/ or in <version>/ (that one wins).
 *
 * There are two steps, because the configs (instance_group) decide how the engine is opened: scan reads folders and
 * configs, load reads models. A model that cannot be served is logged (evt=model_failed, one sentence) and counted; the
 * others are served.
 *
 * Ownership: owns its models. Threads: one-at-a-time while it is built; then as each function says.
 */
#ifndef CATALOG_H
#define CATALOG_H

#include <pthread.h>
#include <stdatomic.h>

#include "failures.h"
#include "served.h"

#define CATALOG_MODELS_MAX 256u

/* A model found, not yet loaded. */
struct catalog_entry {
    char *name, *path; /* path: the version's folder */
    uint64_t version;
    uint64_t stamp; /* changes when the model's files or its config.json change; never 0 */
    uint64_t files; /* the part of `stamp` for the files: model_file_stamp */
    bool latest;    /* chosen as one of the latest versions: when it cannot be loaded, a lower version replaces it */
    struct config config;
};

/* Complaints of earlier scans, so that the next scan does not repeat them. */
#define CATALOG_SEEN_MAX 128u
struct catalog_seen {
    struct {
        uint64_t model, sentence;
    } told[CATALOG_SEEN_MAX];
    size_t count;
    struct failures *failures; /* borrowed; NULL = complaints are only logged */
};

struct catalog {
    struct served **models; /* [count] of CATALOG_MODELS_MAX */
    size_t count;
    size_t failed;
    struct catalog_entry *entries;
    size_t entries_count, entries_room;
    pthread_mutex_t lock; /* guards models and count while slots look models up and the watch changes them */
    atomic_uint_fast64_t loads, evictions; /* models loaded on demand, and models removed to make room */
    atomic_bool files_taken;               /* a model that was ever in it takes the files of pictures */
    atomic_size_t outputs_most;            /* the most outputs of any model that was ever in it */
    struct failures *failures;             /* of the serving catalog; NULL in catalogs of later scans */
    struct catalog_seen *seen;             /* NULL = every complaint is logged */
};

/*
 * choices: "name" or "name:version"; none = every model by its version_policy. Fails only when the folder itself cannot
 * be read.
 */
enum pen_status catalog_scan(const char *folder, const char *const *choices, size_t choices_count,
                             struct catalog *catalog, struct pen_error *reterr);
/* The same while serving; does not repeat complaints that are in `seen`. */
enum pen_status catalog_rescan(const char *folder, const char *const *choices, size_t choices_count,
                               struct catalog_seen *seen, struct catalog *catalog, struct pen_error *reterr);

/* Logs evt=model_waits: what is missing of a version that is being copied in. Only once, like all complaints. True:
   it was logged before. */
bool catalog_waits(struct catalog_seen *seen, const char *name, uint64_t version, const struct pen_error *error);
/* The model is well again: later complaints about it are logged anew. */
void catalog_seen_forget(struct catalog_seen *seen, const char *name);

/* Adds an entry for the next lower version, which replaces one of the latest versions that cannot be loaded. False:
   there is none. */
bool catalog_stand_in(struct catalog *catalog, size_t index);

/* A hash of name and version; it does not depend on the files. */
uint64_t catalog_entry_key(const struct catalog_entry *entry);

#define CATALOG_NEAREST_BYTES 96

/* When no model has this name: "; did you mean digits?" with the most similar name of a model's folder, or "". Fills
   `near` and returns it. */
const char *catalog_nearest(const char *folder, const char *name, char near[CATALOG_NEAREST_BYTES]);

/* Adds a choice to the result of a scan, or takes an entry out of it. */
void catalog_choose(struct catalog *catalog, const char *folder, const char *choice);
void catalog_entry_drop(struct catalog *catalog, size_t index);

/* The largest instance_group count of what was found; at least 1. */
uint32_t catalog_instances(const struct catalog *catalog);

/* Called when a model has been loaded; warms it up. began_us: when loading began. When it fails, the model is
   removed again. */
typedef enum pen_status catalog_loaded(void *context, struct served *served, uint64_t began_us,
                                       struct pen_error *reterr);

/* Loads the models that scan found. Calls `stop` (may be NULL) between models: true ends the loading early. */
enum pen_status catalog_load(struct catalog *catalog, struct pen_engine *engine, bool (*stop)(void),
                             catalog_loaded *loaded, void *context, struct pen_error *reterr);
/* Loads one entry; takes its config over. */
enum pen_status catalog_entry_load(struct catalog_entry *entry, struct pen_engine *engine, struct served **ret_served,
                                   struct pen_error *reterr);

void catalog_fini(struct catalog *catalog);

/* version 0 = the highest offered version, or the highest when none is offered. NULL = none. */
struct served *catalog_find(const struct catalog *catalog, const char *name, uint64_t version);

/* ---- while slots serve. Threads: any ---- */

/* catalog_find for a job: the model stays until served_release. NOT_FOUND, or UNAVAILABLE: it is not in memory now. */
enum pen_status catalog_take(struct catalog *catalog, const char *name, uint64_t version, struct served **ret_served);
/* A model in memory whose error nobody has measured yet (measure.h); it stays until served_release. NULL = none. */
struct served *catalog_take_unmeasured(struct catalog *catalog);
/* The next ensemble at or behind the place *at, which moves behind it; it stays until served_release. NULL = no more. */
struct served *catalog_take_ensemble(struct catalog *catalog, size_t *at);
/* Keeps the model. A model of the same name and version leaves the catalog; the caller frees that one when nobody
   uses it. */
enum pen_status catalog_add(struct catalog *catalog, struct served *served, struct served **ret_replaced,
                            struct pen_error *reterr);
void catalog_take_out(struct catalog *catalog, struct served *served); /* the model is the caller's from then on */

#endif
