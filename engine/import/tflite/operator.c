#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/inventory.h"
#include "import/tflite/reader.h"

/* ---- tensors as values --------------------------------------------------------------------------------------------------- */

static bool narrow_integer(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_I16;
}

static uint32_t constant_make(struct scope *s, const struct tensor *t)
{
    uint32_t id;
    if (t->dtype == PEN_DTYPE_STRING) {
        if (graph_value(s->b->g, NULL, &id) != PEN_OK) {
            build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
            return VALUE_NONE;
        }
        struct value *v = &s->b->g->values[id];
        v->dtype = t->dtype;
        v->shape = t->shape;
        v->data = t->data;
        v->bytes = t->bytes;
        return id;
    }
    id = build_const(s->b, t->dtype, &t->shape, t->data, t->bytes, false);
    if (id != VALUE_NONE)
        s->b->g->values[id].quant = t->quant;
    return id;
}

/* State starts fresh in every run: a variable tensor reads as zeros (real zeros: its zero point). */
static uint32_t variable_make(struct scope *s, const struct tensor *t)
{
    size_t bytes = 0;
    void *zeros = NULL;
    if (shape_bytes(&t->shape, t->dtype, s->b->g->limits.tensor_bytes, &bytes) == PEN_OK)
        zeros = graph_alloc(s->b->g, bytes + 64);
    if (!zeros) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a variable");
        return VALUE_NONE;
    }
    if (t->quant.count == 1 && (t->dtype == PEN_DTYPE_I8 || t->dtype == PEN_DTYPE_U8))
        memset(zeros, t->quant.zero_point[0], bytes);
    return build_const(s->b, t->dtype, &t->shape, zeros, bytes, false);
}

uint32_t lite_value(struct scope *s, int64_t index)
{
    if (s->b->status != PEN_OK || index < 0 || index >= (int64_t)s->tensor_count)
        return VALUE_NONE;
    struct tensor *t = &s->tensors[index];
    if (t->value != VALUE_NONE)
        return t->value;
    if (t->dtype == PEN_DTYPE_NONE)
        build_stop(s->b, PEN_ERR_UNSUPPORTED, "a tensor has an element type that this build does not know");
    else if (t->constant)
        t->value = constant_make(s, t);
    else if (t->variable)
        t->value = variable_make(s, t);
    else if (shape_elements(&t->shape) == 0 && t->shape.rank > 0)
        t->value = build_const(s->b, t->dtype, &t->shape, NULL, 0, false);
    else
        build_stop(s->b, PEN_ERR_CORRUPT, "it reads '%.*s', which nothing before it gives",
                   (int)(t->name.bytes < 100 ? t->name.bytes : 100), t->name.at);
    return t->value;
}

uint32_t lite_in(struct call *c, uint32_t index)
{
    return index < c->in.count ? lite_value(c->s, fb_list_int(&c->in, index)) : VALUE_NONE;
}

static const struct tensor *tensor_of(const struct call *c, const struct fb_list *l, uint32_t index)
{
    int64_t at = index < l->count ? fb_list_int(l, index) : -1;
    return at >= 0 && at < (int64_t)c->s->tensor_count ? &c->s->tensors[at] : NULL;
}

const struct tensor *lite_tensor(struct call *c, uint32_t index)
{
    return tensor_of(c, &c->in, index);
}

const struct tensor *lite_result(struct call *c, uint32_t index)
{
    return tensor_of(c, &c->out, index);
}

static bool quantised(const struct tensor *t)
{
    return t && t->quant.count > 0 && t->quant.scale[0] > 0.0f && narrow_integer(t->dtype);
}

bool lite_quantised(struct call *c, uint32_t index)
{
    return quantised(lite_tensor(c, index));
}

bool lite_result_quantised(struct call *c, uint32_t index)
{
    return quantised(lite_result(c, index));
}

static int64_t integer_at(const struct tensor *t, size_t i)
{
    switch (t->dtype) {
    case PEN_DTYPE_I8:
        return ((const int8_t *)t->data)[i];
    case PEN_DTYPE_U8:
        return ((const uint8_t *)t->data)[i];
    case PEN_DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    case PEN_DTYPE_I64:
        return ((const int64_t *)t->data)[i];
    default:
        return ((const int16_t *)t->data)[i];
    }
}

/* real = scale * (q - zero), the scale by the index along quant.axis */
static void dequantise(const struct tensor *t, float *to, size_t count)
{
    size_t inner = 1;
    for (int32_t d = t->quant.axis + 1; t->quant.count > 1 && d < t->shape.rank; d++)
        inner *= (size_t)t->shape.dim[d];
    for (size_t i = 0; i < count; i++) {
        size_t which = t->quant.count > 1 ? i / inner % t->quant.count : 0;
        to[i] = t->quant.scale[which] * (float)(integer_at(t, i) - t->quant.zero_point[which]);
    }
}

uint32_t lite_constant(struct scope *s, const struct tensor *t)
{
    bool half = t->dtype == PEN_DTYPE_F16;
    size_t count, bytes;
    if (!t->constant || !t->data ||
        !(half || (t->quant.count > 0 && (narrow_integer(t->dtype) || t->dtype == PEN_DTYPE_I32))))
        return VALUE_NONE;
    count = (size_t)shape_elements(&t->shape);
    if (shape_bytes(&t->shape, PEN_DTYPE_F32, s->b->g->limits.tensor_bytes, &bytes) != PEN_OK) {
        build_stop(s->b, PEN_ERR_TOO_LARGE, "a constant exceeds the budget as float");
        return VALUE_NONE;
    }
    float *to = graph_alloc_data(s->b->g, bytes + 64);
    if (!to) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant of %zu floats", count);
        return VALUE_NONE;
    }
    if (half) {
        for (size_t i = 0; i < count; i++)
            to[i] = pen_f16_to_f32(((const uint16_t *)t->data)[i]);
    } else {
        dequantise(t, to, count);
    }
    const uint32_t value = build_const(s->b, PEN_DTYPE_F32, &t->shape, to, bytes, false);
    if (value != VALUE_NONE && !half)
        s->b->g->values[value].quant = t->quant; /* a backend may multiply the codes */
    return value;
}

void lite_affine(struct call *c, const struct tensor *t, uint32_t *ret_scale, uint32_t *ret_zero)
{
    uint32_t n = t->quant.count;
    size_t width = pen_dtype_bits(t->dtype) / 8;
    int64_t dim = n;
    struct shape shape = n > 1 ? shape_of(1, &dim) : shape_scalar();
    uint8_t *zeros = graph_alloc(c->b->g, n * width + 8);
    *ret_scale = *ret_zero = VALUE_NONE;
    if (!zeros || n == 0) {
        build_stop(c->b, n ? PEN_ERR_NO_MEMORY : PEN_ERR_CORRUPT, "a quantised tensor without scales");
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        memcpy(zeros + i * width, &t->quant.zero_point[i], width < 4 ? width : 4); /* little-endian: the low bytes */
    *ret_scale = build_const(c->b, PEN_DTYPE_F32, &shape, t->quant.scale, n * sizeof(float), false);
    *ret_zero = build_const(c->b, t->dtype, &shape, zeros, n * width, false);
}

/* Integers whose scale is that of the data times that of the weights, whatever the file says besides. */
uint32_t lite_bias(struct call *c, uint32_t index, uint32_t data, uint32_t weights)
{
    const struct tensor *t = lite_tensor(c, index), *x = lite_tensor(c, data), *w = lite_tensor(c, weights);
    if (!t || !t->constant || (t->dtype != PEN_DTYPE_I32 && t->dtype != PEN_DTYPE_I64) || !quantised(x) ||
        !quantised(w))
        return lite_real(c, index);
    int64_t count = shape_elements(&t->shape);
    float *to = graph_alloc(c->b->g, (size_t)count * sizeof *to + 64);
    if (!to) {
        build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory for biases");
        return VALUE_NONE;
    }
    for (int64_t i = 0; i < count; i++) {
        float scale = w->quant.scale[w->quant.count > 1 ? (uint64_t)i % w->quant.count : 0];
        to[i] = x->quant.scale[0] * scale * (float)integer_at(t, (size_t)i);
    }
    return build_const(c->b, PEN_DTYPE_F32, &t->shape, to, (size_t)count * sizeof *to, false);
}

static uint32_t dequantised(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    uint32_t scale, zero;
    lite_affine(c, t, &scale, &zero);
    uint32_t y = build_3(c->b, OP_DequantizeLinear, lite_in(c, index), scale, zero);
    if (t->quant.count > 1)
        build_int(c->b, ATTR_axis, t->quant.axis);
    return y;
}

uint32_t lite_real(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    if (!t || (!quantised(t) && t->dtype != PEN_DTYPE_F16))
        return lite_in(c, index);
    uint32_t x = t->constant ? lite_constant(c->s, t) : VALUE_NONE;
    if (x != VALUE_NONE || c->b->status != PEN_OK)
        return x;
    return t->dtype == PEN_DTYPE_F16 ? build_cast(c->b, lite_in(c, index), PEN_DTYPE_F32) : dequantised(c, index);
}

uint32_t lite_real_weights(struct call *c, uint32_t index, uint32_t data)
{
    const struct tensor *t = lite_tensor(c, index), *x = lite_tensor(c, data);
    const bool bytes =
        t && x && quantised(t) && quantised(x) && t->constant && t->dtype == PEN_DTYPE_I8 && x->dtype == PEN_DTYPE_I8;
    return bytes ? dequantised(c, index) : lite_real(c, index);
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

void lite_give(struct call *c, uint32_t index, uint32_t value)
{
    int64_t at = index < c->out.count ? fb_list_int(&c->out, index) : -1;
    if (c->b->status != PEN_OK || value == VALUE_NONE || at < 0 || at >= (int64_t)c->s->tensor_count)
        return;
    struct tensor *t = &c->s->tensors[at];
    if (t->value != VALUE_NONE || t->constant) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its result is given twice");
        return;
    }
    struct value *v = &c->b->g->values[value];
    if (v->name[0] == '~' && v->producer != NODE_NONE && !v->data)
        value = build_bind(c->b, value, t->name.at, t->name.bytes);
    t->value = value;
    if (value != VALUE_NONE && quantised(t) && c->b->g->values[value].producer != NODE_NONE)
        c->b->g->values[value].quant = t->quant;
}

void lite_give_real(struct call *c, uint32_t index, uint32_t value)
{
    const struct tensor *t = lite_result(c, index);
    if (quantised(t)) {
        uint32_t scale, zero;
        lite_affine(c, t, &scale, &zero);
        value = build_3(c->b, OP_QuantizeLinear, value, scale, zero);
        if (t->quant.count > 1)
            build_int(c->b, ATTR_axis, t->quant.axis);
    }
    lite_give(c, index, value);
}

/* ---- options ------------------------------------------------------------------------------------------------------------------ */

int64_t lite_option(const struct call *c, unsigned field, int64_t def)
{
    return fb_int(&c->options, field, 4, def);
}

enum tf_activation lite_activation(struct call *c, unsigned field)
{
    static const enum tf_activation kinds[] = {TF_ACT_NONE, TF_ACT_RELU, TF_ACT_RELU_N1, TF_ACT_RELU6, TF_ACT_TANH};
    int64_t kind = fb_int(&c->options, field, 1, 0);
    if (kind >= 0 && kind < (int64_t)(sizeof kinds / sizeof kinds[0]))
        return kinds[kind];
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "fused activation %lld is not known", (long long)kind);
    return TF_ACT_NONE;
}

enum tf_padding lite_padding(struct call *c, unsigned field)
{
    return fb_int(&c->options, field, 1, 0) == 0 ? TF_SAME : TF_VALID;
}

/* q of a real bound, rounded and saturated, as the interpreter prepares it. */
static double bound(const struct tensor *t, double real, double low, double high)
{
    double q = (double)t->quant.zero_point[0] + round(real / (double)t->quant.scale[0]);
    return q < low ? low : q > high ? high : q;
}

uint32_t lite_clamp(struct call *c, uint32_t y, enum tf_activation act)
{
    const struct tensor *t = lite_result(c, 0);
    if (!quantised(t) || act == TF_ACT_NONE || c->b->status != PEN_OK)
        return y;
    if (act == TF_ACT_TANH) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "a fused tanh on a quantised result");
        return VALUE_NONE;
    }
    bool wide = t->dtype == PEN_DTYPE_I16;
    double low = t->dtype == PEN_DTYPE_U8 ? 0
                 : wide                   ? -32768
                                          : -128,
           high = t->dtype == PEN_DTYPE_U8 ? 255
                  : wide                   ? 32767
                                           : 127;
    double from = bound(t, act == TF_ACT_RELU_N1 ? -1.0 : 0.0, low, high);
    double to = act == TF_ACT_RELU ? high : bound(t, act == TF_ACT_RELU6 ? 6.0 : 1.0, low, high);
    if (from <= low && to >= high)
        return y; /* saturation does it already */
    return build_3(c->b, OP_Clip, y, build_scalar(c->b, t->dtype, from), build_scalar(c->b, t->dtype, to));
}

/* ---- calls -------------------------------------------------------------------------------------------------------------- */

/* What a missing operator leaves behind, so that those after it can be read and all missing ones be listed. */
static void leave_unknown(struct call *c)
{
    for (uint32_t i = 0; i < c->out.count && c->b->status == PEN_OK; i++) {
        const struct tensor *t = lite_result(c, i);
        uint32_t id;
        if (graph_value(c->b->g, NULL, &id) != PEN_OK) {
            build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory, or too many values");
            return;
        }
        struct tensor *to = &c->s->tensors[t - c->s->tensors];
        if (to->value == VALUE_NONE)
            to->value = id;
    }
}

/* The least that every operator has, so that lowerings need not ask. */
static bool ends_there(struct call *c)
{
    const struct tflite_row *row = tflite_row_find(c->code);
    bool bare = row && row->op == ROW_BARE;
    bool source = c->in.count == 0 && (c->code == 118 || c->code == 119 || c->code == 31);
    if (bare)
        return true;
    if (c->out.count == 0 && c->code != 119 && c->code != 31) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it gives nothing");
        return false;
    }
    if (!source && c->code != 119 && c->code != 31 && !lite_tensor(c, 0) && c->code != 7) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks its first input");
        return false;
    }
    return true;
}

/* A shape that is not known here may be what a lowering found wrong: then the file is not broken, only not understood. */
static void blame(struct call *c)
{
    bool known = true;
    for (uint32_t i = 0; i < c->in.count; i++) {
        const struct tensor *t = lite_tensor(c, i);
        known &= !t || shape_known(&t->shape);
    }
    if (c->b->status != PEN_ERR_CORRUPT || known || c->s->r->f->broken)
        return;
    c->b->status = PEN_ERR_UNSUPPORTED;
    if (c->b->reterr)
        c->b->reterr->status = PEN_ERR_UNSUPPORTED;
}

void lite_lower(struct call *c)
{
    const struct tflite_row *row = tflite_row_find(c->code);
    lower_fn plain = row ? row->lower : c->code == 32 ? tflite_custom_find(&c->custom) : NULL;
    lower_fn lower = plain ? lite_complex(c, plain) : NULL;
    char text[160];
    int bytes = c->custom.bytes < 100 ? (int)c->custom.bytes : 100;
    if (c->code == 32)
        snprintf(text, sizeof text, "custom %.*s", bytes, c->custom.at);
    else if (row)
        snprintf(text, sizeof text, "%s%s", row->name, plain && !lower ? " of complex numbers" : "");
    else
        snprintf(text, sizeof text, "builtin %d", c->code);
    inventory_note(c->b->g->limits.inventory, text);
    if (!lower) {
        build_miss(c->b, text);
        leave_unknown(c);
        return;
    }
    if (!ends_there(c))
        return;
    lite_learn(c);
    lower(c);
    blame(c);
    for (uint32_t i = 0; i < c->out.count && c->b->status == PEN_OK; i++) {
        const struct tensor *t = lite_result(c, i);
        bool body = (c->code == 118 || c->code == 119) && c->b->missing->count > 0; /* what it lacks is told already */
        if (t->value == VALUE_NONE &&
            !body) /* an output of a form that we do not compute, which something may still read */
            build_miss(c->b, c->b->origin);
        if (t->value == VALUE_NONE)
            leave_unknown(c);
    }
}

/* ---- data that is moved about ---- */

static bool same_quant(const struct tensor *a, const struct tensor *b)
{
    return a && b && a->dtype == b->dtype && a->quant.count == b->quant.count &&
           (a->quant.count == 0 ||
            (memcmp(a->quant.scale, b->quant.scale, a->quant.count * sizeof(float)) == 0 &&
             memcmp(a->quant.zero_point, b->quant.zero_point, a->quant.count * sizeof(int32_t)) == 0));
}

bool lite_moves(struct call *c, uint32_t index)
{
    bool in = lite_quantised(c, index), out = lite_result_quantised(c, 0);
    return (!in && !out) || same_quant(lite_tensor(c, index), lite_result(c, 0));
}

uint32_t lite_moved(struct call *c, uint32_t index)
{
    return lite_moves(c, index) ? lite_in(c, index) : lite_real(c, index);
}

void lite_give_moved(struct call *c, uint32_t index, uint32_t y)
{
    if (lite_moves(c, index))
        lite_give(c, 0, y);
    else
        lite_give_real(c, 0, y);
}

bool lite_axis(struct call *c, uint32_t index, int64_t *ret)
{
    uint32_t count = 0;
    if (build_ints_of(c->b, lite_in(c, index), ret, 1, &count) && count == 1)
        return true;
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "its axis must be one constant");
    return false;
}

uint32_t lite_i64(struct call *c, uint32_t index)
{
    int64_t items[64];
    uint32_t count = 0, x = lite_in(c, index);
    const struct value *v = build_value(c->b, x);
    if (build_ints_of(c->b, x, items, 64, &count) && v->shape.rank == 1)
        return build_i64(c->b, items, count);
    return build_cast(c->b, x, PEN_DTYPE_I64);
}
