/*
 * ask.h - one picture to a model of the pool, and its tensors back.
 *
 * Threads: one-at-a-time.
 */
#ifndef ASK_H
#define ASK_H

#include <penstock/client.h>

#include "draw.h"

/* The pool at an endpoint (NULL: the default one) with the list of its models. */
struct pool {
    pen_client *client;
    struct pen_model_list *models;
};

/* Failures are told on stderr. */
bool pool_open(const char *endpoint, struct pool *ret_pool);
void pool_close(struct pool *pool);
/* Height and width of the model's picture; false where they are open: it takes any. */
bool pool_size(const struct pool *pool, const char *model, unsigned *ret_height, unsigned *ret_width);

/*
 * pixels: [height, width, 3]. A model whose config.json states a preprocess gets them as they are; another one floats: pixel * scale + offset. Gives the result
 * (free it), NULL on failure.
 */
pen_result *pool_ask(struct pool *pool, const char *model, const uint8_t *pixels, unsigned height, unsigned width,
                     float scale, float offset);

/* Element `index` of a float32 tensor: its bytes need not be aligned. */
float value_at(const struct pen_tensor *t, size_t index);
/* The float32 output of this many elements; NULL (told) when there is none. */
const struct pen_tensor *output_of_size(const pen_result *result, size_t elements);

#endif
