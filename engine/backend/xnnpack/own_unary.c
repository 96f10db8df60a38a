#include "backend/xnnpack/own_vec.h"

#include "backend/xnnpack/own_math.h"

/* One loop per function: each is simple enough for the vectoriser. */
#define LOOP(expression)                                                                                               \
    SIMD for (size_t i = 0; i < n; i++)                                                                                \
    {                                                                                                                  \
        float v = x[i];                                                                                                \
        y[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break

static void smooth(enum unary_fn fn, const float *x, float *y, size_t n, float a)
{
    switch (fn) {
    case UNARY_EXP:
        LOOP(exp_f(v));
    case UNARY_LOG:
        LOOP(log_f(v));
    case UNARY_SIGMOID:
        LOOP(sigmoid_f(v));
    case UNARY_TANH:
        LOOP(tanh_f(v));
    case UNARY_ERF:
        LOOP(erf_f(v));
    case UNARY_GELU:
        LOOP(0.5f * v * (1.0f + erf_f(v * 0.707106781f)));
    case UNARY_GELU_TANH:
        LOOP(0.5f * v * (1.0f + tanh_f(0.797884561f * (v + 0.044715f * v * v * v))));
    case UNARY_SOFTPLUS:
        LOOP(softplus_f(v));
    case UNARY_SWISH:
        LOOP(v / (1.0f + exp_f(-a * v)));
    case UNARY_MISH:
        LOOP(v * tanh_f(softplus_f(v)));
    case UNARY_ELU:
        LOOP(v < 0.0f ? a * expm1_f(v) : v);
    case UNARY_CELU:
        LOOP(v < 0.0f ? a * expm1_f(v / a) : v);
    default:
        break;
    }
}

/* Rare ones: the C library, one element at a time. */
static void library(enum unary_fn fn, const float *x, float *y, size_t n)
{
    switch (fn) {
    case UNARY_SIN:
        LOOP(sinf(v));
    case UNARY_COS:
        LOOP(cosf(v));
    case UNARY_TAN:
        LOOP(tanf(v));
    case UNARY_ASIN:
        LOOP(asinf(v));
    case UNARY_ACOS:
        LOOP(acosf(v));
    case UNARY_ATAN:
        LOOP(atanf(v));
    case UNARY_SINH:
        LOOP(sinhf(v));
    case UNARY_COSH:
        LOOP(coshf(v));
    case UNARY_ASINH:
        LOOP(asinhf(v));
    case UNARY_ACOSH:
        LOOP(acoshf(v));
    case UNARY_ATANH:
        LOOP(atanhf(v));
    default:
        break;
    }
}

static void piecewise(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b)
{
    switch (fn) {
    case UNARY_CLAMP:
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = x[i];
            v = v < a ? a : v;
            y[i] = v > b ? b : v;
        }
        break;
    case UNARY_LEAKY:
        LOOP(v < 0.0f ? a * v : v);
    case UNARY_SELU:
        LOOP(b * (v > 0.0f ? v : a * expm1_f(v)));
    case UNARY_SOFTSIGN:
        LOOP(v / (1.0f + (v < 0.0f ? -v : v)));
    case UNARY_HARDSIGMOID:
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = a * x[i] + b;
            v = v < 0.0f ? 0.0f : v;
            y[i] = v > 1.0f ? 1.0f : v;
        }
        break;
    case UNARY_HARDSWISH:
        SIMD for (size_t i = 0; i < n; i++)
        {
            float v = x[i] * 0.166666667f + 0.5f;
            v = v < 0.0f ? 0.0f : v;
            y[i] = x[i] * (v > 1.0f ? 1.0f : v);
        }
        break;
    case UNARY_SHRINK:
        LOOP(v < -b ? v + a : v > b ? v - a : 0.0f);
    case UNARY_THRESHOLD:
        LOOP(v > a ? v : 0.0f);
    default:
        break;
    }
}

void OWN(own_unary)(enum unary_fn fn, const float *x, float *y, size_t n, float a, float b)
{
    switch (fn) {
    case UNARY_ABS:
        LOOP(fabsf(v));
    case UNARY_NEG:
        LOOP(-v);
    case UNARY_CEIL:
        LOOP(ceilf(v));
    case UNARY_FLOOR:
        LOOP(floorf(v));
    case UNARY_ROUND:
        LOOP(rintf(v)); /* to even: the rounding mode is never changed */
    case UNARY_SQRT:
        LOOP(sqrtf(v));
    case UNARY_RECIPROCAL:
        LOOP(1.0f / v);
    case UNARY_SIGN:
        LOOP(v > 0.0f ? 1.0f : v < 0.0f ? -1.0f : v);
    case UNARY_RELU:
        LOOP(v < 0.0f ? 0.0f : v);
    case UNARY_CLAMP:
    case UNARY_LEAKY:
    case UNARY_SELU:
    case UNARY_SOFTSIGN:
    case UNARY_HARDSIGMOID:
    case UNARY_HARDSWISH:
    case UNARY_SHRINK:
    case UNARY_THRESHOLD:
        piecewise(fn, x, y, n, a, b);
        break;
    default:
        if (fn >= UNARY_SIN) {
            library(fn, x, y, n);
        } else {
            smooth(fn, x, y, n, a);
        }
        break;
    }
}
