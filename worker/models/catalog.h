/*
 * catalog.h - the models of a folder: DIR/<name>/<version>/ with one model (model_file.h) and an optional config.json in <name>/ or in <version>/ (that
 * one wins).
 *
 * Two steps, because what the configs say (instance_group) decides how the engine is opened: scan reads folders and configs, load reads models.
 * What cannot be served is logged (evt=model_failed, one sentence) and counted; the rest serves.
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
    uint64_t stamp; /* changes with what the model is made of: its files, and what config.json says of it; never 0 */
    uint64_t files; /* the part of it that the files are: model_file_stamp */
    bool latest;    /* chosen because it is among the highest: a lower one stands in when it cannot be loaded */
    struct config config;
};

/* What a scan has complained about, so that the next one does not say it again. */
#define CATALOG_SEEN_MAX 128u
struct catalog_seen {
    struct {
        uint64_t model, sentence;
    } told[CATALOG_SEEN_MAX];
    size_t count;
    struct failures *failures; /* borrowed; NULL = they are told to nobody else */
};

struct catalog {
    struct served **models; /* [count] of CATALOG_MODELS_MAX */
    size_t count;
    size_t failed;
    struct catalog_entry *entries;
    size_t entries_count, entries_room;
    pthread_mutex_t lock; /* models and count, once slots look things up while the watch changes them */
    atomic_uint_fast64_t loads, evictions; /* on demand, for lack of room */
    atomic_size_t outputs_most;            /* of any model that was ever in it */
    struct failures *failures;             /* of the catalog that serves; NULL in those of later scans */
    struct catalog_seen *seen;             /* NULL = every complaint is logged */
};

/*
 * choices: "name" or "name:version", what to serve; none = every model by its version_policy. Fails only when the folder itself cannot be read.
 */
enum pen_status catalog_scan(const char *folder, const char *const *choices, size_t choices_count,
                             struct catalog *catalog, struct pen_error *reterr);
/* The same while serving: complaints that `seen` holds are not repeated. */
enum pen_status catalog_rescan(const char *folder, const char *const *choices, size_t choices_count,
                               struct catalog_seen *seen, struct catalog *catalog, struct pen_error *reterr);

/* One line evt=model_waits: what is missing of a version that is being put in place. Once, as all complaints. True: it was said before. */
bool catalog_waits(struct catalog_seen *seen, const char *name, uint64_t version, const struct pen_error *error);
/* All is well with that model: what was said of it is said anew when it happens again. */
void catalog_seen_forget(struct catalog_seen *seen, const char *name);

/* An entry more, for the next lower version: it stands in for one of the latest that cannot be loaded. False: there is none. */
bool catalog_stand_in(struct catalog *catalog, size_t index);

/* The same for the same version of the same model, whatever it is made of. */
uint64_t catalog_entry_key(const struct catalog_entry *entry);

#define CATALOG_NEAREST_BYTES 96

/* "; did you mean digits?" when a model's folder is nearly called as this name, which has none; else "". Fills `near` and returns it. */
const char *catalog_nearest(const char *folder, const char *name, char near[CATALOG_NEAREST_BYTES]);

/* Adds one more choice to what a scan has found; takes an entry of it out. */
void catalog_choose(struct catalog *catalog, const char *folder, const char *choice);
void catalog_entry_drop(struct catalog *catalog, size_t index);

/* The largest instance_group count of what was found; at least 1. */
uint32_t catalog_instances(const struct catalog *catalog);

/* What happens to a model once it is in the catalog: its warm-up. began_us: when its loading did. A failure takes it out again. */
typedef enum pen_status catalog_loaded(void *context, struct served *served, uint64_t began_us,
                                       struct pen_error *reterr);

/* Loads what scan found. `stop` (may be NULL) is asked between models: true ends the loading early. */
enum pen_status catalog_load(struct catalog *catalog, struct pen_engine *engine, bool (*stop)(void),
                             catalog_loaded *loaded, void *context, struct pen_error *reterr);
/* Loads one entry; its config is taken over. */
enum pen_status catalog_entry_load(struct catalog_entry *entry, struct pen_engine *engine, struct served **ret_served,
                                   struct pen_error *reterr);

void catalog_fini(struct catalog *catalog);

/* version 0 = the highest there is, of those that are offered when there are any. NULL when there is none. */
struct served *catalog_find(const struct catalog *catalog, const char *name, uint64_t version);

/* ---- while slots serve. Threads: any ---- */

/* catalog_find for a job: the model stays until served_release. NOT_FOUND, or UNAVAILABLE: it is not in memory now. */
enum pen_status catalog_take(struct catalog *catalog, const char *name, uint64_t version, struct served **ret_served);
/* Keeps the model. One of the same name and version leaves the catalog for it, and is the caller's to free when nobody uses it. */
enum pen_status catalog_add(struct catalog *catalog, struct served *served, struct served **ret_replaced,
                            struct pen_error *reterr);
void catalog_take_out(struct catalog *catalog, struct served *served); /* it is the caller's from now on */

#endif
