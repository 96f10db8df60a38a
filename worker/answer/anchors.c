/*
 * anchors.c - the boxes from which a detector measures, generated once at load, in input pixels.
 *
 * "layers": for each layer of the network a grid and the boxes of each of its cells. "generate": the options of SSD's generator (Liu et al., "SSD: Single Shot MultiBox
 * Detector", section 2.2: scale_k = min + (max - min) k / (layers - 1), width = scale * sqrt(aspect), height = scale / sqrt(aspect), one more box of
 * sqrt(scale_k * scale_k+1)), with MediaPipe's names for what differs between networks.
 */
#include "parts.h"

#include <math.h>
#include <stdlib.h>

/* What one layer of the list says. */
struct layer {
    struct answer_numbers stride, grid;
    struct answer_anchor boxes[ANSWER_NUMBERS_MAX];
    uint32_t boxes_count;
};

struct generator {
    struct answer_numbers strides, aspects;
    double min_scale, max_scale, interpolated, offset;
    bool reduce_lowest, fixed_size;
};

static enum pen_status anchors_room(struct answer_reader *reader, struct step_boxes *boxes, uint64_t more)
{
    if (more > ANSWER_ANCHORS_MAX - boxes->anchors_count)
        return reader_refuse(reader, PEN_ERR_TOO_LARGE, "its anchors are more than %u", ANSWER_ANCHORS_MAX);
    struct answer_anchor *grown =
        realloc(boxes->anchors, (boxes->anchors_count + (size_t)more + 1) * sizeof *boxes->anchors);
    if (!grown)
        return reader_refuse(reader, PEN_ERR_NO_MEMORY, "no memory for its anchors");
    boxes->anchors = grown;
    return PEN_OK;
}

/* One anchor of each of `kinds` per cell, row by row; `at` is where in its cell. */
static enum pen_status grid_add(struct answer_reader *reader, struct step_boxes *boxes, const uint32_t grid[2],
                                double at, const struct answer_anchor *kinds, uint32_t kinds_count)
{
    double step_y = (double)reader->answer->height / grid[0], step_x = (double)reader->answer->width / grid[1];
    enum pen_status status = anchors_room(reader, boxes, (uint64_t)grid[0] * grid[1] * kinds_count);
    for (uint32_t y = 0; y < grid[0] && status == PEN_OK; y++)
        for (uint32_t x = 0; x < grid[1]; x++)
            for (uint32_t k = 0; k < kinds_count; k++)
                boxes->anchors[boxes->anchors_count++] = (struct answer_anchor){
                    (float)((x + at) * step_x), (float)((y + at) * step_y), kinds[k].width, kinds[k].height};
    return status;
}

static void grid_of(const struct answer *answer, double stride, uint32_t ret_grid[2])
{
    ret_grid[0] = (uint32_t)ceil(answer->height / stride);
    ret_grid[1] = (uint32_t)ceil(answer->width / stride);
}

enum pen_status anchors_of_strides(struct answer_reader *reader, struct step_boxes *boxes, double at)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < boxes->strides.count && status == PEN_OK; i++) {
        float stride = (float)boxes->strides.value[i];
        uint32_t grid[2], first = boxes->anchors_count;
        struct answer_anchor cell = {.width = stride, .height = stride};
        grid_of(reader->answer, (double)stride, grid);
        status = grid_add(reader, boxes, grid, at, &cell, 1);
        for (uint32_t k = first; k < boxes->anchors_count; k++) { /* cells are strides apart, whatever the size */
            boxes->anchors[k].x = (float)(((k - first) % grid[1] + at) * (double)stride);
            boxes->anchors[k].y = (float)((double)((k - first) / grid[1]) + at) * stride;
        }
    }
    return status;
}

/* ---- layers ---- */

static enum pen_status read_layer_boxes(struct answer_reader *reader, const cJSON *value, struct layer *layer)
{
    for (const cJSON *item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next) {
        struct answer_numbers pair = {.count = 0};
        if (layer->boxes_count == ANSWER_NUMBERS_MAX)
            return reader_refuse(reader, PEN_ERR_TOO_LARGE, "a layer has more than %u boxes", ANSWER_NUMBERS_MAX);
        enum pen_status status = read_numbers(reader, item, "anchors.layers.boxes", 1e-6, 65536, &pair);
        if (status != PEN_OK)
            return status;
        if (pair.count != 2)
            break;
        layer->boxes[layer->boxes_count++] =
            (struct answer_anchor){.width = (float)pair.value[0], .height = (float)pair.value[1]};
    }
    return layer->boxes_count ? PEN_OK
                              : reader_refuse(reader, PEN_ERR_INVALID,
                                              "boxes of a layer must be pairs of width and height in pixels of the "
                                              "input, such as [[16, 16], [24, 24]]");
}

static enum pen_status layer_read(struct answer_reader *reader, const cJSON *item, struct layer *layer)
{
    const cJSON *stride = cJSON_GetObjectItemCaseSensitive(item, "stride"),
                *grid = cJSON_GetObjectItemCaseSensitive(item, "grid"),
                *boxes = cJSON_GetObjectItemCaseSensitive(item, "boxes");
    if (!cJSON_IsObject(item) || !stride == !grid || !boxes || cJSON_GetArraySize(item) != 2)
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "each of anchors.layers must have boxes and either stride or grid ([height, width])");
    enum pen_status status = PEN_OK;
    if (grid) {
        status = read_numbers(reader, grid, "anchors.layers.grid", 1, 4096, &layer->grid);
        if (status == PEN_OK && layer->grid.count != 2)
            return reader_refuse(reader, PEN_ERR_INVALID, "anchors.layers.grid must be [height, width]");
    } else if (!cJSON_IsNumber(stride) || !(stride->valuedouble >= 1 && stride->valuedouble <= 4096)) {
        return reader_refuse(reader, PEN_ERR_INVALID, "anchors.layers.stride must be a number from 1 to 4096");
    }
    layer->stride.value[0] = stride ? stride->valuedouble : 0;
    return status == PEN_OK ? read_layer_boxes(reader, boxes, layer) : status;
}

static enum pen_status layers_read(struct answer_reader *reader, const cJSON *value, struct step_boxes *boxes)
{
    enum pen_status status = PEN_OK;
    if (!cJSON_IsArray(value) || !value->child)
        return reader_refuse(reader, PEN_ERR_INVALID, "anchors.layers must be a list of layers");
    for (const cJSON *item = value->child; item && status == PEN_OK; item = item->next) {
        struct layer layer = {.boxes_count = 0};
        uint32_t grid[2];
        status = layer_read(reader, item, &layer);
        if (status != PEN_OK)
            return status;
        if (layer.grid.count) {
            grid[0] = (uint32_t)layer.grid.value[0];
            grid[1] = (uint32_t)layer.grid.value[1];
        } else {
            grid_of(reader->answer, layer.stride.value[0], grid);
        }
        status = grid_add(reader, boxes, grid, 0.5, layer.boxes, layer.boxes_count);
    }
    return status;
}

/* ---- generate ---- */

static double scale_of(const struct generator *g, uint32_t layer)
{
    if (g->strides.count == 1)
        return (g->min_scale + g->max_scale) / 2;
    return g->min_scale + (g->max_scale - g->min_scale) * layer / (g->strides.count - 1);
}

static void kind_add(const struct answer *answer, const struct generator *g, struct layer *layer, double scale,
                     double aspect)
{
    if (layer->boxes_count == ANSWER_NUMBERS_MAX)
        return;
    double width = g->fixed_size ? 1 : scale * sqrt(aspect) * answer->width;
    double height = g->fixed_size ? 1 : scale / sqrt(aspect) * answer->height;
    layer->boxes[layer->boxes_count++] = (struct answer_anchor){.width = (float)width, .height = (float)height};
}

static void kinds_add(const struct answer *answer, const struct generator *g, uint32_t index, struct layer *layer)
{
    double scale = scale_of(g, index), next = index + 1 == g->strides.count ? 1 : scale_of(g, index + 1);
    if (index == 0 && g->reduce_lowest) { /* three boxes in the lowest layer */
        kind_add(answer, g, layer, 0.1, 1);
        kind_add(answer, g, layer, scale, 2);
        kind_add(answer, g, layer, scale, 0.5);
        return;
    }
    for (uint32_t i = 0; i < g->aspects.count; i++)
        kind_add(answer, g, layer, scale, g->aspects.value[i]);
    if (g->interpolated > 0)
        kind_add(answer, g, layer, sqrt(scale * next), g->interpolated);
}

static enum pen_status generate(struct answer_reader *reader, const struct generator *g, struct step_boxes *boxes)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0, last; i < g->strides.count && status == PEN_OK; i = last) {
        struct layer layer = {.boxes_count = 0};
        uint32_t grid[2];
        /* layers of one stride lie on one grid: their boxes are neighbours in each cell */
        for (last = i; last < g->strides.count && g->strides.value[last] == g->strides.value[i]; last++)
            kinds_add(reader->answer, g, last, &layer);
        grid_of(reader->answer, g->strides.value[i], grid);
        status = grid_add(reader, boxes, grid, g->offset, layer.boxes, layer.boxes_count);
    }
    return status;
}

static const struct answer_option generator_options[] = {
    {.name = "strides",
     .type = OPTION_NUMBERS,
     .offset = offsetof(struct generator, strides),
     .min = 1,
     .max = 4096,
     .needed = true},
    {.name = "aspects", .type = OPTION_NUMBERS, .offset = offsetof(struct generator, aspects), .min = 0.01, .max = 100},
    {.name = "min_scale", .type = OPTION_NUMBER, .offset = offsetof(struct generator, min_scale), .min = 0, .max = 10},
    {.name = "max_scale", .type = OPTION_NUMBER, .offset = offsetof(struct generator, max_scale), .min = 0, .max = 10},
    {.name = "interpolated",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct generator, interpolated),
     .min = 0,
     .max = 100},
    {.name = "offset", .type = OPTION_NUMBER, .offset = offsetof(struct generator, offset), .min = 0, .max = 1},
    {.name = "reduce_lowest", .type = OPTION_FLAG, .offset = offsetof(struct generator, reduce_lowest)},
    {.name = "fixed_size", .type = OPTION_FLAG, .offset = offsetof(struct generator, fixed_size)},
    {.name = NULL},
};

enum pen_status read_anchors(struct answer_reader *reader, const cJSON *value, const char *path)
{
    struct step_boxes *boxes = &reader->step->boxes;
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(value, "layers"),
                *options = cJSON_GetObjectItemCaseSensitive(value, "generate");
    if (!cJSON_IsObject(value) || cJSON_GetArraySize(value) != 1 || (!layers && !options))
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must have one key, layers or generate", path);
    enum pen_status status = reader_needs_size(reader);
    if (status != PEN_OK)
        return status;
    if (layers)
        return layers_read(reader, layers, boxes);
    struct generator g = {
        .aspects = {.count = 1, .value = {1}}, .min_scale = 0.2, .max_scale = 0.95, .interpolated = 1, .offset = 0.5};
    status = options_read(reader, options, generator_options, &g, NULL);
    return status == PEN_OK ? generate(reader, &g, boxes) : status;
}
