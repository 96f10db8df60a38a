/* Rows of floats rounded to 8 bits and back, as TFLite's hybrid products take their data. */
#include "backend/row_rounding.h"

#include "backend/reference/lanes.h"

enum pen_status kernel_row_rounding(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    bool symmetric = node_int(k->n, ATTR_symmetric, 0) != 0;
    int64_t row = 1, all = shape_elements(&x->shape);
    int32_t axis = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, -1), x->shape.rank, &axis);
    if (status == PEN_OK) {
        status = kernel_output(k, 0, x->dtype, &x->shape);
    }
    for (int32_t d = axis; status == PEN_OK && d < x->shape.rank; d++) {
        row *= x->shape.dim[d];
    }
    for (int64_t at = 0; status == PEN_OK && at < all; at += row) {
        float min = 0.0f, max = 0.0f;
        for (int64_t i = at; i < at + row; i++) {
            float v = (float)load_one_f64(x->data, x->dtype, i);
            min = v < min ? v : min;
            max = v > max ? v : max;
        }
        struct row_steps s = row_steps_of(min, max, symmetric);
        for (int64_t i = at; i < at + row; i++) {
            float v = (float)load_one_f64(x->data, x->dtype, i);
            store_one_f64(k->out[0].data, x->dtype, i, (double)row_step(&s, v));
        }
    }
    return status;
}
