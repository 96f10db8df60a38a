/*
 * directory.h - the models of the pool as the broker lists them, kept for a short while.
 *
 * A listing is one answer of the broker, shared by all who look at it and never changed.
 * Threads: any.
 */
#ifndef DIRECTORY_H
#define DIRECTORY_H

#include "penstock/client.h"

struct listing {
    const struct pen_model_list *models;
    uint64_t at_us; /* when it was asked for */
};

struct directory;
struct directory *directory_new(pen_client *client); /* client: borrowed. NULL without memory */
void directory_free(struct directory *directory);    /* NULL is fine */

/*
 * A listing that is at most max_age_us old: the kept one, or the broker is asked and its answer waited for.
 * @return PEN_OK: release it with listing_release; else as pen_client_models().
 */
enum pen_status directory_get(struct directory *directory, uint64_t max_age_us, const struct listing **ret_listing,
                              struct pen_error *reterr);
const struct listing *directory_peek(
    struct directory *directory);                    /* the kept one, of any age, to be released; NULL = none yet */
void listing_release(const struct listing *listing); /* NULL is fine */

/*
 * A model by name and version. version: digits, the name of a label, or "" for the one that serves jobs without a version: that with the label "stable",
 * else the highest with a worker that is ready, else the highest. NULL: there is none.
 */
const struct pen_model *listing_find(const struct listing *listing, const char *name, const char *version);
bool model_is_ready(const struct pen_model *model);
uint32_t model_batch_max(const struct pen_model *model); /* the largest that a worker offers; 0: it has no batches */

#endif
