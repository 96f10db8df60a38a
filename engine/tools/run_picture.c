#include "tools/run_picture.h"

#include <string.h>

#include "picture.h"

/* Where a picture's dims stand in the tensor's. */
struct place {
    bool nchw;
    uint32_t height, width, channels;
};

static bool is_float(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16;
}

static bool is_bytes(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

static enum pen_status place_of(const struct pen_tensor *t, struct place *ret, struct pen_error *reterr)
{
    bool nchw = t->rank == 4 && (t->dims[1] == 1 || t->dims[1] == 3);
    bool nhwc = !nchw && t->rank == 4 && (t->dims[3] == 1 || t->dims[3] == 3);
    int64_t height = t->dims[nchw ? 2 : 1], width = t->dims[nchw ? 3 : 2];
    if ((!nchw && !nhwc) || t->dims[0] != 1 || (!is_float(t->dtype) && !is_bytes(t->dtype)) || height < 1 ||
        width < 1 || height > INT32_MAX || width > INT32_MAX) {
        return pen_error_set(
            reterr, PEN_ERR_SHAPE,
            "input '%s' does not look like one picture (f32, f16, bf16, u8 or i8, NCHW or NHWC, 1 or 3 "
            "channels): give a .npy",
            t->name);
    }
    *ret = (struct place){nchw, (uint32_t)height, (uint32_t)width, (uint32_t)t->dims[nchw ? 1 : 3]};
    return PEN_OK;
}

static void element_put(enum pen_dtype dtype, void *data, size_t at, uint8_t pixel, double scale)
{
    float value = (float)((double)pixel * scale);
    uint16_t half = dtype == PEN_DTYPE_F16 ? pen_f32_to_f16(value) : pen_f32_to_bf16(value);
    if (dtype == PEN_DTYPE_F32) {
        memcpy((float *)data + at, &value, sizeof value);
    } else if (is_bytes(dtype)) { /* a quantised input spans the type: pixel - 128 */
        ((uint8_t *)data)[at] = dtype == PEN_DTYPE_U8 ? pixel : pixel ^ 0x80;
    } else {
        memcpy((uint16_t *)data + at, &half, sizeof half);
    }
}

static enum pen_status tensor_fill(const struct place *place, const struct picture *picture, double scale,
                                   struct rt_arena *arena, struct pen_tensor *t, struct pen_error *reterr)
{
    size_t area = (size_t)place->height * place->width, count = area * place->channels;
    size_t element = is_bytes(t->dtype) ? 1 : t->dtype == PEN_DTYPE_F32 ? 4 : 2;
    void *data = rt_arena_alloc(arena, count * element);
    if (data == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for input '%s'", t->name);
    }
    for (size_t i = 0; i < count; i++) {
        size_t to = place->nchw ? (i % place->channels) * area + i / place->channels : i;
        element_put(t->dtype, data, to, picture->pixels[i], scale);
    }
    t->data = data;
    t->bytes = count * element;
    return PEN_OK;
}

enum pen_status picture_into(const uint8_t *bytes, size_t size, const char *path, double scale, struct rt_arena *arena,
                             struct pen_tensor *t, struct pen_error *reterr)
{
    struct place place = {0};
    struct picture decoded = {0}, converted = {0}, ready = {0};
    enum pen_status status = place_of(t, &place, reterr);
    if (status == PEN_OK) {
        status = picture_decode(bytes, size, path, NULL, &decoded, reterr);
    }
    if (status == PEN_OK) {
        status = picture_convert(&decoded, place.channels, &converted, reterr);
    }
    if (status == PEN_OK) {
        status =
            picture_resize(&converted, place.width, place.height, PICTURE_BILINEAR, PICTURE_STRETCH, &ready, reterr);
    }
    if (status == PEN_OK) {
        status = tensor_fill(&place, &ready, scale, arena, t, reterr);
    }
    picture_fini(&ready);
    picture_fini(&converted);
    picture_fini(&decoded);
    return status;
}

bool picture_known(const uint8_t *bytes, size_t size)
{
    return picture_probe(bytes, size) != PICTURE_NONE;
}
