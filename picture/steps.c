/* steps.c - the steps one after the other: the first follows the decoder row by row, the others go over small pictures. */
#include "steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "picture_internal.h"
#include "stage.h"

bool picture_steps_size(const struct picture_steps *steps, uint32_t *ret_width, uint32_t *ret_height)
{
    const struct picture_step *last = steps->count ? &steps->steps[steps->count - 1] : NULL;
    if (!last || last->kind == PICTURE_STEP_SHORT) {
        return false;
    }
    *ret_width = last->width;
    *ret_height = last->height;
    return true;
}

void picture_steps_ready(struct picture_steps *steps, const struct picture_numbers *numbers)
{
    const struct picture_step *first = steps->count ? &steps->steps[0] : NULL;
    steps->options.least_width = steps->options.least_height = 0;
    if (steps->scaled && first && first->kind == PICTURE_STEP_RESIZE) {
        steps->options.least_width = first->width;
        steps->options.least_height = first->height;
    } else if (steps->scaled && first && first->kind == PICTURE_STEP_SHORT) {
        steps->options.least_width = steps->options.least_height = first->width;
    }
    numbers_tables(steps, numbers);
}

/* The first stage, behind a decoder. */
struct intake {
    const struct picture_steps *steps;
    struct stage stage;
    uint32_t width, height, channels; /* as decoded */
    uint8_t *row;                     /* [width, steps->channels], where the channels differ */
};

static enum pen_status intake_begin(void *self, uint32_t width, uint32_t height, uint32_t channels,
                                    struct pen_error *reterr)
{
    struct intake *in = self;
    const struct picture_steps *steps = in->steps;
    in->width = width;
    in->height = height;
    in->channels = channels;
    in->row = channels == steps->channels ? NULL : malloc((size_t)width * steps->channels + ROW_SPARE);
    if (channels != steps->channels && !in->row) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a row of pixels.");
    }
    return stage_begin(&in->stage, steps, steps->count ? &steps->steps[0] : NULL, width, height, reterr);
}

static void intake_take(void *self, const uint8_t *row)
{
    struct intake *in = self;
    if (in->row) {
        row_convert(row, in->width, in->channels, in->row);
    }
    stage_row(&in->stage, in->row ? in->row : row);
}

/* A picture that had to be decoded as a whole: turned upright, then row by row. */
static enum pen_status intake_whole(struct intake *in, const struct picture_source *source, struct picture *picture,
                                    uint32_t orientation, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (!source->options.as_stored) {
        status = picture_upright(picture, orientation, source->name, &source->limits, reterr);
    }
    if (status == PEN_OK) {
        status = intake_begin(in, picture->width, picture->height, picture->channels, reterr);
    }
    for (uint32_t y = 0; status == PEN_OK && y < picture->height; y++) {
        intake_take(in, picture->pixels + (size_t)y * picture->width * picture->channels);
    }
    return status;
}

static void map_begin(struct picture_map *map, const struct intake *in, const struct picture_info *info, bool turned)
{
    map->width = turned ? info->height : info->width;
    map->height = turned ? info->width : info->height;
    map->scale_x = (double)in->width / map->width; /* of a scaled decoding */
    map->scale_y = (double)in->height / map->height;
    map->offset_x = map->offset_y = 0.0;
}

static void map_step(struct picture_map *map, const struct stage *stage)
{
    map->scale_x *= stage->scale_x;
    map->scale_y *= stage->scale_y;
    map->offset_x = map->offset_x * stage->scale_x + stage->offset_x;
    map->offset_y = map->offset_y * stage->scale_y + stage->offset_y;
    map->input_width = stage->out.width;
    map->input_height = stage->out.height;
}

/* Decodes the file and does the first step; in->stage.out is the result. */
static enum pen_status decode_first(struct intake *in, const struct picture_source *source, struct picture_map *map,
                                    struct pen_error *reterr)
{
    struct picture whole = {0};
    struct picture_info info = {.orientation = 1};
    enum pen_status status = decode_stored(source, &whole, &info, reterr);
    if (status == PEN_OK && whole.pixels) {
        status = intake_whole(in, source, &whole, info.orientation, reterr);
    }
    picture_fini(&whole);
    if (status == PEN_OK) {
        map_begin(map, in, &info, !source->options.as_stored && info.orientation >= 5);
        map_step(map, &in->stage);
    }
    return status;
}

/* The steps behind the first. */
static enum pen_status steps_on(const struct picture_steps *steps, struct stage *stage, struct picture_map *map,
                                struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 1; i < steps->count && status == PEN_OK; i++) {
        struct stage before = *stage;
        const struct picture *p = &before.out;
        status = stage_begin(stage, steps, &steps->steps[i], p->width, p->height, reterr);
        for (uint32_t y = 0; status == PEN_OK && y < p->height; y++) {
            stage_row(stage, p->pixels + (size_t)y * p->width * p->channels);
        }
        stage_fini(&before);
        if (status == PEN_OK) {
            map_step(map, stage);
        }
    }
    return status;
}

enum pen_status picture_steps_run(const struct picture_steps *steps, const uint8_t *bytes, size_t size,
                                  const char *name, void *to, struct picture_map *ret_map, struct pen_error *reterr)
{
    struct intake in = {.steps = steps};
    struct picture_map map = {.width = 0};
    const struct row_taker taker = {intake_begin, intake_take, &in};
    const struct picture_source source = {.bytes = bytes,
                                          .size = size,
                                          .name = name,
                                          .limits = limits_or_default(&steps->limits),
                                          .options = steps->options,
                                          .taker = &taker};
    enum pen_status status = decode_first(&in, &source, &map, reterr);
    if (status == PEN_OK) {
        status = steps_on(steps, &in.stage, &map, reterr);
    }
    const struct picture *out = &in.stage.out;
    if (status == PEN_OK && (out->width != steps->width || out->height != steps->height)) {
        status = pen_error_set(reterr, PEN_ERR_SHAPE,
                               "%s becomes %" PRIu32 "x%" PRIu32 " pixels, the model takes %" PRIu32 "x%" PRIu32
                               ": add a resize or a crop to the steps.",
                               name, out->width, out->height, steps->width, steps->height);
    }
    if (status == PEN_OK) {
        numbers_write(steps, out->pixels, to);
        *ret_map = map;
    }
    stage_fini(&in.stage);
    free(in.row);
    return status;
}
