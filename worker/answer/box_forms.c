/*
 * box_forms.c - from a network's numbers to a box: the formulas of the papers, in float as NumPy computes them.
 *
 * ssd, yolox: centre = anchor + t * variance * size, size = anchor * exp(t * variance) (Liu et al. 2016; Ge et al. 2021, with cells of the grid for anchors).
 * blazeface: the same without exp (Bazarevsky et al. 2019). distance: left, top, right, bottom from the cell's middle in strides (Tian et al. 2019), each the mean of a
 * softmax over `bins` where there are some (Li et al. 2020). yolov3: sigmoid and exp (Redmon and Farhadi 2018). yolov5: 2 sigmoid - 0.5, (2 sigmoid)^2 (Ultralytics).
 */
#include "boxes.h"

#include <math.h>

static void box_set(float box[4], float x, float y, float width, float height)
{
    box[0] = x - width / 2;
    box[1] = y - height / 2;
    box[2] = x + width / 2;
    box[3] = y + height / 2;
}

/* The four numbers as x, y, width, height (or left, top, right, bottom), whatever their order in the file. */
static void order_apply(uint32_t order, float v[4])
{
    float a = v[0], b = v[1], c = v[2], d = v[3];
    if (order == ORDER_TLBR || order == ORDER_CYCXHW) {
        v[0] = b;
        v[1] = a;
        v[2] = d;
        v[3] = c;
    }
}

static void plain_decode(const struct answer *answer, const struct step_boxes *step, const float v[4], float box[4])
{
    float sx = step->normalized ? (float)answer->width : 1, sy = step->normalized ? (float)answer->height : 1;
    float a = v[0] * sx, b = v[1] * sy, c = v[2] * sx, d = v[3] * sy;
    if (step->order == ORDER_CXCYWH || step->order == ORDER_CYCXHW) {
        box_set(box, a, b, c, d);
        return;
    }
    box[0] = a;
    box[1] = b;
    box[2] = step->order == ORDER_LTWH ? a + c : c;
    box[3] = step->order == ORDER_LTWH ? b + d : d;
}

static void anchor_decode(const struct step_boxes *step, const struct answer_anchor *anchor, const float v[4],
                          float box[4])
{
    const double *variance = step->variances.value;
    float x = anchor->x + v[0] * (float)variance[0] * anchor->width;
    float y = anchor->y + v[1] * (float)variance[1] * anchor->height;
    float w = v[2] * (float)variance[2], h = v[3] * (float)variance[3];
    bool linear = step->form == BOX_BLAZEFACE;
    box_set(box, x, y, (linear ? w : expf(w)) * anchor->width, (linear ? h : expf(h)) * anchor->height);
}

static void distance_decode(const struct answer_anchor *anchor, const float v[4], float box[4])
{
    box[0] = anchor->x - v[0] * anchor->width;
    box[1] = anchor->y - v[1] * anchor->height;
    box[2] = anchor->x + v[2] * anchor->width;
    box[3] = anchor->y + v[3] * anchor->height;
}

static void head_decode(const struct step_boxes *step, const struct box_part *part, size_t row, const float v[4],
                        float box[4])
{
    const struct box_head *head = part->head;
    const struct answer_anchor *anchor = &head->anchors[part->anchor];
    float x = (float)(row % head->grid_width), y = (float)(row / head->grid_width);
    float sx = answer_sigmoid(v[0]), sy = answer_sigmoid(v[1]);
    if (step->form == BOX_YOLOV3) {
        box_set(box, (sx + x) * head->stride, (sy + y) * head->stride, expf(v[2]) * anchor->width,
                expf(v[3]) * anchor->height);
        return;
    }
    float w = 2 * answer_sigmoid(v[2]), h = 2 * answer_sigmoid(v[3]);
    box_set(box, (2 * sx - 0.5f + x) * head->stride, (2 * sy - 0.5f + y) * head->stride, w * w * anchor->width,
            h * h * anchor->height);
}

/* sum of i * softmax_i over the bins */
static float bins_mean(const struct step_boxes *step, const struct matrix *m, size_t row, uint32_t side)
{
    float bins[ANSWER_NUMBERS_MAX], mean = 0;
    for (uint32_t i = 0; i < step->bins; i++)
        bins[i] = matrix_at(m, row, step->boxes_at + side * step->bins + i);
    answer_softmax(bins, bins, step->bins, 1);
    for (uint32_t i = 0; i < step->bins; i++)
        mean += (float)i * bins[i];
    return mean;
}

static void points_decode(const struct answer *answer, const struct step_boxes *step, const struct box_part *part,
                          size_t row, float *points)
{
    uint32_t values = step->points_scored ? 3 : 2, x_at = step->points_yx ? 1 : 0;
    const struct answer_anchor *anchor = step->anchors ? &step->anchors[part->first + row] : NULL;
    float sx = step->normalized ? (float)answer->width : 1, sy = step->normalized ? (float)answer->height : 1;
    for (uint32_t i = 0; i < step->points_count; i++) {
        uint32_t at = step->points_at + i * values;
        float x = matrix_at(&part->points, row, at + x_at), y = matrix_at(&part->points, row, at + 1 - x_at);
        float *point = points + (size_t)i * ANSWER_POINT_VALUES;
        point[0] = anchor ? anchor->x + x * (float)step->variances.value[0] * anchor->width : x * sx;
        point[1] = anchor ? anchor->y + y * (float)step->variances.value[1] * anchor->height : y * sy;
        point[2] = values == 3 ? matrix_at(&part->points, row, at + 2) : 1;
    }
}

void box_decode(const struct answer *answer, const struct step_boxes *step, const struct box_part *part, size_t row,
                struct answer_object *object)
{
    float v[4];
    for (uint32_t i = 0; i < 4; i++)
        v[i] = step->bins ? bins_mean(step, &part->boxes, row, i) : matrix_at(&part->boxes, row, step->boxes_at + i);
    order_apply(step->order, v);
    if (part->head)
        head_decode(step, part, row, v, object->box);
    else if (step->form == BOX_DISTANCE)
        distance_decode(&step->anchors[part->first + row], v, object->box);
    else if (step->anchors)
        anchor_decode(step, &step->anchors[part->first + row], v, object->box);
    else
        plain_decode(answer, step, v, object->box);
    if (step->turned)
        object->angle = matrix_at(&part->boxes, row, part->angle_at);
    if (object->points)
        points_decode(answer, step, part, row, object->points);
}
