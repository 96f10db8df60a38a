#include "directory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"

#define ASK_US 3000000

struct shared_listing {
    struct listing listing; /* the first member */
    atomic_uint references;
    struct pen_model_list *models;
};

struct directory {
    pen_client *client;
    pthread_mutex_t asking, lock; /* asking: one question at a time */
    struct shared_listing *newest;
};

struct directory *directory_new(pen_client *client)
{
    struct directory *directory = calloc(1, sizeof *directory);
    if (!directory)
        return NULL;
    directory->client = client;
    pthread_mutex_init(&directory->asking, NULL);
    pthread_mutex_init(&directory->lock, NULL);
    return directory;
}

void directory_free(struct directory *directory)
{
    if (!directory)
        return;
    if (directory->newest)
        listing_release(&directory->newest->listing);
    pthread_mutex_destroy(&directory->asking);
    pthread_mutex_destroy(&directory->lock);
    free(directory);
}

void listing_release(const struct listing *listing)
{
    struct shared_listing *shared = (struct shared_listing *)(uintptr_t)listing;
    if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    pen_client_models_free(shared->models);
    free(shared);
}

const struct listing *directory_peek(struct directory *directory)
{
    pthread_mutex_lock(&directory->lock);
    struct shared_listing *newest = directory->newest;
    if (newest)
        atomic_fetch_add(&newest->references, 1);
    pthread_mutex_unlock(&directory->lock);
    return newest ? &newest->listing : NULL;
}

static const struct listing *young(struct directory *directory, uint64_t max_age_us)
{
    const struct listing *kept = directory_peek(directory);
    if (kept && clock_now_us() - kept->at_us <= max_age_us)
        return kept;
    listing_release(kept);
    return NULL;
}

static enum pen_status ask(struct directory *directory, struct pen_error *reterr)
{
    struct shared_listing *made = calloc(1, sizeof *made), *old;
    if (!made)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the list of models");
    made->listing.at_us = clock_now_us();
    enum pen_status status = pen_client_models(directory->client, ASK_US, &made->models, reterr);
    if (status != PEN_OK) {
        free(made);
        return status;
    }
    made->listing.models = made->models;
    atomic_init(&made->references, 1);
    pthread_mutex_lock(&directory->lock);
    old = directory->newest;
    directory->newest = made;
    pthread_mutex_unlock(&directory->lock);
    listing_release(old ? &old->listing : NULL);
    return PEN_OK;
}

enum pen_status directory_get(struct directory *directory, uint64_t max_age_us, const struct listing **ret_listing,
                              struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    const struct listing *found = young(directory, max_age_us);
    if (!found) {
        pthread_mutex_lock(&directory->asking);
        found = young(directory, max_age_us); /* somebody else may have asked meanwhile */
        if (!found && (status = ask(directory, reterr)) == PEN_OK)
            found = directory_peek(directory);
        pthread_mutex_unlock(&directory->asking);
    }
    if (found)
        *ret_listing = found;
    return status;
}

/* ---- models ---- */

bool model_is_ready(const struct pen_model *model)
{
    for (size_t i = 0; i < model->offers_count; i++)
        if (model->offers[i]->ready)
            return true;
    return model->spread;
}

uint32_t model_batch_max(const struct pen_model *model)
{
    uint32_t most = 0;
    bool batched = model->inputs_count > 0 && model->inputs[0].batched;
    for (size_t i = 0; i < model->offers_count && batched; i++)
        most = model->offers[i]->max_batch_size > most ? model->offers[i]->max_batch_size : most;
    return most;
}

static bool has_label(const struct pen_model *model, const char *label)
{
    for (size_t i = 0; i < model->version_labels_count; i++)
        if (strcmp(model->version_labels[i].label, label) == 0)
            return true;
    return false;
}

/* How well it fits; 0 = not at all. */
static int fitness(const struct pen_model *model, const char *version)
{
    if (*version == '\0')
        return has_label(model, "stable") ? 3 : model_is_ready(model) ? 2 : 1;
    if (strspn(version, "0123456789") == strlen(version))
        return strtoull(version, NULL, 10) == model->version;
    return has_label(model, version);
}

const struct pen_model *listing_find(const struct listing *listing, const char *name, const char *version)
{
    const struct pen_model *best = NULL;
    int best_fit = 0;
    for (size_t i = 0; i < listing->models->count; i++) {
        const struct pen_model *model = listing->models->models[i];
        int fit = strcmp(model->name, name) == 0 ? fitness(model, version) : 0;
        if (fit > best_fit || (fit > 0 && fit == best_fit && model->version > best->version)) {
            best = model;
            best_fit = fit;
        }
    }
    return best;
}
