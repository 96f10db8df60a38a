/*
 * nbits_cm.glsl - the weights of conv_cm.glsl as codes of few bits: w[k][o] = (code - zero) scale. Codes of an output lie along k in words, the first in the low bits,
 * and so they lie in shared memory, [output][k]: a piece is eight codes of one output and, as eights are parts of blocks, one scale. Pieces wait in registers as they
 * are and become floats when they are kept: nothing waits for memory before the matrices of a step are multiplied.
 */
layout(constant_id = 23) const uint BITS = 4;
layout(constant_id = 24) const uint BLOCK = 32; /* codes: a multiple of 16 */
layout(constant_id = 25) const bool ZEROS = false; /* zero points are given; else the middle of the codes */
layout(std430, binding = 2) readonly buffer Codes { uint codes[]; };
layout(std430, binding = 5) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 6) readonly buffer Zero { REAL zero[]; };

/* Words with the codes, the first in the lowest bits; then scale and zero point. Beyond the edges all is 0. */
uvec4 weights_fetch(uint piece, uint k0, uint o40, uint depth)
{
    uint k = k0 + piece % (DEPTH / 8u) * 8u, o = 4u * o40 + piece / (DEPTH / 8u);
    uint blocks = (depth + BLOCK - 1u) / BLOCK, words = BLOCK * BITS / 32u, at = o * blocks + k / BLOCK;
    if (k >= depth || o >= p.group_out) {
        return uvec4(0u);
    }
    uint first = k * BITS / 32u, from = o * blocks * words + first;
    float16_t z = ZEROS ? zero[at] : float16_t(1u << (BITS - 1u));
    return uvec4(codes[from] >> (k * BITS - first * 32u), BITS == 8u ? codes[from + 1u] : 0u,
                 packFloat2x16(f16vec2(scale[at], z)), 0u);
}

/* w: where the weights of the stage begin. */
void weights_keep(uint w, uint piece, uvec4 value)
{
    f16vec2 scale_zero = unpackFloat2x16(value.z);
    float16_t v[8];
    [[unroll]] for (uint j = 0; j < 8u; j++) {
        uint word = BITS == 8u && j >= 4u ? value.y : value.x, place = BITS == 8u ? j % 4u : j;
        v[j] = (float16_t(bitfieldExtract(word, int(BITS * place), int(BITS))) - scale_zero.y) * scale_zero.x;
    }
    room[w + piece / (DEPTH / 8u) * PITCH_W + piece % (DEPTH / 8u)] = eight_of(v);
}
