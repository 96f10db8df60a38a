/* pack.c - results as tensors: each as long as the step allows, with the number of those that count. */
#include "parts.h"

#include <string.h>

/* Places of the tensors; those that an answer does not give are left out. */
enum packed {
    PACK_ANSWER,
    PACK_CLASSES,
    PACK_COUNT,
    PACK_BOXES,
    PACK_SCORES,
    PACK_POINTS,
    PACK_PRESENCE,
    PACK_CORNERS,
    PACK_MASK,
    PACK_ALL
};
static const char *const packed_names[PACK_ALL] = {"answer", "classes",  "count",   "boxes", "scores",
                                                   "points", "presence", "corners", "mask"};

static void tensor_add(struct answer *answer, enum packed place, enum pen_dtype dtype, uint32_t rank,
                       const int64_t *dims)
{
    struct pen_tensor *tensor = &answer->outputs[answer->outputs_count++];
    *tensor = (struct pen_tensor){
        .name = packed_names[place], .dtype = dtype, .rank = rank + 1, .dims = {answer->batched ? -1 : 1}};
    for (uint32_t d = 0; d < rank; d++)
        tensor->dims[d + 1] = dims[d];
}

static void objects_add(struct answer *answer)
{
    int64_t most = answer->objects_max;
    tensor_add(answer, PACK_COUNT, PEN_DTYPE_I32, 0, NULL);
    tensor_add(answer, PACK_BOXES, PEN_DTYPE_F32, 2, (const int64_t[]){most, 4});
    tensor_add(answer, PACK_SCORES, PEN_DTYPE_F32, 1, (const int64_t[]){most});
    tensor_add(answer, PACK_CLASSES, PEN_DTYPE_I32, 1, (const int64_t[]){most});
    if (answer->turned)
        tensor_add(answer, PACK_CORNERS, PEN_DTYPE_F32, 3, (const int64_t[]){most, 4, 2});
    if (answer->points_count)
        tensor_add(answer, PACK_POINTS, PEN_DTYPE_F32, 3,
                   (const int64_t[]){most, answer->points_count, ANSWER_POINT_VALUES});
}

void pack_outputs(struct answer *answer)
{
    if (answer->json) {
        tensor_add(answer, PACK_ANSWER, PEN_DTYPE_STRING, 0, NULL);
        return;
    }
    if (answer->produces & ANSWER_CLASSES) {
        tensor_add(answer, PACK_CLASSES, PEN_DTYPE_I32, 1, (const int64_t[]){answer->classes_max});
        tensor_add(answer, PACK_SCORES, PEN_DTYPE_F32, 1, (const int64_t[]){answer->classes_max});
    }
    if (answer->produces & ANSWER_OBJECTS)
        objects_add(answer);
    if (answer->produces & ANSWER_POINTS) {
        tensor_add(answer, PACK_POINTS, PEN_DTYPE_F32, 2, (const int64_t[]){answer->points_count, ANSWER_POINT_VALUES});
        tensor_add(answer, PACK_PRESENCE, PEN_DTYPE_F32, 0, NULL);
    }
    if (answer->produces & ANSWER_MASK && answer->mask_png)
        tensor_add(answer, PACK_MASK, PEN_DTYPE_STRING, 0, NULL);
    else if (answer->produces & ANSWER_MASK)
        tensor_add(answer, PACK_MASK, PEN_DTYPE_U8, 2, (const int64_t[]){-1, -1});
}

static bool is(const struct pen_tensor *tensor, enum packed place)
{
    return strcmp(tensor->name, packed_names[place]) == 0;
}

/* Texts and masks get their memory when they are known. */
enum pen_status pack_open(const struct answer *answer, struct answer_work *work, uint32_t rows,
                          struct pen_tensor *ret_outputs, struct pen_error *reterr)
{
    for (size_t i = 0; i < answer->outputs_count; i++) {
        struct pen_tensor *to = &ret_outputs[i];
        uint64_t elements = 0;
        *to = answer->outputs[i];
        to->dims[0] = rows;
        if (to->dtype == PEN_DTYPE_STRING || to->dtype == PEN_DTYPE_U8)
            continue;
        if (pen_tensor_elements(to, &elements) != PEN_OK || pen_dtype_bytes(to->dtype, elements, &to->bytes) != 0)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the answers of %u rows are too large", rows);
        void *memory = arena_take(&work->kept, to->bytes, 1);
        if (!memory)
            return answer_lacks(work->kept.starved, reterr);
        memset(memory, 0, to->bytes);
        to->data = memory;
    }
    return PEN_OK;
}

/* Memory of the row in a tensor of numbers. */
static void *row_of(struct pen_tensor *tensor, uint32_t index, uint32_t rows)
{
    return (char *)(uintptr_t)tensor->data + tensor->bytes / rows * index;
}

static void classes_put(const struct answer_row *row, void *to, bool scores)
{
    for (size_t i = 0; i < row->classes_count; i++)
        if (scores)
            ((float *)to)[i] = (float)row->classes[i].score;
        else
            ((int32_t *)to)[i] = (int32_t)row->classes[i].index;
}

static void objects_put(const struct answer *answer, const struct answer_row *row, const struct pen_tensor *tensor,
                        void *to)
{
    size_t values = (size_t)answer->points_count * ANSWER_POINT_VALUES;
    size_t count = row->objects_count < answer->objects_max ? row->objects_count : answer->objects_max;
    if (is(tensor, PACK_COUNT))
        *(int32_t *)to = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct answer_object *object = &row->objects[i];
        if (is(tensor, PACK_BOXES))
            memcpy((float *)to + 4 * i, object->box, sizeof object->box);
        else if (is(tensor, PACK_SCORES))
            ((float *)to)[i] = object->score;
        else if (is(tensor, PACK_CLASSES))
            ((int32_t *)to)[i] = object->class;
        else if (is(tensor, PACK_CORNERS))
            memcpy((float *)to + 8 * i, object->corners, sizeof object->corners);
        else if (is(tensor, PACK_POINTS) && object->points)
            memcpy((float *)to + values * i, object->points, values * sizeof(float));
    }
}

static void numbers_put(const struct answer *answer, const struct answer_row *row, const struct pen_tensor *tensor,
                        void *to)
{
    bool scores = is(tensor, PACK_SCORES);
    if (answer->produces & ANSWER_CLASSES && (scores || is(tensor, PACK_CLASSES)))
        classes_put(row, to, scores);
    else if (is(tensor, PACK_PRESENCE))
        *(float *)to = row->points_score;
    else if (answer->produces & ANSWER_POINTS && is(tensor, PACK_POINTS)) {
        if (row->points)
            memcpy(to, row->points, (size_t)answer->points_count * ANSWER_POINT_VALUES * sizeof(float));
    } else
        objects_put(answer, row, tensor, to);
}

/* Masks of one job have one size: a tensor has no other way. */
static enum pen_status mask_put(struct answer_row *row, uint32_t index, uint32_t rows, struct pen_tensor *tensor,
                                struct pen_error *reterr)
{
    size_t bytes = (size_t)row->mask_height * row->mask_width;
    if (index == 0) {
        tensor->dims[1] = row->mask_height;
        tensor->dims[2] = row->mask_width;
        tensor->bytes = bytes * rows;
        tensor->data = bytes <= ANSWER_BYTES_MAX ? arena_take(&row->work->kept, tensor->bytes, 1) : NULL;
    }
    if (tensor->dims[1] != row->mask_height || tensor->dims[2] != row->mask_width)
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "pictures of one job have masks of different sizes: say \"size\": \"model\", or \"png\"");
    if (!tensor->data && row->work->kept.starved)
        return answer_lacks(true, reterr);
    if (!tensor->data)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the masks are more than an answer may take: say \"png\"");
    memcpy(row_of(tensor, index, rows), row->mask, bytes);
    return PEN_OK;
}

static enum pen_status png_put(struct answer_row *row, struct pen_error *reterr)
{
    uint8_t *bytes = NULL, length[4];
    size_t size = 0;
    enum pen_status status = mask_png(row, &bytes, &size, reterr);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (uint8_t)(size >> (8 * i));
    text_add(&row->work->text, length, sizeof length);
    text_add(&row->work->text, bytes, size);
    enum pen_status cut = row->work->text.cut;
    return cut == PEN_OK ? PEN_OK : answer_lacks(cut == PEN_ERR_NO_MEMORY, reterr);
}

enum pen_status pack_row(const struct answer *answer, struct answer_row *row, uint32_t index, uint32_t rows,
                         struct pen_tensor *outputs, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (answer->json)
        return json_write(answer, row, reterr);
    for (size_t i = 0; i < answer->outputs_count && status == PEN_OK; i++) {
        if (outputs[i].dtype == PEN_DTYPE_STRING)
            status = png_put(row, reterr);
        else if (is(&outputs[i], PACK_MASK))
            status = mask_put(row, index, rows, &outputs[i], reterr);
        else
            numbers_put(answer, row, &outputs[i], row_of(&outputs[i], index, rows));
    }
    return status;
}

void pack_close(const struct answer *answer, struct answer_work *work, struct pen_tensor *outputs)
{
    for (size_t i = 0; i < answer->outputs_count; i++)
        if (outputs[i].dtype == PEN_DTYPE_STRING) {
            outputs[i].data = work->text.bytes;
            outputs[i].bytes = work->text.used;
        }
}
