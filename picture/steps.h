/*
 * steps.h - from the bytes of a picture's file to a model's input, by steps that somebody has declared.
 *
 * The file is decoded, made grey or RGB, resized and cropped step by step, and written as numbers. All but the last is done on pixels of 8 bits, as Pillow does it;
 * each pixel value then has its number in a table, as NumPy would compute it. The first step takes the rows while they are decoded where it can, so that the whole
 * picture is never in memory.
 *
 * Threads: any (steps do not change while they are used).
 */
#ifndef PICTURE_STEPS_H
#define PICTURE_STEPS_H

#include "map.h"
#include "penstock/dtype.h"
#include "picture.h"
#include "scale.h"

#define PICTURE_STEPS_MAX 8u
#define PICTURE_SIDE_MAX  16384u

enum picture_step_kind {
    PICTURE_STEP_RESIZE, /* to width x height; fit STRETCH, CROP (ImageOps.fit) or PAD (ImageOps.pad) */
    PICTURE_STEP_SHORT, /* so that the shorter side has `width` pixels; the longer one is rounded down, as torchvision does it */
    PICTURE_STEP_CROP,   /* the part at x, y */
    PICTURE_STEP_MIDDLE, /* the part in the middle, as torchvision's CenterCrop */
};

struct picture_step {
    enum picture_step_kind kind;
    uint32_t x, y, width, height;
    enum scale_filter filter;
    enum picture_fit fit;
    uint8_t fill[3]; /* RGB, where there is no picture: PAD, and crops beyond its edge */
};

struct picture_steps {
    struct picture_options options; /* least_width and least_height: set by picture_steps_ready */
    struct picture_limits limits;
    bool scaled; /* a JPEG may be decoded at 1/2, 1/4 or 1/8 when the first step makes it smaller still */
    struct picture_step steps[PICTURE_STEPS_MAX];
    size_t count;

    uint32_t width, height, channels; /* of the model's input; 1 (grey) or 3 channels */
    bool bgr, nchw;
    size_t element_bytes;    /* 4, 2 or 1 */
    float floats[3][256];    /* element_bytes 4: the number of each pixel value, by the model's channel */
    uint16_t halves[3][256]; /* 2 */
    uint8_t bytes[3][256];   /* 1 */
};

/* How pixel values become numbers: ((value * scale) - mean) / std per channel of the model, then as the type asks for. */
struct picture_numbers {
    enum pen_dtype dtype; /* F32, F16, BF16, U8, I8 */
    float scale, mean[3], std[3];
    bool quantised; /* U8 and I8: round(number / q_scale) + q_zero; else the pixels themselves, of I8 less 128 */
    float q_scale;
    int32_t q_zero;
};

/* The size that the last steps leave, whatever the picture is. False: it depends on the picture. */
bool picture_steps_size(const struct picture_steps *steps, uint32_t *ret_width, uint32_t *ret_height);

/* Fills the tables and what else follows; the other fields are set. */
void picture_steps_ready(struct picture_steps *steps, const struct picture_numbers *numbers);

/*
 * The bytes of a file -> `to`: height * width * channels elements, aligned to them. name: what the sentence of an error is about. Errors as those of picture_decode.
 */
enum pen_status picture_steps_run(const struct picture_steps *steps, const uint8_t *bytes, size_t size,
                                  const char *name, void *to, struct picture_map *ret_map, struct pen_error *reterr);

#endif
