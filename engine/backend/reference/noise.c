#include "backend/reference/noise.h"

#include <math.h>

#include "backend/reference/element_io.h"

#define EPS 0x1p-24 /* half a unit in the last place of f32, to the value's size */

_Thread_local struct noise *kernel_noise;

/* Even in [-1, 1). */
static double draw(struct noise *n)
{
    n->state = n->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(n->state >> 11) * 0x1p-52 - 1.0;
}

/* Operators without a trait that compute: sums over the last dim or a window. */
static bool sums(enum op op)
{
    static const enum op list[] = {
        OP_AveragePool,
        OP_LpPool,
        OP_BatchNormalization,
        OP_InstanceNormalization,
        OP_GroupNormalization,
        OP_LayerNormalization,
        OP_RMSNormalization,
        OP_LpNormalization,
        OP_LRN,
        OP_Softmax,
        OP_LogSoftmax,
        OP_CumSum,
        OP_CumProd,
        OP_Resize,
        OP_GridSample,
        OP_RotaryEmbedding,
        OP_DFT,
        OP_STFT,
        OP_Det,
        OP_RoiAlign,
        OP_MeanVarianceNormalization,
        OP_SVMRegressor,
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (list[i] == op) {
            return true;
        }
    }
    return false;
}

static double elements(const struct rt_value *v)
{
    int64_t count = v->kind == VALUE_TENSOR && v->dtype != PEN_DTYPE_NONE ? shape_elements(&v->shape) : 0;
    return count > 0 ? (double)count : 1.0;
}

static double last_dim(const struct rt_value *v)
{
    return v->shape.rank > 0 && v->shape.dim[v->shape.rank - 1] > 0 ? (double)v->shape.dim[v->shape.rank - 1] : 1.0;
}

/* About how many terms stand behind one number of the output. */
static double terms(const struct kernel_call *k)
{
    uint32_t traits = op_def(k->n->op)->traits;
    if ((traits & OP_REDUCE) != 0 && k->n->in_count > 0) {
        return elements(&k->in[0]) / elements(&k->out[0]);
    }
    if ((traits & OP_MACS) != 0 && k->n->in_count > 1 && k->in[1].shape.rank > 2 && k->in[1].shape.dim[0] > 0) {
        return elements(&k->in[1]) / (double)k->in[1].shape.dim[0]; /* a filter: all but its output channels */
    }
    return (traits & (OP_UNARY | OP_BINARY)) != 0 || k->n->in_count == 0 ? 1.0 : last_dim(&k->in[0]);
}

static double mean_size(const struct rt_value *v)
{
    double sum = 0.0;
    int64_t count = (int64_t)elements(v);
    for (int64_t i = 0; i < count && v->dtype == PEN_DTYPE_F32; i++) {
        double x = fabs((double)((const float *)v->data)[i]);
        sum += isfinite(x) ? x : 0.0;
    }
    return sum / (double)count;
}

/* Kernels are about 1, so the coefficients are what is added, and rho. */
static double coefficients_size(const struct node *n)
{
    const struct attr *lists[2] = {node_attr(n, ATTR_coefficients), node_attr(n, ATTR_rho)};
    double sum = 0.0;
    for (int l = 0; l < 2; l++) {
        for (uint32_t i = 0; lists[l] != NULL && i < lists[l]->count; i++) {
            sum += fabs((double)lists[l]->floats[i]);
        }
    }
    return sum;
}

/* The size of what was added up: a sum may be far smaller than its terms. */
static double size_of_terms(const struct kernel_call *k, double count)
{
    switch (k->n->op) {
    case OP_ReduceMean:
    case OP_GlobalAveragePool:
        return mean_size(&k->in[0]);
    case OP_ReduceSum:
        return mean_size(&k->in[0]) * count;
    case OP_SVMRegressor:
        return coefficients_size(k->n);
    default:
        return (op_def(k->n->op)->traits & OP_MACS) != 0 ? mean_size(&k->out[0]) : 0.0;
    }
}

void noise_add(const struct kernel_call *k)
{
    uint32_t computes = OP_UNARY | OP_BINARY | OP_REDUCE | OP_MACS;
    bool whole = (op_def(k->n->op)->traits & computes) == 0 && !sums(k->n->op);
    const struct rt_value *out = &k->out[0];
    if (whole || k->n->out_count == 0 || (k->wanted != NULL && !k->wanted[0]) || out->kind != VALUE_TENSOR ||
        out->dtype != PEN_DTYPE_F32 || out->data == NULL) {
        return;
    }
    double count = terms(k), size = size_of_terms(k, count), share = EPS * sqrt(count);
    float *y = out->data;
    for (int64_t i = 0; i < shape_elements(&out->shape); i++) {
        double v = (double)y[i];
        bool exact = v == rint(v) && fabs(v) < 0x1p24; /* zeros, counts, indices: nothing was rounded */
        if (isfinite(v) && !exact) {
            double far = share * fmax(fabs(v), size) + kernel_noise->rounding * fabs(v);
            y[i] = (float)(v + far * draw(kernel_noise));
        }
    }
}
