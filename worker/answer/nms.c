/*
 * nms.c - non-maximum suppression: of objects that overlap, the best stays.
 *
 * hard: as torchvision.ops.nms and ONNX NonMaxSuppression: an object goes when its overlap (shared area over joint area) with a better one that stays is above `iou`.
 * linear, gaussian: Soft-NMS (Bodla et al. 2017): its score is multiplied by 1 - overlap (above `iou`), or by exp(-overlap^2 / sigma); below `score` it goes.
 * Boxes that are turned overlap as what they are (turned.c).
 * weighted: BlazeFace's blending (Bazarevsky et al. 2019): those that overlap are one, with the mean of boxes and points by their scores, and the best score.
 */
#include "parts.h"

#include <math.h>
#include <string.h>

static float area(const float box[4])
{
    return (box[2] - box[0]) * (box[3] - box[1]);
}

static float overlap(const float a[4], const float b[4])
{
    float width = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), height = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
    float shared = fmaxf(width, 0) * fmaxf(height, 0);
    return shared / (area(a) + area(b) - shared);
}

static float objects_overlap(const struct step_nms *nms, const struct answer_object *a, const struct answer_object *b)
{
    return nms->turned ? turned_overlap(a, b) : overlap(a->box, b->box);
}

static bool rivals(const struct step_nms *nms, const struct answer_object *a, const struct answer_object *b)
{
    return !nms->per_class || a->class == b->class;
}

static size_t hard(const struct step_nms *nms, struct answer_object *objects, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count && kept < nms->max; i++) {
        bool stays = true;
        for (size_t j = 0; j < kept && stays; j++)
            stays = !rivals(nms, &objects[j], &objects[i]) ||
                    !((double)objects_overlap(nms, &objects[j], &objects[i]) > nms->iou);
        if (stays)
            objects[kept++] = objects[i];
    }
    return kept;
}

static float decayed(const struct step_nms *nms, float score, float iou)
{
    if (nms->kind == NMS_GAUSSIAN)
        return score * (float)exp(-(double)iou * (double)iou / nms->sigma);
    return (double)iou > nms->iou ? score * (1 - iou) : score;
}

/* The best of what is left, again and again; it lowers the scores of those that it overlaps. */
static size_t soft(const struct step_nms *nms, struct answer_object *objects, size_t count)
{
    size_t kept = 0;
    for (; kept < count && kept < nms->max; kept++) {
        size_t best = kept;
        for (size_t i = kept + 1; i < count; i++)
            if (objects[i].score > objects[best].score)
                best = i;
        if (!((double)objects[best].score >= nms->score))
            break;
        struct answer_object one = objects[best];
        memmove(objects + kept + 1, objects + kept, (best - kept) * sizeof one); /* the others stay in their order */
        objects[kept] = one;
        for (size_t i = kept + 1; i < count; i++)
            if (rivals(nms, &one, &objects[i]))
                objects[i].score = decayed(nms, objects[i].score, objects_overlap(nms, &one, &objects[i]));
    }
    return kept;
}

/* Sums of an object's numbers by its score. */
struct blend {
    double box[4], total;
    double *points; /* [points_count * 2] */
};

static void blend_add(struct blend *blend, const struct answer_object *object, uint32_t points_count)
{
    double weight = (double)object->score;
    for (int i = 0; i < 4; i++)
        blend->box[i] += weight * (double)object->box[i];
    for (uint32_t i = 0; object->points && i < 2 * points_count; i++)
        blend->points[i] += weight * (double)object->points[i / 2 * ANSWER_POINT_VALUES + i % 2];
    blend->total += weight;
}

static void blend_put(const struct blend *blend, struct answer_object *object, uint32_t points_count)
{
    if (!(blend->total > 0))
        return;
    for (int i = 0; i < 4; i++)
        object->box[i] = (float)(blend->box[i] / blend->total);
    for (uint32_t i = 0; object->points && i < 2 * points_count; i++)
        object->points[i / 2 * ANSWER_POINT_VALUES + i % 2] = (float)(blend->points[i] / blend->total);
}

static size_t weighted(const struct step_nms *nms, struct answer_object *objects, size_t count, uint32_t points_count,
                       double *sums)
{
    size_t kept = 0;
    for (; count > kept && kept < nms->max; kept++) {
        struct answer_object *best = &objects[kept], first = *best;
        struct blend blend = {.points = sums};
        size_t left = kept + 1;
        memset(sums, 0, 2 * sizeof *sums * points_count);
        blend_add(&blend, &first, points_count);
        for (size_t i = kept + 1; i < count; i++) {
            if (rivals(nms, &first, &objects[i]) && (double)overlap(first.box, objects[i].box) > nms->iou)
                blend_add(&blend, &objects[i], points_count);
            else
                objects[left++] = objects[i];
        }
        blend_put(&blend, best, points_count);
        count = left;
    }
    return kept;
}

static enum pen_status nms_run(const struct answer *answer, const struct answer_step *step, struct answer_row *row,
                               struct pen_error *reterr)
{
    const struct step_nms *nms = &step->nms;
    objects_sort(row, row->objects_count);
    if (nms->kind == NMS_HARD) {
        row->objects_count = hard(nms, row->objects, row->objects_count);
    } else if (nms->kind == NMS_WEIGHTED) {
        double *sums = row_take(row, 2 * ((size_t)answer->points_count + 1), sizeof *sums, reterr);
        if (!sums)
            return row_short(row);
        row->objects_count = weighted(nms, row->objects, row->objects_count, answer->points_count, sums);
    } else {
        row->objects_count = soft(nms, row->objects, row->objects_count);
    }
    return PEN_OK;
}

static void nms_defaults(struct answer_step *step)
{
    step->nms = (struct step_nms){.per_class = true, .iou = 0.5, .sigma = 0.5, .score = 0.001, .max = 100};
}

static enum pen_status nms_compile(struct answer_reader *reader, struct answer_step *step)
{
    step->nms.turned = reader->answer->turned;
    if (step->nms.turned && step->nms.kind == NMS_WEIGHTED)
        return reader_refuse(reader, PEN_ERR_UNSUPPORTED,
                             "turned boxes have no weighted mean: say hard, linear or gaussian");
    if (reader->answer->objects_max > step->nms.max)
        reader->answer->objects_max = step->nms.max;
    return PEN_OK;
}

static const struct answer_option nms_options[] = {
    {.name = "kind",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct step_nms, kind),
     .choices = "hard|linear|gaussian|weighted"},
    {.name = "iou", .type = OPTION_NUMBER, .offset = offsetof(struct step_nms, iou), .min = 0, .max = 1},
    {.name = "per_class", .type = OPTION_FLAG, .offset = offsetof(struct step_nms, per_class)},
    {.name = "max",
     .type = OPTION_WHOLE,
     .offset = offsetof(struct step_nms, max),
     .min = 1,
     .max = ANSWER_OBJECTS_MAX},
    {.name = "sigma", .type = OPTION_NUMBER, .offset = offsetof(struct step_nms, sigma), .min = 1e-6, .max = 1000},
    {.name = "score", .type = OPTION_NUMBER, .offset = offsetof(struct step_nms, score), .min = 0, .max = 1},
    {.name = NULL},
};
const struct answer_kind kind_nms = {
    .name = "nms", .options = nms_options, .defaults = nms_defaults, .compile = nms_compile, .run = nms_run};
