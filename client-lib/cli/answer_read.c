/* answer_read.c - an answer as JSON, whether the model gave it as a text or as tensors. */
#include "answer_draw.h"

#include <stdlib.h>
#include <string.h>

#include "classes.h"

static const struct pen_tensor *output_named(const pen_result *result, const char *name)
{
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *t = pen_result_output(result, i);
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

/* The first text of a tensor of texts; NULL: there is none. */
static const unsigned char *text_of(const struct pen_tensor *t, size_t *ret_bytes)
{
    const unsigned char *bytes = t ? t->data : NULL;
    if (!bytes || t->dtype != PEN_DTYPE_STRING || t->bytes < 4) {
        return NULL;
    }
    *ret_bytes = bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
    return *ret_bytes <= t->bytes - 4 ? bytes + 4 : NULL;
}

/* ---- from tensors ---- */

static cJSON *numbers(const struct pen_tensor *t, size_t first, size_t count)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber(tensor_value(t, first + i)));
    }
    return list;
}

static cJSON *points(const struct pen_tensor *t, size_t object, size_t count)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        cJSON_AddItemToArray(list, numbers(t, (object * count + i) * 3, 3));
    }
    return list;
}

/* x and y of the four corners of a turned box. */
static cJSON *corners(const struct pen_tensor *t, size_t object)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < 4; i++) {
        cJSON_AddItemToArray(list, numbers(t, (object * 4 + i) * 2, 2));
    }
    return list;
}

static bool is(const struct pen_tensor *t, uint32_t rank, int64_t last)
{
    return t && t->rank == rank && t->dims[0] >= 1 && t->dims[rank - 1] == last;
}

static void object_add(cJSON *list, const pen_result *result, const struct pen_tensor *boxes, size_t i)
{
    const struct pen_tensor *scores = output_named(result, "scores"), *classes = output_named(result, "classes"),
                            *points_of = output_named(result, "points"), *turned = output_named(result, "corners");
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToObject(object, "box", numbers(boxes, i * 4, 4));
    if (scores && scores->rank == 2 && scores->dims[1] == boxes->dims[1]) {
        cJSON_AddNumberToObject(object, "score", tensor_value(scores, i));
    }
    if (classes && classes->rank == 2 && classes->dims[1] == boxes->dims[1]) {
        cJSON_AddNumberToObject(object, "class", tensor_value(classes, i));
    }
    if (is(turned, 4, 2) && turned->dims[1] == boxes->dims[1] && turned->dims[2] == 4) {
        cJSON_AddItemToObject(object, "corners", corners(turned, i));
    }
    if (is(points_of, 4, 3) && points_of->dims[1] == boxes->dims[1]) {
        cJSON_AddItemToObject(object, "points", points(points_of, i, (size_t)points_of->dims[2]));
    }
    const struct pen_tensor *mesh =
        output_named(result, "mesh"); /* a row for each object: what a step with crop gave */
    if (is(mesh, 3, 3) && (int64_t)i < mesh->dims[0]) {
        cJSON_AddItemToObject(object, "mesh", points(mesh, i, (size_t)mesh->dims[1]));
    }
    cJSON_AddItemToArray(list, object);
}

static cJSON *from_tensors(const pen_result *result)
{
    const struct pen_tensor *boxes = output_named(result, "boxes"), *count = output_named(result, "count"),
                            *free_points = output_named(result, "points");
    bool objects = is(boxes, 3, 4) && count && count->rank == 1 && count->dims[0] >= 1;
    cJSON *json = cJSON_CreateObject();
    if (objects) {
        cJSON *list = cJSON_AddArrayToObject(json, "objects");
        for (size_t i = 0; i < (size_t)boxes->dims[1] && (double)i < tensor_value(count, 0); i++) {
            object_add(list, result, boxes, i);
        }
    } else if (is(free_points, 3, 3)) {
        cJSON_AddItemToObject(json, "points", points(free_points, 0, (size_t)free_points->dims[1]));
    } else {
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}

cJSON *answer_read(const pen_result *result)
{
    size_t bytes = 0;
    const unsigned char *text = text_of(output_named(result, "answer"), &bytes);
    return text ? cJSON_ParseWithLength((const char *)text, bytes) : from_tensors(result);
}
