/*
 * store.h - the models of this host or process, fetched once and kept: contents by digest, models ready to serve, and a
 * bound.
 *
 *   blobs/sha256/DIGEST    whole contents, read-only; none is here before its digest was compared
 *   partial/DIGEST         contents on their way (partial.h)
 *   models/DIGEST/         the files of a version, by the digest of its manifest: links to blobs
 *   views/                 folders of models for workers that run now (view.h)
 *   known/                 what references meant when the registry was last asked
 *
 * Several processes may share one store: each content has a lock, so that one of them fetches it and the others wait.
 * Ownership: texts are copied. Threads: any.
 */
#ifndef STORE_H
#define STORE_H

#include "disk.h"
#include "manifest.h"

struct store;

/* XDG_CACHE_HOME/penstock/store, else ~/.cache/penstock/store; false: there is no HOME. */
bool store_folder_usual(char folder[DISK_PATH_BYTES]);
/* limit_bytes: of all contents; 0 = none. Makes the folder. */
enum pen_status store_open(const char *folder, uint64_t limit_bytes, struct store **ret_store,
                           struct pen_error *reterr);
void store_close(struct store *store); /* NULL is fine */
const char *store_folder(const struct store *store);
uint64_t store_limit(const struct store *store);

void store_path(const struct store *store, const char *kind, const char *name, char path[DISK_PATH_BYTES]);
void store_blob_path(const struct store *store, const struct content_digest *digest, char path[DISK_PATH_BYTES]);
/* True when the content is here; it counts as used now. */
bool store_has(const struct store *store, const struct content_digest *digest, uint64_t bytes);
/* Keeps a small content whose digest is `digest`. */
enum pen_status store_blob_put(const struct store *store, const struct content_digest *digest, const void *bytes,
                               size_t count, struct pen_error *reterr);
/* Drops a content that is not what its name says. */
void store_blob_drop(const struct store *store, const struct content_digest *digest);

/* One process at a time changes models/ and views/. -1: errno; close() gives it back. */
int store_lock(const struct store *store);

/*
 * Makes models/DIGEST/ of the blobs, which must all be here. NOT_FOUND: one is missing (another process may have made
 * room in between).
 */
enum pen_status store_model_put(const struct store *store, const struct content_digest *digest,
                                const struct manifest *manifest, struct pen_error *reterr);
bool store_model_has(const struct store *store, const struct content_digest *digest);
/* Compares each file with its digest. CORRUPT, and the model and the broken contents are gone from the store. */
enum pen_status store_model_check(const struct store *store, const struct content_digest *digest,
                                  const struct manifest *manifest, struct pen_error *reterr);
/* Reads the manifest of a model that is here. */
enum pen_status store_manifest(const struct store *store, const struct content_digest *digest,
                               struct manifest *ret_manifest, struct pen_error *reterr);
/* Tells the digests of all models. */
void store_models(const struct store *store, void (*tell)(void *context, const struct content_digest *digest),
                  void *context);

/* Remembers what `reference` of the place `registry` meant; and what it meant when it was last asked. */
void store_known_put(const struct store *store, const char *registry, const char *reference,
                     const struct content_digest *digest);
bool store_known(const struct store *store, const char *registry, const char *reference,
                 struct content_digest *ret_digest);

#endif
