/* Reductions over a set of axes. Source: ONNX Reduce*: formulas beside each row. */
#include "backend/reference/kernels.h"

#include <math.h>
#include <string.h>

struct reduce {
    const struct rt_value *x;
    struct shape kept;            /* output shape with reduced dims as 1 */
    int64_t stride[PEN_MAX_RANK]; /* of the output along each input dim; 0 = reduced */
    int64_t outputs, group;       /* output elements; inputs per output */
};

/* acc = fold(acc, x); for the float family, fed with exp(x - shift) where the operator asks for it. */
static double fold_f64(enum op op, double acc, double x)
{
    switch (op) {
    case OP_ReduceL1:
        return acc + fabs(x);
    case OP_ReduceL2:
    case OP_ReduceSumSquare:
        return acc + x * x;
    case OP_ReduceProd:
        return acc * x;
    case OP_ReduceMax:
        return x > acc || isnan(x) ? x : acc;
    case OP_ReduceMin:
        return x < acc || isnan(x) ? x : acc;
    default: /* ReduceSum, ReduceMean, ReduceLogSum, ReduceLogSumExp */
        return acc + x;
    }
}

static double start_f64(enum op op)
{
    switch (op) {
    case OP_ReduceProd:
        return 1.0;
    case OP_ReduceMax:
        return -(double)INFINITY;
    case OP_ReduceMin:
        return (double)INFINITY;
    default:
        return 0.0;
    }
}

static double finish_f64(enum op op, double acc, double shift, int64_t group)
{
    switch (op) {
    case OP_ReduceL2:
        return sqrt(acc);
    case OP_ReduceMean:
        return acc / (double)group;
    case OP_ReduceLogSum:
        return log(acc);
    case OP_ReduceLogSumExp: /* max + ln(sum of e^(x - max)) */
        return log(acc) + shift;
    default:
        return acc;
    }
}

static int64_t fold_i64(enum op op, int64_t acc, int64_t x, bool is_unsigned)
{
    uint64_t ua = (uint64_t)acc, ux = (uint64_t)x;
    switch (op) {
    case OP_ReduceL1:
        return (int64_t)(x < 0 && !is_unsigned ? ua - ux : ua + ux);
    case OP_ReduceSumSquare:
        return (int64_t)(ua + ux * ux);
    case OP_ReduceProd:
        return (int64_t)(ua * ux);
    case OP_ReduceMax:
        return (is_unsigned ? ux > ua : x > acc) ? x : acc;
    case OP_ReduceMin:
        return (is_unsigned ? ux < ua : x < acc) ? x : acc;
    default:
        return (int64_t)(ua + ux);
    }
}

/* Lowest and highest value of an integer dtype, what an empty Max or Min gives. */
static int64_t extreme_i64(enum pen_dtype dtype, bool highest)
{
    unsigned bits = pen_dtype_bits(dtype);
    if (dtype == PEN_DTYPE_BOOL) {
        return highest ? 1 : 0;
    }
    if (element_class(dtype) == ELEMENT_UNSIGNED) {
        return highest ? (int64_t)(UINT64_MAX >> (64 - bits)) : 0;
    }
    int64_t top = (int64_t)(UINT64_MAX >> (65 - bits));
    return highest ? top : -top - 1;
}

static int64_t start_i64(enum op op, enum pen_dtype dtype)
{
    switch (op) {
    case OP_ReduceProd:
        return 1;
    case OP_ReduceMax:
        return extreme_i64(dtype, false);
    case OP_ReduceMin:
        return extreme_i64(dtype, true);
    default:
        return 0;
    }
}

static bool has_i64(enum op op)
{
    return op == OP_ReduceSum || op == OP_ReduceProd || op == OP_ReduceMax || op == OP_ReduceMin || op == OP_ReduceL1 ||
           op == OP_ReduceSumSquare;
}

/* Calls visit-like loops: for every input row along the last dim, the output position of its first element. */
struct rows {
    const struct reduce *r;
    int64_t index[PEN_MAX_RANK];
    int64_t at, out; /* input element, output element of the row's start */
};

static bool rows_next(struct rows *w, int64_t run)
{
    const struct shape *s = &w->r->x->shape;
    w->at += run;
    for (int32_t d = s->rank - 2; d >= 0; d--) {
        w->out += w->r->stride[d];
        if (++w->index[d] < s->dim[d]) {
            return true;
        }
        w->out -= w->r->stride[d] * s->dim[d];
        w->index[d] = 0;
    }
    return false;
}

/* pass_max: acc = max, before the sum of exponentials; shift: that maximum per output. */
static void pass_f64(const struct reduce *r, enum op op, const double *shift, double *acc)
{
    const struct shape *s = &r->x->shape;
    int64_t run = s->rank == 0 ? 1 : s->dim[s->rank - 1];
    int64_t step = s->rank == 0 ? 0 : r->stride[s->rank - 1];
    double block[ELEMENT_BLOCK];
    struct rows w = {.r = r};
    do {
        for (int64_t i = 0; i < run; i += ELEMENT_BLOCK) {
            int64_t n = run - i < ELEMENT_BLOCK ? run - i : ELEMENT_BLOCK;
            load_f64(r->x->data, r->x->dtype, w.at + i, 1, n, block);
            for (int64_t j = 0; j < n; j++) {
                int64_t o = w.out + (i + j) * step;
                acc[o] = fold_f64(op, acc[o], shift != NULL ? exp(block[j] - shift[o]) : block[j]);
            }
        }
    } while (rows_next(&w, run));
}

static void pass_i64(const struct reduce *r, enum op op, int64_t *acc)
{
    const struct shape *s = &r->x->shape;
    int64_t run = s->rank == 0 ? 1 : s->dim[s->rank - 1];
    int64_t step = s->rank == 0 ? 0 : r->stride[s->rank - 1];
    bool is_unsigned = element_class(r->x->dtype) == ELEMENT_UNSIGNED;
    struct rows w = {.r = r};
    do {
        for (int64_t i = 0; i < run; i++) {
            int64_t *to = &acc[w.out + i * step];
            *to = fold_i64(op, *to, load_one_i64(r->x->data, r->x->dtype, w.at + i), is_unsigned);
        }
    } while (rows_next(&w, run));
}

static enum pen_status run_f64(struct kernel_call *k, const struct reduce *r, struct rt_value *y)
{
    enum op op = k->n->op;
    size_t bytes = (size_t)r->outputs * sizeof(double);
    double *acc = kernel_scratch(k, bytes), *shift = op == OP_ReduceLogSumExp ? kernel_scratch(k, bytes) : NULL;
    if (acc == NULL || (shift == NULL && op == OP_ReduceLogSumExp)) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld sums", (long long)r->outputs);
    }
    bool empty = shape_elements(&r->x->shape) == 0;
    for (int64_t i = 0; i < r->outputs && shift != NULL; i++) {
        shift[i] = empty ? 0.0 : -(double)INFINITY;
    }
    if (shift != NULL && !empty) {
        pass_f64(r, OP_ReduceMax, NULL, shift);
        for (int64_t i = 0; i < r->outputs; i++) { /* all -inf: e^(x - 0) sums to 0, its logarithm is -inf again */
            shift[i] = isinf(shift[i]) ? 0.0 : shift[i];
        }
    }
    for (int64_t i = 0; i < r->outputs; i++) {
        acc[i] = start_f64(op);
    }
    if (!empty) {
        pass_f64(r, op, shift, acc);
    }
    for (int64_t i = 0; i < r->outputs; i++) {
        acc[i] = finish_f64(op, acc[i], shift != NULL ? shift[i] : 0.0, r->group);
    }
    store_f64(y->data, y->dtype, 0, 1, r->outputs, acc);
    return PEN_OK;
}

static enum pen_status run_i64(struct kernel_call *k, const struct reduce *r, struct rt_value *y)
{
    int64_t *acc = kernel_scratch(k, (size_t)r->outputs * sizeof *acc);
    if (acc == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld sums", (long long)r->outputs);
    }
    for (int64_t i = 0; i < r->outputs; i++) {
        acc[i] = start_i64(k->n->op, r->x->dtype);
    }
    if (shape_elements(&r->x->shape) > 0) {
        pass_i64(r, k->n->op, acc);
    }
    store_i64(y->data, y->dtype, 0, 1, r->outputs, acc);
    return PEN_OK;
}

/* Output shape, and where each input dim lands in it. */
static struct shape reduce_shape(struct reduce *r, const bool *is_axis, bool keepdims)
{
    const struct shape *s = &r->x->shape;
    struct shape out = {.rank = 0};
    r->kept = *s;
    r->outputs = r->group = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        r->stride[d] = is_axis[d] ? 0 : r->outputs;
        r->kept.dim[d] = is_axis[d] ? 1 : s->dim[d];
        r->outputs *= r->kept.dim[d];
        r->group *= is_axis[d] ? s->dim[d] : 1;
    }
    for (int32_t d = 0; d < s->rank; d++) {
        if (!is_axis[d] || keepdims) {
            out.dim[out.rank++] = r->kept.dim[d];
        }
    }
    return out;
}

enum pen_status kernel_reduce(struct kernel_call *k)
{
    struct reduce r = {.x = &k->in[0]};
    bool is_axis[PEN_MAX_RANK];
    /* over no axes each element is reduced alone: |x|, x * x, log(x) */
    bool noop = node_int(k->n, ATTR_noop_with_empty_axes, 0) != 0;
    enum pen_status status = kernel_axes(k, 1, r.x->shape.rank, !noop, is_axis);
    if (status != PEN_OK) {
        return status;
    }
    struct shape out = reduce_shape(&r, is_axis, node_int(k->n, ATTR_keepdims, 1) != 0);
    status = kernel_output(k, 0, r.x->dtype, &out);
    if (status != PEN_OK) {
        return status;
    }
    bool floats = element_class(r.x->dtype) == ELEMENT_FLOAT || !has_i64(k->n->op);
    return floats ? run_f64(k, &r, &k->out[0]) : run_i64(k, &r, &k->out[0]);
}
