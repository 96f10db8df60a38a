/*
 * Functions of one number of 16 bits, as the interpreter computes them: all 65,536 answers are worked out here, and the graph looks them up. Sources: TFLite's
 * integer kernels for sigmoid and tanh (a table of sigmoid(i / 24), or gemmlowp's where the scale is a power of two), LUTPopulateInt16 for exp, log, gelu
 * and 1 / sqrt.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fixed_point.h"
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

#define ANSWERS 65536

struct curve {
    enum op op;    /* Reciprocal: of the square root */
    float in, out; /* scales */
    float alpha;   /* of LeakyRelu; of Gelu: 1 for the form with tanh */
};

/* ---- sigmoid and tanh ---- */

/* How the interpreter brings x to steps of 1 / (3 * 4096): x * factor >> shift. power: the scale is 2^power, and it computes in fixed point. */
struct reach {
    bool fixed;
    int power, shift;
    int32_t factor;
};

static struct reach reach_of(float scale, int most)
{
    const float log = logf(scale) * (1.0f / logf(2.0f)), whole = roundf(log);
    struct reach r = {.power = (int)whole + 12};
    if (fabsf(log - whole) < 1e-3f && r.power >= 0 && r.power <= most) {
        r.fixed = true;
        return r;
    }
    double factor = (double)scale * 4096.0 * 3.0;
    for (; factor <= 32767.0 / 2.0 && r.shift <= 30; r.shift++)
        factor *= 2.0;
    r.factor = (int16_t)(factor < 32767.0 ? factor : 32767.0);
    return r;
}

static int32_t reached(const struct reach *r, int32_t x)
{
    const int64_t half = r->shift > 0 ? (int64_t)1 << (r->shift - 1) : 0;
    return (int32_t)(((int64_t)x * r->factor + half) >> r->shift);
}

static double sigmoid_of(double i)
{
    return 65536.0 / (1.0 + exp(-i / 24.0));
}

/* 65536 * sigmoid(i / 24), raised by half of what a straight line to the next point falls short in the middle. */
static uint32_t sample_of(uint32_t i)
{
    const double at = (double)i, here = sigmoid_of(at), next = sigmoid_of(at + 1.0);
    const double y = round(here + (sigmoid_of(at + 0.5) - (here + next) / 2.0) / 2.0);
    return y > 65535.0 ? 65535 : (uint32_t)y;
}

static int16_t sigmoid_at(const struct reach *r, const uint32_t *samples, int16_t x)
{
    const int32_t at = reached(r, x);
    const uint32_t size = (uint32_t)abs(at), high = size >> 9, low = size & 0x1ff;
    uint32_t y = 0x7fffu << 10;
    if (high < 255)
        y = (samples[high] << 9) + low * (samples[high + 1] - samples[high]);
    return (int16_t)((at >= 0 ? y + (1u << 9) : (1u << 25) - y + (1u << 9) - 1) >> 10);
}

static int16_t tanh_at(const struct reach *r, const uint32_t *samples, int16_t x)
{
    const int32_t at = reached(r, x), middle = 1 << 23, half = 1 << 7;
    const uint32_t size = (uint32_t)abs(at), high = size >> 8, low = size & 0xff;
    int32_t y = 0xffff << 8;
    if (high < 255)
        y = (int32_t)((samples[high] << 8) + low * (samples[high + 1] - samples[high]));
    return (int16_t)((at >= 0 ? y - middle + half : middle - y + half - 1) >> 8);
}

static void sigmoids(const struct curve *f, int16_t *answers)
{
    const struct reach r = reach_of(f->in, f->op == OP_Tanh ? 1 : 0);
    uint32_t samples[256];
    for (uint32_t i = 0; i < 256; i++)
        samples[i] = sample_of(i);
    for (int32_t x = -32768; x < 32768; x++) {
        const int16_t moved = fixed_clamp(x * (1 << r.power * (r.fixed ? 1 : 0)));
        answers[(uint16_t)x] = f->op == OP_Tanh ? (r.fixed ? fixed_tanh(moved, 3) : tanh_at(&r, samples, (int16_t)x))
                               : r.fixed        ? fixed_sigmoid((int16_t)x)
                                                : sigmoid_at(&r, samples, (int16_t)x);
    }
}

/* ---- exp, log, gelu, 1 / sqrt: straight lines between 513 points ---- */

#define LINES 512

static float real_of(const struct curve *f, float x)
{
    switch (f->op) {
    case OP_Exp:
        return expf(x);
    case OP_Log:
        return logf(x);
    case OP_Reciprocal:
        return x > 0.0f ? 1.0f / sqrtf(x) : f->out * 32767.0f;
    default: /* Gelu; alpha is not 0 where it is that of tanh */
        return f->alpha == 0.0f ? 0.5f * x * (1.0f + erff(x * 0.70710678f))
                                : 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
}

static float kept(float y)
{
    return !(y > -32768.0f) ? -32768.0f : y > 32767.0f ? 32767.0f : y; /* NaN, of a log, is the least */
}

static void points_of(const struct curve *f, int16_t points[LINES + 1])
{
    const float from = f->in * -32768.0f, to = f->in * 32767.0f, step = (to - from) / LINES;
    const float inverse = 65536.0f / (f->out * 32767.0f - f->out * -32768.0f);
    for (int i = 0; i < LINES; i++) {
        const float x = from + (float)i * step, here = roundf(real_of(f, x) * inverse);
        const float middle = roundf(real_of(f, x + step / 2.0f) * inverse),
                    next = real_of(f, from + (float)(i + 1) * step) * inverse;
        const float off = roundf((next + here) / 2.0f) - middle, y = here - roundf(off / 2.0f);
        points[i] = (int16_t)kept(y);
    }
    points[LINES] = (int16_t)kept(roundf(real_of(f, to) * inverse));
}

static void lines(const struct curve *f, int16_t *answers)
{
    int16_t points[LINES + 1];
    points_of(f, points);
    for (int32_t x = -32768; x < 32768; x++) {
        const int32_t at = LINES / 2 + (x >> 7), first = points[at], rise = (int16_t)(points[at + 1] - first);
        answers[(uint16_t)x] = (int16_t)(first + ((rise * (x & 127) + 64) >> 7));
    }
}

/* ---- slopes ---- */

static void slopes(const struct curve *f, int16_t *answers)
{
    const struct fixed_scale above = fixed_scale_of((double)(f->in / f->out)),
                             below = fixed_scale_of((double)(f->in * f->alpha / f->out));
    for (int32_t x = -32768; x < 32768; x++)
        answers[(uint16_t)x] = fixed_clamp(fixed_scaled(x, x >= 0 ? above : below));
}

/* ---- the graph ---- */

static const int16_t *answers_make(struct call *c, const struct curve *f)
{
    int16_t *answers = graph_alloc(c->b->g, ANSWERS * sizeof *answers + 64);
    if (!answers)
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for a table");
    else if (f->op == OP_Exp || f->op == OP_Log || f->op == OP_Gelu || f->op == OP_Reciprocal)
        lines(f, answers);
    else if (f->op == OP_LeakyRelu)
        slopes(f, answers);
    else
        sigmoids(f, answers);
    return answers;
}

/* Operators of the same function and scales share a table. */
static uint32_t table_of(struct call *c, const struct curve *f)
{
    struct reader *r = c->s->r;
    const uint32_t room = sizeof r->tables / sizeof r->tables[0];
    for (uint32_t i = 0; i < r->table_count && i < room; i++) {
        const struct lite_table *t = &r->tables[i];
        if (t->b == c->b && t->op == f->op && !memcmp(t->key, (float[]){f->in, f->out, f->alpha}, sizeof t->key))
            return t->value;
    }
    const int16_t *answers = answers_make(c, f);
    if (!answers)
        return VALUE_NONE;
    struct shape shape = shape_of(1, (int64_t[]){ANSWERS});
    const uint32_t value = build_const(c->b, PEN_DTYPE_I16, &shape, answers, ANSWERS * sizeof *answers, false);
    r->tables[r->table_count++ % room] =
        (struct lite_table){.b = c->b, .op = f->op, .key = {f->in, f->out, f->alpha}, .value = value};
    return value;
}

/* An index below 0 counts from the end, as the upper half of a table by unsigned numbers does. */
static uint32_t looked_up(struct call *c, const struct curve *f, uint32_t x)
{
    const uint32_t table = table_of(c, f), index = build_cast(c->b, x, PEN_DTYPE_I32);
    const uint32_t answer = build_2(c->b, OP_Gather, table, index);
    build_int(c->b, ATTR_axis, 0);
    return answer;
}

uint32_t lite_gate(struct call *c, enum op op, uint32_t x, float step)
{
    const struct curve f = {op, step, 0x1p-15f, 0.0f};
    return looked_up(c, &f, x);
}

bool lite_int16(struct call *c, enum op op, float alpha)
{
    const struct tensor *x = lite_tensor(c, 0), *y = lite_result(c, 0);
    const bool known = op == OP_Sigmoid || op == OP_Tanh || op == OP_Exp || op == OP_Log || op == OP_Gelu ||
                       op == OP_Reciprocal || (op == OP_LeakyRelu && alpha >= 0.0f);
    if (!known || !lite_quantised(c, 0) || !lite_result_quantised(c, 0) || x->dtype != PEN_DTYPE_I16 ||
        y->dtype != PEN_DTYPE_I16 || x->quant.count != 1 || y->quant.count != 1 || x->quant.zero_point[0] != 0 ||
        y->quant.zero_point[0] != 0)
        return false;
    if ((op == OP_Sigmoid || op == OP_Tanh) && y->quant.scale[0] != 0x1p-15f)
        return false;
    const struct curve f = {op, x->quant.scale[0], y->quant.scale[0], alpha};
    lite_give(c, 0, looked_up(c, &f, lite_in(c, 0)));
    return true;
}
