/* numbers.c - pixels into the numbers of a model's input, through tables of 256 values per channel. */
#include "numbers.h"

#include <math.h>
#include <string.h>

static float number_of(const struct picture_numbers *n, uint32_t c, uint32_t value)
{
    return ((float)value * n->scale - n->mean[c]) / n->std[c];
}

/* Rounds half to even, as NumPy does, and saturates. */
static uint8_t quantised_of(const struct picture_numbers *n, uint32_t c, uint32_t value)
{
    float least = n->dtype == PEN_DTYPE_I8 ? -128.0f : 0.0f;
    if (!n->quantised) {
        return (uint8_t)(n->dtype == PEN_DTYPE_I8 ? value ^ 0x80u : value);
    }
    float q = nearbyintf(number_of(n, c, value) / n->q_scale) + (float)n->q_zero;
    q = !(q >= least) ? least : q > least + 255.0f ? least + 255.0f : q;
    return (uint8_t)(int32_t)q;
}

void numbers_tables(struct picture_steps *steps, const struct picture_numbers *n)
{
    bool bytes = n->dtype == PEN_DTYPE_U8 || n->dtype == PEN_DTYPE_I8;
    steps->element_bytes = bytes ? 1 : n->dtype == PEN_DTYPE_F32 ? 4 : 2;
    for (uint32_t c = 0; c < 3; c++) {
        for (uint32_t v = 0; v < 256; v++) {
            float number = number_of(n, c, v);
            steps->floats[c][v] = number;
            steps->halves[c][v] = n->dtype == PEN_DTYPE_BF16 ? pen_f32_to_bf16(number) : pen_f32_to_f16(number);
            steps->bytes[c][v] = bytes ? quantised_of(n, c, v) : 0;
        }
    }
}

/* One channel: `out` gets a number every `step` elements. */
#define WRITE(type, table)                                                                                             \
    static void write_##table(const struct picture_steps *s, const uint8_t *pixels, type *out)                         \
    {                                                                                                                  \
        size_t count = (size_t)s->width * s->height, channels = s->channels;                                           \
        for (size_t c = 0; c < channels; c++) {                                                                        \
            const uint8_t *from = pixels + (s->bgr ? channels - 1 - c : c);                                            \
            const type *numbers = s->table[c];                                                                         \
            type *to = out + (s->nchw ? c * count : c);                                                                \
            size_t step = s->nchw ? 1 : channels;                                                                      \
            for (size_t i = 0; i < count; i++) {                                                                       \
                to[i * step] = numbers[from[i * channels]];                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
WRITE(float, floats)
WRITE(uint16_t, halves)
WRITE(uint8_t, bytes)

void numbers_write(const struct picture_steps *steps, const uint8_t *pixels, void *to)
{
    if (steps->element_bytes == 4) {
        write_floats(steps, pixels, to);
    } else if (steps->element_bytes == 2) {
        write_halves(steps, pixels, to);
    } else {
        write_bytes(steps, pixels, to);
    }
}
