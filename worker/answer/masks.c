/*
 * masks.c - the step `mask`: for each pixel the class with the highest score, whether a score is high enough, or the object that it belongs to.
 *
 * Scores are resized first and decided then: a pixel's score is the bilinear mean of the four cells around it, so that edges are smooth. A cell's middle lies in the
 * middle of the pixels that it covers; with `corners` the first and the last cell lie on the first and the last pixel of the input (as PoseNet's and BodyPix' do).
 */
#include "parts.h"

#include <math.h>
#include <string.h>

#define INSTANCE_PIXELS_MAX (2 * ANSWER_PIXELS_MAX) /* of all objects' boxes in one picture: some seconds */

/* Scores [h, w, channels], wherever the file put them. */
struct grid {
    const float *data;
    size_t height, width, channels, cell_step, channel_step;
};

/* The four cells around a pixel, and how much each counts. */
struct around {
    size_t cell[4];
    float weight[4];
};

/* Where pixels lie on the grid: x = ax * column + bx * row + cx, and so on; `nearest` takes one cell. */
struct place {
    double ax, bx, cx, ay, by, cy;
    bool nearest;
};

static enum pen_status grid_open(const struct answer *answer, const struct answer_view *view, uint32_t output,
                                 bool channels_first, struct grid *ret_grid, struct pen_error *reterr)
{
    if (view->rank != 2 && view->rank != 3)
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "output '%.128s' must be [height, width, classes], or [height, width], beside the batch",
                             answer->model_outputs[output].name);
    bool flat = view->rank == 2, first = channels_first && !flat;
    size_t a = (size_t)view->dims[0], b = (size_t)view->dims[1], c = flat ? 1 : (size_t)view->dims[2];
    *ret_grid = first ? (struct grid){view->data, b, c, a, 1, b * c} : (struct grid){view->data, a, b, c, c, 1};
    if (view->count == 0)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "output '%.128s' is empty", answer->model_outputs[output].name);
    return PEN_OK;
}

/* The scores after their activation, in memory of the row. */
static enum pen_status grid_activate(struct answer_row *row, struct grid *grid, uint32_t activation,
                                     struct pen_error *reterr)
{
    size_t cells = grid->height * grid->width, count = cells * grid->channels;
    if (activation == ANSWER_AS_IS)
        return PEN_OK;
    float *scores = row_take(row, count, sizeof *scores, reterr);
    if (!scores)
        return row_short(row);
    for (size_t i = 0; activation == ANSWER_SIGMOID && i < count; i++)
        scores[i] = answer_sigmoid(grid->data[i]);
    for (size_t i = 0; activation == ANSWER_SOFTMAX && i < cells; i++)
        answer_softmax(grid->data + i * grid->cell_step, scores + i * grid->cell_step, grid->channels,
                       grid->channel_step);
    grid->data = scores;
    return PEN_OK;
}

/* ---- where a pixel lies ---- */

static double steps_of(const struct step_mask *step, size_t cells, double pixels, double *ret_shift)
{
    if (step->corners) { /* the middle of pixel 0 is cell 0, that of the last pixel the last cell */
        double factor = pixels > 1 ? (double)(cells - 1) / (pixels - 1) : 0;
        *ret_shift = -0.5 * factor;
        return factor;
    }
    *ret_shift = -0.5;
    return (double)cells / pixels;
}

/* The map goes from the input to the picture; here its inverse is needed. A picture without a map is the input. */
static struct place place_of(const struct answer *answer, const struct step_mask *step, const struct answer_row *row,
                             const struct grid *grid)
{
    static const struct answer_map same = {.m = {1, 0, 0, 0, 1, 0}};
    const double *m = row->map ? row->map->m : same.m;
    double det = m[0] * m[4] - m[1] * m[3], shift_x, shift_y;
    double fx = steps_of(step, grid->width, answer->width, &shift_x);
    double fy = steps_of(step, grid->height, answer->height, &shift_y);
    struct place p = {.nearest = step->nearest};
    p.ax = fx * m[4] / det;
    p.bx = -fx * m[1] / det;
    p.ay = -fy * m[3] / det;
    p.by = fy * m[0] / det;
    p.cx = shift_x - p.ax * m[2] - p.bx * m[5] + 0.5 * (p.ax + p.bx); /* of the pixel's middle */
    p.cy = shift_y - p.ay * m[2] - p.by * m[5] + 0.5 * (p.ay + p.by);
    return p;
}

static double within(double value, size_t cells)
{
    return !(value > 0) ? 0 : value > (double)(cells - 1) ? (double)(cells - 1) : value;
}

static struct around around_of(const struct place *p, const struct grid *grid, size_t column, size_t line)
{
    double x = within(p->ax * (double)column + p->bx * (double)line + p->cx, grid->width);
    double y = within(p->ay * (double)column + p->by * (double)line + p->cy, grid->height);
    if (p->nearest) {
        x = floor(x + 0.5);
        y = floor(y + 0.5);
    }
    size_t x0 = (size_t)x, y0 = (size_t)y, x1 = x0 + 1 < grid->width ? x0 + 1 : x0;
    size_t y1 = y0 + 1 < grid->height ? y0 + 1 : y0;
    float fx = (float)(x - (double)x0), fy = (float)(y - (double)y0);
    return (struct around){
        .cell = {y0 * grid->width + x0, y0 * grid->width + x1, y1 * grid->width + x0, y1 * grid->width + x1},
        .weight = {(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy}};
}

static float score_at(const struct grid *grid, const struct around *a, size_t channel)
{
    const float *from = grid->data + channel * grid->channel_step;
    return from[a->cell[0] * grid->cell_step] * a->weight[0] + from[a->cell[1] * grid->cell_step] * a->weight[1] +
           from[a->cell[2] * grid->cell_step] * a->weight[2] + from[a->cell[3] * grid->cell_step] * a->weight[3];
}

/* ---- what a pixel is ---- */

static uint8_t class_of(const struct grid *grid, const struct around *a)
{
    size_t best = 0;
    float high = score_at(grid, a, 0);
    for (size_t c = 1; c < grid->channels; c++) {
        float score = score_at(grid, a, c);
        if (score > high) {
            high = score;
            best = c;
        }
    }
    return (uint8_t)best;
}

static uint8_t pixel_of(const struct step_mask *step, const struct grid *grid, const struct grid *where,
                        const struct around *a)
{
    bool inside = !where || (double)score_at(where, a, 0) >= step->where_threshold;
    if (!inside)
        return 0;
    if (step->given) {
        float number = score_at(grid, a, step->channel);
        return (uint8_t)(!(number > 0) ? 0 : number > 254.5f ? 255 : number + 0.5f);
    }
    if (step->argmax) /* with a second map 0 is what lies outside of it */
        return (uint8_t)(class_of(grid, a) + (where ? 1 : 0));
    return (double)score_at(grid, a, step->channel) >= step->threshold ? 255 : 0;
}

static enum pen_status size_find(const struct answer *answer, const struct step_mask *step, struct answer_row *row,
                                 const struct grid *grid, struct pen_error *reterr)
{
    double height = row->map ? row->map->height : answer->height, width = row->map ? row->map->width : answer->width;
    if (step->size == MASK_MODEL) {
        height = (double)grid->height;
        width = (double)grid->width;
    }
    if (height * width > ANSWER_PIXELS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a mask of %.0f x %.0f pixels is more than %u: say size model",
                             height, width, ANSWER_PIXELS_MAX);
    row->mask_height = (uint32_t)height;
    row->mask_width = (uint32_t)width;
    row->mask = row_take(row, (size_t)row->mask_height * row->mask_width, 1, reterr);
    return row->mask ? PEN_OK : row_short(row);
}

static void mask_fill(const struct answer *answer, const struct step_mask *step, struct answer_row *row,
                      const struct grid *grid, const struct grid *where)
{
    struct place place = {.ax = 1, .by = 1}; /* of the model's size: a cell is a pixel */
    if (step->size == MASK_PICTURE)
        place = place_of(answer, step, row, grid);
    place.nearest = step->nearest || step->given; /* between two classes lies none */
    for (size_t y = 0; y < row->mask_height; y++)
        for (size_t x = 0; x < row->mask_width; x++) {
            struct around a = around_of(&place, grid, x, y);
            row->mask[y * row->mask_width + x] = pixel_of(step, grid, where, &a);
        }
}

/* ---- masks of objects ---- */

/* An object's scores on the prototypes' cells: the sum of the prototypes by its coefficients (YOLACT, Bolya et al. 2019). */
static void object_scores(const struct answer *answer, const struct answer_object *object,
                          const struct grid *prototypes, float *scores)
{
    size_t cells = prototypes->height * prototypes->width;
    memset(scores, 0, cells * sizeof *scores);
    for (uint32_t k = 0; k < answer->coefficients; k++) {
        const float *from = prototypes->data + k * prototypes->channel_step;
        for (size_t i = 0; i < cells; i++)
            scores[i] += object->coefficients[k] * from[i * prototypes->cell_step];
    }
}

/* Pixels of the mask in which a box may lie: [from, to). */
struct extent {
    size_t from[2], to[2];
};

static size_t pixel_within(double value, uint32_t limit)
{
    return !(value > 0) ? 0 : value > (double)limit ? limit : (size_t)value;
}

/* m: from input pixels to those of the mask. */
static struct extent extent_of(const double *m, const struct answer_row *row, const float *box)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++) {
        double x = (double)box[i % 2 ? 2 : 0], y = (double)box[i / 2 ? 3 : 1];
        double at[2] = {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
        for (int k = 0; k < 2; k++) {
            low[k] = fmin(low[k], at[k]);
            high[k] = fmax(high[k], at[k]);
        }
    }
    return (struct extent){
        {pixel_within(floor(low[0]), row->mask_width), pixel_within(floor(low[1]), row->mask_height)},
        {pixel_within(ceil(high[0]), row->mask_width), pixel_within(ceil(high[1]), row->mask_height)}};
}

static uint64_t extent_pixels(struct extent e)
{
    return e.to[0] > e.from[0] && e.to[1] > e.from[1] ? (uint64_t)(e.to[0] - e.from[0]) * (e.to[1] - e.from[1]) : 0;
}

/* Where pixels' middles lie on the prototypes and on the input, both with the middle of the first cell at 0. */
struct instance_places {
    struct place cells, input;
    double m[6]; /* from input pixels to those of the mask */
};

static struct instance_places places_of(const struct answer *answer, const struct step_mask *step,
                                        const struct answer_row *row, const struct grid *grid)
{
    const struct grid input = {.height = answer->height, .width = answer->width};
    struct instance_places p = {.m = {1, 0, 0, 0, 1, 0}};
    if (step->size == MASK_MODEL) {
        double fx = (double)answer->width / (double)grid->width, fy = (double)answer->height / (double)grid->height;
        p.cells = (struct place){.ax = 1, .by = 1};
        p.input = (struct place){.ax = fx, .by = fy, .cx = fx / 2 - 0.5, .cy = fy / 2 - 0.5};
        p.m[0] = 1 / fx;
        p.m[4] = 1 / fy;
        return p;
    }
    struct step_mask plain = *step;
    plain.corners = false;
    p.cells = place_of(answer, step, row, grid);
    p.input = place_of(answer, &plain, row, &input);
    if (row->map)
        memcpy(p.m, row->map->m, sizeof p.m);
    return p;
}

/* Is the pixel's middle within the box? */
static bool within_box(const struct place *input, const float *box, size_t x, size_t y)
{
    double ix = input->ax * (double)x + input->bx * (double)y + input->cx + 0.5;
    double iy = input->ay * (double)x + input->by * (double)y + input->cy + 0.5;
    return ix >= (double)box[0] && ix < (double)box[2] && iy >= (double)box[1] && iy < (double)box[3];
}

static void instance_fill(const struct step_mask *step, struct answer_row *row, const struct instance_places *p,
                          const struct grid *scores, uint8_t number, const float *box)
{
    struct extent e = extent_of(p->m, row, box);
    for (size_t y = e.from[1]; y < e.to[1]; y++)
        for (size_t x = e.from[0]; x < e.to[0]; x++) {
            uint8_t *pixel = &row->mask[y * row->mask_width + x];
            if (*pixel || !within_box(&p->input, box, x, y))
                continue; /* what better objects have is theirs */
            struct around a = around_of(&p->cells, scores, x, y);
            *pixel = (double)answer_sigmoid(score_at(scores, &a, 0)) >= step->threshold ? number : 0;
        }
}

/* Pixel by pixel the number of the object that it belongs to, from 1; the first objects are the best. */
static enum pen_status instances_fill(const struct answer *answer, const struct step_mask *step, struct answer_row *row,
                                      const struct grid *grid, struct pen_error *reterr)
{
    if (grid->channels != answer->coefficients)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the output has %zu prototypes, and objects have %u coefficients",
                             grid->channels, answer->coefficients);
    struct instance_places places = places_of(answer, step, row, grid);
    float *scores = row_take(row, grid->height * grid->width, sizeof *scores, reterr);
    if (!scores)
        return row_short(row);
    const struct grid own = {scores, grid->height, grid->width, 1, 1, 1};
    uint64_t pixels = 0;
    places.cells.nearest = step->nearest;
    memset(row->mask, 0, (size_t)row->mask_height * row->mask_width);
    for (size_t i = 0; i < row->objects_count && i < answer->objects_max; i++) {
        pixels += extent_pixels(extent_of(places.m, row, row->objects[i].box));
        if (pixels > INSTANCE_PIXELS_MAX)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                 "the boxes cover more than %u pixels in all: say size model, or fewer objects",
                                 INSTANCE_PIXELS_MAX);
        object_scores(answer, &row->objects[i], grid, scores);
        instance_fill(step, row, &places, &own, (uint8_t)(i + 1), row->objects[i].box);
    }
    return PEN_OK;
}

/* ---- the step ---- */

static enum pen_status where_open(const struct answer *answer, const struct step_mask *step, struct answer_row *row,
                                  const struct grid *grid, struct grid *where, struct pen_error *reterr)
{
    enum pen_status status =
        grid_open(answer, row_view(row, &step->where), step->where.output[0], step->channels_first, where, reterr);
    if (status == PEN_OK && (where->height != grid->height || where->width != grid->width))
        return pen_error_set(reterr, PEN_ERR_SHAPE, "'where' has %zu x %zu cells, and the output %zu x %zu",
                             where->height, where->width, grid->height, grid->width);
    return status == PEN_OK ? grid_activate(row, where, step->where_activation, reterr) : status;
}

static enum pen_status channels_check(const struct step_mask *step, const struct grid *grid, struct pen_error *reterr)
{
    if (step->argmax && grid->channels + (step->where.count ? 1 : 0) > 256)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the output has %zu classes, and a mask holds 256", grid->channels);
    if (!step->argmax && step->channel >= grid->channels)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the output has no channel %u: it has %zu", step->channel,
                             grid->channels);
    return PEN_OK;
}

static enum pen_status mask_run(const struct answer *answer, const struct answer_step *compiled, struct answer_row *row,
                                struct pen_error *reterr)
{
    const struct step_mask *step = &compiled->mask;
    struct grid grid, where;
    enum pen_status status =
        grid_open(answer, row_view(row, &step->from), step->from.output[0], step->channels_first, &grid, reterr);
    if (status == PEN_OK)
        status = channels_check(step, &grid, reterr);
    if (status == PEN_OK)
        status = grid_activate(row, &grid, step->activation, reterr);
    if (status == PEN_OK && step->where.count)
        status = where_open(answer, step, row, &grid, &where, reterr);
    if (status == PEN_OK)
        status = size_find(answer, step, row, &grid, reterr);
    if (status == PEN_OK && step->instances)
        status = instances_fill(answer, step, row, &grid, reterr);
    else if (status == PEN_OK)
        mask_fill(answer, step, row, &grid, step->where.count ? &where : NULL);
    return status;
}

static void mask_defaults(struct answer_step *step)
{
    step->mask = (struct step_mask){.threshold = 0.5, .where_threshold = 0.5};
}

static enum pen_status instances_check(struct answer_reader *reader, const struct step_mask *mask)
{
    struct answer *answer = reader->answer;
    if (!answer->coefficients)
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "form instances needs a step boxes before it with 'coefficients', and mostly nms between");
    if (answer->turned)
        return reader_refuse(reader, PEN_ERR_UNSUPPORTED, "turned boxes have no masks");
    if (mask->where.count || mask->activation != ANSWER_AS_IS)
        return reader_refuse(reader, PEN_ERR_INVALID, "form instances has neither 'where' nor 'activation'");
    if (answer->objects_max > ANSWER_INSTANCES_MAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "a mask has room for %u objects: say \"max\" in nms",
                             ANSWER_INSTANCES_MAX);
    answer->instances = true;
    return reader_needs_size(reader);
}

static enum pen_status mask_compile(struct answer_reader *reader, struct answer_step *step)
{
    struct step_mask *mask = &step->mask;
    reader->answer->mask_png = mask->png || reader->answer->json;
    enum pen_status status = reader_needs_rank(reader, mask->from.output[0], 2, 4);
    if (status == PEN_OK && mask->where.count)
        status = reader_needs_rank(reader, mask->where.output[0], 2, 4);
    if (status == PEN_OK && mask->instances)
        status = instances_check(reader, mask);
    return status == PEN_OK && mask->size == MASK_PICTURE ? reader_needs_size(reader) : status;
}

static enum pen_status read_mask_form(struct answer_reader *reader, const cJSON *value, const char *path)
{
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    reader->step->mask.argmax = strcmp(text, "argmax") == 0;
    reader->step->mask.given = strcmp(text, "classes") == 0;
    reader->step->mask.instances = strcmp(text, "instances") == 0;
    if (!reader->step->mask.argmax && !reader->step->mask.given && !reader->step->mask.instances &&
        strcmp(text, "threshold") != 0)
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "%s is '%.64s'; it must be one of argmax|threshold|classes|instances", path, text);
    return PEN_OK;
}

static const struct answer_option mask_options[] = {
    {.name = "output", .type = OPTION_SOURCE, .offset = offsetof(struct step_mask, from), .needed = true},
    {.name = "form", .type = OPTION_READER, .read = read_mask_form, .needed = true},
    {.name = "activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_mask, activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "channel", .type = OPTION_WHOLE, .offset = offsetof(struct step_mask, channel), .max = 65535},
    {.name = "threshold",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct step_mask, threshold),
     .min = -1e9,
     .max = 1e9},
    {.name = "channels_first", .type = OPTION_FLAG, .offset = offsetof(struct step_mask, channels_first)},
    {.name = "size", .type = OPTION_CHOICE, .offset = offsetof(struct step_mask, size), .choices = "picture|model"},
    {.name = "corners", .type = OPTION_FLAG, .offset = offsetof(struct step_mask, corners)},
    {.name = "nearest", .type = OPTION_FLAG, .offset = offsetof(struct step_mask, nearest)},
    {.name = "png", .type = OPTION_FLAG, .offset = offsetof(struct step_mask, png)},
    {.name = "where", .type = OPTION_SOURCE, .offset = offsetof(struct step_mask, where)},
    {.name = "where_activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_mask, where_activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "where_threshold",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct step_mask, where_threshold),
     .min = -1e9,
     .max = 1e9},
    {.name = NULL},
};
const struct answer_kind kind_mask = {.name = "mask",
                                      .options = mask_options,
                                      .defaults = mask_defaults,
                                      .compile = mask_compile,
                                      .run = mask_run,
                                      .produces = ANSWER_MASK};
