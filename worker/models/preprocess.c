/* preprocess.c - each channel count has its own loop, so that strides are constants and the compiler vectorises the
   loop. */
#include "preprocess.h"

#include <inttypes.h>
#include <math.h>

/* One plane of NCHW: out[i] = (pixels[i * step] - mean) * scale. */
static inline void plane(const uint8_t *restrict pixels, size_t count, size_t step, uint8_t flip, float mean,
                         float scale, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = ((float)(uint8_t)(pixels[i * step] ^ flip) - mean) * scale;
}

static void planes(const struct preprocess *pre, const uint8_t *pixels, size_t count, float *out)
{
    for (uint32_t c = 0; c < pre->channels; c++) {
        const uint8_t *from = pixels + pre->from[c];
        float *to = out + c * count;
        if (pre->channels == 3)
            plane(from, count, 3, pre->flip, pre->mean[c], pre->scale[c], to);
        else
            plane(from, count, pre->channels, pre->flip, pre->mean[c], pre->scale[c], to);
    }
}

/* NHWC: the innermost loop runs over the channels of one pixel. */
static inline void interleaved(const struct preprocess *pre, const uint8_t *restrict pixels, size_t count,
                               uint32_t channels, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < channels; c++)
            out[i * channels + c] =
                ((float)(uint8_t)(pixels[i * channels + pre->from[c]] ^ pre->flip) - pre->mean[c]) * pre->scale[c];
}

/* The index of channel c of pixel i, over all images. */
static inline size_t place_of(const struct preprocess *pre, size_t count, size_t i, uint32_t c)
{
    return pre->nhwc ? i * pre->channels + c : i / count * count * pre->channels + c * count + i % count;
}

/* 8-bit networks: every pixel value has its byte in the table. */
static void bytes_run(const struct preprocess *pre, const uint8_t *restrict pixels, size_t images,
                      uint8_t *restrict out)
{
    size_t count = (size_t)pre->height * pre->width;
    for (size_t i = 0; i < images * count; i++)
        for (uint32_t c = 0; c < pre->channels; c++)
            out[place_of(pre, count, i, c)] = pre->table[c][pixels[i * pre->channels + pre->from[c]]];
}

/* 16-bit floats: the same. */
static void halves_run(const struct preprocess *pre, const uint8_t *restrict pixels, size_t images,
                       uint16_t *restrict out)
{
    size_t count = (size_t)pre->height * pre->width;
    for (size_t i = 0; i < images * count; i++)
        for (uint32_t c = 0; c < pre->channels; c++)
            out[place_of(pre, count, i, c)] = pre->halves[c][pixels[i * pre->channels + pre->from[c]]];
}

void preprocess_run(const struct preprocess *pre, const uint8_t *pixels, size_t images, void *to)
{
    if (pre->element_bytes == 1) {
        bytes_run(pre, pixels, images, to);
        return;
    }
    if (pre->element_bytes == 2) {
        halves_run(pre, pixels, images, to);
        return;
    }
    float *out = to;
    size_t count = (size_t)pre->height * pre->width, image = count * pre->channels;
    if (pre->channels == 1) { /* both layouts are the same then */
        plane(pixels, images * count, 1, pre->flip, pre->mean[0], pre->scale[0], out);
        return;
    }
    if (pre->nhwc) {
        if (pre->channels == 3)
            interleaved(pre, pixels, images * count, 3, out);
        else
            interleaved(pre, pixels, images * count, pre->channels, out);
        return;
    }
    for (size_t i = 0; i < images; i++)
        planes(pre, pixels + i * image, count, out + i * image);
}

/* Takes the network's dim when the config has none; when both have one, they must agree. */
static enum pen_status size_join(const char *what, uint32_t stated, int64_t dim, uint32_t *ret_size,
                                 struct pen_error *reterr)
{
    if (stated == 0 && dim <= 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "input.preprocess must state %s: the model leaves it open", what);
    if (stated != 0 && dim > 0 && (int64_t)stated != dim)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input.preprocess says %s %u, but the model takes %" PRId64, what,
                             stated, dim);
    if (stated == 0 && dim > 65535)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "the model's %s %" PRId64 " is no image's", what, dim);
    *ret_size = stated ? stated : (uint32_t)dim;
    return PEN_OK;
}

static enum pen_status constants_join(struct preprocess *pre, const struct config_preprocess *config,
                                      struct pen_error *reterr)
{
    if ((config->mean_count > 1 && config->mean_count != pre->channels) ||
        (config->scale_count > 1 && config->scale_count != pre->channels))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "input.preprocess has %zu means and %zu scales for %u channels: give one, or one each",
                             config->mean_count, config->scale_count, pre->channels);
    for (uint32_t c = 0; c < pre->channels; c++) {
        bool swap = config->bgr && pre->channels >= 3 && c < 3; /* alpha stays last */
        pre->from[c] = swap ? 2 - c : c;
        pre->mean[c] = config->mean_count == 0 ? 0.0f : config->mean[config->mean_count > 1 ? c : 0];
        pre->scale[c] = config->scale_count == 0 ? 1.0f : config->scale[config->scale_count > 1 ? c : 0];
    }
    return PEN_OK;
}

/* q = round half to even(real / scale) + zero point, saturated: TFLite's rule for QUANTIZE. */
static uint8_t byte_of(float real, const struct preprocess_quant *quant, float least)
{
    float q = nearbyintf(real / quant->scale) + (float)quant->zero_point;
    q = q < least ? least : q > least + 255.0f ? least + 255.0f : q;
    return (uint8_t)(int32_t)q;
}

static void table_fill(struct preprocess *pre, const struct config_preprocess *config,
                       const struct preprocess_quant *quant, bool is_signed)
{
    bool span = !quant->known || (config->mean_count == 0 && config->scale_count == 0);
    for (uint32_t c = 0; c < pre->channels; c++)
        for (uint32_t v = 0; v < 256; v++) {
            uint8_t pixel = (uint8_t)(v ^ pre->flip);
            pre->table[c][v] =
                span ? (uint8_t)(pixel ^ (is_signed ? 0x80 : 0))
                     : byte_of(((float)pixel - pre->mean[c]) * pre->scale[c], quant, is_signed ? -128.0f : 0.0f);
        }
}

/* The f32 value of each pixel value, rounded once. */
static void halves_fill(struct preprocess *pre, enum pen_dtype dtype)
{
    for (uint32_t c = 0; c < pre->channels; c++)
        for (uint32_t v = 0; v < 256; v++) {
            float value = ((float)(uint8_t)(v ^ pre->flip) - pre->mean[c]) * pre->scale[c];
            pre->halves[c][v] = dtype == PEN_DTYPE_F16 ? pen_f32_to_f16(value) : pen_f32_to_bf16(value);
        }
}

enum pen_status preprocess_init(struct preprocess *pre, const struct config_preprocess *config,
                                const struct pen_tensor *network, const struct preprocess_quant *quant,
                                struct pen_tensor *ret_wire, struct pen_error *reterr)
{
    bool bytes = network->dtype == PEN_DTYPE_U8 || network->dtype == PEN_DTYPE_I8;
    bool halves = network->dtype == PEN_DTYPE_F16 || network->dtype == PEN_DTYPE_BF16;
    *pre = (struct preprocess){.nhwc = config->nhwc,
                               .flip = config->invert ? 0xff : 0,
                               .element_bytes = bytes    ? 1
                                                : halves ? 2
                                                         : sizeof(float)};
    if (network->dtype != PEN_DTYPE_F32 && !bytes && !halves)
        return pen_error_set(reterr, PEN_ERR_DTYPE,
                             "input.preprocess needs an input of f32, f16, bf16, u8 or i8, but '%s' is %s",
                             network->name, pen_dtype_name(network->dtype));
    if (bytes && !quant->known && (config->mean_count > 0 || config->scale_count > 0))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "input.preprocess states a mean or a scale, but the model does not say what real number a "
                             "byte of '%s' stands for: leave both out",
                             network->name);
    if (network->rank != 4)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input.preprocess needs an input of rank 4, but '%s' has rank %u",
                             network->name, network->rank);
    const int64_t *dims = network->dims;
    enum pen_status status =
        size_join("channels", config->channels, dims[config->nhwc ? 3 : 1], &pre->channels, reterr);
    if (status == PEN_OK)
        status = size_join("height", config->height, dims[config->nhwc ? 1 : 2], &pre->height, reterr);
    if (status == PEN_OK)
        status = size_join("width", config->width, dims[config->nhwc ? 2 : 3], &pre->width, reterr);
    if (status == PEN_OK && pre->channels > CONFIG_CHANNELS_MAX)
        return pen_error_set(reterr, PEN_ERR_SHAPE, "input.preprocess knows at most %u channels, but '%s' has %u",
                             CONFIG_CHANNELS_MAX, network->name, pre->channels);
    if (status == PEN_OK)
        status = constants_join(pre, config, reterr);
    if (status != PEN_OK)
        return status;
    if (halves)
        halves_fill(pre, network->dtype);
    if (bytes)
        table_fill(pre, config, quant, network->dtype == PEN_DTYPE_I8);
    *ret_wire = (struct pen_tensor){.name = network->name,
                                    .dtype = PEN_DTYPE_U8,
                                    .rank = 4,
                                    .dims = {dims[0], pre->height, pre->width, pre->channels}};
    return PEN_OK;
}
