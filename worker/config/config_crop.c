/* config_crop.c - `crop` of an ensemble's step: the tensors that say where objects are, and how a square is cut out around each. */
#include "config_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROP_TENSORS   3u
#define CROP_SCALE_MAX 16.0

struct crop_reading {
    const char *tensors[CROP_TENSORS]; /* boxes, count, points; borrowed */
    struct ensemble_plan_crop *crop;
};

static enum pen_status read_tensor(const cJSON *value, const char *path, const char **ret_name,
                                   struct pen_error *reterr)
{
    return json_text(value, path, CONFIG_NAME_BYTES_MAX, ret_name, reterr);
}

static enum pen_status read_boxes(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return read_tensor(value, path, &((struct crop_reading *)target)->tensors[0], reterr);
}

static enum pen_status read_count(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return read_tensor(value, path, &((struct crop_reading *)target)->tensors[1], reterr);
}

static enum pen_status read_points(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return read_tensor(value, path, &((struct crop_reading *)target)->tensors[2], reterr);
}

/* [from, to] */
static enum pen_status read_level(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct ensemble_plan_crop *crop = ((struct crop_reading *)target)->crop;
    size_t count = 0;
    enum pen_status status = json_array(value, path, 2, &count, reterr);
    if (status == PEN_OK && count != 2)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be two points, such as [0, 1]", path);
    if (status == PEN_OK)
        status = json_u32(value->child, path, 0, 65535, &crop->from, reterr);
    return status == PEN_OK ? json_u32(value->child->next, path, 0, 65535, &crop->to, reterr) : status;
}

static enum pen_status read_scale(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    double scale = cJSON_IsNumber(value) ? value->valuedouble : 0;
    if (!(scale > 0 && scale <= CROP_SCALE_MAX))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a number above 0, at most %g", path, CROP_SCALE_MAX);
    ((struct crop_reading *)target)->crop->scale = scale;
    return PEN_OK;
}

static const struct json_field crop_fields[] = {{"boxes", read_boxes}, {"count", read_count}, {"points", read_points},
                                                {"level", read_level}, {"scale", read_scale}, {NULL, NULL}};

static enum pen_status link_add(struct ensemble_plan *plan, struct ensemble_plan_step *step, const char *port,
                                const char *name, struct pen_error *reterr)
{
    struct ensemble_plan_link *link = &step->inputs[step->inputs_count];
    enum pen_status status = ensemble_plan_tensor(plan, name, &link->tensor, reterr);
    link->port = status == PEN_OK ? strdup(port) : NULL;
    if (status == PEN_OK && !link->port)
        return config_no_memory(reterr);
    step->inputs_count += status == PEN_OK;
    return status;
}

enum pen_status config_crop_read(const cJSON *value, const char *path, struct ensemble_plan *plan,
                                 struct ensemble_plan_step *step, struct pen_error *reterr)
{
    static const char *const ports[CROP_TENSORS] = {ENSEMBLE_PLAN_CROP_BOXES, ENSEMBLE_PLAN_CROP_COUNT,
                                                    ENSEMBLE_PLAN_CROP_POINTS};
    char below[JSON_PATH_BYTES];
    struct crop_reading reading = {.crop = &step->crop};
    step->crop = (struct ensemble_plan_crop){.present = true, .first = step->inputs_count, .to = 1, .scale = 1};
    snprintf(below, sizeof below, "%.96s.crop", path);
    enum pen_status status = json_object(value, below, crop_fields, &reading, reterr);
    if (status != PEN_OK)
        return status;
    if (!reading.tensors[0] || !reading.tensors[1])
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs boxes and count: tensors that an earlier step gives",
                             below);
    struct ensemble_plan_link *more = realloc(step->inputs, (step->inputs_count + CROP_TENSORS) * sizeof *more);
    if (!more)
        return config_no_memory(reterr);
    step->inputs = more;
    step->crop.turned = reading.tensors[2] != NULL;
    for (size_t i = 0; i < CROP_TENSORS && status == PEN_OK; i++)
        if (reading.tensors[i])
            status = link_add(plan, step, ports[i], reading.tensors[i], reterr);
    return status;
}
