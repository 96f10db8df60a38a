/*
 * rotary.h - turns the pairs of one head by its position's angles (Su et al. 2021), for RotaryEmbedding and for attention that does it by itself.
 *
 * Threads: any.
 */
#ifndef XNNPACK_ROTARY_H
#define XNNPACK_ROTARY_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A head has `size` elements. Its first 2 * half make pairs: neighbours when interleaved, element i and element i + half otherwise. */
struct rotary_head {
    size_t size, half;
    bool interleaved;
};

/* (a, b) become (cos a - sin b, sin a + cos b); elements after the pairs stay. cosines and sines have `half` elements each. */
static inline void rotary_turn(const struct rotary_head *head, const float *x, const float *cosines, const float *sines,
                               float *y)
{
    size_t step = head->interleaved ? 2 : 1, apart = head->interleaved ? 1 : head->half;
    for (size_t i = 0; i < head->half; i++) {
        float a = x[i * step], b = x[i * step + apart];
        y[i * step] = cosines[i] * a - sines[i] * b;
        y[i * step + apart] = sines[i] * a + cosines[i] * b;
    }
    memcpy(y + 2 * head->half, x + 2 * head->half, (head->size - 2 * head->half) * sizeof *y);
}

#endif
