/*
 * preprocess.h - uint8 pixels as they travel -> the float input a network was trained on.
 *
 * The wire is uint8 [batch, height, width, channels], RGB: four times fewer bytes than floats. The network gets (x - mean) * scale per
 * channel, NCHW or NHWC, RGB or BGR, inverted when the config says so. Threads: any (pure functions).
 */
#ifndef PREPROCESS_H
#define PREPROCESS_H

#include "config.h"

struct preprocess {
    uint32_t height, width, channels;
    bool nhwc;
    uint8_t flip;                       /* 0xff inverts: 255 - x = x ^ 255 */
    uint32_t from[CONFIG_CHANNELS_MAX]; /* network channel c is wire channel from[c] */
    float mean[CONFIG_CHANNELS_MAX], scale[CONFIG_CHANNELS_MAX];
};

/*
 * Joins the config with the network's input (float32, rank 4; dims -1 are dynamic and must be stated in the config). SHAPE, DTYPE or INVALID with a
 * sentence where they do not fit each other. *ret_wire is the signature of what travels: u8, [dims[0], height, width, channels].
 */
enum pen_status preprocess_init(struct preprocess *pre, const struct config_preprocess *config,
                                const struct pen_tensor *network, struct pen_tensor *ret_wire,
                                struct pen_error *reterr);

/* pixels: u8 [images, height, width, channels]; out: f32 of the same number of elements. They do not overlap. */
void preprocess_run(const struct preprocess *pre, const uint8_t *pixels, size_t images, float *out);

#endif
