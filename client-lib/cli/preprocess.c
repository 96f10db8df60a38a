#include "preprocess.h"

#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#define SIDE_MAX 16384

static enum pen_status number(const cJSON *json, const char *key, const struct pen_signature *sig, uint32_t dim,
                              uint32_t most, uint32_t *ret, struct pen_error *reterr)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    int64_t stated = sig && sig->rank == 4 ? sig->dims[dim] : 0;
    *ret = 0;
    if (!item && (!sig || (stated > 0 && stated <= most))) {
        *ret = (uint32_t)stated;
        return PEN_OK;
    }
    if (!cJSON_IsNumber(item) || item->valuedouble < 1 || item->valuedouble > most) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the model's preprocess.%s must be a number from 1 to %u.", key,
                             most);
    }
    *ret = (uint32_t)item->valuedouble;
    return PEN_OK;
}

/* Index of the text among the choices; 0 when absent. */
static enum pen_status choice(const cJSON *json, const char *key, const char *const *choices, size_t count, size_t *ret,
                              struct pen_error *reterr)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    *ret = 0;
    for (size_t i = 0; text && i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *ret = i;
            return PEN_OK;
        }
    }
    return text ? pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                "the model's preprocess.%s is \"%s\", which this client does not know.", key, text)
                : PEN_OK;
}

static enum pen_status parse(const cJSON *json, const struct pen_signature *sig, struct preprocess *p,
                             struct pen_error *reterr)
{
    static const char *const filters[] = {"bilinear", "nearest", "area"}, *const fits[] = {"stretch", "crop", "pad"};
    size_t filter = 0, fit = 0;
    const char *input = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "input"));
    snprintf(p->input, sizeof p->input, "%s", input ? input : "");
    enum pen_status status = number(json, "channels", sig, 3, 3, &p->channels, reterr);
    status = status == PEN_OK ? number(json, "height", sig, 1, SIDE_MAX, &p->height, reterr) : status;
    status = status == PEN_OK ? number(json, "width", sig, 2, SIDE_MAX, &p->width, reterr) : status;
    status = status == PEN_OK ? choice(json, "resize", filters, 3, &filter, reterr) : status;
    status = status == PEN_OK ? choice(json, "fit", fits, 3, &fit, reterr) : status;
    if (status == PEN_OK && p->channels == 2) {
        status = pen_error_set(reterr, PEN_ERR_INVALID, "the model's preprocess.channels must be 1 or 3.");
    }
    p->filter = filter == 0 ? PICTURE_BILINEAR : filter == 1 ? PICTURE_NEAREST : PICTURE_AREA;
    p->fit = fit == 0 ? PICTURE_STRETCH : fit == 1 ? PICTURE_CROP : PICTURE_PAD;
    return status;
}

enum pen_status preprocess_parse(const char *text, const struct pen_signature *sig, struct preprocess *ret_preprocess,
                                 struct pen_error *reterr)
{
    struct preprocess p;
    cJSON *json = cJSON_Parse(text);
    if (!cJSON_IsObject(json)) {
        cJSON_Delete(json);
        return pen_error_set(reterr, PEN_ERR_INVALID, "the model's preprocess is no JSON object.");
    }
    enum pen_status status = parse(json, sig, &p, reterr);
    cJSON_Delete(json);
    if (status == PEN_OK) {
        *ret_preprocess = p;
    }
    return status;
}

enum pen_status preprocess_picture(const struct preprocess *p, const struct picture *picture, struct picture *ret_image,
                                   struct pen_error *reterr)
{
    struct picture converted;
    enum pen_status status = picture_convert(picture, p->channels, &converted, reterr);
    if (status == PEN_OK) {
        status = picture_resize(&converted, p->width, p->height, p->filter, p->fit, ret_image, reterr);
        picture_fini(&converted);
    }
    return status;
}
