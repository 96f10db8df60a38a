#include "backend/lstm_fixed.h"

#include <string.h>

#include "graph/graph.h"

/* ---- the node ---- */

static bool shape_is(const struct shape *s, int32_t rank, int64_t a, int64_t b, int64_t c)
{
    const int64_t dims[3] = {a, b, c};
    if (s == NULL || s->rank != rank) {
        return false;
    }
    for (int32_t d = 0; d < rank; d++) {
        if (s->dim[d] != dims[d]) {
            return false;
        }
    }
    return true;
}

static const char *sizes_read(const struct node *n, const struct shape *const s[LSTM_INPUTS], struct lstm_fixed *l)
{
    const struct shape *x = s[LSTM_X], *w = s[LSTM_W], *r = s[LSTM_R];
    if (x->rank != 3 || w->rank != 3 || r->rank != 3 || (w->dim[0] != 4 && w->dim[0] != 3) || w->dim[1] < 1 ||
        r->dim[2] < 1 || (x->dim[2] >= 0 && w->dim[2] != x->dim[2])) {
        return "data and weights do not fit each other";
    }
    const int64_t gates = w->dim[0], units = w->dim[1], out = r->dim[2];
    if (!shape_is(r, 3, gates, units, out) || (s[LSTM_B] && !shape_is(s[LSTM_B], 2, gates, units, 0)) ||
        (s[LSTM_P] && !shape_is(s[LSTM_P], 2, gates - 1, units, 0)) ||
        (s[LSTM_N] && !shape_is(s[LSTM_N], 2, gates, units, 0)) ||
        (s[LSTM_J] ? !shape_is(s[LSTM_J], 2, out, units, 0) : out != units) ||
        (s[LSTM_K] && !shape_is(s[LSTM_K], 1, out, 0, 0)) || !shape_is(s[LSTM_SCALES], 1, LSTM_SCALE_COUNT, 0, 0) ||
        !shape_is(s[LSTM_ZEROS], 1, LSTM_ZERO_COUNT, 0, 0)) {
        return "weights of the gates do not fit each other";
    }
    l->batch_first = node_int(n, ATTR_layout, 0) != 0;
    l->steps = (size_t)x->dim[l->batch_first ? 1 : 0];
    l->batch = (size_t)x->dim[l->batch_first ? 0 : 1];
    l->in = (size_t)w->dim[2];
    l->projects = s[LSTM_J] != NULL;
    l->units = (size_t)units;
    l->out = (size_t)out;
    l->gates = (size_t)gates;
    return NULL;
}

/* A limit in steps, cut off behind the point. */
static float steps_of(float limit, float scale, float most)
{
    return !(limit > 0.0f) ? 0.0f : limit / scale < most ? limit / scale : most;
}

/* The interpreter multiplies and divides scales as floats. */
static void gate_read(struct lstm_fixed *l, size_t gate, const float *scales, const void *const data[LSTM_INPUTS])
{
    const float *s = scales + LSTM_SCALE_OF_GATES + gate * LSTM_SCALES_GATE, sums = s[4];
    const size_t first = LSTM_GATES - l->gates, at = (gate - first) * l->units;
    const size_t hole = (gate == LSTM_O ? l->gates - 2 : gate - first) * l->units;
    const float cell = ldexpf(1.0f, l->cell_bits - 15);
    struct lstm_fixed_gate *g = &l->gate[gate];
    g->x = fixed_scale_of((double)(s[0] * scales[LSTM_SCALE_X] / sums));
    g->h = fixed_scale_of((double)(s[1] * scales[LSTM_SCALE_H] / sums));
    if (data[LSTM_P] != NULL && gate != LSTM_C) {
        g->hole = fixed_scale_of((double)(cell * s[2] / sums));
        g->holes = (const int16_t *)data[LSTM_P] + hole;
    }
    if (data[LSTM_N] != NULL) {
        g->norm = fixed_scale_of((double)s[3]);
        g->norm.shift += 12;
        g->least = s[3] > 1.0f / 10000.0f ? (int32_t)(10000.0f * s[3]) : 1;
        g->norms = (const int16_t *)data[LSTM_N] + at;
        g->bias = data[LSTM_B] != NULL ? (const int32_t *)data[LSTM_B] + at : NULL;
    }
}

static const char *numbers_read(const struct node *n, const void *const data[LSTM_INPUTS], struct lstm_fixed *l)
{
    const float *scales = data[LSTM_SCALES];
    const int32_t *zeros = data[LSTM_ZEROS];
    for (int i = 0; i < LSTM_SCALE_COUNT; i++) {
        if (!(scales[i] > 0.0f) || scales[i] > 1e6f) {
            return "a scale is not a number above 0";
        }
    }
    for (int i = 0; i < LSTM_ZERO_COUNT; i++) {
        if (zeros[i] < -128 || zeros[i] > 127) {
            return "a zero point is no byte";
        }
    }
    int power = 0;
    float part = frexpf(scales[LSTM_SCALE_CELL], &power);
    l->cell_bits = power + 14; /* the scale is 2^(power - 1), and 15 bits are steps */
    if (part != 0.5f || l->cell_bits < -8 || l->cell_bits > 12) {
        return "the scale of its cell is not a power of two from 2^-23 to 2^-3";
    }
    l->cell_clip = (int16_t)steps_of(node_float(n, ATTR_cell_clip, 0.0f), scales[LSTM_SCALE_CELL], 32767.0f);
    l->projection_clip = (int8_t)steps_of(node_float(n, ATTR_clip, 0.0f), scales[LSTM_SCALE_H], 127.0f);
    l->x_zero = zeros[LSTM_ZERO_X];
    l->h_zero = zeros[LSTM_ZERO_H];
    l->between_zero = zeros[LSTM_ZERO_BETWEEN];
    l->between = fixed_scale_of((double)(0x1p-15f / scales[LSTM_SCALE_BETWEEN] * 0x1p-15f));
    l->projection = fixed_scale_of((double)(scales[LSTM_SCALE_J] * scales[LSTM_SCALE_BETWEEN] / scales[LSTM_SCALE_H]));
    for (size_t g = LSTM_GATES - l->gates; g < LSTM_GATES; g++) {
        gate_read(l, g, scales, data);
    }
    return NULL;
}

const char *lstm_fixed_read(const struct node *n, const struct shape *const shapes[LSTM_INPUTS],
                            const void *const data[LSTM_INPUTS], struct lstm_fixed *ret)
{
    *ret = (struct lstm_fixed){0};
    const char *wrong = sizes_read(n, shapes, ret);
    if (wrong != NULL || data == NULL) {
        return wrong;
    }
    ret->w = data[LSTM_W];
    ret->r = data[LSTM_R];
    ret->j = data[LSTM_J];
    ret->b = data[LSTM_B];
    ret->k = data[LSTM_K];
    return numbers_read(n, data, ret);
}

int8_t lstm_fixed_projected(const struct lstm_fixed *l, int32_t sum)
{
    int32_t v = fixed_scaled(sum, l->projection) + l->h_zero, clip = l->projection_clip > 0 ? l->projection_clip : 128;
    v = v < -128 ? -128 : v > 127 ? 127 : v;
    return (int8_t)(v > clip ? clip : v < -clip ? -clip : v);
}

/* ---- normalisation ---- */

#define NORM_ONE (1 << 20)

void lstm_fixed_normalise(const struct lstm_fixed_gate *g, int16_t *z, size_t units)
{
    int64_t sum = 0, squares = 0;
    for (size_t u = 0; u < units; u++) {
        sum += z[u];
        squares += z[u] * z[u];
    }
    const int32_t mean = (int32_t)(sum * 1024 / (int64_t)units);
    const int64_t share = NORM_ONE / (int64_t)units, variance = squares * share - (int64_t)mean * mean;
    int32_t least = (int32_t)(variance / NORM_ONE);
    const struct fixed_scale inverse = fixed_inverse_root(least < 1 ? g->least : least);
    for (size_t u = 0; u < units; u++) {
        const int32_t off = fixed_scaled(1024 * z[u] - mean, inverse);
        const uint32_t wide = (uint32_t)off * (uint32_t)g->norms[u] + (g->bias != NULL ? (uint32_t)g->bias[u] : 0u);
        const int64_t v = (int32_t)wide;
        z[u] = fixed_clamp(fixed_scaled((int32_t)((v > 0 ? v + 512 : v - 512) / 1024), g->norm));
    }
}
