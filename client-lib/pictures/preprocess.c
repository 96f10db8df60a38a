#include "preprocess.h"

#include <inttypes.h>
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
    struct preprocess p = {.input = ""};
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

static bool is_channels(int64_t dim)
{
    return dim == 1 || dim == 3;
}

/* "height": 224, or a word in its place where the model leaves it open. */
static void side_text(const char *key, int64_t dim, char text[64])
{
    if (dim > 0) {
        snprintf(text, 64, "\"%s\": %" PRId64, key, dim);
    } else {
        snprintf(text, 64, "\"%s\": 224", key);
    }
}

enum pen_status preprocess_missing(const struct pen_model *model, const struct pen_signature *sig,
                                   struct pen_error *reterr)
{
    char shape[128], height[64], width[64];
    bool nchw = sig->rank == 4 && is_channels(sig->dims[1]),
         nhwc = sig->rank == 4 && !nchw && is_channels(sig->dims[3]);
    bool floats = sig->dtype == PEN_DTYPE_F32 || sig->dtype == PEN_DTYPE_F16 || sig->dtype == PEN_DTYPE_BF16;
    pen_shape_text(sig->dims, sig->rank, shape, sizeof shape);
    if (!nchw && !nhwc) {
        return pen_error_set(
            reterr, PEN_ERR_INVALID,
            "model %s does not take pictures: its input %s is %s %s, and a picture has four dimensions, "
            "one of them 1 or 3 channels; give a .npy file.",
            model->name, sig->name, pen_dtype_name(sig->dtype), shape);
    }
    int64_t high = sig->dims[nchw ? 2 : 1], wide = sig->dims[nchw ? 3 : 2];
    side_text("height", high, height);
    side_text("width", wide, width);
    return pen_error_set(
        reterr, PEN_ERR_INVALID,
        "model %s does not say how it takes pictures. Add to its config.json:\n"
        "  \"input\": {\"preprocess\": {\"input\": \"%s\", \"layout\": \"%s\", \"channels\": %d, %s, %s%s}}\n"
        "%s%sor give a .npy file.",
        model->name, sig->name, nchw ? "NCHW" : "NHWC", (int)sig->dims[nchw ? 1 : 3], height, width,
        floats ? ", \"mean\": [0], \"scale\": [0.00392156862745098]" : "",
        floats
            ? "with the mean and the scale it was trained with, (pixel - mean) * scale; these make 0..255 into 0..1; "
            : "",
        high > 0 && wide > 0 ? "" : "with the size it was trained with, for it leaves that open; ");
}

enum pen_status preprocess_array(const struct pen_model *model, const struct pen_signature *sig, const char *file,
                                 const struct pen_tensor *array, struct pen_error *reterr)
{
    char got[128], want[128];
    struct preprocess p = {.input = ""};
    bool fits = array->dtype == sig->dtype && array->rank == sig->rank;
    if (!*model->preprocess || preprocess_parse(model->preprocess, sig, &p, NULL) != PEN_OK ||
        strcmp(*p.input ? p.input : model->inputs[0].name, sig->name) != 0) {
        return PEN_OK;
    }
    for (uint32_t d = 0; fits && d < sig->rank; d++) {
        fits = sig->dims[d] < 0 || sig->dims[d] == array->dims[d];
    }
    return fits ? PEN_OK
                : pen_error_set(
                      reterr, array->dtype == sig->dtype ? PEN_ERR_SHAPE : PEN_ERR_DTYPE,
                      "%s is %s %s, but the config.json of model %s asks for pixels (input.preprocess): input "
                      "%s takes %s %s, height, width and channels of 0..255. Give the picture itself or such an "
                      "array; for ready-made numbers take preprocess out of the config.json.",
                      file, pen_dtype_name(array->dtype), pen_shape_text(array->dims, array->rank, got, sizeof got),
                      model->name, sig->name, pen_dtype_name(sig->dtype),
                      pen_shape_text(sig->dims, sig->rank, want, sizeof want));
}

/* Without a preprocess a picture still fits a uint8 or int8 input [batch, height, width, 1 or 3]. */
enum pen_status preprocess_of(const struct pen_model *model, const struct pen_signature *sig,
                              struct preprocess *ret_preprocess, struct pen_error *reterr)
{
    if (*model->preprocess) {
        return preprocess_parse(model->preprocess, sig, ret_preprocess, reterr);
    }
    bool bytes = sig->dtype == PEN_DTYPE_U8 || sig->dtype == PEN_DTYPE_I8;
    bool picture = bytes && sig->rank == 4 && sig->dims[1] > 0 && sig->dims[1] <= SIDE_MAX && sig->dims[2] > 0 &&
                   sig->dims[2] <= SIDE_MAX && is_channels(sig->dims[3]);
    if (!picture) {
        return preprocess_missing(model, sig, reterr);
    }
    *ret_preprocess = (struct preprocess){.channels = (uint32_t)sig->dims[3],
                                          .height = (uint32_t)sig->dims[1],
                                          .width = (uint32_t)sig->dims[2],
                                          .filter = PICTURE_BILINEAR,
                                          .fit = PICTURE_STRETCH,
                                          .centred = sig->dtype == PEN_DTYPE_I8};
    return PEN_OK;
}

static const struct pen_signature *signature_find(const struct pen_model *model, const char *name)
{
    for (size_t i = 0; i < model->inputs_count; i++) {
        if (strcmp(model->inputs[i].name, name) == 0) {
            return &model->inputs[i];
        }
    }
    return NULL;
}

enum pen_status preprocess_input(const struct pen_model *model, const char *name, const struct pen_signature **ret_sig,
                                 struct pen_error *reterr)
{
    struct preprocess p = {.input = ""};
    if (!name && *model->preprocess && preprocess_parse(model->preprocess, NULL, &p, NULL) == PEN_OK && *p.input) {
        name = p.input;
    }
    const struct pen_signature *sig = name ? signature_find(model, name) : NULL;
    if (!name && model->inputs_count) {
        sig = &model->inputs[0];
        for (size_t i = 0; i < model->inputs_count; i++) {
            sig = model->inputs[i].pictures ? &model->inputs[i] : sig;
        }
    }
    if (!sig) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "model %s has no input \"%s\"; its first is \"%s\".",
                             model->name, name ? name : "", model->inputs_count ? model->inputs[0].name : "");
    }
    *ret_sig = sig;
    return PEN_OK;
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

void preprocess_file(uint8_t *block, size_t size, struct pen_tensor *ret_tensor)
{
    for (size_t i = 0; i < 4; i++) {
        block[i] = (uint8_t)(size >> (8 * i));
    }
    *ret_tensor =
        (struct pen_tensor){.dtype = PEN_DTYPE_STRING, .rank = 1, .dims = {1}, .data = block, .bytes = size + 4};
}

enum pen_status preprocess_tensor(const struct preprocess *p, const struct picture *picture,
                                  struct pen_tensor *ret_tensor, uint8_t **ret_pixels, struct pen_error *reterr)
{
    struct picture ready;
    enum pen_status status = preprocess_picture(p, picture, &ready, reterr);
    if (status != PEN_OK) {
        return status;
    }
    *ret_tensor = (struct pen_tensor){.dtype = p->centred ? PEN_DTYPE_I8 : PEN_DTYPE_U8,
                                      .rank = 4,
                                      .dims = {1, ready.height, ready.width, ready.channels},
                                      .data = ready.pixels,
                                      .bytes = (size_t)ready.height * ready.width * ready.channels};
    for (size_t i = 0; p->centred && i < ret_tensor->bytes; i++) {
        ready.pixels[i] ^= 0x80;
    }
    *ret_pixels = ready.pixels;
    return PEN_OK;
}
