#include "cutout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "steps.h"

#define SAMPLES_MAX 8 /* a side: larger squares skip pixels */

enum pen_status cutout_open(const uint8_t *bytes, size_t size, const struct served *model, struct picture *ret_picture,
                            struct pen_error *reterr)
{
    struct picture any = {.pixels = NULL};
    enum pen_status status =
        picture_decode(bytes, size, "the picture", &model->config.picture.steps->limits, &any, reterr);
    if (status == PEN_OK)
        status = picture_convert(&any, 3, ret_picture, reterr);
    picture_fini(&any);
    return status;
}

void cutout_close(struct picture *picture)
{
    picture_fini(picture);
}

enum pen_status cutout_file(const struct pen_tensor *tensor, const uint8_t **ret_bytes, size_t *ret_size,
                            struct pen_error *reterr)
{
    *ret_bytes = tensor->data;
    *ret_size = tensor->bytes;
    if (tensor->dtype == PEN_DTYPE_U8)
        return PEN_OK;
    if (tensor->dtype != PEN_DTYPE_STRING || tensor->rank != 1 || tensor->dims[0] != 1 || tensor->bytes < 4)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "'%.255s' must be the file of one picture for a step with crop",
                             tensor->name);
    *ret_bytes += 4;
    *ret_size -= 4;
    return PEN_OK;
}

struct uncut *uncut_new(const struct served *model, const struct pen_tensor *files, atomic_uint_fast64_t *held,
                        uint64_t limit, uint64_t now_us)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    struct uncut *uncut = calloc(1, sizeof *uncut);
    if (!uncut)
        return NULL;
    enum pen_status status = cutout_file(files, &bytes, &size, NULL);
    if (status == PEN_OK)
        status = cutout_open(bytes, size, model, &uncut->picture, NULL);
    if (status != PEN_OK) {
        free(uncut);
        return NULL;
    }
    uncut->model = model->digest;
    uncut->held = held;
    uncut->bytes = (size_t)uncut->picture.width * uncut->picture.height * 3;
    uncut->took_us = clock_now_us() - now_us;
    if (atomic_fetch_add(held, uncut->bytes) + uncut->bytes <= limit)
        return uncut;
    uncut_free(uncut);
    return NULL;
}

void uncut_free(struct uncut *uncut)
{
    if (!uncut)
        return;
    atomic_fetch_sub(uncut->held, uncut->bytes);
    cutout_close(&uncut->picture);
    free(uncut);
}

struct answer_map cutout_map(const struct ensemble_plan_crop *crop, const float box[4], const float *points,
                             const struct picture *picture, uint32_t width, uint32_t height)
{
    double x = (double)(box[0] + box[2]) / 2, y = (double)(box[1] + box[3]) / 2;
    double side = crop->scale * fmax((double)(box[2] - box[0]), (double)(box[3] - box[1])), angle = 0;
    if (points) {
        const float *from = points + (size_t)crop->from * 3, *to = points + (size_t)crop->to * 3;
        angle = atan2((double)(to[1] - from[1]), (double)(to[0] - from[0]));
    }
    side = side > 1 ? side : 1;
    double cx = cos(angle) * side / width, sx = sin(angle) * side / width;
    double cy = cos(angle) * side / height, sy = sin(angle) * side / height;
    return (struct answer_map){
        .width = picture->width,
        .height = picture->height,
        .m = {cx, -sy, x - cx * width / 2 + sy * height / 2, sx, cy, y - sx * width / 2 - cy * height / 2}};
}

static double pixel_at(const struct picture *p, double x, double y, uint32_t channel)
{
    bool inside = x >= 0 && y >= 0 && x < p->width && y < p->height;
    return inside ? p->pixels[((size_t)y * p->width + (size_t)x) * 3 + channel] : 0.0;
}

/* Adds the bilinear sample at a point. */
static void sample_add(const struct picture *p, double x, double y, double sum[3])
{
    double u = floor(x - 0.5), v = floor(y - 0.5), a = x - 0.5 - u, b = y - 0.5 - v;
    for (uint32_t c = 0; c < 3; c++)
        sum[c] += (1 - b) * ((1 - a) * pixel_at(p, u, v, c) + a * pixel_at(p, u + 1, v, c)) +
                  b * ((1 - a) * pixel_at(p, u, v + 1, c) + a * pixel_at(p, u + 1, v + 1, c));
}

static void pixel_sample(const struct picture *p, const struct answer_map *map, double column, double line, int samples,
                         uint8_t rgb[3])
{
    double sum[3] = {0, 0, 0};
    for (int k = 0; k < samples * samples; k++) {
        double x = column + (k % samples + 0.5) / samples, y = line + (k / samples + 0.5) / samples;
        sample_add(p, map->m[0] * x + map->m[1] * y + map->m[2], map->m[3] * x + map->m[4] * y + map->m[5], sum);
    }
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t)(sum[c] / (samples * samples) + 0.5);
}

/* The network's number for a pixel's channel. */
static void number_put(const struct picture_steps *steps, void *to, size_t place, uint32_t channel, uint8_t value)
{
    if (steps->element_bytes == 4)
        ((float *)to)[place] = steps->floats[channel][value];
    else if (steps->element_bytes == 2)
        ((uint16_t *)to)[place] = steps->halves[channel][value];
    else
        ((uint8_t *)to)[place] = steps->bytes[channel][value];
}

static void pixel_put(const struct picture_steps *steps, void *to, size_t pixel, const uint8_t rgb[3])
{
    size_t plane = (size_t)steps->width * steps->height;
    double grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    for (uint32_t c = 0; c < steps->channels; c++) {
        uint8_t value = steps->channels == 1 ? (uint8_t)(grey + 0.5) : rgb[steps->bgr ? 2 - c : c];
        number_put(steps, to, steps->nchw ? c * plane + pixel : pixel * steps->channels + c, c, value);
    }
}

void cutout_sample(const struct picture *picture, const struct answer_map *map, const struct served *served, void *to)
{
    const struct picture_steps *steps = served->config.picture.steps;
    double scale = fmax(hypot(map->m[0], map->m[3]), hypot(map->m[1], map->m[4]));
    int samples = scale > SAMPLES_MAX ? SAMPLES_MAX : scale > 1 ? (int)ceil(scale) : 1;
    for (uint32_t y = 0; y < steps->height; y++)
        for (uint32_t x = 0; x < steps->width; x++) {
            uint8_t rgb[3];
            pixel_sample(picture, map, x, y, samples, rgb);
            pixel_put(steps, to, (size_t)y * steps->width + x, rgb);
        }
}
