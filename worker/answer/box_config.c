/* box_config.c - the keys of a boxes step, and the presets of its forms. */
#include "boxes.h"

#include <math.h>

#define NOT_GIVEN UINT32_MAX

struct head_read {
    struct answer_sources from;
    double stride;
};

static enum pen_status head_anchors(struct answer_reader *reader, const cJSON *value, struct box_head *head)
{
    for (const cJSON *item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next) {
        struct answer_numbers pair = {.count = 0};
        if (head->anchors_count == ANSWER_SOURCES_MAX)
            return reader_refuse(reader, PEN_ERR_TOO_LARGE, "a head has more than %u anchors", ANSWER_SOURCES_MAX);
        enum pen_status status = read_numbers(reader, item, "heads.anchors", 0.01, 65536, &pair);
        if (status != PEN_OK || pair.count != 2)
            return status != PEN_OK ? status
                                    : reader_refuse(reader, PEN_ERR_INVALID,
                                                    "heads.anchors must be pairs of width and "
                                                    "height, such as [[10, 13], [16, 30]]");
        head->anchors[head->anchors_count++] =
            (struct answer_anchor){.width = (float)pair.value[0], .height = (float)pair.value[1]};
    }
    return head->anchors_count
               ? PEN_OK
               : reader_refuse(reader, PEN_ERR_INVALID, "heads.anchors must be pairs of width and height");
}

static const struct answer_option head_options[] = {
    {.name = "output", .type = OPTION_SOURCE, .offset = offsetof(struct head_read, from), .needed = true},
    {.name = "stride",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct head_read, stride),
     .min = 1,
     .max = 4096,
     .needed = true},
    {.name = NULL},
};

static enum pen_status head_read(struct answer_reader *reader, const cJSON *item, struct box_head *head)
{
    struct head_read read = {.stride = 0};
    enum pen_status status = options_read(reader, item, head_options, &read, "anchors");
    if (status == PEN_OK)
        status = head_anchors(reader, cJSON_GetObjectItemCaseSensitive(item, "anchors"), head);
    if (status != PEN_OK)
        return status;
    head->output = read.from.output[0];
    head->stride = (float)read.stride;
    head->grid_height = (uint32_t)ceil(reader->answer->height / read.stride);
    head->grid_width = (uint32_t)ceil(reader->answer->width / read.stride);
    return PEN_OK;
}

enum pen_status read_heads(struct answer_reader *reader, const cJSON *value, const char *path)
{
    struct step_boxes *boxes = &reader->step->boxes;
    enum pen_status status = reader_needs_size(reader);
    if (status == PEN_OK && (!cJSON_IsArray(value) || !value->child))
        return reader_refuse(reader, PEN_ERR_INVALID,
                             "%s must be a list such as [{\"output\": \"p3\", \"stride\": 8, \"anchors\": [[10, 13]]}]",
                             path);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        if (boxes->heads_count == ANSWER_SOURCES_MAX)
            return reader_refuse(reader, PEN_ERR_TOO_LARGE, "%s has more than %u heads", path, ANSWER_SOURCES_MAX);
        status = head_read(reader, item, &boxes->heads[boxes->heads_count++]);
    }
    return status;
}

/* ---- presets ---- */

/* What a form means where the file does not say otherwise. */
static const struct preset {
    uint32_t order, activation, scores_at, objectness_at;
    double variances[4];
    bool channels_first, heads, generated, strides;
} presets[] = {
    [BOX_PLAIN] = {ORDER_LTRB, ANSWER_AS_IS, 4, NOT_GIVEN, {1, 1, 1, 1}, false, false, false, false},
    [BOX_SSD] = {ORDER_CYCXHW, ANSWER_AS_IS, 4, NOT_GIVEN, {0.1, 0.1, 0.2, 0.2}, false, false, true, false},
    [BOX_BLAZEFACE] = {ORDER_CXCYWH, ANSWER_SIGMOID, 4, NOT_GIVEN, {1, 1, 1, 1}, false, false, true, false},
    [BOX_DISTANCE] = {ORDER_LTRB, ANSWER_AS_IS, 4, NOT_GIVEN, {1, 1, 1, 1}, false, false, false, true},
    [BOX_YOLOV3] = {ORDER_CXCYWH, ANSWER_SIGMOID, 5, 4, {1, 1, 1, 1}, false, true, false, false},
    [BOX_YOLOV5] = {ORDER_CXCYWH, ANSWER_SIGMOID, 5, 4, {1, 1, 1, 1}, false, true, false, false},
    [BOX_YOLOV8] = {ORDER_CXCYWH, ANSWER_AS_IS, 4, NOT_GIVEN, {1, 1, 1, 1}, true, false, false, false},
    [BOX_YOLOX] = {ORDER_CXCYWH, ANSWER_AS_IS, 5, 4, {1, 1, 1, 1}, false, false, false, true},
};

static void preset_apply(struct step_boxes *boxes)
{
    const struct preset *preset = &presets[boxes->form];
    bool shared = boxes->scores.count == 0;
    if (shared)
        boxes->scores = boxes->boxes;
    boxes->order = boxes->order == NOT_GIVEN ? preset->order : boxes->order;
    boxes->activation = boxes->activation == NOT_GIVEN ? preset->activation : boxes->activation;
    boxes->boxes_at = boxes->boxes_at == NOT_GIVEN ? 0 : boxes->boxes_at;
    boxes->scores_at =
        boxes->scores_at == NOT_GIVEN ? shared || preset->heads ? preset->scores_at : 0 : boxes->scores_at;
    if (boxes->objectness.count && boxes->objectness_at == NOT_GIVEN)
        boxes->objectness_at = 0;
    if (boxes->objectness_at == NOT_GIVEN && shared)
        boxes->objectness_at = preset->objectness_at;
    if (boxes->objectness_at != NOT_GIVEN && boxes->objectness.count == 0)
        boxes->objectness = boxes->boxes;
    boxes->channels_first |= preset->channels_first;
    for (uint32_t i = boxes->variances.count; i < 4; i++)
        boxes->variances.value[i] = preset->variances[i];
}

static enum pen_status strides_or_default(struct answer_reader *reader, struct step_boxes *boxes)
{
    double centre = boxes->centre >= 0 ? boxes->centre : boxes->form == BOX_YOLOX ? 0 : 0.5;
    enum pen_status status = reader_needs_size(reader);
    if (boxes->strides.count == 0)
        boxes->strides = (struct answer_numbers){.count = 3, .value = {8, 16, 32}};
    if (status == PEN_OK && boxes->anchors)
        return reader_refuse(reader, PEN_ERR_INVALID, "this form has the cells of strides, and no anchors");
    return status == PEN_OK ? anchors_of_strides(reader, boxes, centre) : status;
}

static enum pen_status form_check(struct answer_reader *reader, struct step_boxes *boxes)
{
    const struct preset *preset = &presets[boxes->form];
    if (preset->heads != (boxes->heads_count > 0))
        return reader_refuse(reader, PEN_ERR_INVALID,
                             preset->heads ? "this form needs the key 'heads'" : "only yolov3 and yolov5 have 'heads'");
    if (preset->heads && (boxes->boxes.count || boxes->scores.count || boxes->points.count))
        return reader_refuse(reader, PEN_ERR_INVALID, "the outputs of this form are named in 'heads' alone");
    if (!preset->heads && boxes->boxes.count == 0)
        return reader_refuse(reader, PEN_ERR_INVALID, "the key 'boxes' is missing: the output with the boxes");
    if (preset->generated != (boxes->anchors != NULL))
        return reader_refuse(reader, PEN_ERR_INVALID,
                             preset->generated ? "this form needs the key 'anchors'"
                                               : "only ssd and blazeface have 'anchors'");
    if (boxes->centre >= 0 && !preset->strides)
        return reader_refuse(reader, PEN_ERR_INVALID, "only the forms distance and yolox have 'centre'");
    if (boxes->bins && boxes->form != BOX_DISTANCE)
        return reader_refuse(reader, PEN_ERR_INVALID, "only the form distance has 'bins'");
    if (boxes->variances.count != 0 && boxes->variances.count != 4)
        return reader_refuse(reader, PEN_ERR_INVALID, "variances must be four numbers: x, y, width, height");
    if (preset->heads && (boxes->coefficients || boxes->turned))
        return reader_refuse(reader, PEN_ERR_INVALID, "yolov3 and yolov5 have neither 'coefficients' nor 'turned'");
    if ((boxes->coefficients_at != NOT_GIVEN && !boxes->coefficients) ||
        (boxes->angle_at != NOT_GIVEN && !boxes->turned))
        return reader_refuse(reader, PEN_ERR_INVALID, "coefficients_at needs 'coefficients', and angle_at 'turned'");
    if (boxes->strides.count && !preset->strides)
        return reader_refuse(reader, PEN_ERR_INVALID, "only the forms distance and yolox have 'strides'");
    return boxes->normalized ? reader_needs_size(reader) : PEN_OK;
}

static enum pen_status sources_check(struct answer_reader *reader, struct step_boxes *boxes)
{
    const struct answer_sources *all[] = {&boxes->scores, &boxes->objectness, &boxes->class_ids, &boxes->points};
    for (size_t i = 0; i < 4; i++)
        if (all[i]->count && all[i]->count != boxes->boxes.count)
            return reader_refuse(reader, PEN_ERR_INVALID,
                                 "boxes are of %u outputs, and another key names %u: they must be as many",
                                 boxes->boxes.count, all[i]->count);
    if (boxes->points.count && !boxes->points_count)
        return reader_refuse(reader, PEN_ERR_INVALID, "points need points_count");
    if (boxes->points_count && boxes->points.count == 0) {
        boxes->points = boxes->boxes;
        boxes->points_at = boxes->points_at == NOT_GIVEN ? boxes->boxes_at + 4 : boxes->points_at;
    }
    boxes->points_at = boxes->points_at == NOT_GIVEN ? 0 : boxes->points_at;
    return PEN_OK;
}

/* A row's view as far as it is known at load; false: it is not. */
static bool view_known(const struct answer *answer, uint32_t output, struct answer_view *view)
{
    const struct pen_tensor *tensor = &answer->model_outputs[output];
    bool cut = tensor->rank > 1 && (answer->batched || tensor->dims[0] == 1);
    *view = (struct answer_view){.rank = tensor->rank - (cut ? 1 : 0), .count = 1};
    for (uint32_t d = 0; d < view->rank; d++) {
        int64_t dim = tensor->dims[d + (cut ? 1 : 0)];
        if (dim < 1 || dim > INT32_MAX)
            return false;
        view->dims[d] = dim;
        view->count *= (size_t)dim;
    }
    return tensor->rank > 0;
}

static enum pen_status shapes_check(struct answer_reader *reader, const struct step_boxes *boxes)
{
    struct answer_view views[ANSWER_TENSORS_MAX] = {{.data = NULL}};
    struct box_part parts[BOX_PARTS_MAX];
    struct pen_error error = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < reader->answer->model_outputs_count; i++) {
        if (reader->answer->read & UINT64_C(1) << i && !view_known(reader->answer, i, &views[i]))
            return PEN_OK;
    }
    enum pen_status status = box_parts_open(reader->answer, boxes, views, parts, &count, &error);
    return status == PEN_OK ? PEN_OK : reader_refuse(reader, status, "%s", error.text);
}

enum pen_status boxes_compile(struct answer_reader *reader, struct answer_step *step)
{
    struct step_boxes *boxes = &step->boxes;
    enum pen_status status = form_check(reader, boxes);
    if (status == PEN_OK) {
        preset_apply(boxes);
        status = sources_check(reader, boxes);
    }
    if (status == PEN_OK && presets[boxes->form].strides)
        status = strides_or_default(reader, boxes);
    if (status == PEN_OK)
        status = shapes_check(reader, boxes);
    reader->answer->points_count = boxes->points_count;
    reader->answer->coefficients = boxes->coefficients;
    reader->answer->turned = boxes->turned;
    reader->answer->objects_max = boxes->candidates < ANSWER_OBJECTS_MAX ? boxes->candidates : ANSWER_OBJECTS_MAX;
    return status;
}
