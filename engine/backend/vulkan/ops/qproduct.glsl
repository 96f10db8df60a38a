/*
 * qproduct.glsl - what the kernels of one product of bytes share: y[m][o] from sum_k (x[m][k] - x_zero) (w[k][o] - w_zero[o]), where row m of x is the window of
 * output pixel m or a row of a matrix. Bytes are signed here (u8 less 128, on both sides), four of one output a word: w is packed [group][tap][four channels]
 * [o padded to 4], channels that are not there 0. Sums are exact in 32 bits: what the zero points add is
 *     - x_zero wsum[o] - wzero[o] sum_k x,   wsum[o] = sum_k w - K wzero[o].
 * The bias may be as large as 32 bits go: it is added to 33.
 * DOT: four products and their sum are one instruction (SPV_KHR_integer_dot_product).
 */
#include "exact.glsl"
#include "quantise.glsl"

layout(constant_id = 0) const uint X_FLIP = 0;        /* 0x80808080 where x is u8 */
layout(constant_id = 1) const bool ZERO_LATER = false; /* it is computed: one byte in a buffer */
layout(constant_id = 2) const bool W_ZEROS = false;   /* some wzero is not 0 */
layout(constant_id = 3) const bool ALIGNED = false;   /* channels of a group and of a pixel are multiples of 4 */
layout(constant_id = 4) const bool POINT = false;     /* 1 x 1, stride 1, no padding: row m of x is a row */
layout(constant_id = 5) const uint TILE = 4;          /* rows of an invocation */
layout(constant_id = 6) const uint OUT = 0;           /* 0: bytes, rounded from f32 products; 1: the sums, i32; 2: bytes, rounded as from double */
layout(constant_id = 7) const bool SIGNED = false;    /* y is i8 */
layout(constant_id = 8) const bool WORDS = false;    /* outputs of a group and of a pixel are multiples of 4 */

layout(std430, binding = 0) writeonly buffer Y { uint8_t y[]; };
layout(std430, binding = 0) writeonly buffer YW { uint y_words[]; };
layout(std430, binding = 1) readonly buffer X { uint x[]; };
layout(std430, binding = 2) readonly buffer W { uvec4 w[]; };
layout(std430, binding = 3) readonly buffer Params { uvec4 params[]; }; /* [fours of outputs]: bias, wsum, scale, wzero; OUT 2: the low, the high word of a factor, its exponent */
layout(std430, binding = 4) readonly buffer Zero { uint8_t zero[]; };

layout(push_constant) uniform Push
{
    uint m;                 /* rows: batch x output height x output width */
    uint in_h, in_w, in_c;  /* in_c: of all groups */
    uint out_h, out_w, out_c;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left;
    uint group_in, group_out, group_in4, group_out4; /* 4: in fours */
    uint groups;
    uint last;   /* word of x */
    uint bottom; /* OUT 2: y_scale as a whole number */
    int x_zero, y_zero; /* x_zero: of signed x */
    uint splits; /* pieces of k, each summed by itself; else 1 */
} p;

#ifdef DOT
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int four_products(uint a, uint b, spirv_literal uint packed_four_bytes);
#define DOT4(a, b) four_products(a, b, 0u)
#else
int byte_of(uint v, int i)
{
    return bitfieldExtract(int(v), 8 * i, 8);
}

int four_products(uint a, uint b)
{
    return byte_of(a, 0) * byte_of(b, 0) + byte_of(a, 1) * byte_of(b, 1) + byte_of(a, 2) * byte_of(b, 2) + byte_of(a, 3) * byte_of(b, 3);
}
#define DOT4(a, b) four_products(a, b)
#endif

#include "pixel.glsl"

int x_zero()
{
    return ZERO_LATER ? bitfieldExtract(int(uint(zero[0]) ^ (X_FLIP & 255u)), 0, 8) : p.x_zero;
}

/* Four bytes of x from element `at` on. */
uint x_word(uint at)
{
    uint i = at / 4u, s = 8u * (at & 3u), low = x[i];
    if (ALIGNED || s == 0u) {
        return low ^ X_FLIP;
    }
    return (low >> s | x[min(i + 1u, p.last)] << (32u - s)) ^ X_FLIP;
}

/* Word k of row m's window: padding is the zero point. */
uint taken(Pixel pixel, uint m, uint g, uint k, uint zeros)
{
    if (POINT) {
        return x_word(m * p.in_c + g * p.group_in + 4u * k);
    }
    uint tap = k / p.group_in4, c4 = k - tap * p.group_in4;
    int iy = pixel.y + int(tap / p.kernel_w * p.dilation_h), ix = pixel.x + int(tap % p.kernel_w * p.dilation_w);
    if (iy < 0 || ix < 0 || iy >= int(p.in_h) || ix >= int(p.in_w)) {
        return zeros;
    }
    return x_word(((pixel.image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.in_c + g * p.group_in + 4u * c4);
}

/* Ones where word k has channels: its product with x is a sum of x. */
uint ones_of(uint k)
{
    uint left = p.group_in - 4u * (k % p.group_in4);
    return left >= 4u ? 0x01010101u : 0x01010101u & ((1u << (8u * left)) - 1u);
}

ivec4 products(uint word, uvec4 four)
{
    return ivec4(DOT4(word, four.x), DOT4(word, four.y), DOT4(word, four.z), DOT4(word, four.w));
}

int rounded_exactly(uint size, bool below, uint at, uint j)
{
    float near = float(size) * uintBitsToFloat(params[at + 2u][j]);
    uvec3 top = big_product(size, uvec2(params[at + 4u][j], params[at + 5u][j]));
    float v = ratio_rounded(near, top, int(params[at + 6u][j]), uvec3(p.bottom, 0u, 0u));
    return clamp(int(below ? -v : v) + p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
}

uint params_at(uint g, uint o4)
{
    return (g * p.group_out4 + o4) * (OUT == 2u ? 7u : 4u);
}

/* Sums of products less what the zero points of the weights add. all: the sum of the same x. */
ivec4 sum_of(uint g, uint o4, ivec4 sum, int all)
{
    return W_ZEROS ? sum - all * ivec4(params[params_at(g, o4) + 3u]) : sum;
}

/* Where piece i of the depth has its sums of a row: [piece][row][group][fours of outputs]. */
uint piece_at(uint i, uint m, uint g, uint o4)
{
    return ((i * p.m + m) * p.groups + g) * p.group_out4 + o4;
}

/* sum: of products as they are; all: of x. */
void row_store(uint m, uint g, uint o4, ivec4 sum, int all, int xz)
{
    uint at = params_at(g, o4), o = 4u * o4, to = m * p.out_c + g * p.group_out + o, word = 0u;
    sum = sum_of(g, o4, sum, all) - xz * ivec4(params[at + 1u]);
    for (uint j = 0; j < 4u && o + j < p.group_out; j++) {
        if (OUT == 1u) {
            y_words[to + j] = uint(sum[j]);
            continue;
        }
        bool below;
        uint size = sum_size(sum[j], int(params[at][j]), below);
        int q = OUT == 2u ? rounded_exactly(size, below, at, j)
                          : requantised(size, below, uintBitsToFloat(params[at + 2u][j]), p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
        if (WORDS) {
            word |= (uint(q) & 255u) << (8u * j);
        } else {
            y[to + j] = uint8_t(uint(q) & 255u);
        }
    }
    if (WORDS && OUT != 1u) {
        y_words[to / 4u] = word;
    }
}
