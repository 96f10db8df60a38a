#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "elementwise_codes.h"

/*
 * Element-wise steps over whole numbers, exact in 64 bits: a number is two words, low and high, and is cut to the output's type when it is stored. Devices
 * need not have 64-bit integers for it. Inputs broadcast as in elementwise.glsl.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint RANK = 1;
layout(constant_id = 1) const uint KINDS = 0; /* four bits each: inputs 0 to 3, then the output */
layout(constant_id = 2) const uint STEPS = 1;
layout(constant_id = 3) const uint S0 = 0;
layout(constant_id = 6) const uint S1 = 0; /* between them the floats of elementwise.glsl */
layout(constant_id = 9) const uint S2 = 0;

#define BUFFER(slot, name, mode)                                                                                       \
    layout(std430, binding = slot) mode buffer name##U8 { uint8_t name##_u8[]; };                                      \
    layout(std430, binding = slot) mode buffer name##I8 { int8_t name##_i8[]; };                                       \
    layout(std430, binding = slot) mode buffer name##U32 { uint name##_u32[]; };                                       \
    layout(std430, binding = slot) mode buffer name##U64 { uvec2 name##_u64[]; };
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

uvec2 extended(int v)
{
    return uvec2(uint(v), uint(v >> 31));
}

#define LOAD(name, kind, at)                                                                                           \
    ((kind) == EW_I64 || (kind) == EW_U64 ? name##_u64[at]                                                             \
     : (kind) == EW_I32                   ? extended(int(name##_u32[at]))                                              \
     : (kind) == EW_U32                   ? uvec2(name##_u32[at], 0u)                                                  \
     : (kind) == EW_I8                    ? extended(int(name##_i8[at]))                                               \
     : (kind) == EW_BOOL                  ? uvec2(uint(name##_u8[at]) != 0u ? 1u : 0u, 0u)                             \
                                          : uvec2(uint(name##_u8[at]), 0u))

uint kind_of(uint k)
{
    return (KINDS >> (4u * k)) & 15u;
}

uvec2 load(uint k, uvec4 at)
{
    switch (k) {
    case 0:
        return LOAD(a, kind_of(0), at.x);
    case 1:
        return LOAD(b, kind_of(1), at.y);
    case 2:
        return LOAD(c, kind_of(2), at.z);
    default:
        return LOAD(d, kind_of(3), at.w);
    }
}

bool less(uvec2 u, uvec2 v, bool unsigned_)
{
    if (u.y != v.y) {
        return unsigned_ ? u.y < v.y : int(u.y) < int(v.y);
    }
    return u.x < v.x;
}

uvec2 plus(uvec2 u, uvec2 v)
{
    uint carry, low = uaddCarry(u.x, v.x, carry);
    return uvec2(low, u.y + v.y + carry);
}

uvec2 minus(uvec2 u, uvec2 v)
{
    uint borrow, low = usubBorrow(u.x, v.x, borrow);
    return uvec2(low, u.y - v.y - borrow);
}

uvec2 times(uvec2 u, uvec2 v)
{
    uint high, low;
    umulExtended(u.x, v.x, high, low);
    return uvec2(low, high + u.x * v.y + u.y * v.x);
}

/* Quotient and remainder of two numbers without a sign, v != 0: one bit after the other where one of them needs the high word. */
void divide(uvec2 u, uvec2 v, out uvec2 quotient, out uvec2 rest)
{
    if (u.y == 0u && v.y == 0u) {
        quotient = uvec2(u.x / v.x, 0u);
        rest = uvec2(u.x - quotient.x * v.x, 0u);
        return;
    }
    quotient = rest = uvec2(0u);
    for (int bit = 63; bit >= 0; bit--) {
        bool over = (rest.y & 0x80000000u) != 0u;
        rest = uvec2(rest.x << 1, rest.y << 1 | rest.x >> 31);
        rest.x |= (bit >= 32 ? u.y >> (bit - 32) : u.x >> bit) & 1u;
        if (over || !less(rest, v, true)) {
            rest = minus(rest, v);
            quotient[bit / 32] |= 1u << (bit & 31);
        }
    }
}

/* Div cuts towards zero; the remainder of Mod has the divisor's sign, that of fmod the dividend's. */
uvec2 divided(uint code, uvec2 u, uvec2 v, bool unsigned_)
{
    bool below = !unsigned_ && int(u.y) < 0, under = !unsigned_ && int(v.y) < 0;
    uvec2 q, r;
    divide(below ? minus(uvec2(0u), u) : u, under ? minus(uvec2(0u), v) : v, q, r);
    if (code == EW_DIV) {
        return below != under ? minus(uvec2(0u), q) : q;
    }
    r = below ? minus(uvec2(0u), r) : r;
    return code == EW_MOD_FLOOR && r != uvec2(0u) && below != under ? plus(r, v) : r;
}

uvec2 truth(bool is)
{
    return uvec2(is ? 1u : 0u, 0u);
}

uvec2 two(uint code, uvec2 u, uvec2 v, bool unsigned_)
{
    switch (code) {
    case EW_ADD:
        return plus(u, v);
    case EW_SUB:
        return minus(u, v);
    case EW_MUL:
        return times(u, v);
    case EW_DIV:
    case EW_MOD_FLOOR:
    case EW_MOD_TRUNC:
        return divided(code, u, v, unsigned_);
    case EW_MAX:
    case EW_CLAMP_MIN:
        return less(u, v, unsigned_) ? v : u;
    case EW_MIN:
    case EW_CLAMP_MAX:
        return less(v, u, unsigned_) ? v : u;
    case EW_EQUAL:
        return truth(u == v);
    case EW_GREATER:
        return truth(less(v, u, unsigned_));
    case EW_GREATER_EQUAL:
        return truth(!less(u, v, unsigned_));
    case EW_LESS:
        return truth(less(u, v, unsigned_));
    case EW_LESS_EQUAL:
        return truth(!less(v, u, unsigned_));
    case EW_AND:
        return u & v;
    case EW_OR:
        return u | v;
    default: /* EW_XOR */
        return u ^ v;
    }
}

/* Element `at` of an input of bytes, wherever the output stands: a table. */
uvec2 table_at(uint k, uint at)
{
    return uvec2(k == 0u   ? uint(a_u8[at])
                 : k == 1u ? uint(b_u8[at])
                 : k == 2u ? uint(c_u8[at])
                           : uint(d_u8[at]),
                 0u);
}

uvec2 step_do(uint s, uvec2 x, uvec4 at)
{
    uint code = s & 255u;
    bool unsigned_ = kind_of(0) == EW_U64;
    switch (code) {
    case EW_NONE:
        return x;
    case EW_ABS:
        return !unsigned_ && int(x.y) < 0 ? minus(uvec2(0u), x) : x;
    case EW_NEG:
        return minus(uvec2(0u), x);
    case EW_NOT:
        return ~x;
    case EW_RELU:
        return !unsigned_ && int(x.y) < 0 ? uvec2(0u) : x;
    case EW_SIGN:
        return x == uvec2(0u) ? x : !unsigned_ && int(x.y) < 0 ? uvec2(0xFFFFFFFFu) : uvec2(1u, 0u);
    case EW_TABLE:
        return table_at((s >> 8) & 15u, x.x & 255u);
    case EW_PAIR:
        return table_at((s >> 12) & 15u, (x.x & 255u) << 8 | (load((s >> 8) & 15u, at).x & 255u));
    case EW_WHERE:
        return x != uvec2(0u) ? load((s >> 8) & 15u, at) : load((s >> 12) & 15u, at);
    default:
        return two(code, x, load((s >> 8) & 15u, at), unsigned_);
    }
}

void store(uint i, uvec2 x)
{
    switch (kind_of(4)) {
    case EW_I64:
    case EW_U64:
        y_u64[i] = x;
        break;
    case EW_I32:
    case EW_U32:
        y_u32[i] = x.x;
        break;
    case EW_BOOL:
        y_u8[i] = uint8_t(x != uvec2(0u) ? 1u : 0u);
        break;
    default: /* EW_I8, EW_U8 */
        y_u8[i] = uint8_t(x.x & 255u);
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
    uvec2 x = load(0, at);
    if (STEPS > 0) {
        x = step_do(S0, x, at);
    }
    if (STEPS > 1) {
        x = step_do(S1, x, at);
    }
    if (STEPS > 2) {
        x = step_do(S2, x, at);
    }
    store(i, x);
}
