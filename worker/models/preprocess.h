/*
 * preprocess.h - converts uint8 pixels, as clients send them, into the input that a network was trained on.
 *
 * The wire is uint8 [batch, height, width, channels], RGB: four times fewer bytes than floats. The network gets (x -
 * mean) * scale per channel, NCHW or NHWC, RGB or BGR, inverted when the config says so.
 * A network of 16-bit floats gets the same numbers, rounded.
 * A network of 8-bit integers gets q = round(real / scale) + zero point of its own quantisation, through a table of 256
 * values per channel. When the config has neither mean nor scale, uint8 takes the pixels as they are, and int8 takes
 * them minus 128.
 * Threads: any (pure functions).
 */
#ifndef PREPROCESS_H
#define PREPROCESS_H

#include "config.h"

/* The network's own quantisation of the input. */
struct preprocess_quant {
    bool known;
    float scale;
    int32_t zero_point;
};

struct preprocess {
    uint32_t height, width, channels;
    bool nhwc;
    uint8_t flip;                       /* 0xff inverts: 255 - x = x ^ 255 */
    uint32_t from[CONFIG_CHANNELS_MAX]; /* network channel c is wire channel from[c] */
    float mean[CONFIG_CHANNELS_MAX], scale[CONFIG_CHANNELS_MAX];
    size_t element_bytes; /* size of the network's input elements: 4 = f32, 2 = f16 or bf16, 1 = 8-bit integers */
    uint16_t halves[CONFIG_CHANNELS_MAX][256]; /* element_bytes 2: the network's number for each pixel value */
    uint8_t table[CONFIG_CHANNELS_MAX][256];   /* element_bytes 1: the network's byte for each pixel value */
};

/*
 * Combines the config with the network's input (float32, float16, bfloat16, uint8 or int8, rank 4; dims of -1 are
 * dynamic and must be in the config). SHAPE, DTYPE or INVALID with a sentence when they do not fit each other.
 * *ret_wire is the signature that clients see: u8, [dims[0], height, width, channels].
 */
enum pen_status preprocess_init(struct preprocess *pre, const struct config_preprocess *config,
                                const struct pen_tensor *network, const struct preprocess_quant *quant,
                                struct pen_tensor *ret_wire, struct pen_error *reterr);

/* pixels: u8 [images, height, width, channels]; out: as many elements of element_bytes, aligned to them. They do not overlap. */
void preprocess_run(const struct preprocess *pre, const uint8_t *pixels, size_t images, void *out);

#endif
