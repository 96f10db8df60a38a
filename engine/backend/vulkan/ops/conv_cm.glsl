/*
 * conv_cm.glsl - family `cm`: a workgroup makes ROWS x OUTS of one group (z); DEPTH steps of k at a time pass through shared memory as f16 or bf16, in pieces of eight. What
 * the next step needs is fetched into registers before this one's matrices are multiplied. Subgroups stand in DOWN rows; each has ROWS / DOWN x WIDTH of the
 * tile as cooperative matrices of the device's size, with f32 sums. The sums leave through the same shared memory, each subgroup's through its own part, where bias
 * and activation are added and what lies beyond the edges is dropped.
 *
 * SWIZZLE: workgroups run in bands of so many rows of tiles, so that neighbours in time share weights and rows in the cache. PIECES: z is also a piece of k, whose
 * sums leave as they are (split_sum.comp). BATCH: z is one of a batch of matrices, both sides computed: w is [k][output] without padding.
 *
 * BF16: operands are bf16 (cm_bf16.glsl), not f16 (cm_f16.glsl).
 *
 * CODES: weights are codes of few bits (nbits_cm.glsl), which lie in shared memory as [output][k]; the matrices are then read by columns.
 *
 * SCALAR: plain loops in place of the matrices. So the tiles, edges and windows can be tested on a device without them.
 */
layout(constant_id = 8) const uint SUBGROUP = 32;
layout(local_size_x_id = 9) in; /* DOWN SUBGROUP OUTS / WIDTH */
layout(constant_id = 9) const uint INVOCATIONS = 128;
layout(constant_id = 10) const uint CM = 16; /* rows, outputs and depth of a matrix: divide 32; the last two are whole eights */
layout(constant_id = 11) const uint CN = 16;
layout(constant_id = 12) const uint CK = 16;
layout(constant_id = 13) const uint ROWS = 64; /* a multiple of 32 DOWN */
layout(constant_id = 14) const uint OUTS = 64;
layout(constant_id = 16) const uint WIDTH = 32; /* outputs of a subgroup: a multiple of 32 */
layout(constant_id = 15) const uint STAGES = 1; /* 2: the next step's pieces are stored while other subgroups still read this one's */

layout(constant_id = 17) const bool PLAIN = false; /* see plain_begin */
layout(constant_id = 18) const uint DEPTH = 32; /* 16, 32 or 64: a multiple of CK */
layout(constant_id = 19) const uint DOWN = 2;
layout(constant_id = 20) const uint SWIZZLE = 0;
layout(constant_id = 21) const bool PIECES = false;
layout(constant_id = 22) const bool BATCH = false;

/* Shared memory in eights of operands or fours of f32: rows [row][k], weights [k][output] or [output][k], sums [subgroup][row][output]; one more per row, so that banks take turns. */
const uint ACROSS = OUTS / WIDTH;
const uint HIGH = ROWS / DOWN; /* rows of a subgroup */
const uint LEAVES = CN > 16u ? CN : 16u; /* outputs of a subgroup that leave at a time */
const uint PITCH_A = DEPTH / 8u + 1u;
#ifdef CODES
const bool CODED = true;
const uint PITCH_W = DEPTH / 8u + 1u;
const uint ROWS_W = OUTS;
#else
const bool CODED = false;
const uint PITCH_W = OUTS / 8u + 1u;
const uint ROWS_W = DEPTH;
#endif
const uint PITCH_C = LEAVES / 4u + 1u;
const uint STAGE = ROWS * PITCH_A + ROWS_W * PITCH_W;
const uint SUMS = DOWN * ACROSS * CM * PITCH_C;
const uint ROOM = STAGES * STAGE > SUMS ? STAGES * STAGE : SUMS;
shared uvec4 room[ROOM];

layout(std430, binding = 0) writeonly buffer Sums { vec4 sums[]; };
#ifndef CODES
layout(std430, binding = 2) readonly buffer W1 { REAL w1[]; };
#endif
#ifdef BF16
#include "cm_bf16.glsl"
#else
#include "cm_f16.glsl"
#endif

/* Of this workgroup: where its group or its matrices begin, in elements of x and y and fours of w (in elements where rows of w are no whole eights). */
uint x_base, w_base, y_base;

const uint TAKES_A = (ROWS * DEPTH / 8u + INVOCATIONS - 1u) / INVOCATIONS; /* eights that an invocation brings */
const uint TAKES_W = (DEPTH * OUTS / 8u + INVOCATIONS - 1u) / INVOCATIONS;
PIECE next_a[TAKES_A];
PIECE next_w[TAKES_W];
Pixel pixels[TAKES_A]; /* of the row of each piece; beyond the last row the last one's, whose sums are dropped */

#define TAP_UNITS p.group_in
#include "taps.glsl"
Tap tap; /* of this invocation's pieces in the step that is fetched next */

/* Where the tap's channel of the window lies in x; false outside of the image and of the window. */
bool tap_find(Pixel pixel, Tap t, out uint at)
{
    bool there = tap_pixel(pixel, t, at);
    at += x_base + t.unit;
    return t.y < p.kernel_h && there;
}

PIECE row_fetch(Pixel pixel, bool eights)
{
    uint at;
    if (eights) {
        bool there = tap_find(pixel, tap, at);
        return there ? ROWS_EIGHT(at / 8u) : NOTHING;
    }
    NUMBER v[8];
    Tap t = tap;
    [[unroll]] for (uint j = 0; j < 8u; j++) {
        bool there = tap_find(pixel, t, at);
        v[j] = there ? x[at] : NUMBER(0.0);
        tap_forward(t, 1u);
    }
    return eight_of(v);
}

#ifdef CODES
#include "nbits_cm.glsl"
#else
/* Eight outputs of one k. */
PIECE weights_at(uint k, uint o4, uint depth)
{
    if (k >= depth || o4 >= p.group_out4) {
        return NOTHING;
    }
    if (BATCH && p.group_out % 8u != 0u) { /* rows begin anywhere */
        NUMBER v[8];
        [[unroll]] for (uint j = 0; j < 8u; j++) {
            bool there = 4u * o4 + j < p.group_out;
            v[j] = there ? w1[w_base + k * p.group_out + (there ? 4u * o4 + j : 0u)] : NUMBER(0.0);
        }
        return eight_of(v);
    }
    uint at = w_base + k * p.group_out4 + o4;
    if (p.group_out4 % 2u == 0u) {
        return WEIGHTS_EIGHT(at / 2u);
    }
    return WEIGHTS_FOURS(w4[at], o4 + 1u < p.group_out4 ? w4[at + 1u] : uvec2(0u));
}

PIECE weights_fetch(uint piece, uint k0, uint o40, uint depth)
{
    return weights_at(k0 + piece / (OUTS / 8u), o40 + piece % (OUTS / 8u) * 2u, depth);
}

/* w: where the weights of the stage begin. */
void weights_keep(uint w, uint piece, PIECE value)
{
    room[w + piece / (OUTS / 8u) * PITCH_W + piece % (OUTS / 8u)] = WEIGHTS_KEPT(value);
}
#endif

/*
 * Rows of a matrix in whole eights and whole steps: where the next pieces lie only moves on. Rows and outputs beyond the edge read the last ones; their sums are
 * dropped.
 */
uint plain_a[TAKES_A];
uint plain_w[TAKES_W];

void plain_begin(uint m0, uint o40, uint first)
{
    uint id = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        uint piece = id + i * INVOCATIONS, row = min(m0 + piece / (DEPTH / 8u), p.m - 1u);
        plain_a[i] = (row * p.in_c + x_base + first) / 8u + piece % (DEPTH / 8u);
    }
#ifndef CODES
    [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
        uint piece = id + i * INVOCATIONS, k = min(piece / (OUTS / 8u), DEPTH - 1u);
        uint o4 = min(o40 + piece % (OUTS / 8u) * 2u, p.group_out4 - 2u);
        plain_w[i] = (w_base + (first + k) * p.group_out4 + o4) / 2u;
    }
#endif
}

void plain_fetch()
{
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        next_a[i] = ROWS_EIGHT(plain_a[i]);
        plain_a[i] += DEPTH / 8u;
    }
#ifndef CODES
    [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
        next_w[i] = WEIGHTS_EIGHT(plain_w[i]);
        plain_w[i] += DEPTH / 2u * p.group_out4;
    }
#endif
}

void fetch(uint k0, uint o40, uint depth, bool eights)
{
    uint id = gl_LocalInvocationID.x;
    if (PLAIN) {
        plain_fetch();
    } else {
        [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
            next_a[i] = row_fetch(pixels[i], eights);
        }
        tap_forward(tap, DEPTH);
    }
    if (CODED || !PLAIN) {
        [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
            next_w[i] = weights_fetch(id + i * INVOCATIONS, k0, o40, depth);
        }
    }
}

void keep(uint stage)
{
    uint id = gl_LocalInvocationID.x, a = stage * STAGE, w = a + ROWS * PITCH_A;
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        uint piece = id + i * INVOCATIONS;
        if (piece < ROWS * DEPTH / 8u) {
            room[a + piece / (DEPTH / 8u) * PITCH_A + piece % (DEPTH / 8u)] = ROWS_KEPT(next_a[i]);
        }
    }
    [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
        uint piece = id + i * INVOCATIONS;
        if (piece < DEPTH * OUTS / 8u) {
            weights_keep(w, piece, next_w[i]);
        }
    }
}

#ifdef SCALAR
vec4 sum[HIGH * WIDTH / 4u / SUBGROUP]; /* four lane + i SUBGROUP of the subgroup's part; as few and unrolled, as lavapipe loses large arrays at barriers */

/* Four weights of one k. */
vec4 four_at(uint w, uint k, uint o4)
{
    if (CODED) {
        vec4 v;
        [[unroll]] for (uint j = 0; j < 4u; j++) {
            v[j] = pair_of(room[w + (4u * o4 + j) * PITCH_W + k / 8u][k % 8u / 2u])[k % 2u];
        }
        return v;
    }
    uvec4 eight = room[w + k * PITCH_W + o4 / 2u];
    uvec2 four = o4 % 2u == 0u ? eight.xy : eight.zw;
    return vec4(pair_of(four.x), pair_of(four.y));
}

void multiply(uint stage, uint part_row, uint part_out)
{
    uint lane = gl_LocalInvocationID.x % SUBGROUP, w = stage * STAGE + ROWS * PITCH_A;
    [[unroll]] for (uint i = 0; i < HIGH * WIDTH / 4u / SUBGROUP; i++) {
        uint row = (lane + i * SUBGROUP) / (WIDTH / 4u), o4 = part_out / 4u + (lane + i * SUBGROUP) % (WIDTH / 4u);
        for (uint k = 0; k < DEPTH; k++) {
            uint pair = room[stage * STAGE + (part_row + row) * PITCH_A + k / 8u][k % 8u / 2u];
            sum[i] += pair_of(pair)[k % 2u] * four_at(w, k, o4);
        }
    }
}

/* Rows m CM to m CM + CM - 1 of the subgroup's part, outputs c LEAVES to c LEAVES + LEAVES - 1. */
void sums_put(uint m, uint c, uint at)
{
    uint lane = gl_LocalInvocationID.x % SUBGROUP;
    [[unroll]] for (uint i = 0; i < CM * WIDTH / 4u / SUBGROUP; i++) {
        uint row = (lane + i * SUBGROUP) / (WIDTH / 4u), o4 = (lane + i * SUBGROUP) % (WIDTH / 4u);
        if (o4 / (LEAVES / 4u) == c) {
            room[at + row * PITCH_C + o4 % (LEAVES / 4u)] =
                floatBitsToUint(sum[m * (CM * WIDTH / 4u / SUBGROUP) + i]);
        }
    }
}

/* A subgroup of this form is none of the device's. */
void part_wait()
{
    barrier();
}
#else
SUM sum[HIGH / CM * (WIDTH / CN)];

void multiply(uint stage, uint part_row, uint part_out)
{
    uint a = stage * STAGE + part_row * PITCH_A, w = stage * STAGE + ROWS * PITCH_A;
    [[unroll]] for (uint k = 0; k < DEPTH; k += CK) {
        LEFT left[HIGH / CM];
        [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
            MATRIX_LOAD(left[m], a + m * CM * PITCH_A + k / 8u, PITCH_A, false);
        }
        [[unroll]] for (uint n = 0; n < WIDTH / CN; n++) {
            RIGHT right;
            uint column = part_out + n * CN;
            MATRIX_LOAD(right, w + (CODED ? column * PITCH_W + k / 8u : k * PITCH_W + column / 8u), PITCH_W, CODED);
            [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
                sum[m * (WIDTH / CN) + n] = MATRIX_ADD(left[m], right, sum[m * (WIDTH / CN) + n]);
            }
        }
    }
}

void sums_put(uint m, uint c, uint at)
{
    [[unroll]] for (uint n = 0; n < LEAVES / CN; n++) {
        MATRIX_STORE(sum[m * (WIDTH / CN) + c * (LEAVES / CN) + n], at + n * CN / 4u, PITCH_C);
    }
}

/* Each subgroup reads what it wrote itself. */
void part_wait()
{
    subgroupBarrier();
}
#endif

/* Eight outputs of a row. */
void eight_store(uint m, uint g, uint piece, uint o4, vec4 low, vec4 high)
{
    if (m >= p.m || o4 >= p.group_out4) {
        return;
    }
    bool both = o4 + 1u < p.group_out4;
    if (PIECES) {
        uint at = ((piece * p.m + m) * p.groups + g) * p.group_out4 + o4;
        sums[at] = low;
        if (both) {
            sums[at + 1u] = high;
        }
        return;
    }
    low += bias_of(BATCH ? 0u : g, o4);
    uint at = m * p.out_c + y_base + 4u * o4;
    if (p.group_out % 8u != 0u) {
        four_store(at, 4u * o4, low);
        if (both) {
            four_store(at + 4u, 4u * o4 + 4u, high + bias_of(BATCH ? 0u : g, o4 + 1u));
        }
        return;
    }
    high += bias_of(BATCH ? 0u : g, o4 + 1u);
    [[unroll]] for (uint j = 0; j < 4u; j++) {
        low[j] = finished(low[j], at + j);
        high[j] = finished(high[j], at + 4u + j);
    }
    results_put(at / 8u, low, high);
}

#include "bands.glsl"

void bases_set(uint g, uint depth)
{
    x_base = g * p.group_in;
    w_base = g * depth * p.group_out4;
    y_base = g * p.group_out;
#ifndef CODES
    if (BATCH) {
        uvec2 at = matrices_of(g);
        x_base = at.x * p.m * depth;
        w_base = at.y * depth * p.group_out / (p.group_out % 8u == 0u ? 4u : 1u);
        y_base = g * p.m * p.group_out;
    }
#endif
}

void main()
{
    uint id = gl_LocalInvocationID.x, part = id / SUBGROUP, lane = id % SUBGROUP;
    uint g = PIECES ? gl_WorkGroupID.z / p.splits : gl_WorkGroupID.z;
    uint piece = PIECES ? gl_WorkGroupID.z - g * p.splits : 0u;
    uvec2 tile = tile_choose();
    uint m0 = tile.x * ROWS, o40 = tile.y * (OUTS / 4u);
    uint part_row = part / ACROSS * HIGH, part_out = part % ACROSS * WIDTH;
    uint depth = p.kernel_h * p.kernel_w * p.group_in, first = 0u, last = depth;
    if (PIECES) {
        uint share = ((depth + p.splits - 1u) / p.splits + DEPTH - 1u) / DEPTH * DEPTH;
        first = min(piece * share, depth);
        last = min(first + share, depth);
    }
    bases_set(g, depth);
    bool eights = p.group_in % 8u == 0u && p.in_c % 8u == 0u;
    if (PLAIN) {
        plain_begin(m0, o40, first);
    } else {
        [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
            pixels[i] = pixel_of(min(m0 + (id + i * INVOCATIONS) / (DEPTH / 8u), p.m - 1u));
        }
        tap = tap_at(first + id % (DEPTH / 8u) * 8u);
    }
#ifdef SCALAR
    [[unroll]] for (uint i = 0; i < HIGH * WIDTH / 4u / SUBGROUP; i++) {
        sum[i] = vec4(0.0);
    }
#else
    [[unroll]] for (uint i = 0; i < HIGH / CM * (WIDTH / CN); i++) {
        sum[i] = SUM(0.0);
    }
#endif
    uint stage = 0u;
    if (first < last) { /* of more pieces than steps the last ones have nothing */
        fetch(first, o40, depth, eights);
        keep(0u);
    }
    barrier();
    for (uint k0 = first; k0 < last; k0 += DEPTH) {
        bool more = k0 + DEPTH < last;
        if (more) {
            fetch(k0 + DEPTH, o40, depth, eights);
        }
        multiply(stage, part_row, part_out);
        if (STAGES == 1u) {
            barrier();
        } else {
            stage = 1u - stage;
        }
        if (more) {
            keep(stage);
        }
        barrier();
    }
    uint at = part * CM * PITCH_C;
    [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
        [[unroll]] for (uint c = 0; c < WIDTH / LEAVES; c++) {
            sums_put(m, c, at);
            part_wait();
            for (uint i = lane; i < CM * (LEAVES / 8u); i += SUBGROUP) {
                uint row = i / (LEAVES / 8u), o8 = i % (LEAVES / 8u), from = at + row * PITCH_C + 2u * o8;
                eight_store(m0 + part_row + m * CM + row, g, piece,
                            o40 + (part_out + c * LEAVES) / 4u + 2u * o8, uintBitsToFloat(room[from]),
                            uintBitsToFloat(room[from + 1u]));
            }
            part_wait();
        }
    }
}
