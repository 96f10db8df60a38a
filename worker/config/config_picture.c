/* config_picture.c - `picture`: how the file of a picture becomes an input. One reader for each step. */
#include "config_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS_DEFAULT (50u * 1000u * 1000u)
#define PIXELS_MOST    (1000u * 1000u * 1000u)
#define MEMORY_DEFAULT (UINT64_C(512) << 20)

static enum pen_status read_input(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_copy_text(value, path, ((struct config_picture *)target)->input, reterr);
}

/* [red, green, blue] of 0 to 255. */
static enum pen_status read_colour(const cJSON *value, const char *path, uint8_t ret_rgb[3], struct pen_error *reterr)
{
    size_t count = 0, i = 0;
    uint32_t rgb[3] = {0};
    enum pen_status status = json_array(value, path, 3, &count, reterr);
    if (status == PEN_OK && count != 3)
        status = pen_error_set(reterr, PEN_ERR_INVALID, "%s must be [red, green, blue], each 0 to 255", path);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_u32(item, path, 0, 255, &rgb[i++], reterr);
    for (i = 0; status == PEN_OK && i < 3; i++)
        ret_rgb[i] = (uint8_t)rgb[i];
    return status;
}

/* ---- decode ------------------------------------------------------------------------------------------------------------------------ */

/* "drop", or the colour that transparent parts lie on. */
static enum pen_status read_alpha(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct picture_options *options = &((struct config_picture *)target)->steps->options;
    uint32_t index = 0;
    options->alpha_dropped = !cJSON_IsArray(value);
    return cJSON_IsArray(value) ? read_colour(value, path, options->background, reterr)
                                : json_choice(value, path, "drop", &index, reterr);
}

static enum pen_status read_orientation(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "exif|stored", &index, reterr);
    ((struct config_picture *)target)->steps->options.as_stored = index == 1;
    return status;
}

static enum pen_status read_scaled(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_bool(value, path, &((struct config_picture *)target)->steps->scaled, reterr);
}

static enum pen_status read_max_pixels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 1, PIXELS_MOST, &((struct config_picture *)target)->steps->limits.pixels, reterr);
}

static enum pen_status read_max_memory(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 1u << 20, UINT64_C(1) << 40,
                    &((struct config_picture *)target)->steps->limits.memory_bytes, reterr);
}

static const struct json_field decode_fields[] = {{"alpha", read_alpha},           {"orientation", read_orientation},
                                                  {"scaled", read_scaled},         {"max_pixels", read_max_pixels},
                                                  {"max_memory", read_max_memory}, {NULL, NULL}};

static enum pen_status read_decode(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, decode_fields, target, reterr);
}

/* ---- resize and crop --------------------------------------------------------------------------------------------------------------- */

/* A resize or crop while it is read. */
struct step_reading {
    struct picture_step step;
    bool fit, place; /* was it given? */
};

static enum pen_status read_width(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, PICTURE_SIDE_MAX, &((struct step_reading *)target)->step.width, reterr);
}

static enum pen_status read_height(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, PICTURE_SIDE_MAX, &((struct step_reading *)target)->step.height, reterr);
}

static enum pen_status read_short(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct picture_step *step = &((struct step_reading *)target)->step;
    step->kind = PICTURE_STEP_SHORT;
    return json_u32(value, path, 1, PICTURE_SIDE_MAX, &step->x, reterr);
}

static enum pen_status read_filter(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "bilinear|area|cubic|nearest", &index, reterr);
    ((struct step_reading *)target)->step.filter = (enum scale_filter)index;
    return status;
}

static enum pen_status read_fit(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "stretch|crop|letterbox", &index, reterr);
    ((struct step_reading *)target)->step.fit = (enum picture_fit)index;
    ((struct step_reading *)target)->fit = true;
    return status;
}

static enum pen_status read_fill(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return read_colour(value, path, ((struct step_reading *)target)->step.fill, reterr);
}

static enum pen_status read_x(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    ((struct step_reading *)target)->place = true;
    return json_u32(value, path, 0, INT32_MAX, &((struct step_reading *)target)->step.x, reterr);
}

static enum pen_status read_y(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    ((struct step_reading *)target)->place = true;
    return json_u32(value, path, 0, INT32_MAX, &((struct step_reading *)target)->step.y, reterr);
}

static const struct json_field resize_fields[] = {
    {"width", read_width}, {"height", read_height}, {"short", read_short}, {"filter", read_filter},
    {"fit", read_fit},     {"color", read_fill},    {NULL, NULL}};
static const struct json_field crop_fields[] = {{"width", read_width}, {"height", read_height}, {"x", read_x},
                                                {"y", read_y},         {"color", read_fill},    {NULL, NULL}};

static enum pen_status step_keep(struct config_picture *picture, const struct picture_step *step, const char *path,
                                 struct pen_error *reterr)
{
    if (picture->steps->count == PICTURE_STEPS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s: a picture is resized and cropped at most %u times", path,
                             PICTURE_STEPS_MAX);
    picture->steps->steps[picture->steps->count++] = *step;
    return PEN_OK;
}

static enum pen_status read_resize(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct step_reading reading = {.step = {.kind = PICTURE_STEP_RESIZE}};
    struct picture_step *step = &reading.step;
    enum pen_status status = json_object(value, path, resize_fields, &reading, reterr);
    if (status != PEN_OK)
        return status;
    bool sized = step->width && step->height, shorter = step->kind == PICTURE_STEP_SHORT;
    if (shorter ? step->width || step->height || reading.fit : !sized)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s needs width and height, or short alone (the shorter side; the other one follows)",
                             path);
    if (shorter) {
        step->width = step->x;
        step->x = 0;
    }
    return step_keep(target, step, path, reterr);
}

static enum pen_status read_crop(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct step_reading reading = {.step = {.kind = PICTURE_STEP_MIDDLE}};
    enum pen_status status = json_object(value, path, crop_fields, &reading, reterr);
    if (status != PEN_OK)
        return status;
    if (!reading.step.width || !reading.step.height)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s needs width and height; x and y say where, the middle without them", path);
    if (reading.place)
        reading.step.kind = PICTURE_STEP_CROP;
    return step_keep(target, &reading.step, path, reterr);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------------- */

static enum pen_status read_color(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "rgb|bgr|grey", &index, reterr);
    picture->steps->bgr = index == 1;
    picture->channels = index == 2 ? 1 : 3;
    picture->color_given = true;
    return status;
}

static enum pen_status read_scale(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    if (!cJSON_IsNumber(value) || !isfinite((float)value->valuedouble))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a number, such as 0.00392156862745098 (1 / 255)",
                             path);
    picture->numbers.scale = (float)value->valuedouble;
    return PEN_OK;
}

static enum pen_status read_mean(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    return json_floats(value, path, 3, picture->numbers.mean, &picture->means, reterr);
}

static enum pen_status read_std(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    enum pen_status status = json_floats(value, path, 3, picture->numbers.std, &picture->stds, reterr);
    for (size_t i = 0; status == PEN_OK && i < picture->stds; i++)
        if (picture->numbers.std[i] == 0.0f)
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s[%zu] is 0, and numbers are divided by it", path, i);
    return status;
}

/* [low, high]: what 0 and 255 become. v / 255 * (high - low) + low, as (v * scale - mean) / 1. */
static enum pen_status read_range(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    float range[2];
    size_t count = 0;
    enum pen_status status = json_floats(value, path, 2, range, &count, reterr);
    if (status == PEN_OK && (count != 2 || range[0] == range[1]))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be [low, high]: what pixels of 0 and 255 become", path);
    if (status == PEN_OK) {
        picture->numbers.scale = (range[1] - range[0]) / 255.0f;
        picture->numbers.mean[0] = -range[0];
        picture->means = 1;
    }
    return status;
}

static const struct json_field normal_fields[] = {
    {"scale", read_scale}, {"mean", read_mean}, {"std", read_std}, {"range", read_range}, {NULL, NULL}};

static enum pen_status read_normalize(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    picture->normal_given = true;
    if (cJSON_GetObjectItemCaseSensitive(value, "range") && value->child->next)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: range stands alone, without scale, mean and std", path);
    return json_object(value, path, normal_fields, picture, reterr);
}

static enum pen_status read_layout(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "nhwc|nchw", &index, reterr);
    picture->steps->nchw = index == 1;
    picture->layout_given = true;
    return status;
}

static enum pen_status read_type(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    static const enum pen_dtype types[] = {PEN_DTYPE_F32, PEN_DTYPE_F16, PEN_DTYPE_BF16, PEN_DTYPE_U8, PEN_DTYPE_I8};
    struct config_picture *picture = target;
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "float32|float16|bfloat16|uint8|int8", &index, reterr);
    picture->numbers.dtype = types[index];
    picture->dtype_given = true;
    return status;
}

static enum pen_status read_quant_scale(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    if (!cJSON_IsNumber(value) || !isfinite((float)value->valuedouble) || (float)value->valuedouble <= 0.0f)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a number above 0", path);
    picture->numbers.q_scale = (float)value->valuedouble;
    picture->numbers.quantised = true;
    return PEN_OK;
}

static enum pen_status read_zero_point(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    double zero = cJSON_IsNumber(value) ? value->valuedouble : 1000;
    if (!(zero >= -128 && zero <= 255) || zero != floor(zero))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a whole number from -128 to 255", path);
    picture->numbers.q_zero = (int32_t)zero;
    return PEN_OK;
}

static const struct json_field dtype_fields[] = {
    {"type", read_type}, {"scale", read_quant_scale}, {"zero_point", read_zero_point}, {NULL, NULL}};

/* A name, or an object with the name and a quantisation. */
static enum pen_status read_dtype(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = target;
    if (!cJSON_IsObject(value))
        return read_type(value, path, target, reterr);
    enum pen_status status = json_object(value, path, dtype_fields, target, reterr);
    if (status == PEN_OK && !picture->dtype_given)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs type", path);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static const struct json_field step_fields[] = {
    {"resize", read_resize}, {"crop", read_crop},   {"color", read_color}, {"normalize", read_normalize},
    {"layout", read_layout}, {"dtype", read_dtype}, {NULL, NULL}};

/* Resizes and crops come in any order; each of the others once, in the order of the table. */
static enum pen_status step_read(const cJSON *item, const char *path, struct config_picture *picture, size_t *done,
                                 struct pen_error *reterr)
{
    char known[128], below[JSON_PATH_BYTES];
    const char *name = cJSON_IsObject(item) && item->child && !item->child->next ? item->child->string : NULL;
    size_t index = 0;
    while (name && step_fields[index].name && strcmp(step_fields[index].name, name) != 0)
        index++;
    json_fields_list(step_fields, known, sizeof known);
    if (!name)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object of one step; the steps are %s", path,
                             known);
    if (!step_fields[index].name)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: there is no step '%.64s'; the steps are %s", path, name,
                             known);
    size_t rank = index < 2 ? 0 : index;
    if (rank < *done || (rank > 0 && rank == *done))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "%s: %s comes too late, or twice; the order is resize and crop (as often as needed), then "
                             "color, normalize, layout, dtype",
                             path, name);
    *done = rank;
    snprintf(below, sizeof below, "%.100s.%s", path, name);
    return step_fields[index].read(item->child, below, picture, reterr);
}

static enum pen_status read_steps(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    size_t count = 0, i = 0, done = 0;
    enum pen_status status = json_array(value, path, 2 * PICTURE_STEPS_MAX, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        char at[JSON_PATH_BYTES];
        snprintf(at, sizeof at, "%.100s[%zu]", path, i++);
        status = step_read(item, at, target, &done, reterr);
    }
    return status;
}

static const struct json_field picture_fields[] = {
    {"input", read_input}, {"decode", read_decode}, {"steps", read_steps}, {NULL, NULL}};

enum pen_status config_read_picture(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_picture *picture = &((struct config *)target)->picture;
    picture->steps = calloc(1, sizeof *picture->steps);
    if (!picture->steps)
        return config_no_memory(reterr);
    picture->numbers = (struct picture_numbers){.scale = 1.0f};
    picture->steps->options.alpha_dropped = true;
    picture->steps->limits = (struct picture_limits){.pixels = PIXELS_DEFAULT, .memory_bytes = MEMORY_DEFAULT};
    enum pen_status status = json_object(value, path, picture_fields, picture, reterr);
    if (status != PEN_OK)
        return status;
    picture->text = cJSON_PrintUnformatted(value);
    return picture->text ? PEN_OK : config_no_memory(reterr);
}
