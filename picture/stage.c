/* stage.c - where a step puts a picture of some size, and the rows on their way there. */
#include "stage.h"

#include <math.h>
#include <string.h>

#include "picture_internal.h"

/* Where a source of some size goes. */
struct fitted {
    uint32_t width, height;             /* of the result */
    double left, top, right, bottom;    /* the part of the source that is scaled ... */
    uint32_t x, y, to_width, to_height; /* ... and the part of the result that it fills */
};

static uint32_t whole_side(double side)
{
    return side < 1.0 ? 1 : side > PICTURE_SIDE_MAX ? PICTURE_SIDE_MAX : (uint32_t)side;
}

/* Pillow's ImageOps.pad: the larger side fits, the other one is rounded half to even, like its place. */
static void fit_padded(struct fitted *f, uint32_t width, uint32_t height)
{
    double own = (double)width / height, wanted = (double)f->width / f->height;
    if (own > wanted) {
        f->to_height = whole_side(nearbyint((double)height / width * f->width));
        f->to_height = f->to_height > f->height ? f->height : f->to_height;
        f->y = (uint32_t)nearbyint((f->height - f->to_height) * 0.5);
    } else if (own < wanted) {
        f->to_width = whole_side(nearbyint((double)width / height * f->height));
        f->to_width = f->to_width > f->width ? f->width : f->to_width;
        f->x = (uint32_t)nearbyint((f->width - f->to_width) * 0.5);
    }
}

/* Pillow's ImageOps.fit: a part of the right proportions, in the middle, not rounded. */
static void fit_cropped(struct fitted *f, uint32_t width, uint32_t height)
{
    double own = (double)width / height, wanted = (double)f->width / f->height;
    double part_width = own >= wanted ? wanted * height : width;
    double part_height = own >= wanted ? height : width / wanted;
    if (own == wanted) {
        return;
    }
    f->left = (width - part_width) * 0.5;
    f->top = (height - part_height) * 0.5;
    f->right = f->left + part_width;
    f->bottom = f->top + part_height;
}

static struct fitted fit_resize(const struct picture_step *step, uint32_t width, uint32_t height)
{
    struct fitted f = {.width = step->width, .height = step->height, .right = width, .bottom = height};
    if (step->kind == PICTURE_STEP_SHORT) {
        uint64_t longer = (uint64_t)step->width * (width < height ? height : width) / (width < height ? width : height);
        uint32_t side = longer > UINT32_MAX ? UINT32_MAX : (uint32_t)longer; /* too many pixels are refused below */
        f.width = width < height ? step->width : side;
        f.height = width < height ? side : step->width;
    }
    f.to_width = f.width;
    f.to_height = f.height;
    if (step->kind == PICTURE_STEP_RESIZE && step->fit == PICTURE_PAD) {
        fit_padded(&f, width, height);
    } else if (step->kind == PICTURE_STEP_RESIZE && step->fit == PICTURE_CROP) {
        fit_cropped(&f, width, height);
    }
    return f;
}

static void fill(struct picture *picture, const uint8_t rgb[3])
{
    size_t count = (size_t)picture->width * picture->height;
    uint32_t grey = (19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16;
    if (picture->channels == 1) {
        memset(picture->pixels, (int)grey, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(picture->pixels + 3 * i, rgb, 3);
    }
}

static enum pen_status resize_begin(struct stage *stage, const struct picture_steps *steps,
                                    const struct picture_step *step, uint32_t width, uint32_t height,
                                    struct pen_error *reterr)
{
    const struct fitted f = fit_resize(step, width, height);
    const struct picture_limits limits = limits_or_default(&steps->limits);
    enum pen_status status =
        picture_new(f.width, f.height, steps->channels, "the resized picture", &limits, &stage->out, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (f.to_width != f.width || f.to_height != f.height) {
        fill(&stage->out, step->fill);
    }
    stage->scale_x = f.to_width / (f.right - f.left);
    stage->scale_y = f.to_height / (f.bottom - f.top);
    stage->offset_x = f.x - f.left * stage->scale_x;
    stage->offset_y = f.y - f.top * stage->scale_y;
    size_t stride = (size_t)f.width * steps->channels;
    const struct scale_ask ask = {
        .width = width,
        .height = height,
        .channels = steps->channels,
        .left = (float)f.left,
        .top = (float)f.top,
        .right = (float)f.right,
        .bottom = (float)f.bottom,
        .to_width = f.to_width,
        .to_height = f.to_height,
        .filter = step->filter,
        .to = stage->out.pixels + f.y * stride + (size_t)f.x * steps->channels,
        .to_stride = stride,
        .memory_bytes = limits.memory_bytes,
    };
    return scaler_new(&ask, &stage->scaler, reterr);
}

/* torchvision's CenterCrop: rounded half to even; beyond the edge the smaller half comes first. */
static int64_t middle_of(uint32_t side, uint32_t part)
{
    return part > side ? -(int64_t)((part - side) / 2) : (int64_t)nearbyint((side - part) / 2.0);
}

static enum pen_status crop_begin(struct stage *stage, const struct picture_steps *steps,
                                  const struct picture_step *step, uint32_t width, uint32_t height,
                                  struct pen_error *reterr)
{
    uint32_t to_width = step ? step->width : width, to_height = step ? step->height : height;
    if (step) {
        stage->left = step->kind == PICTURE_STEP_MIDDLE ? middle_of(width, to_width) : step->x;
        stage->top = step->kind == PICTURE_STEP_MIDDLE ? middle_of(height, to_height) : step->y;
    }
    stage->scale_x = stage->scale_y = 1.0;
    stage->offset_x = (double)-stage->left;
    stage->offset_y = (double)-stage->top;
    enum pen_status status =
        picture_new(to_width, to_height, steps->channels, "the cropped picture", &steps->limits, &stage->out, reterr);
    bool inside =
        stage->left >= 0 && stage->top >= 0 && stage->left + to_width <= width && stage->top + to_height <= height;
    if (status == PEN_OK && !inside) {
        fill(&stage->out, step->fill);
    }
    return status;
}

enum pen_status stage_begin(struct stage *stage, const struct picture_steps *steps, const struct picture_step *step,
                            uint32_t width, uint32_t height, struct pen_error *reterr)
{
    bool resize = step && (step->kind == PICTURE_STEP_RESIZE || step->kind == PICTURE_STEP_SHORT);
    *stage = (struct stage){.width = width};
    return (resize ? resize_begin : crop_begin)(stage, steps, step, width, height, reterr);
}

/* The part of the row that the result has. */
static void row_cut(struct stage *stage, const uint8_t *row)
{
    struct picture *out = &stage->out;
    int64_t y = (int64_t)stage->y - stage->top;
    int64_t first = stage->left > 0 ? stage->left : 0, end = stage->left + out->width;
    end = end < stage->width ? end : stage->width;
    if (y < 0 || y >= out->height || first >= end) {
        return;
    }
    uint8_t *to = out->pixels + ((size_t)y * out->width + (size_t)(first - stage->left)) * out->channels;
    memcpy(to, row + (size_t)first * out->channels, (size_t)(end - first) * out->channels);
}

void stage_row(struct stage *stage, const uint8_t *row)
{
    if (stage->scaler) {
        scaler_row(stage->scaler, row);
    } else {
        row_cut(stage, row);
    }
    stage->y++;
}

void stage_fini(struct stage *stage)
{
    scaler_free(stage->scaler);
    picture_fini(&stage->out);
    *stage = (struct stage){0};
}
