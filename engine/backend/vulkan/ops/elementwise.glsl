/*
 * elementwise.glsl - see below; CHAIN: with six steps instead of one, FOURS: four neighbours an invocation. Shaders of their own, because drivers parse every step
 * before they drop what is not used.
 */
#include "common.glsl"
#include "elementwise_codes.h"
#include "math.glsl"

/*
 * A chain of up to six element-wise steps over up to four inputs that broadcast to the output: y = f5(...f0(x0, x_k)...). What each step does is a
 * specialization constant, so the switches below vanish when the pipeline is made.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint KINDS = 0; /* four bits each: inputs 0 to 3, then the output */
layout(constant_id = 2) const uint STEPS = 1;
layout(constant_id = 3) const uint S0 = 0;
layout(constant_id = 4) const float A0 = 0.0;
layout(constant_id = 5) const float B0 = 0.0;
layout(constant_id = 6) const uint S1 = 0;
layout(constant_id = 7) const float A1 = 0.0;
layout(constant_id = 8) const float B1 = 0.0;
layout(constant_id = 9) const uint S2 = 0;
layout(constant_id = 10) const float A2 = 0.0;
layout(constant_id = 11) const float B2 = 0.0;
layout(constant_id = 12) const uint S3 = 0;
layout(constant_id = 13) const float A3 = 0.0;
layout(constant_id = 14) const float B3 = 0.0;
layout(constant_id = 15) const uint S4 = 0;
layout(constant_id = 16) const float A4 = 0.0;
layout(constant_id = 17) const float B4 = 0.0;
layout(constant_id = 18) const uint S5 = 0;
layout(constant_id = 19) const float A5 = 0.0;
layout(constant_id = 20) const float B5 = 0.0;

/* The same memory under every type that KINDS may name. */
#define BUFFER(slot, name, mode)                                                                                       \
    layout(std430, binding = slot) mode buffer name##Real { REAL name##_real[]; };                                     \
    layout(std430, binding = slot) mode buffer name##F32 { float name##_f32[]; };                                      \
    layout(std430, binding = slot) mode buffer name##U8 { uint8_t name##_u8[]; };                                      \
    layout(std430, binding = slot) mode buffer name##I8 { int8_t name##_i8[]; };                                       \
    layout(std430, binding = slot) mode buffer name##I32 { int name##_i32[]; };                                        \
    layout(std430, binding = slot) mode buffer name##I64 { uvec2 name##_i64[]; };
BUFFER(0, y, writeonly)
BUFFER(1, a, readonly)
BUFFER(2, b, readonly)
BUFFER(3, c, readonly)
BUFFER(4, d, readonly)

layout(push_constant) uniform Push
{
    uint n;
    uint dim[6];
    uint stride[24]; /* [input][6] */
} p;

#ifdef FOURS
/* Floats only, inputs of the output's shape or of one element. */
layout(std430, binding = 0) writeonly buffer YFours { REAL4 y4[]; };
layout(std430, binding = 1) readonly buffer AFours { REAL4 a4[]; };
layout(std430, binding = 2) readonly buffer BFours { REAL4 b4[]; };
layout(std430, binding = 3) readonly buffer CFours { REAL4 c4[]; };
layout(std430, binding = 4) readonly buffer DFours { REAL4 d4[]; };

vec4 fours[4]; /* of the inputs */
uint turn;     /* which of the four */

float load(uint k, uvec4 at)
{
    return fours[k][turn];
}
#else
float from_i64(uvec2 v)
{
    bool narrow = int(v.y) == int(v.x) >> 31; /* the high word is only the sign: no cancellation */
    return narrow ? float(int(v.x)) : float(int(v.y)) * 4294967296.0 + float(v.x);
}

#define LOAD(name, kind, at)                                                                                           \
    ((kind) == EW_REAL  ? float(name##_real[at])                                                                       \
     : (kind) == EW_F32 ? name##_f32[at]                                                                               \
     : (kind) == EW_I8  ? float(int(name##_i8[at]))                                                                    \
     : (kind) == EW_I32 ? float(name##_i32[at])                                                                        \
     : (kind) == EW_I64 ? from_i64(name##_i64[at])                                                                     \
                        : float(uint(name##_u8[at])))

float load(uint k, uvec4 at)
{
    uint kind = (KINDS >> (4u * k)) & 15u;
    switch (k) {
    case 0:
        return LOAD(a, kind, at.x);
    case 1:
        return LOAD(b, kind, at.y);
    case 2:
        return LOAD(c, kind, at.z);
    default:
        return LOAD(d, kind, at.w);
    }
}

#endif

/* Of two; a NaN wins as in NumPy. */
float pick(float x, float v, bool larger)
{
    bool keep = larger ? x > v : x < v;
    return is_nan(x) ? x : is_nan(v) ? v : keep ? x : v;
}

float two(uint code, float x, float v)
{
#ifdef MATH_F16
    if (((KINDS >> 16) & 15u) == EW_REAL && code <= EW_MUL) { /* integers come through here too, on their way to others */
        float16_t a = float16_t(x), b = float16_t(v);
        return float(code == EW_ADD ? a + b : code == EW_SUB ? a - b : a * b);
    }
#endif
    switch (code) {
    case EW_ADD:
        return x + v;
    case EW_SUB:
        return x - v;
    case EW_MUL:
        return x * v;
    case EW_DIV:
        return x / v;
    case EW_MAX:
        return pick(x, v, true);
    case EW_MIN:
        return pick(x, v, false);
#ifndef NO_FUNCTIONS
    case EW_POW:
        return pow_f(x, v);
#endif
    case EW_PRELU:
        return x < 0.0 ? x * v : x;
    case EW_MOD_FLOOR:
        return x - v * floor(x / v);
    case EW_MOD_TRUNC:
        return x - v * trunc(x / v);
    case EW_EQUAL:
        return x == v ? 1.0 : 0.0;
    case EW_GREATER:
        return x > v ? 1.0 : 0.0;
    case EW_GREATER_EQUAL:
        return x >= v ? 1.0 : 0.0;
    case EW_LESS:
        return x < v ? 1.0 : 0.0;
    case EW_LESS_EQUAL:
        return x <= v ? 1.0 : 0.0;
    case EW_AND:
        return x != 0.0 && v != 0.0 ? 1.0 : 0.0;
    case EW_OR:
        return x != 0.0 || v != 0.0 ? 1.0 : 0.0;
    case EW_CLAMP_MIN:
        return x < v ? v : x;
    case EW_CLAMP_MAX:
        return x > v ? v : x;
    default: /* EW_XOR */
        return (x != 0.0) != (v != 0.0) ? 1.0 : 0.0;
    }
}

float one(uint code, float x, float a, float b)
{
    switch (code) {
    case EW_ABS:
        return abs(x);
    case EW_CEIL:
        return ceil(x);
    case EW_CLIP:
        return x < a ? min(a, b) : x > b ? b : x;
    case EW_FLOOR:
        return floor(x);
    case EW_HARD_SIGMOID:
        return clamp(a * x + b, 0.0, 1.0);
    case EW_HARD_SWISH:
        return x * clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case EW_LEAKY:
        return x < 0.0 ? a * x : x;
    case EW_NEG:
        return -x;
    case EW_RECIPROCAL:
        return 1.0 / x;
    case EW_RELU:
        return x < 0.0 ? 0.0 : x;
    case EW_ROUND:
        return roundEven(x);
    case EW_SHRINK:
        return x < -a ? x + b : x > a ? x - b : 0.0;
    case EW_SIGN:
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
    case EW_SOFTSIGN:
        return x / (1.0 + abs(x));
    case EW_SQRT:
        return x < 0.0 ? NOT_A_NUMBER : sqrt(x);
    case EW_THRESHOLDED:
        return x > a ? x : 0.0;
    case EW_NOT:
        return x == 0.0 ? 1.0 : 0.0;
    case EW_SCALE:
        return x * a + b;
    case EW_IS_NAN:
        return is_nan(x) ? 1.0 : 0.0;
    case EW_IS_INF: /* a: negative ones count, b: positive ones */
        return (x == INFINITY && b != 0.0) || (x == -INFINITY && a != 0.0) ? 1.0 : 0.0;
#ifndef NO_FUNCTIONS /* a build whose operators need none leaves them out */
    case EW_ACOS:
        return acos_f(x);
    case EW_ACOSH:
        return acosh_f(x);
    case EW_ASIN:
        return asin_f(x);
    case EW_ASINH:
        return asinh_f(x);
    case EW_ATAN:
        return atan_f(x);
    case EW_ATANH:
        return atanh_f(x);
    case EW_CELU:
        return x > 0.0 ? x : a * expm1_f(x / a);
    case EW_COS:
        return cos_f(x);
    case EW_COSH:
        return cosh_f(x);
    case EW_ELU:
        return x < 0.0 ? a * expm1_f(x) : x;
    case EW_ERF:
        return erf_f(x);
    case EW_EXP:
        return exp_f(x);
    case EW_GELU:
        return 0.5 * x * (1.0 + erf_f(x * 0.707106781));
    case EW_GELU_TANH:
        return 0.5 * x * (1.0 + tanh_f(0.797884561 * (x + 0.044715 * x * x * x)));
    case EW_LOG:
        return log_f(x);
    case EW_MISH:
        return x * tanh_f(softplus_f(x));
    case EW_SELU:
        return b * (x > 0.0 ? x : a * expm1_f(x));
    case EW_SIGMOID:
        return sigmoid_f(x);
    case EW_SIN:
        return sin_f(x);
    case EW_SINH:
        return sinh_f(x);
    case EW_SOFTPLUS:
        return softplus_f(x);
    case EW_SWISH:
        return x / (1.0 + exp_f(-a * x));
    case EW_TAN:
        return sin_f(x) / cos_f(x);
    case EW_TANH:
        return tanh_f(x);
#endif
    default:
        return x;
    }
}

float step_do(uint s, float x, float a, float b, uvec4 at)
{
    uint code = s & 255u;
    if (code == EW_WHERE) {
        return x != 0.0 ? load((s >> 8) & 15u, at) : load((s >> 12) & 15u, at);
    }
    if ((code >= EW_ADD && code <= EW_XOR) || code == EW_CLAMP_MIN || code == EW_CLAMP_MAX) {
        float v = load((s >> 8) & 15u, at);
        return (s & EW_SWAP) != 0u ? two(code, v, x) : two(code, x, v);
    }
    return one(code, x, a, b);
}

/* Every step of one element. */
float steps_do(float x, uvec4 at)
{
    if (STEPS > 0) {
        x = step_do(S0, x, A0, B0, at);
    }
#ifdef CHAIN
    if (STEPS > 1) {
        x = step_do(S1, x, A1, B1, at);
    }
    if (STEPS > 2) {
        x = step_do(S2, x, A2, B2, at);
    }
    if (STEPS > 3) {
        x = step_do(S3, x, A3, B3, at);
    }
    if (STEPS > 4) {
        x = step_do(S4, x, A4, B4, at);
    }
    if (STEPS > 5) {
        x = step_do(S5, x, A5, B5, at);
    }
#endif
    return x;
}

#ifdef FOURS
void main()
{
    uint i = linear_id();
    if (i >= p.n / 4u) {
        return;
    }
    fours[0] = p.stride[0] != 0u ? vec4(a4[i]) : vec4(a_real[0]);
    fours[1] = p.stride[6] != 0u ? vec4(b4[i]) : vec4(b_real[0]);
    fours[2] = p.stride[12] != 0u ? vec4(c4[i]) : vec4(c_real[0]);
    fours[3] = p.stride[18] != 0u ? vec4(d4[i]) : vec4(d_real[0]);
    vec4 y;
    for (turn = 0u; turn < 4u; turn++) {
        y[turn] = steps_do(fours[0][turn], uvec4(0u));
    }
    y4[i] = TO_REAL4(y);
}
#else
uvec2 to_i64(float x)
{
    float t = trunc(x), a = abs(t);
    uint high = uint(a * 2.32830644e-10), low = uint(a - float(high) * 4294967296.0);
    uvec2 v = uvec2(low, high);
    if (t < 0.0) {
        v = ~v;
        v.x += 1u;
        v.y += v.x == 0u ? 1u : 0u;
    }
    return v;
}

void store(uint i, float x)
{
    switch ((KINDS >> 16) & 15u) {
    case EW_REAL:
        y_real[i] = TO_REAL(x);
        break;
    case EW_F32:
        y_f32[i] = x;
        break;
    case EW_U8:
        y_u8[i] = uint8_t(uint(int(x)));
        break;
    case EW_I8:
        y_i8[i] = int8_t(int(x));
        break;
    case EW_I32:
        y_i32[i] = int(x);
        break;
    case EW_I64:
        y_i64[i] = to_i64(x);
        break;
    default:
        y_u8[i] = uint8_t(x != 0.0 ? 1u : 0u);
        break;
    }
}

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uvec4 at = uvec4(0);
    uint rest = i;
    [[unroll]] for (int k = int(RANK) - 1; k >= 0; k--) {
        uint q = k > 0 ? rest / p.dim[k] : 0u, c = k > 0 ? rest - q * p.dim[k] : rest;
        rest = q;
        at += c * uvec4(p.stride[k], p.stride[6 + k], p.stride[12 + k], p.stride[18 + k]);
    }
    store(i, steps_do(load(0, at), at));
}
#endif
