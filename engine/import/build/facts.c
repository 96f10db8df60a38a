/* What is known of values while a graph is written: types, ranks, and the numbers of what follows from constants and known shapes. */
#include "graph/infer.h"
#include "graph/infer_util.h"
#include "import/build/build.h"

/* The fact of a value, catching up with the nodes written since the last question; NULL when it cannot be known. */
static const struct fact *fact_of(struct build *b, uint32_t value)
{
    if (value == VALUE_NONE || b->blind || b->status != PEN_OK)
        return NULL;
    if (!b->env)
        b->blind = shape_env_new(b->g, NULL, NULL, false, &b->env, NULL) != PEN_OK;
    else if (b->env->nodes < b->g->node_count || b->env->values < b->g->value_count)
        b->blind = shape_env_extend(b->env, NULL) != PEN_OK;
    return b->blind ? NULL : &b->env->facts[value];
}

enum pen_dtype build_dtype(struct build *b, uint32_t value)
{
    enum pen_dtype dtype = value == VALUE_NONE ? PEN_DTYPE_NONE : b->g->values[value].dtype;
    const struct fact *f = dtype == PEN_DTYPE_NONE ? fact_of(b, value) : NULL;
    return f ? f->dtype : dtype;
}

static const struct shape *shape_of_value(struct build *b, uint32_t value)
{
    static const struct shape unknown = {.rank = SHAPE_RANK_UNKNOWN};
    if (value == VALUE_NONE)
        return &unknown;
    const struct value *v = &b->g->values[value];
    const struct fact *f = v->producer != NODE_NONE ? fact_of(b, value) : NULL;
    return f ? &f->shape : &v->shape;
}

int32_t build_rank(struct build *b, uint32_t value)
{
    return shape_of_value(b, value)->rank;
}

int64_t build_dim(struct build *b, uint32_t value, int64_t axis)
{
    const struct shape *s = shape_of_value(b, value);
    axis += axis < 0 ? s->rank : 0;
    return s->rank > 0 && axis >= 0 && axis < s->rank ? s->dim[axis] : SHAPE_DIM_UNKNOWN;
}

/* The numbers of a constant, or of what follows from constants; NULL when they are not known. */
static const void *data_of(struct build *b, uint32_t value, enum pen_dtype *ret_dtype, int64_t *ret_count)
{
    const struct value *v = build_value(b, value);
    if (v && v->data) {
        *ret_dtype = v->dtype;
        *ret_count = shape_elements(&v->shape);
        return v->data;
    }
    const struct fact *f = v && v->producer != NODE_NONE ? fact_of(b, value) : NULL;
    if (!f || !f->data || f->kind != VALUE_TENSOR)
        return NULL;
    *ret_dtype = f->dtype;
    *ret_count = shape_elements(&f->shape);
    return f->data;
}

bool build_ints_of(struct build *b, uint32_t value, int64_t *items, uint32_t room, uint32_t *ret_count)
{
    enum pen_dtype dtype;
    int64_t count;
    const void *data = data_of(b, value, &dtype, &count);
    if (!data || count < 0 || count > (int64_t)room)
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!infer_integer_at(dtype, data, (size_t)i, &items[i]))
            return false;
    }
    *ret_count = (uint32_t)count;
    return true;
}

bool build_f32_of(struct build *b, uint32_t value, float *ret_first)
{
    enum pen_dtype dtype;
    int64_t count;
    const float *data = data_of(b, value, &dtype, &count);
    if (!data || dtype != PEN_DTYPE_F32 || count < 1)
        return false;
    *ret_first = *data;
    return true;
}
