#include "backend/xnnpack/qlinear.h"

static bool is_scalar(const struct value *v, enum pen_dtype dtype)
{
    return dtype_is(v, dtype) && shape_known(&v->shape) && shape_elements(&v->shape) == 1;
}

static bool zero_fits(const struct value *v, enum pen_dtype dtype)
{
    return v == NULL || is_scalar(v, dtype);
}

bool qends_fit(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    bool ok = (dtype_is(x, PEN_DTYPE_U8) || dtype_is(x, PEN_DTYPE_I8)) && y->dtype == x->dtype && n->out_count == 1 &&
              is_scalar(node_in(g, n, 1), PEN_DTYPE_F32) && is_scalar(node_in(g, n, 3), PEN_DTYPE_F32) &&
              zero_fits(node_in(g, n, 2), x->dtype) && zero_fits(node_in(g, n, 4), x->dtype);
    return ok || refuse(ret_reason, "not bytes of one type with one scale each");
}

struct qends qends_of(enum pen_dtype dtype, const void *const in[5])
{
    double low = dtype == PEN_DTYPE_I8 ? -128.0 : 0.0;
    return (struct qends){.dtype = dtype,
                          .x_scale = (double)*(const float *)in[1],
                          .y_scale = (double)*(const float *)in[3],
                          .low = low,
                          .high = low + 255.0,
                          .x_zero = qdense_zero(in[2], dtype),
                          .y_zero = qdense_zero(in[4], dtype)};
}
