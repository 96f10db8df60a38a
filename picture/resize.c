/* resize.c - a decoded picture through one step of resize, as the worker makes it of a file (stage.c). */
#include <stdlib.h>
#include <string.h>

#include "picture_internal.h"
#include "stage.h"

/* The last row is copied, because the scaler may read some bytes behind a row. */
static enum pen_status rows_give(const struct picture *picture, struct stage *stage, struct pen_error *reterr)
{
    size_t stride = (size_t)picture->width * picture->channels;
    uint8_t *last = malloc(stride + ROW_SPARE);
    if (!last) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to resize a picture.");
    }
    memcpy(last, picture->pixels + stride * (picture->height - 1), stride);
    memset(last + stride, 0, ROW_SPARE);
    for (uint32_t y = 0; y + 1 < picture->height; y++) {
        stage_row(stage, picture->pixels + stride * y);
    }
    stage_row(stage, last);
    free(last);
    return PEN_OK;
}

enum pen_status picture_resize(const struct picture *picture, uint32_t width, uint32_t height,
                               enum picture_filter filter, enum picture_fit fit, struct picture *ret_picture,
                               struct pen_error *reterr)
{
    static const enum scale_filter filters[] = {
        [PICTURE_BILINEAR] = SCALE_BILINEAR, [PICTURE_NEAREST] = SCALE_NEAREST, [PICTURE_AREA] = SCALE_AREA};
    const struct picture_step step = {
        .kind = PICTURE_STEP_RESIZE, .width = width, .height = height, .filter = filters[filter], .fit = fit};
    struct picture_steps *steps = calloc(1, sizeof *steps);
    struct stage stage = {.scaler = NULL};
    if (!steps) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to resize a picture.");
    }
    steps->channels = picture->channels;
    enum pen_status status = stage_begin(&stage, steps, &step, picture->width, picture->height, reterr);
    status = status == PEN_OK ? rows_give(picture, &stage, reterr) : status;
    if (status == PEN_OK) {
        *ret_picture = stage.out;
        stage.out = (struct picture){.pixels = NULL};
    }
    stage_fini(&stage);
    free(steps);
    return status;
}
