/* boxes.c - the step `boxes`: proposals whose score is high enough become objects, the best first. */
#include "boxes.h"

#include <math.h>

#define NOT_GIVEN UINT32_MAX

/* ---- scores ---- */

#define CLASS_IDS 16777216.0f /* a float counts so far */

/* The present proposal. */
struct proposal {
    const struct step_boxes *step;
    const struct box_part *part;
    uint32_t part_index, row;
    uint64_t place;
    float objectness;
};

/* False: the number is no class; models fill the places behind their last object with such. */
static bool class_id(const struct proposal *p, uint32_t *ret_class)
{
    float id = matrix_at(&p->part->class_ids, p->row, p->step->class_ids_at);
    if (!(id >= 0 && id < CLASS_IDS))
        return false;
    *ret_class = (uint32_t)id;
    return true;
}

static void offer(const struct proposal *p, struct candidates *list, float score, uint32_t class)
{
    float whole = score * p->objectness;
    if (!((double)whole >= p->step->score))
        return;
    if (p->step->class_ids.count && !class_id(p, &class))
        return;
    candidates_offer(list, (struct candidate){.score = whole,
                                              .class = (int32_t)(class - (p->step->background ? 1 : 0)),
                                              .part = p->part_index,
                                              .row = p->row,
                                              .place = p->place + class});
}

static float class_score(const struct proposal *p, uint32_t class)
{
    return matrix_at(&p->part->scores, p->row, p->step->scores_at + class);
}

/* Softmax needs all classes: exp(x - max) / sum. */
static double exp_sum(const struct proposal *p, float *ret_high)
{
    double sum = 0;
    *ret_high = class_score(p, 0);
    for (uint32_t c = 1; c < p->part->classes; c++)
        *ret_high = fmaxf(*ret_high, class_score(p, c));
    for (uint32_t c = 0; c < p->part->classes; c++)
        sum += (double)expf(class_score(p, c) - *ret_high);
    return sum;
}

static float activated(const struct proposal *p, float value, double sum, float high)
{
    if (p->step->activation == ANSWER_SOFTMAX)
        return (float)((double)expf(value - high) / sum);
    return answer_activate(value, p->step->activation);
}

/* The best class, or with multi_label each one. */
static void proposal_offer(const struct proposal *p, struct candidates *list)
{
    float high = 0;
    double sum = p->step->activation == ANSWER_SOFTMAX ? exp_sum(p, &high) : 0;
    uint32_t first = p->step->background ? 1 : 0, best = first;
    if (p->part->classes == 0) { /* objectness alone */
        offer(p, list, 1, 0);
        return;
    }
    for (uint32_t c = first; c < p->part->classes; c++) {
        if (p->step->multi_label)
            offer(p, list, activated(p, class_score(p, c), sum, high), c);
        else if (class_score(p, c) > class_score(p, best))
            best = c;
    }
    if (!p->step->multi_label)
        offer(p, list, activated(p, class_score(p, best), sum, high), best);
}

static void part_offer(const struct step_boxes *step, const struct box_part *parts, uint32_t index, uint64_t *place,
                       struct candidates *list)
{
    const struct box_part *part = &parts[index];
    for (size_t row = 0; row < part->boxes.rows; row++) {
        struct proposal p = {.step = step, .part = part, .part_index = index, .row = (uint32_t)row, .objectness = 1};
        p.place = *place;
        *place += part->classes + 1;
        if (part->objectness.rows)
            p.objectness =
                answer_activate(matrix_at(&part->objectness, row, step->objectness_at), step->objectness_activation);
        bool bounded = step->activation != ANSWER_AS_IS; /* a class cannot make it more */
        if (!bounded || (double)p.objectness >= step->score)
            proposal_offer(&p, list);
    }
}

/* ---- the step ---- */

/* The factors by which each object's mask is put together; they lie in the output of the boxes. */
static enum pen_status coefficients_take(const struct step_boxes *step, const struct box_part *parts,
                                         const struct candidates *list, struct answer_row *row,
                                         struct pen_error *reterr)
{
    float *to = row_take(row, list->count * step->coefficients, sizeof *to, reterr);
    for (size_t i = 0; to && i < list->count; i++) {
        const struct box_part *part = &parts[list->list[i].part];
        row->objects[i].coefficients = to;
        for (uint32_t k = 0; k < step->coefficients; k++)
            *to++ = matrix_at(&part->boxes, list->list[i].row, part->coefficients_at + k);
    }
    return to ? PEN_OK : row_short(row);
}

static enum pen_status boxes_run(const struct answer *answer, const struct answer_step *compiled,
                                 struct answer_row *row, struct pen_error *reterr)
{
    const struct step_boxes *step = &compiled->boxes;
    struct box_part parts[BOX_PARTS_MAX];
    struct candidates list;
    size_t count = 0;
    uint64_t place = 0;
    enum pen_status status = box_parts_open(answer, step, row->views, parts, &count, reterr);
    if (status == PEN_OK)
        status = candidates_open(row, step->candidates, &list, reterr);
    for (uint32_t i = 0; i < count && status == PEN_OK; i++)
        part_offer(step, parts, i, &place, &list);
    if (status != PEN_OK)
        return status;
    candidates_sort(&list);
    status = candidates_objects(&list, row, step->points_count, reterr);
    for (size_t i = 0; i < list.count && status == PEN_OK; i++)
        box_decode(answer, step, &parts[list.list[i].part], list.list[i].row, &row->objects[i]);
    if (status == PEN_OK && step->coefficients)
        status = coefficients_take(step, parts, &list, row, reterr);
    return status;
}

static void boxes_defaults(struct answer_step *step)
{
    struct step_boxes *boxes = &step->boxes;
    boxes->order = boxes->activation = boxes->objectness_activation = NOT_GIVEN;
    boxes->centre = -1;
    boxes->boxes_at = boxes->scores_at = boxes->points_at = boxes->objectness_at = NOT_GIVEN;
    boxes->coefficients_at = boxes->angle_at = NOT_GIVEN;
    boxes->score = 0.3;
    boxes->candidates = 1000;
}

/* Objectness is activated as scores are, but never by softmax. */
static enum pen_status compile(struct answer_reader *reader, struct answer_step *step)
{
    enum pen_status status = boxes_compile(reader, step);
    if (step->boxes.objectness_activation == NOT_GIVEN)
        step->boxes.objectness_activation = step->boxes.activation == ANSWER_AS_IS ? ANSWER_AS_IS : ANSWER_SIGMOID;
    return status;
}

#define COLUMN(key, field)                                                                                             \
    {                                                                                                                  \
        .name = key, .type = OPTION_WHOLE, .offset = offsetof(struct step_boxes, field), .max = 65535                  \
    }
#define SOURCES(key, field)                                                                                            \
    {                                                                                                                  \
        .name = key, .type = OPTION_SOURCES, .offset = offsetof(struct step_boxes, field)                              \
    }
#define FLAG(key, field)                                                                                               \
    {                                                                                                                  \
        .name = key, .type = OPTION_FLAG, .offset = offsetof(struct step_boxes, field)                                 \
    }

static const struct answer_option boxes_options[] = {
    {.name = "form",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_boxes, form),
     .choices = "plain|ssd|blazeface|distance|yolov3|yolov5|yolov8|yolox"},
    SOURCES("boxes", boxes),
    SOURCES("scores", scores),
    SOURCES("objectness", objectness),
    SOURCES("class_ids", class_ids),
    SOURCES("points", points),
    COLUMN("boxes_at", boxes_at),
    COLUMN("scores_at", scores_at),
    COLUMN("objectness_at", objectness_at),
    COLUMN("points_at", points_at),
    COLUMN("class_ids_at", class_ids_at),
    COLUMN("coefficients_at", coefficients_at),
    COLUMN("angle_at", angle_at),
    {.name = "coefficients",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_boxes, coefficients),
     .min = 1,
     .max = ANSWER_COEFFICIENTS_MAX},
    FLAG("turned", turned),
    {.name = "classes", .type = OPTION_WHOLE, .offset = offsetof(struct step_boxes, classes), .min = 1, .max = 65535},
    {.name = "points_count",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_boxes, points_count),
     .min = 1,
     .max = ANSWER_NUMBERS_MAX},
    FLAG("points_scored", points_scored),
    FLAG("points_yx", points_yx),
    {.name = "order",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_boxes, order),
     .choices = "ltrb|tlbr|cxcywh|cycxhw|ltwh"},
    {.name = "activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_boxes, activation),
     .choices = ANSWER_ACTIVATIONS},
    {.name = "objectness_activation",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_boxes, objectness_activation),
     .choices = "none|sigmoid"},
    FLAG("normalized", normalized),
    FLAG("channels_first", channels_first),
    FLAG("background", background),
    FLAG("multi_label", multi_label),
    {.name = "variances",
     .type = OPTION_NUMBERS,
     .offset = offsetof(struct step_boxes, variances),
     .min = 1e-6,
     .max = 1000},
    {.name = "anchors", .type = OPTION_READER, .read = read_anchors},
    {.name = "heads", .type = OPTION_READER, .read = read_heads},
    {.name = "strides", .type = OPTION_NUMBERS, .offset = offsetof(struct step_boxes, strides), .min = 1, .max = 4096},
    {.name = "centre", .type = OPTION_NUMBER, .offset = offsetof(struct step_boxes, centre), .max = 1},
    {.name = "bins",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_boxes, bins),
     .min = 2,
     .max = ANSWER_NUMBERS_MAX},
    {.name = "score", .type = OPTION_NUMBER, .offset = offsetof(struct step_boxes, score), .min = 0, .max = 1},
    {.name = "candidates",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_boxes, candidates),
     .min = 1,
     .max = ANSWER_CANDIDATES_MAX},
    {.name = NULL},
};

const struct answer_kind kind_boxes = {.name = "boxes",
                                       .options = boxes_options,
                                       .defaults = boxes_defaults,
                                       .compile = compile,
                                       .run = boxes_run,
                                       .produces = ANSWER_OBJECTS};
