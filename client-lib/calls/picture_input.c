/* picture_input.c - a picture in a file becomes the tensor that a model takes. */
#include <stdlib.h>
#include <string.h>

#include "penstock/client.h"
#include "preprocess.h"

#define ASK_US 10000000

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

enum pen_status pen_model_picture(const struct pen_model *model, const char *path, struct pen_tensor *ret_tensor,
                                  struct pen_error *reterr)
{
    const struct pen_signature *sig = NULL;
    struct preprocess p;
    struct picture picture;
    struct pen_tensor t;
    uint8_t *pixels = NULL;
    enum pen_status status = preprocess_input(model, NULL, &sig, reterr);
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

enum pen_status pen_client_picture(pen_client *client, const char *model, const char *path,
                                   struct pen_tensor *ret_tensor, struct pen_error *reterr)
{
    struct pen_model_list *list = NULL;
    enum pen_status status = pen_client_models(client, ASK_US, &list, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const struct pen_model *found = highest(list, model);
    status = found
                 ? pen_model_picture(found, path, ret_tensor, reterr)
                 : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "no worker has model \"%s\"; see penstock models.", model);
    pen_client_models_free(list);
    return status;
}

void pen_picture_free(struct pen_tensor *tensor)
{
    free((void *)(uintptr_t)tensor->data);
    *tensor = (struct pen_tensor){.name = ""};
}
