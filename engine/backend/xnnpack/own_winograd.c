#include "backend/xnnpack/own_lanes.h"

/* Points of winograd.h: 0, +-A, +-B, infinity. */
#define A      0.625f
#define B      1.5f
#define AA     (A * A)
#define BB     (B * B)
#define SPREAD (AA + BB)
#define BOTH   (AA * BB)

INLINE vf part_load(const float *p, bool cut, size_t some)
{
    return cut ? load_some(p, some) : load(p);
}

INLINE void part_store(float *p, vf v, bool cut, size_t some)
{
    if (cut) {
        store_some(p, v, some);
    } else {
        store(p, v);
    }
}

/* Six numbers of the input, each `step` vectors from the next, turned in place. */
INLINE void turn_in(vf *d, const size_t step)
{
    const vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const vf a_even = d4 - d2 * BB, a_odd = (d3 - d1 * BB) * A;
    const vf b_even = d4 - d2 * AA, b_odd = (d3 - d1 * AA) * B;
    d[0] = d0 * BOTH - d2 * SPREAD + d4;
    d[step] = a_even + a_odd;
    d[2 * step] = a_even - a_odd;
    d[3 * step] = b_even + b_odd;
    d[4 * step] = b_even - b_odd;
    d[5 * step] = d1 * BOTH - d3 * SPREAD + d5;
}

/* Six products, turned into four results. */
INLINE void turn_out(const vf *m, const size_t step, vf *y, const size_t y_step)
{
    const vf a_even = m[step] + m[2 * step], a_odd = m[step] - m[2 * step];
    const vf b_even = m[3 * step] + m[4 * step], b_odd = m[3 * step] - m[4 * step];
    y[0] = m[0] + a_even + b_even;
    y[y_step] = a_odd * A + b_odd * B;
    y[2 * y_step] = a_even * AA + b_even * BB;
    y[3 * y_step] = a_odd * (A * AA) + b_odd * (B * BB) + m[5 * step];
}

INLINE void in_block(const struct winograd_in *t, size_t c, const bool cut, size_t some)
{
    vf d[36];
    for (size_t i = 0; i < 36; i++) {
        d[i] = part_load(t->pixels[i] + c, cut, some);
    }
    for (size_t x = 0; x < 6; x++) {
        turn_in(d + x, 6);
    }
    for (size_t y = 0; y < 6; y++) {
        vf row[6];
        UNROLL
        for (size_t x = 0; x < 6; x++) {
            row[x] = d[6 * y + x];
        }
        turn_in(row, 1);
        UNROLL
        for (size_t x = 0; x < 6; x++) {
            part_store(t->v + (6 * y + x) * t->step + c, row[x], cut, some);
        }
    }
}

void OWN(own_winograd_in)(const struct winograd_in *t)
{
    size_t c = 0;
    for (; c + OWN_LANES <= t->channels; c += OWN_LANES) {
        in_block(t, c, false, 0);
    }
    if (c < t->channels) {
        in_block(t, c, true, t->channels - c);
    }
}

INLINE void out_row(const struct winograd_out *t, size_t row, size_t c, const vf *y, vf bias, const bool cut,
                    size_t some)
{
    const vf low = all(t->min), high = all(t->max);
    for (size_t x = 0; x < t->cols; x++) {
        vf v = y[x] + bias;
        if (t->sum != NULL) {
            v += part_load(t->sum + row * t->sum_row + x * t->sum_pixel + c, cut, some);
        }
        part_store(t->y + row * t->y_row + x * t->y_pixel + c, clamp(v, low, high), cut, some);
    }
}

INLINE void out_block(const struct winograd_out *t, size_t c, const bool cut, size_t some)
{
    vf half[4][6];
    const vf bias = t->bias != NULL ? part_load(t->bias + c, cut, some) : (vf){0};
    for (size_t x = 0; x < 6; x++) {
        vf m[6];
        UNROLL
        for (size_t y = 0; y < 6; y++) {
            m[y] = part_load(t->m + (6 * y + x) * t->step + c, cut, some);
        }
        turn_out(m, 1, &half[0][x], 6);
    }
    for (size_t row = 0; row < t->rows; row++) {
        vf y[4];
        turn_out(half[row], 1, y, 1);
        out_row(t, row, c, y, bias, cut, some);
    }
}

void OWN(own_winograd_out)(const struct winograd_out *t)
{
    size_t c = 0;
    for (; c + OWN_LANES <= t->channels; c += OWN_LANES) {
        out_block(t, c, false, 0);
    }
    if (c < t->channels) {
        out_block(t, c, true, t->channels - c);
    }
}
