/*
 * view.h - a folder of models for one worker: NAME/VERSION/ are links to models of the store.
 *
 * A version comes, changes and goes by one rename. While the view's process lives, it holds a lock; what the view names
 * is in use, and stays in the store. Views of processes that have died are removed when the next one is made.
 * Threads: one-at-a-time.
 */
#ifndef REGISTRY_VIEW_H
#define REGISTRY_VIEW_H

#include "store.h"

struct store_view;

enum pen_status view_open(const struct store *store, struct store_view **ret_view, struct pen_error *reterr);
void view_close(struct store_view *view); /* removes it; NULL is fine */
const char *view_folder(const struct store_view *view);

/* Makes NAME/VERSION/ lead to a model of the store, which must be there. It is served when view_choose names it. */
enum pen_status view_put(struct store_view *view, const char *name, uint64_t version,
                         const struct content_digest *digest, struct pen_error *reterr);
/* Writes NAME/config.json, whose version_policy names these versions. */
enum pen_status view_choose(struct store_view *view, const char *name, const uint64_t *versions, size_t count,
                            struct pen_error *reterr);
void view_drop(struct store_view *view, const char *name, uint64_t version);

/* Tells which models views of living processes name. */
void views_in_use(const struct store *store, void (*tell)(void *context, const struct content_digest *digest),
                  void *context);

#endif
