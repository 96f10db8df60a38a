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
    bool centred; /* int8 pixels, value - 128: a quantised input without a preprocess spans its type */
};

/*
 * INVALID with what is wrong in the text. A size that the text leaves out is the signature's (may be NULL: 0 then), which is [batch, height, width,
 * channels] as the pixels travel.
 */
enum pen_status preprocess_parse(const char *json, const struct pen_signature *sig, struct preprocess *ret_preprocess,
                                 struct pen_error *reterr);

/*
 * Why a picture cannot be sent to a model without a preprocess, and the lines of config.json that would change that, as far as the input's signature tells them. Never OK.
 */
enum pen_status preprocess_missing(const struct pen_model *model, const struct pen_signature *sig,
                                   struct pen_error *reterr);

/* An array for an input that config.json makes one of pixels: DTYPE or SHAPE with what the model takes instead when it is none of those. */
enum pen_status preprocess_array(const struct pen_model *model, const struct pen_signature *sig, const char *file,
                                 const struct pen_tensor *array, struct pen_error *reterr);

/* How a model takes pictures at this input; without a preprocess as its signature tells, where that leaves no doubt. */
enum pen_status preprocess_of(const struct pen_model *model, const struct pen_signature *sig,
                              struct preprocess *ret_preprocess, struct pen_error *reterr);

/* The input of that name; NULL: the one that takes pictures, else the first. */
enum pen_status preprocess_input(const struct pen_model *model, const char *name, const struct pen_signature **ret_sig,
                                 struct pen_error *reterr);

/* A file as it is, for an input that takes files: block has 4 bytes before the `size` bytes of the file. The tensor, STRING [1], borrows the block. */
void preprocess_file(uint8_t *block, size_t size, struct pen_tensor *ret_tensor);

/* Any picture -> the picture the model takes. */
enum pen_status preprocess_picture(const struct preprocess *p, const struct picture *picture, struct picture *ret_image,
                                   struct pen_error *reterr);

/* Any picture -> a tensor [1, height, width, channels] without a name; ret_pixels: its data, the caller's to free(). */
enum pen_status preprocess_tensor(const struct preprocess *p, const struct picture *picture,
                                  struct pen_tensor *ret_tensor, uint8_t **ret_pixels, struct pen_error *reterr);

#endif
