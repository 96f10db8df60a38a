/*
 * preprocess.h - how a model wants its pictures: its `input.preprocess`, which the broker passes on as JSON text.
 *
 * The client decodes, converts to grey or RGB, resizes and fits; order, inversion, mean and scale are the worker's. Pixels travel as
 * uint8 [1, height, width, channels].
 * Threads: any (no state).
 */
#ifndef PREPROCESS_H
#define PREPROCESS_H

#include "penstock/client.h"

#include "picture.h"

struct preprocess {
    char input[256]; /* name of the input tensor; "" = the model's first */
    uint32_t channels, height, width;
    enum picture_filter filter;
    enum picture_fit fit;
};

/*
 * INVALID with what is wrong in the text. A size that the text leaves out is the signature's (may be NULL: 0 then), which is [batch, height, width,
 * channels] as the pixels travel.
 */
enum pen_status preprocess_parse(const char *json, const struct pen_signature *sig, struct preprocess *ret_preprocess,
                                 struct pen_error *reterr);

/* Any picture -> the picture the model takes. */
enum pen_status preprocess_picture(const struct preprocess *p, const struct picture *picture, struct picture *ret_image,
                                   struct pen_error *reterr);

#endif
