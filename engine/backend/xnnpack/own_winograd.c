#include "backend/xnnpack/own_lanes.h"

/* Points of winograd.h: 0, +-A, +-B, infinity; 0, +-1, infinity for tiles of 2 x 2. */
#define A      0.625f
#define B      1.5f
#define AA     (A * A)
#define BB     (B * B)
#define SPREAD (AA + BB)
#define BOTH   (AA * BB)
/* What the filters of the points are divided by, so that the products need no more than the points' powers. */
#define SHARE_ZERO (1.0f / (AA * BB))
#define SHARE_A    (0.5f / (AA * (AA - BB)))
#define SHARE_B    (0.5f / (BB * (BB - AA)))

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

/* Numbers of the input, each `step` vectors from the next, turned in place: six for an edge of 4, four for one of 2. */
INLINE void turn_in(vf *d, const size_t step, const size_t edge)
{
    const vf d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    if (edge == 2) {
        d[0] = d0 - d2;
        d[step] = d1 + d2;
        d[2 * step] = d2 - d1;
        d[3 * step] = d1 - d3;
        return;
    }
    const vf d4 = d[4 * step], d5 = d[5 * step];
    const vf a_even = d4 - d2 * BB, a_odd = (d3 - d1 * BB) * A;
    const vf b_even = d4 - d2 * AA, b_odd = (d3 - d1 * AA) * B;
    d[0] = d0 * BOTH - d2 * SPREAD + d4;
    d[step] = a_even + a_odd;
    d[2 * step] = a_even - a_odd;
    d[3 * step] = b_even + b_odd;
    d[4 * step] = b_even - b_odd;
    d[5 * step] = d1 * BOTH - d3 * SPREAD + d5;
}

/* As many products, turned into `edge` results. */
INLINE void turn_out(const vf *m, const size_t step, vf *y, const size_t y_step, const size_t edge)
{
    const vf a_even = m[step] + m[2 * step], a_odd = m[step] - m[2 * step];
    if (edge == 2) {
        y[0] = m[0] + a_even;
        y[y_step] = a_odd - m[3 * step];
        return;
    }
    const vf b_even = m[3 * step] + m[4 * step], b_odd = m[3 * step] - m[4 * step];
    y[0] = m[0] + a_even + b_even;
    y[y_step] = a_odd * A + b_odd * B;
    y[2 * y_step] = a_even * AA + b_even * BB;
    y[3 * y_step] = a_odd * (A * AA) + b_odd * (B * BB) + m[5 * step];
}

/* Three weights, turned into as many numbers. */
INLINE void turn_filter(const vf *g, const size_t step, vf *u, const size_t u_step, const size_t edge)
{
    const vf g0 = g[0], g1 = g[step], g2 = g[2 * step];
    if (edge == 2) {
        const vf even = (g0 + g2) * 0.5f, odd = g1 * 0.5f;
        u[0] = g0;
        u[u_step] = even + odd;
        u[2 * u_step] = even - odd;
        u[3 * u_step] = g2;
        return;
    }
    const vf a_even = g0 * SHARE_A + g2 * (AA * SHARE_A), a_odd = g1 * (A * SHARE_A);
    const vf b_even = g0 * SHARE_B + g2 * (BB * SHARE_B), b_odd = g1 * (B * SHARE_B);
    u[0] = g0 * SHARE_ZERO;
    u[u_step] = a_even + a_odd;
    u[2 * u_step] = a_even - a_odd;
    u[3 * u_step] = b_even + b_odd;
    u[4 * u_step] = b_even - b_odd;
    u[5 * u_step] = g2;
}

INLINE void in_block(const struct winograd_in *t, size_t c, const bool cut, size_t some, const size_t edge)
{
    const size_t span = edge + 2;
    vf d[WINOGRAD_POINTS];
    for (size_t i = 0; i < span * span; i++) {
        d[i] = part_load(t->pixels[i] + c, cut, some);
    }
    for (size_t x = 0; x < span; x++) {
        turn_in(d + x, span, edge);
    }
    for (size_t y = 0; y < span; y++) {
        vf row[6];
        UNROLL
        for (size_t x = 0; x < span; x++) {
            row[x] = d[span * y + x];
        }
        turn_in(row, 1, edge);
        UNROLL
        for (size_t x = 0; x < span; x++) {
            part_store(t->v + (span * y + x) * t->step + c, row[x], cut, some);
        }
    }
}

INLINE void in_all(const struct winograd_in *t, const size_t edge)
{
    size_t c = 0;
    for (; c + OWN_LANES <= t->channels; c += OWN_LANES) {
        in_block(t, c, false, 0, edge);
    }
    if (c < t->channels) {
        in_block(t, c, true, t->channels - c, edge);
    }
}

void OWN(own_winograd_in)(const struct winograd_in *t)
{
    if (t->edge == 2) {
        in_all(t, 2);
    } else {
        in_all(t, 4);
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

INLINE void out_block(const struct winograd_out *t, size_t c, const bool cut, size_t some, const size_t edge)
{
    const size_t span = edge + 2;
    vf half[4][6];
    const vf bias = t->bias != NULL ? part_load(t->bias + c, cut, some) : (vf){0};
    for (size_t x = 0; x < span; x++) {
        vf m[6];
        UNROLL
        for (size_t y = 0; y < span; y++) {
            m[y] = part_load(t->m + (span * y + x) * t->step + c, cut, some);
        }
        turn_out(m, 1, &half[0][x], 6, edge);
    }
    for (size_t row = 0; row < t->rows; row++) {
        vf y[4];
        turn_out(half[row], 1, y, 1, edge);
        out_row(t, row, c, y, bias, cut, some);
    }
}

INLINE void out_all(const struct winograd_out *t, const size_t edge)
{
    size_t c = 0;
    for (; c + OWN_LANES <= t->channels; c += OWN_LANES) {
        out_block(t, c, false, 0, edge);
    }
    if (c < t->channels) {
        out_block(t, c, true, t->channels - c, edge);
    }
}

void OWN(own_winograd_out)(const struct winograd_out *t)
{
    if (t->edge == 2) {
        out_all(t, 2);
    } else {
        out_all(t, 4);
    }
}

INLINE void filters_all(const struct winograd_filters *t, const size_t edge)
{
    const size_t span = edge + 2;
    for (size_t c = 0; c < t->count; c += OWN_LANES) {
        vf half[6][3];
        for (size_t x = 0; x < 3; x++) {
            const vf g[3] = {load(t->w + x * t->place + c), load(t->w + (3 + x) * t->place + c),
                             load(t->w + (6 + x) * t->place + c)};
            turn_filter(g, 1, &half[0][x], 3, edge);
        }
        for (size_t y = 0; y < span; y++) {
            vf row[6];
            turn_filter(half[y], 1, row, 1, edge);
            UNROLL
            for (size_t x = 0; x < span; x++) {
                store(t->u + (span * y + x) * t->step + c, row[x]);
            }
        }
    }
}

void OWN(own_winograd_filters)(const struct winograd_filters *t)
{
    if (t->edge == 2) {
        filters_all(t, 2);
    } else {
        filters_all(t, 4);
    }
}
