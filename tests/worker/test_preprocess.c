/* Pixels to floats against the formula in doubles. */
#include "preprocess.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y[n][c][h][w] (or NHWC) = (x[n][h][w][from c] - mean[c]) * scale[c], x inverted first when asked. */
static double expected(const struct config_preprocess *c, const uint8_t *pixels, uint32_t channels, size_t pixel,
                       uint32_t channel)
{
    uint32_t from = c->bgr && channels >= 3 && channel < 3 ? 2 - channel : channel;
    double x = pixels[pixel * channels + from];
    double mean = c->mean_count == 0 ? 0 : c->mean[c->mean_count > 1 ? channel : 0];
    double scale = c->scale_count == 0 ? 1 : c->scale[c->scale_count > 1 ? channel : 0];
    return ((c->invert ? 255 - x : x) - mean) * scale;
}

static const struct preprocess_quant floats;

/* 16-bit networks get the f32 network's numbers, rounded. */
static void compare_halves(const struct config_preprocess *config, const struct pen_tensor *network,
                           const uint8_t *pixels, size_t images, const float *wanted, size_t count)
{
    static const enum pen_dtype kinds[] = {PEN_DTYPE_F16, PEN_DTYPE_BF16};
    uint16_t *halves = malloc(count * sizeof *halves);
    for (size_t kind = 0; kind < 2; kind++) {
        struct preprocess pre;
        struct pen_tensor wire, half = *network;
        struct pen_error error = {0};
        half.dtype = kinds[kind];
        cr_assert(preprocess_init(&pre, config, &half, &floats, &wire, &error) == PEN_OK, "%s", error.text);
        cr_assert(pre.element_bytes == 2 && wire.dtype == PEN_DTYPE_U8);
        preprocess_run(&pre, pixels, images, halves);
        for (size_t i = 0; i < count; i++)
            cr_assert_eq(halves[i], kind == 0 ? pen_f32_to_f16(wanted[i]) : pen_f32_to_bf16(wanted[i]), "at %zu", i);
    }
    free(halves);
}

static void compare(const struct config_preprocess *config, uint32_t height, uint32_t width, uint32_t channels,
                    size_t images)
{
    struct preprocess pre;
    struct pen_tensor wire;
    struct pen_error error = {0};
    size_t plane = (size_t)height * width, count = plane * channels * images;
    struct pen_tensor network = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 4};
    int64_t nchw[4] = {-1, channels, height, width}, nhwc[4] = {-1, height, width, channels};
    memcpy(network.dims, config->nhwc ? nhwc : nchw, sizeof nchw);
    cr_assert(preprocess_init(&pre, config, &network, &floats, &wire, &error) == PEN_OK, "%s", error.text);
    uint8_t *pixels = malloc(count);
    float *out = malloc(count * sizeof *out);
    cr_assert(pixels && out);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(i * 37 + 11);
    preprocess_run(&pre, pixels, images, out);
    for (size_t i = 0; i < images * plane; i++)
        for (uint32_t c = 0; c < channels; c++) {
            size_t image = i / plane, at = i % plane;
            size_t place = config->nhwc ? i * channels + c : (image * channels + c) * plane + at;
            double want = expected(config, pixels, channels, i, c);
            cr_assert(fabs(out[place] - want) <= 1e-6 * (1 + fabs(want)), "pixel %zu channel %u: %g, wanted %g", i, c,
                      (double)out[place], want);
        }
    compare_halves(config, &network, pixels, images, out, count);
    free(pixels);
    free(out);
}

Test(preprocess, equals_the_formula_for_all_layouts)
{
    for (uint32_t bits = 0; bits < 8; bits++)
        for (uint32_t channels = 1; channels <= 4; channels++) {
            struct config_preprocess c = {.present = true, .nhwc = bits & 1, .bgr = bits & 2, .invert = bits & 4};
            c.mean_count = channels;
            c.scale_count = channels == 2 ? 1 : channels;
            for (uint32_t i = 0; i < channels; i++) {
                c.mean[i] = 100.5f + (float)i;
                c.scale[i] = 0.017f * (float)(i + 1);
            }
            compare(&c, 5, 7, channels, 3);
            compare(&c, 33, 16, channels, 1);
        }
}

Test(preprocess, silent_config_only_converts)
{
    struct config_preprocess c = {.present = true};
    compare(&c, 3, 3, 3, 2);
}

Test(preprocess, wire_signature_is_uint8_nhwc)
{
    struct preprocess pre;
    struct pen_tensor wire, network = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, 3, -1, -1}};
    struct config_preprocess c = {.present = true, .height = 20, .width = 30};
    struct pen_error error = {0};
    cr_assert(preprocess_init(&pre, &c, &network, &floats, &wire, &error) == PEN_OK, "%s", error.text);
    cr_expect(wire.dtype == PEN_DTYPE_U8 && wire.rank == 4 && wire.dims[0] == -1 && wire.dims[1] == 20 &&
              wire.dims[2] == 30 && wire.dims[3] == 3);
}

static void refuses(struct config_preprocess c, struct pen_tensor network, enum pen_status status, const char *part)
{
    struct preprocess pre;
    struct pen_tensor wire;
    struct pen_error error = {0};
    cr_expect(preprocess_init(&pre, &c, &network, &floats, &wire, &error) == status, "%s", error.text);
    cr_expect(strstr(error.text, part), "'%s' lacks '%s'", error.text, part);
}

Test(preprocess, what_does_not_fit_the_model_is_refused)
{
    struct pen_tensor f32 = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {-1, 3, 8, 8}};
    struct pen_tensor other = f32, flat = f32, open = f32, wide = f32;
    other.dtype = PEN_DTYPE_F64;
    flat.rank = 2;
    open.dims[2] = -1;
    wide.dims[1] = 7;
    refuses((struct config_preprocess){.present = true}, other, PEN_ERR_DTYPE, "'x' is f64");
    refuses((struct config_preprocess){.present = true}, flat, PEN_ERR_SHAPE, "rank 2");
    refuses((struct config_preprocess){.present = true}, open, PEN_ERR_INVALID, "must state height");
    open.dims[2] = 0;
    refuses((struct config_preprocess){.present = true}, open, PEN_ERR_INVALID, "must state height");
    open.dims[2] = 65536;
    refuses((struct config_preprocess){.present = true}, open, PEN_ERR_SHAPE, "the model's height 65536 is no image's");
    open.dims[2] = 8;
    open.dims[3] = 0;
    refuses((struct config_preprocess){.present = true}, open, PEN_ERR_INVALID, "must state width");
    refuses((struct config_preprocess){.present = true, .scale_count = 2}, f32, PEN_ERR_INVALID,
            "has 0 means and 2 scales for 3 channels: give one, or one each");
    refuses((struct config_preprocess){.present = true}, wide, PEN_ERR_SHAPE, "at most 4 channels");
    refuses((struct config_preprocess){.present = true, .channels = 1}, f32, PEN_ERR_SHAPE, "says channels 1");
    refuses((struct config_preprocess){.present = true, .width = 9}, f32, PEN_ERR_SHAPE, "the model takes 8");
    refuses((struct config_preprocess){.present = true, .mean_count = 2}, f32, PEN_ERR_INVALID, "2 means");
}

/* q = round(((x - mean) * scale) / quant.scale) + zero point, within the type. */
static void quantised(enum pen_dtype dtype, bool nhwc, struct preprocess_quant quant)
{
    enum { HEIGHT = 4, WIDTH = 64, PLANE = HEIGHT * WIDTH, CHANNELS = 3 };
    struct config_preprocess c = {.present = true,
                                  .nhwc = nhwc,
                                  .bgr = true,
                                  .mean = {10, 20, 30},
                                  .scale = {0.02f, 0.01f, -0.03f},
                                  .mean_count = 3,
                                  .scale_count = 3};
    struct pen_tensor wire, network = {.name = "x", .dtype = dtype, .rank = 4, .dims = {1, 3, HEIGHT, WIDTH}};
    struct preprocess pre;
    struct pen_error error = {0};
    uint8_t pixels[PLANE * CHANNELS], out[PLANE * CHANNELS];
    if (nhwc)
        memcpy(network.dims, (const int64_t[]){1, HEIGHT, WIDTH, 3}, 4 * sizeof(int64_t));
    cr_assert(preprocess_init(&pre, &c, &network, &quant, &wire, &error) == PEN_OK, "%s", error.text);
    cr_assert(pre.element_bytes == 1 && wire.dtype == PEN_DTYPE_U8);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i / 3 + 85 * (i % 3)); /* every value on every channel */
    preprocess_run(&pre, pixels, 1, out);
    double least = dtype == PEN_DTYPE_I8 ? -128 : 0;
    for (size_t i = 0; i < PLANE; i++)
        for (size_t k = 0; k < CHANNELS; k++) {
            uint8_t bits = out[nhwc ? i * CHANNELS + k : k * PLANE + i];
            double real = ((double)pixels[i * CHANNELS + 2 - k] - (double)c.mean[k]) * (double)c.scale[k];
            double want = fmin(fmax(real / (double)quant.scale + quant.zero_point, least), least + 255);
            double got = dtype == PEN_DTYPE_I8 ? (double)(int8_t)bits : (double)bits;
            cr_assert(fabs(got - want) <= 0.5001, "pixel %zu channel %zu: %g, wanted %g", i, k, got, want);
        }
}

Test(preprocess, eight_bit_networks_get_their_own_quantisation)
{
    quantised(PEN_DTYPE_I8, true, (struct preprocess_quant){true, 0.0157f, -3});
    quantised(PEN_DTYPE_I8, false, (struct preprocess_quant){true, 0.04f, 5});
    quantised(PEN_DTYPE_U8, true, (struct preprocess_quant){true, 0.0157f, 128});
    quantised(PEN_DTYPE_U8, false, (struct preprocess_quant){true, 1.0f, 0});
}

Test(preprocess, without_constants_the_pixels_span_the_type)
{
    struct config_preprocess c = {.present = true, .nhwc = true};
    struct pen_tensor wire, network = {.name = "x", .dtype = PEN_DTYPE_I8, .rank = 4, .dims = {1, 1, 4, 1}};
    struct preprocess pre;
    struct pen_error error = {0};
    const uint8_t pixels[4] = {0, 1, 128, 255};
    int8_t out[4];
    cr_assert(preprocess_init(&pre, &c, &network, &(struct preprocess_quant){true, 1 / 255.0f, -128}, &wire, &error) ==
              PEN_OK);
    preprocess_run(&pre, pixels, 1, out);
    cr_expect(out[0] == -128 && out[1] == -127 && out[2] == 0 && out[3] == 127);
    network.dtype = PEN_DTYPE_U8;
    c.invert = true;
    cr_assert(preprocess_init(&pre, &c, &network, &floats, &wire, &error) == PEN_OK);
    preprocess_run(&pre, pixels, 1, out);
    cr_expect((uint8_t)out[0] == 255 && (uint8_t)out[3] == 0);
    c.mean_count = 1;
    cr_expect(preprocess_init(&pre, &c, &network, &floats, &wire, &error) == PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "what real number a byte of 'x' stands for"), "%s", error.text);
}
