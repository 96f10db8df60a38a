#include "backend/xnnpack/codes.h"

#include <math.h>
#include <stdlib.h>

static bool code_of(float w, float scale, int8_t *ret)
{
    const float q = rintf(w / scale);
    if (!(fabsf(q) <= 127.0f) || scale * q != w) {
        return false;
    }
    *ret = (int8_t)q;
    return true;
}

/* The weights of output channel o; to: NULL, or [out][h][w][in]. False when one of them is no code. */
static bool channel_codes(const struct filter *f, const float *w, float scale, size_t o, int8_t *to)
{
    bool good = scale > 0.0f && scale < INFINITY;
    for (size_t p = 0; p < f->kernel_h * f->kernel_w && good; p++) {
        const float *pixel = w + o * f->out_step + p / f->kernel_w * f->h_step + p % f->kernel_w * f->w_step;
        for (size_t i = 0; i < f->in && good; i++) {
            int8_t code = 0;
            good = code_of(pixel[i * f->in_step], scale, &code);
            if (to != NULL) {
                to[(o * f->kernel_h * f->kernel_w + p) * f->in + i] = code;
            }
        }
    }
    return good;
}

bool codes_are(const struct filter *f, const float *w, const float *scale, size_t scales)
{
    bool good = true;
    for (size_t o = 0; o < f->out && good; o++) {
        good = channel_codes(f, w, scale[scales > 1 ? o : 0], o, NULL);
    }
    return good;
}

size_t codes_packed_bytes(const struct filter *f)
{
    struct filter merged = *f;
    qdense_merge(&merged);
    return qdense_packed_bytes(&merged);
}

bool codes_pack(const struct filter *f, const float *w, const float *scale, size_t scales, uint8_t *packed)
{
    struct filter ohwi = *f;
    int8_t *codes = malloc(f->out * f->kernel_h * f->kernel_w * f->in);
    if (codes == NULL) {
        return false;
    }
    for (size_t o = 0; o < f->out; o++) {
        channel_codes(f, w, scale[scales > 1 ? o : 0], o, codes);
    }
    ohwi.in_step = 1;
    ohwi.w_step = ohwi.in;
    ohwi.h_step = ohwi.kernel_w * ohwi.w_step;
    ohwi.out_step = ohwi.kernel_h * ohwi.h_step;
    const struct qparams p = {.x_dtype = PEN_DTYPE_U8,
                              .w_dtype = PEN_DTYPE_I8,
                              .y_dtype = PEN_DTYPE_F32,
                              .w = codes,
                              .w_scale = scale,
                              .w_scales = scales,
                              .merged = qdense_merge(&ohwi),
                              .x_zero_later = true};
    qdense_pack(&ohwi, &p, packed);
    free(codes);
    return true;
}
