/* LSTM of 8-bit data, weights and hidden state with a cell of 16 bits, as LSTMInteger (backend/lstm_fixed.h has the meaning of its inputs and scales). */
#include <math.h>
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

enum { GATE_I, GATE_F, GATE_C, GATE_O };
enum {
    SCALE_X,
    SCALE_H,
    SCALE_CELL,
    SCALE_BETWEEN,
    SCALE_J,
    SCALE_OF_GATES,
    SCALES_GATE = 5,
    SCALE_COUNT = SCALE_OF_GATES + 20
};

#define BETWEEN_COUNT 5 /* tensors of which only the scales count: the sums of four gates, what a projection takes */

struct integers {
    struct call *c;
    const struct lstm_in *at;
    uint32_t first; /* gate: 1 when the input gate is coupled */
    int64_t units, out, in;
    bool normal;
    const struct tensor *between;
};

/* A constant of this type and size; one scale where it has any, zero in the middle. */
static bool weight_fits(struct integers *s, uint32_t index, enum pen_dtype dtype, int64_t rows, int64_t columns)
{
    const struct tensor *t = lite_tensor(s->c, index);
    const bool matrix = columns > 0;
    return t && t->constant && t->data && t->dtype == dtype && t->shape.rank == (matrix ? 2 : 1) &&
           t->shape.dim[0] == rows && (!matrix || t->shape.dim[1] == columns) &&
           (dtype == PEN_DTYPE_I32 || (t->quant.count == 1 && t->quant.scale[0] > 0.0f && t->quant.zero_point[0] == 0));
}

/* The gates' constants behind each other: [gates, units] or [gates, units, columns]. `skip`: a gate that has none, or 4. */
static uint32_t joined(struct integers *s, uint32_t from, enum pen_dtype dtype, int64_t columns, uint32_t skip)
{
    struct build *b = s->c->b;
    const size_t part = (size_t)(s->units * (columns > 0 ? columns : 1)) * pen_dtype_bits(dtype) / 8;
    uint8_t *to = graph_alloc(b->g, 4 * part + 64);
    size_t bytes = 0;
    for (uint32_t g = s->first, place = g; to && g < 4; g++) {
        if (g == skip)
            continue;
        place = from + (skip == GATE_C && g == GATE_O ? 2 : g);
        memcpy(to + bytes, lite_tensor(s->c, place)->data, part);
        bytes += part;
    }
    if (!to) {
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for weights");
        return VALUE_NONE;
    }
    struct shape shape = shape_of(columns > 0 ? 3 : 2, (int64_t[]){(int64_t)(bytes / part), s->units, columns});
    return build_const(b, dtype, &shape, to, bytes, false);
}

/* Whether every gate has this constant (true), or none has (false in *ret_there). */
static bool gates_fit(struct integers *s, uint32_t from, enum pen_dtype dtype, int64_t columns, uint32_t skip,
                      bool *ret_there)
{
    uint32_t there = 0, all = 0;
    for (uint32_t g = s->first; g < 4; g++) {
        const uint32_t place = from + (skip == GATE_C && g == GATE_O ? 2 : g);
        if (g == skip)
            continue;
        all++;
        if (lite_tensor(s->c, place) && !weight_fits(s, place, dtype, s->units, columns))
            return false;
        there += lite_tensor(s->c, place) ? 1 : 0;
    }
    *ret_there = there == all;
    return there == 0 || there == all;
}

static float scale_at(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    return t && t->quant.count == 1 ? t->quant.scale[0] : 1.0f;
}

static const struct tensor *between_at(struct call *c, uint32_t index)
{
    const int64_t at = c->between.count == BETWEEN_COUNT ? fb_list_int(&c->between, index) : -1;
    const struct tensor *t = at >= 0 && at < (int64_t)c->s->tensor_count ? &c->s->tensors[at] : NULL;
    return t && t->quant.count == 1 && t->quant.scale[0] > 0.0f ? t : NULL;
}

static uint32_t scales(struct integers *s)
{
    struct call *c = s->c;
    const struct lstm_in *at = s->at;
    float of[SCALE_COUNT] = {scale_at(c, 0), scale_at(c, at->state), scale_at(c, at->cell), s->between->quant.scale[0],
                             scale_at(c, at->projection)};
    for (uint32_t g = 0; g < 4; g++) {
        float *gate = of + SCALE_OF_GATES + g * SCALES_GATE;
        const uint32_t hole = at->peephole + (g == GATE_O ? 2 : g);
        gate[0] = scale_at(c, at->weights + g);
        gate[1] = scale_at(c, at->recurrent + g);
        gate[2] = g == GATE_C ? 1.0f : scale_at(c, hole);
        gate[3] = s->normal ? scale_at(c, at->norm + g) : 1.0f;
        gate[4] = s->normal && g >= s->first ? between_at(c, g)->quant.scale[0] : 0x1p-12f;
    }
    float *kept = graph_alloc(c->b->g, sizeof of + 64);
    if (!kept) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for scales");
        return VALUE_NONE;
    }
    memcpy(kept, of, sizeof of);
    struct shape shape = shape_of(1, (int64_t[]){SCALE_COUNT});
    return build_const(c->b, PEN_DTYPE_F32, &shape, kept, sizeof of, false);
}

static uint32_t zeros(struct integers *s)
{
    struct build *b = s->c->b;
    int32_t *kept = graph_alloc(b->g, 3 * sizeof *kept + 64);
    if (!kept) {
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for zero points");
        return VALUE_NONE;
    }
    kept[0] = lite_tensor(s->c, 0)->quant.zero_point[0];
    kept[1] = lite_tensor(s->c, s->at->state)->quant.zero_point[0];
    kept[2] = s->between->quant.zero_point[0];
    struct shape shape = shape_of(1, (int64_t[]){3});
    return build_const(b, PEN_DTYPE_I32, &shape, kept, 3 * sizeof *kept, false);
}

/* What the cell of integers needs beside weights. Gives what is wrong, NULL when nothing is. */
static const char *states_wrong(struct integers *s)
{
    struct call *c = s->c;
    const struct tensor *x = lite_tensor(c, 0), *h = lite_tensor(c, s->at->state), *cell = lite_tensor(c, s->at->cell);
    if (!h || !cell || !h->variable || !cell->variable || h->quant.count != 1 || cell->quant.count != 1)
        return "LSTM of integers with states that are no variables, or without scales";
    if (x->dtype != PEN_DTYPE_I8 || x->quant.count != 1 || h->dtype != PEN_DTYPE_I8)
        return "LSTM of integers whose data or state has not 8 bits and a sign";
    if (cell->dtype != PEN_DTYPE_I16)
        return "LSTM of integers whose cell has 8 bits";
    int power = 0;
    if (frexpf(cell->quant.scale[0], &power) != 0.5f || power < -22 || power > -2)
        return "LSTM of integers whose cell has a scale that is no power of two from 2^-23 to 2^-3";
    s->between = between_at(c, 4);
    for (uint32_t g = s->first; g < 4 && s->normal; g++)
        s->between = between_at(c, g) ? s->between : NULL;
    if (!s->between || lite_activation(c, 0) != TF_ACT_TANH)
        return "LSTM of integers without the scales between its steps, or with another activation than tanh";
    return NULL;
}

static bool integers_init(struct integers *s)
{
    struct call *c = s->c;
    const struct tensor *w = lite_tensor(c, s->at->weights + GATE_F), *r = lite_tensor(c, s->at->recurrent + GATE_F);
    s->first = lite_tensor(c, s->at->weights + GATE_I) ? GATE_I : GATE_F;
    s->normal = s->at->norm && lite_tensor(c, s->at->norm + GATE_F);
    if (!w || !r || w->shape.rank != 2 || r->shape.rank != 2) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks weights");
        return false;
    }
    s->units = w->shape.dim[0];
    s->in = w->shape.dim[1];
    s->out = r->shape.dim[1];
    const char *wrong = states_wrong(s);
    if (wrong)
        build_miss(c->b, wrong);
    return !wrong;
}

static bool inputs_make(struct integers *s, uint32_t in[10])
{
    const struct lstm_in *at = s->at;
    bool w, r, b, p, n = false;
    const bool projects = lite_tensor(s->c, at->projection), biased = lite_tensor(s->c, at->projection + 1);
    if (!gates_fit(s, at->weights, PEN_DTYPE_I8, s->in, 4, &w) ||
        !gates_fit(s, at->recurrent, PEN_DTYPE_I8, s->out, 4, &r) || !w || !r ||
        !gates_fit(s, at->bias, PEN_DTYPE_I32, 0, 4, &b) || !gates_fit(s, at->peephole, PEN_DTYPE_I16, 0, GATE_C, &p) ||
        (s->normal && !gates_fit(s, at->norm, PEN_DTYPE_I16, 0, 4, &n)) ||
        (projects ? !weight_fits(s, at->projection, PEN_DTYPE_I8, s->out, s->units) : s->out != s->units) ||
        (projects && biased && !weight_fits(s, at->projection + 1, PEN_DTYPE_I32, s->out, 0))) {
        build_stop(s->c->b, PEN_ERR_CORRUPT, "its weights do not fit each other");
        return false;
    }
    in[1] = joined(s, at->weights, PEN_DTYPE_I8, s->in, 4);
    in[2] = joined(s, at->recurrent, PEN_DTYPE_I8, s->out, 4);
    in[5] = b ? joined(s, at->bias, PEN_DTYPE_I32, 0, 4) : VALUE_NONE;
    in[6] = p ? joined(s, at->peephole, PEN_DTYPE_I16, 0, GATE_C) : VALUE_NONE;
    in[7] = n ? joined(s, at->norm, PEN_DTYPE_I16, 0, 4) : VALUE_NONE;
    in[8] = projects ? lite_in(s->c, at->projection) : VALUE_NONE;
    in[9] = projects && biased ? lite_in(s->c, at->projection + 1) : VALUE_NONE;
    in[3] = scales(s);
    in[4] = zeros(s);
    return s->c->b->status == PEN_OK;
}

uint32_t lite_lstm_integer(struct call *c, const struct lstm_in *at, bool time_major)
{
    struct integers s = {.c = c, .at = at};
    struct build *b = c->b;
    uint32_t in[10] = {lite_in(c, 0)};
    const bool single = lite_tensor(c, 0)->shape.rank == 2; /* one step */
    if (!integers_init(&s) || !inputs_make(&s, in))
        return VALUE_NONE;
    if (single)
        in[0] = build_unsqueeze(b, in[0], 0);
    uint32_t y = build_op(b, OP_LSTMInteger, in, 10);
    const float cell_clip = fb_float(&c->options, 1, 0.0f), clip = fb_float(&c->options, 2, 0.0f);
    build_int(b, ATTR_layout, time_major || single ? 0 : 1);
    if (cell_clip > 0.0f)
        build_float(b, ATTR_cell_clip, cell_clip);
    if (clip > 0.0f)
        build_float(b, ATTR_clip, clip);
    return single ? build_squeeze(b, y, 0) : y;
}
