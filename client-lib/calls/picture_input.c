/* picture_input.c - a picture in a file becomes the tensor that a model takes. */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "deadline.h"
#include "penstock/client.h"
#include "preprocess.h"

#define ASK_US 10000000
#define KEEP_US                                                                                                        \
    1000000u /* a list of models serves the pictures of so long, unless a result comes from a model that it does not have */

/* The tensor's name moves behind its pixels: one block has both. */
static enum pen_status name_behind(struct pen_tensor *t, uint8_t *pixels, const char *name, struct pen_error *reterr)
{
    size_t length = strlen(name) + 1;
    uint8_t *block = realloc(pixels, t->bytes + length);
    if (!block) {
        free(pixels);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a picture of %zu bytes.", t->bytes);
    }
    t->data = block;
    t->name = memcpy(block + t->bytes, name, length);
    return PEN_OK;
}

/* The worker decodes it: only that it is a picture is seen to here. */
static enum pen_status file_tensor(const struct pen_signature *sig, const char *path, struct pen_tensor *ret_tensor,
                                   struct pen_error *reterr)
{
    uint8_t *block = NULL;
    size_t size = 0;
    enum pen_status status = picture_file(path, 4, NULL, &block, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (picture_probe(block + 4, size) == PICTURE_NONE) {
        free(block);
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s is no picture: it is neither PNG, JPEG, WebP nor BMP.", path);
    }
    preprocess_file(block, size, ret_tensor);
    return name_behind(ret_tensor, block, sig->name, reterr);
}

enum pen_status pen_model_picture(const struct pen_model *model, const char *path, struct pen_tensor *ret_tensor,
                                  struct pen_error *reterr)
{
    const struct pen_signature *sig = NULL;
    struct preprocess p;
    struct picture picture;
    struct pen_tensor t;
    uint8_t *pixels = NULL;
    enum pen_status status = preprocess_input(model, NULL, &sig, reterr);
    if (status == PEN_OK && sig->pictures) {
        return file_tensor(sig, path, ret_tensor, reterr);
    }
    status = status == PEN_OK ? preprocess_of(model, sig, &p, reterr) : status;
    status = status == PEN_OK ? picture_read(path, NULL, &picture, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    status = preprocess_tensor(&p, &picture, &t, &pixels, reterr);
    picture_fini(&picture);
    status = status == PEN_OK ? name_behind(&t, pixels, sig->name, reterr) : status;
    if (status == PEN_OK) {
        *ret_tensor = t;
    }
    return status;
}

static const struct pen_model *highest(const struct pen_model_list *list, const char *name)
{
    const struct pen_model *best = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct pen_model *m = list->models[i];
        best = strcmp(m->name, name) == 0 && (!best || m->version > best->version) ? m : best;
    }
    return best;
}

/* The list of models in this thread's hands, and when it was asked for. */
struct borrowed {
    struct pen_model_list *list;
    uint64_t at_us;
};

/* One that is young enough, and has the model; else list is NULL. */
static struct borrowed models_take(pen_client *client, const char *model)
{
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&client->lock);
    struct borrowed kept = {client->known, client->known_us};
    client->known = NULL;
    pthread_mutex_unlock(&client->lock);
    if (kept.list && (now_us - kept.at_us > KEEP_US || !highest(kept.list, model))) {
        pen_client_models_free(kept.list);
        kept.list = NULL;
    }
    return kept;
}

/* For the next picture; another thread may have been first. */
static void models_keep(pen_client *client, struct borrowed models)
{
    pthread_mutex_lock(&client->lock);
    bool first = !client->known;
    if (first) {
        client->known = models.list;
        client->known_us = models.at_us;
    }
    pthread_mutex_unlock(&client->lock);
    if (!first) {
        pen_client_models_free(models.list);
    }
}

enum pen_status pen_client_picture(pen_client *client, const char *model, const char *path,
                                   struct pen_tensor *ret_tensor, struct pen_error *reterr)
{
    struct borrowed models = models_take(client, model);
    enum pen_status status = PEN_OK;
    if (!models.list) {
        models.at_us = clock_now_us();
        status = pen_client_models(client, ASK_US, &models.list, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    const struct pen_model *found = highest(models.list, model);
    status = found
                 ? pen_model_picture(found, path, ret_tensor, reterr)
                 : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no worker has model \"%s\"; see penstock models.", model);
    models_keep(client, models);
    return status;
}

void pen_picture_free(struct pen_tensor *tensor)
{
    free((void *)(uintptr_t)tensor->data);
    *tensor = (struct pen_tensor){.name = ""};
}
