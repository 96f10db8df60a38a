/* box_parts.c - finds a step's proposals in the model's outputs. */
#include "boxes.h"

static enum pen_status columns_check(const struct answer *answer, uint32_t output, const struct matrix *m, size_t needs,
                                     const char *what, struct pen_error *reterr)
{
    if (needs <= m->columns)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_SHAPE, "%s need column %zu, but output '%.128s' has %zu columns (%zu rows)",
                         what, needs - 1, answer->model_outputs[output].name, m->columns, m->rows);
}

static enum pen_status rows_check(const struct answer *answer, const struct step_boxes *step, uint32_t output,
                                  const struct matrix *m, const struct matrix *boxes, struct pen_error *reterr)
{
    if (m->rows == boxes->rows)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_SHAPE, "output '%.128s' has %zu proposals and '%.128s' %zu",
                         answer->model_outputs[output].name, m->rows, answer->model_outputs[step->boxes.output[0]].name,
                         boxes->rows);
}

/* Of a model that gives as many rows as it finds: when it is one, the row looks like a batch of one, and its numbers like rows. */
static struct matrix one_row(const struct matrix *m)
{
    return (struct matrix){
        .data = m->data, .rows = m->rows ? 1 : 0, .columns = m->rows, .row_step = m->rows, .column_step = m->row_step};
}

/* The matrix of source `index`, with as many rows as boxes. */
static enum pen_status matrix_join(const struct answer *answer, const struct step_boxes *step,
                                   const struct answer_view *views, const struct answer_sources *from, size_t index,
                                   const struct matrix *boxes, struct matrix *ret_matrix, struct pen_error *reterr)
{
    if (from->count == 0)
        return PEN_OK;
    uint32_t output = from->output[index];
    *ret_matrix = matrix_of(&views[output], step->channels_first);
    if (boxes->rows == 1 && ret_matrix->columns == 1)
        *ret_matrix = one_row(ret_matrix);
    return rows_check(answer, step, output, ret_matrix, boxes, reterr);
}

static uint32_t classes_of(const struct step_boxes *step, const struct box_part *part, size_t index)
{
    bool own = step->scores.output[index] != step->boxes.output[index];
    bool shared = step->points.count == 0 || step->points.output[index] == step->scores.output[index];
    uint32_t end = (uint32_t)part->scores.columns;
    if (step->classes)
        return step->classes;
    if (step->points_count && shared && step->points_at > step->scores_at)
        end = step->points_at;
    if (step->boxes.output[index] == step->scores.output[index] && step->boxes_at > step->scores_at &&
        step->boxes_at < end)
        end = step->boxes_at;
    if (!own && step->coefficients && part->coefficients_at > step->scores_at && part->coefficients_at < end)
        end = part->coefficients_at;
    if (!own && step->turned && part->angle_at > step->scores_at && part->angle_at < end)
        end = part->angle_at;
    return end > step->scores_at ? end - step->scores_at : 0;
}

/* Coefficients and the angle: the last columns where the file names no others. Too few columns: part_check says so. */
static void extras_place(const struct step_boxes *step, struct box_part *part)
{
    uint32_t columns = (uint32_t)part->boxes.columns;
    part->angle_at = step->angle_at != UINT32_MAX ? step->angle_at : columns ? columns - 1 : 0;
    part->coefficients_at = step->coefficients_at != UINT32_MAX ? step->coefficients_at
                            : columns > step->coefficients      ? columns - step->coefficients
                                                                : 0;
}

static enum pen_status extras_check(const struct answer *answer, const struct step_boxes *step,
                                    const struct box_part *part, size_t index, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (step->coefficients)
        status = columns_check(answer, step->boxes.output[index], &part->boxes,
                               (size_t)part->coefficients_at + step->coefficients, "coefficients", reterr);
    if (status == PEN_OK && step->turned)
        status = columns_check(answer, step->boxes.output[index], &part->boxes, (size_t)part->angle_at + 1, "angles",
                               reterr);
    return status;
}

static enum pen_status part_check(const struct answer *answer, const struct step_boxes *step, struct box_part *part,
                                  size_t index, struct pen_error *reterr)
{
    size_t values = 4u * (step->bins ? step->bins : 1), point = step->points_scored ? 3 : 2;
    extras_place(step, part);
    part->classes = classes_of(step, part, index);
    enum pen_status status =
        columns_check(answer, step->boxes.output[index], &part->boxes, step->boxes_at + values, "boxes", reterr);
    if (status == PEN_OK)
        status = extras_check(answer, step, part, index, reterr);
    if (status == PEN_OK)
        status = columns_check(answer, step->scores.output[index], &part->scores,
                               step->scores_at + (part->classes ? part->classes : 1), "scores", reterr);
    if (status == PEN_OK && step->objectness.count)
        status = columns_check(answer, step->objectness.output[index], &part->objectness, step->objectness_at + 1,
                               "objectness", reterr);
    if (status == PEN_OK && step->class_ids.count)
        status = columns_check(answer, step->class_ids.output[index], &part->class_ids, step->class_ids_at + 1,
                               "class_ids", reterr);
    if (status == PEN_OK && step->points_count)
        status = columns_check(answer, step->points.output[index], &part->points,
                               step->points_at + step->points_count * point, "points", reterr);
    if (status == PEN_OK && step->background && part->classes < 2)
        status = pen_error_set(reterr, PEN_ERR_SHAPE, "background: there is one column of scores alone");
    return status;
}

static enum pen_status part_open(const struct answer *answer, const struct step_boxes *step,
                                 const struct answer_view *views, size_t index, struct box_part *part,
                                 struct pen_error *reterr)
{
    part->boxes = matrix_of(&views[step->boxes.output[index]], step->channels_first);
    if (views[step->boxes.output[index]].rank == 1)
        part->boxes = one_row(&part->boxes);
    const struct matrix *boxes = &part->boxes;
    enum pen_status status = matrix_join(answer, step, views, &step->scores, index, boxes, &part->scores, reterr);
    if (status == PEN_OK)
        status = matrix_join(answer, step, views, &step->objectness, index, boxes, &part->objectness, reterr);
    if (status == PEN_OK)
        status = matrix_join(answer, step, views, &step->class_ids, index, boxes, &part->class_ids, reterr);
    if (status == PEN_OK && step->points_count)
        status = matrix_join(answer, step, views, &step->points, index, boxes, &part->points, reterr);
    return status == PEN_OK ? part_check(answer, step, part, index, reterr) : status;
}

/* ---- heads ---- */

static bool dims_are(const struct answer_view *view, const int64_t *dims, uint32_t rank)
{
    bool same = view->rank == rank;
    for (uint32_t d = 0; same && d < rank; d++)
        same = dims[d] < 0 || view->dims[d] == dims[d];
    return same;
}

/* What a head's numbers lie like: [anchors, 5 + classes, h, w] or joined, [h, w, ...], or [anchors, h, w, 5 + classes]. */
static bool head_matrix(const struct box_head *head, const struct answer_view *view, uint32_t anchor,
                        struct matrix *ret_matrix)
{
    int64_t h = head->grid_height, w = head->grid_width, a = head->anchors_count;
    size_t cells = (size_t)h * (size_t)w, values = view->count / ((size_t)a * cells);
    const int64_t first[] = {-1, h, w}, split[] = {a, -1, h, w}, last[] = {h, w, -1}, last_split[] = {h, w, a, -1},
                  apart[] = {a, h, w, -1};
    if (values < 6 || values * (size_t)a * cells != view->count)
        return false;
    size_t begin = anchor * cells * values;
    *ret_matrix = (struct matrix){.rows = cells, .columns = values};
    if (dims_are(view, apart, 4)) {
        ret_matrix->row_step = values;
        ret_matrix->column_step = 1;
    } else if (dims_are(view, first, 3) || dims_are(view, split, 4)) {
        ret_matrix->row_step = 1;
        ret_matrix->column_step = cells;
    } else if (dims_are(view, last, 3) || dims_are(view, last_split, 4)) {
        ret_matrix->row_step = values * (size_t)a;
        ret_matrix->column_step = 1;
        begin = anchor * values;
    } else {
        return false;
    }
    ret_matrix->data = view->data ? view->data + begin : NULL;
    return true;
}

static enum pen_status heads_open(const struct answer *answer, const struct step_boxes *step,
                                  const struct answer_view *views, struct box_part *parts, size_t *ret_count,
                                  struct pen_error *reterr)
{
    for (uint32_t i = 0; i < step->heads_count; i++) {
        const struct box_head *head = &step->heads[i];
        for (uint32_t a = 0; a < head->anchors_count; a++) {
            struct box_part *part = &parts[(*ret_count)++];
            *part = (struct box_part){.head = head, .anchor = a};
            if (!head_matrix(head, &views[head->output], a, &part->boxes))
                return pen_error_set(
                    reterr, PEN_ERR_SHAPE,
                    "output '%.128s' is no head of %u anchors on %u x %u cells: it must be [anchors * (5 + classes), "
                    "%u, %u], the same with anchors apart, or with the numbers last",
                    answer->model_outputs[head->output].name, head->anchors_count, head->grid_height, head->grid_width,
                    head->grid_height, head->grid_width);
            part->scores = part->objectness = part->boxes;
            part->classes = (uint32_t)part->boxes.columns - 5;
        }
    }
    return PEN_OK;
}

enum pen_status box_parts_open(const struct answer *answer, const struct step_boxes *step,
                               const struct answer_view *views, struct box_part ret_parts[BOX_PARTS_MAX],
                               size_t *ret_count, struct pen_error *reterr)
{
    uint64_t rows = 0;
    *ret_count = 0;
    if (step->heads_count)
        return heads_open(answer, step, views, ret_parts, ret_count, reterr);
    for (uint32_t i = 0; i < step->boxes.count; i++) {
        struct box_part *part = &ret_parts[(*ret_count)++];
        *part = (struct box_part){.first = (uint32_t)rows};
        enum pen_status status = part_open(answer, step, views, i, part, reterr);
        if (status != PEN_OK)
            return status;
        rows += part->boxes.rows;
    }
    if (step->anchors && rows != step->anchors_count)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the model gives %llu boxes, and the anchors are %u",
                             (unsigned long long)rows, step->anchors_count);
    return PEN_OK;
}
