/*
 * centernet.c - objects as points (Zhou et al. 2019): a cell of the heat map that is the highest of its 3 x 3 neighbours is an object's middle; two more maps say
 * where in the cell, and how large.
 */
#include "matrix.h"

#include <math.h>

/* A map [channels, h, w] or [h, w, channels]. */
struct map {
    const float *data;
    size_t height, width, channels, cell_step, channel_step;
};

static enum pen_status map_open(const struct answer *answer, const struct answer_row *row,
                                const struct answer_sources *from, bool channels_first, struct map *ret_map,
                                struct pen_error *reterr)
{
    const struct answer_view *view = row_view(row, from);
    if (view->rank != 3)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "output '%.128s' must have three dimensions beside the batch",
                             answer->model_outputs[from->output[0]].name);
    size_t a = (size_t)view->dims[0], b = (size_t)view->dims[1], c = (size_t)view->dims[2];
    *ret_map = channels_first ? (struct map){view->data, b, c, a, 1, b * c} : (struct map){view->data, a, b, c, c, 1};
    return PEN_OK;
}

static float map_at(const struct map *map, size_t y, size_t x, size_t channel)
{
    return map->data[(y * map->width + x) * map->cell_step + channel * map->channel_step];
}

static bool is_peak(const struct map *heat, size_t y, size_t x, size_t channel)
{
    float here = map_at(heat, y, x, channel);
    for (size_t ny = y ? y - 1 : 0; ny <= y + 1 && ny < heat->height; ny++)
        for (size_t nx = x ? x - 1 : 0; nx <= x + 1 && nx < heat->width; nx++)
            if (map_at(heat, ny, nx, channel) > here)
                return false;
    return true;
}

static void peaks_offer(const struct step_centernet *step, const struct map *heat, struct candidates *list)
{
    for (size_t c = 0; c < heat->channels; c++)
        for (size_t y = 0; y < heat->height; y++)
            for (size_t x = 0; x < heat->width; x++) {
                float score = answer_activate(map_at(heat, y, x, c), step->activation);
                if ((double)score >= step->score && is_peak(heat, y, x, c))
                    candidates_offer(list, (struct candidate){.score = score,
                                                              .class = (int32_t)c,
                                                              .row = (uint32_t)(y * heat->width + x),
                                                              .place = (c * heat->height + y) * heat->width + x});
            }
}

static void box_put(const struct step_centernet *step, const struct map *heat, const struct map *size,
                    const struct map *offset, uint32_t cell, float box[4])
{
    size_t y = cell / heat->width, x = cell % heat->width, first = step->yx ? 1 : 0;
    float stride = (float)step->stride, cx = (float)x + (float)step->centre, cy = (float)y + (float)step->centre;
    if (step->offset.count) {
        cx += map_at(offset, y, x, first);
        cy += map_at(offset, y, x, 1 - first);
    }
    float w = map_at(size, y, x, first), h = map_at(size, y, x, 1 - first);
    w = step->exponential ? expf(w) : w;
    h = step->exponential ? expf(h) : h;
    box[0] = (cx - w / 2) * stride;
    box[1] = (cy - h / 2) * stride;
    box[2] = (cx + w / 2) * stride;
    box[3] = (cy + h / 2) * stride;
}

/* From the object's cell, in cells, or from the box's corner, in widths and heights of the box. */
static void points_put(const struct step_centernet *step, const struct map *heat, const struct map *points,
                       uint32_t cell, struct answer_object *object)
{
    size_t y = cell / heat->width, x = cell % heat->width, first = step->yx ? 1 : 0;
    const float *box = object->box;
    bool boxed = step->points_from == POINTS_FROM_BOX;
    float stride = (float)step->stride;
    for (uint32_t i = 0; i < step->points_count; i++) {
        float *point = object->points + (size_t)i * ANSWER_POINT_VALUES;
        float px = map_at(points, y, x, 2 * i + first), py = map_at(points, y, x, 2 * i + 1 - first);
        point[0] = boxed ? box[0] + px * (box[2] - box[0]) : ((float)x + (float)step->centre + px) * stride;
        point[1] = boxed ? box[1] + py * (box[3] - box[1]) : ((float)y + (float)step->centre + py) * stride;
        point[2] = 1;
    }
}

static enum pen_status points_open(const struct answer *answer, const struct step_centernet *step,
                                   const struct answer_row *row, const struct map *heat, struct map *points,
                                   struct pen_error *reterr)
{
    *points = *heat;
    if (step->points.count == 0)
        return PEN_OK;
    enum pen_status status = map_open(answer, row, &step->points, step->channels_first, points, reterr);
    if (status == PEN_OK &&
        (points->channels != 2 * step->points_count || points->height != heat->height || points->width != heat->width))
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "%u points must have %u channels on the %zu x %zu cells of the heat map",
                             step->points_count, 2 * step->points_count, heat->height, heat->width);
    return status;
}

static enum pen_status maps_open(const struct answer *answer, const struct step_centernet *step,
                                 const struct answer_row *row, struct map *heat, struct map *size, struct map *offset,
                                 struct pen_error *reterr)
{
    enum pen_status status = map_open(answer, row, &step->heat, step->channels_first, heat, reterr);
    if (status == PEN_OK)
        status = map_open(answer, row, &step->size, step->channels_first, size, reterr);
    *offset = *size;
    if (status == PEN_OK && step->offset.count)
        status = map_open(answer, row, &step->offset, step->channels_first, offset, reterr);
    if (status == PEN_OK &&
        (size->channels != 2 || offset->channels != 2 || size->height != heat->height || size->width != heat->width ||
         offset->height != heat->height || offset->width != heat->width))
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "sizes and offsets must have 2 channels on the %zu x %zu cells of the heat map",
                             heat->height, heat->width);
    return status;
}

static enum pen_status centernet_run(const struct answer *answer, const struct answer_step *compiled,
                                     struct answer_row *row, struct pen_error *reterr)
{
    const struct step_centernet *step = &compiled->centernet;
    struct map heat, size, offset, points;
    struct candidates list;
    enum pen_status status = maps_open(answer, step, row, &heat, &size, &offset, reterr);
    if (status == PEN_OK)
        status = points_open(answer, step, row, &heat, &points, reterr);
    if (status == PEN_OK)
        status = candidates_open(row, step->candidates, &list, reterr);
    if (status != PEN_OK)
        return status;
    peaks_offer(step, &heat, &list);
    candidates_sort(&list);
    status = candidates_objects(&list, row, step->points_count, reterr);
    for (size_t i = 0; i < list.count && status == PEN_OK; i++) {
        box_put(step, &heat, &size, &offset, list.list[i].row, row->objects[i].box);
        points_put(step, &heat, &points, list.list[i].row, &row->objects[i]);
    }
    return status;
}

static void centernet_defaults(struct answer_step *step)
{
    step->centernet = (struct step_centernet){.stride = 4, .score = 0.3, .candidates = 100, .channels_first = true};
}

static enum pen_status centernet_compile(struct answer_reader *reader, struct answer_step *step)
{
    const struct step_centernet *c = &step->centernet;
    const struct answer_sources *all[] = {&c->heat, &c->size, &c->offset, &c->points};
    if ((c->points.count > 0) != (c->points_count > 0))
        return reader_refuse(reader, PEN_ERR_INVALID, "points and points_count need each other");
    if (c->activation == ANSWER_SOFTMAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "activation must be none or sigmoid");
    for (size_t i = 0; i < 4; i++) {
        enum pen_status status = all[i]->count ? reader_needs_rank(reader, all[i]->output[0], 3, 4) : PEN_OK;
        if (status != PEN_OK)
            return status;
    }
    reader->answer->points_count = c->points_count;
    reader->answer->objects_max = c->candidates;
    return PEN_OK;
}

static const struct answer_option centernet_options[] = {
    {.name = "heat", .type = OPTION_SOURCE, .offset = offsetof(struct step_centernet, heat), .needed = true},
    {.name = "size", .type = OPTION_SOURCE, .offset = offsetof(struct step_centernet, size), .needed = true},
    {.name = "offset", .type = OPTION_SOURCE, .offset = offsetof(struct step_centernet, offset)},
    {.name = "points", .type = OPTION_SOURCE, .offset = offsetof(struct step_centernet, points)},
    {.name = "points_count",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_centernet, points_count),
     .min = 1,
     .max = ANSWER_NUMBERS_MAX},
    {.name = "points_from",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_centernet, points_from),
     .choices = "centre|box"},
    {.name = "channels_first", .type = OPTION_FLAG, .offset = offsetof(struct step_centernet, channels_first)},
    {.name = "yx", .type = OPTION_FLAG, .offset = offsetof(struct step_centernet, yx)},
    {.name = "exponential", .type = OPTION_FLAG, .offset = offsetof(struct step_centernet, exponential)},
    {.name = "centre", .type = OPTION_NUMBER, .offset = offsetof(struct step_centernet, centre), .max = 1},
    {.name = "activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_centernet, activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "stride", .type = OPTION_NUMBER, .offset = offsetof(struct step_centernet, stride), .min = 1, .max = 4096},
    {.name = "score", .type = OPTION_NUMBER, .offset = offsetof(struct step_centernet, score), .min = 0, .max = 1},
    {.name = "candidates",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_centernet, candidates),
     .min = 1,
     .max = ANSWER_OBJECTS_MAX},
    {.name = NULL},
};
const struct answer_kind kind_centernet = {.name = "centernet",
                                           .options = centernet_options,
                                           .defaults = centernet_defaults,
                                           .compile = centernet_compile,
                                           .run = centernet_run,
                                           .produces = ANSWER_OBJECTS};
