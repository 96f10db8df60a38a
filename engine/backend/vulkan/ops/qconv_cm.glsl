/*
 * qconv_cm.glsl - family `cm` of products of bytes: a workgroup makes ROWS x OUTS of one group (z); DEPTH bytes of k at a time pass through shared memory, both
 * sides as signed bytes. What the next step needs is fetched into registers before this one's matrices are multiplied. Subgroups stand in DOWN rows; each has
 * ROWS / DOWN x WIDTH of the tile as cooperative matrices of the device's size, with sums of 32 bits. These leave through the same shared memory, each subgroup's
 * through its own part, where zero points and rounding are applied (row_store) and what lies beyond the edges is dropped.
 *
 * Weights lie in shared memory as [output][k]: a packed word has four channels of one output, so that whole words move and the matrices are read by columns. All is
 * in eights of bytes, because a matrix may be no deeper. k counts words of four channels, as the packed form does: [tap][fours of channels].
 *
 * PIECES: z is also a piece of k, whose sums go to a buffer; qsplit_sum adds them and rounds.
 *
 * SCALAR: plain loops in place of the matrices. So the tiles, edges and windows can be tested on a device without them.
 */
layout(constant_id = 9) const uint SUBGROUP = 32;
layout(local_size_x_id = 10) in; /* DOWN SUBGROUP OUTS / WIDTH */
layout(constant_id = 10) const uint INVOCATIONS = 128;
layout(constant_id = 11) const uint CM = 16; /* rows, outputs and depth of a matrix: the first two divide 32, the last two are whole eights */
layout(constant_id = 12) const uint CN = 16;
layout(constant_id = 13) const uint CK = 32;
layout(constant_id = 14) const uint ROWS = 64; /* a multiple of 32 DOWN */
layout(constant_id = 15) const uint OUTS = 64;
layout(constant_id = 16) const uint STAGES = 1; /* 2: the next step's pieces are stored while other subgroups still read this one's */
layout(constant_id = 17) const uint WIDTH = 32; /* outputs of a subgroup: a multiple of 32 */
layout(constant_id = 18) const bool SIXTEENS = false; /* channels of a group and of a pixel are multiples of 16 */
layout(constant_id = 19) const uint DEPTH = 64; /* 32, 64 or 128 bytes: a multiple of CK */
layout(constant_id = 20) const uint DOWN = 2;
layout(constant_id = 21) const uint SWIZZLE = 0;
layout(constant_id = 22) const bool PIECES = false;

/* Shared memory in eights of bytes or pairs of sums: rows [row][k], weights [output][k], sums [subgroup][row][output]; 16 bytes more per row, so that banks take turns. */
const uint ACROSS = OUTS / WIDTH;
const uint HIGH = ROWS / DOWN; /* rows of a subgroup */
const uint LEAVES = CN > 16u ? CN : 16u; /* outputs of a subgroup that leave at a time */
const uint PITCH = DEPTH / 8u + 2u;
const uint PITCH_C = LEAVES / 2u + 2u;
const uint STAGE = (ROWS + OUTS) * PITCH;
const uint SUMS = DOWN * ACROSS * CM * PITCH_C;
const uint ROOM = STAGES * STAGE > SUMS ? STAGES * STAGE : SUMS;
shared uvec2 room[ROOM];
shared int alls[ROWS]; /* W_ZEROS: the sum of x of each row */

layout(std430, binding = 0) writeonly buffer Sums { ivec4 sums[]; }; /* PIECES: piece_at */
layout(std430, binding = 1) readonly buffer X16 { uvec4 x16[]; };

/*
 * What an invocation brings: of x sixteen bytes of a row, of the weights two words of four outputs. Neighbours bring neighbouring words of k of the same outputs:
 * their stores then lie side by side, and together they still read whole lines.
 */
const uint TAKES_A = (ROWS * DEPTH / 16u + INVOCATIONS - 1u) / INVOCATIONS;
const uint TAKES_W = (OUTS / 4u * (DEPTH / 8u) + INVOCATIONS - 1u) / INVOCATIONS;
uvec4 next_a[TAKES_A];
uvec4 next_w[2u * TAKES_W];
Pixel pixels[TAKES_A]; /* of the row of each piece; beyond the last row the last one's, whose sums are dropped */
int all_part[TAKES_A]; /* W_ZEROS: the sum of each piece's bytes so far */

#define TAP_UNITS p.group_in4
#include "taps.glsl"
Tap tap; /* of this invocation's pieces in the step that is fetched next */

/* Where the tap's word of the window lies in x; false outside of the image. */
bool tap_find(Pixel pixel, Tap t, uint g, out uint at)
{
    bool there = tap_pixel(pixel, t, at);
    at += g * p.group_in + 4u * t.unit;
    return there;
}

/* Sixteen bytes of a row: padding is the zero point, beyond the depth there is 0. */
uvec4 row_fetch(uint i, uint g, uint zeros)
{
    uint at;
    uvec4 v = uvec4(0u);
    if (SIXTEENS) {
        bool there = tap_find(pixels[i], tap, g, at);
        if (tap.y < p.kernel_h) {
            v = there ? x16[at / 16u] ^ X_FLIP : uvec4(zeros);
        }
        if (W_ZEROS) {
            all_part[i] += DOT4(v.x, 0x01010101u) + DOT4(v.y, 0x01010101u) + DOT4(v.z, 0x01010101u) + DOT4(v.w, 0x01010101u);
        }
        return v;
    }
    Tap t = tap;
    [[unroll]] for (uint j = 0; j < 4u; j++) {
        if (t.y < p.kernel_h) {
            bool there = tap_find(pixels[i], t, g, at);
            v[j] = there ? x_word(at) : zeros;
            if (W_ZEROS) {
                all_part[i] += DOT4(v[j], ones_of(t.unit));
            }
        }
        tap_forward(t, 1u);
    }
    return v;
}

/* k: in words. */
uvec4 weights_fetch(uint g, uint k, uint o4, uint depth)
{
    return k < depth && o4 < p.group_out4 ? w[(g * depth + k) * p.group_out4 + o4] : uvec4(0u);
}

void fetch(uint g, uint k0, uint o40, uint depth, uint zeros)
{
    uint id = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        next_a[i] = row_fetch(i, g, zeros);
    }
    [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
        uint piece = id + i * INVOCATIONS, k = k0 + piece % (DEPTH / 8u) * 2u, o4 = o40 + piece / (DEPTH / 8u);
        next_w[2u * i] = weights_fetch(g, k, o4, depth);
        next_w[2u * i + 1u] = weights_fetch(g, k + 1u, o4, depth);
    }
    tap_forward(tap, DEPTH / 4u);
}

void keep(uint stage)
{
    uint id = gl_LocalInvocationID.x, a = stage * STAGE, b = a + ROWS * PITCH;
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        uint piece = id + i * INVOCATIONS, at = a + piece / (DEPTH / 16u) * PITCH + piece % (DEPTH / 16u) * 2u;
        if (piece < ROWS * DEPTH / 16u) {
            room[at] = next_a[i].xy;
            room[at + 1u] = next_a[i].zw;
        }
    }
    [[unroll]] for (uint i = 0; i < TAKES_W; i++) {
        uint piece = id + i * INVOCATIONS, at = b + piece / (DEPTH / 8u) * 4u * PITCH + piece % (DEPTH / 8u);
        if (piece < OUTS / 4u * (DEPTH / 8u)) {
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                room[at + j * PITCH] = uvec2(next_w[2u * i][j], next_w[2u * i + 1u][j]);
            }
        }
    }
}

#ifdef SCALAR
ivec4 sum[HIGH * WIDTH / 4u / SUBGROUP]; /* four lane + i SUBGROUP of the subgroup's part */

void multiply(uint stage, uint part_row, uint part_out)
{
    uint lane = gl_LocalInvocationID.x % SUBGROUP, b = stage * STAGE + ROWS * PITCH;
    [[unroll]] for (uint i = 0; i < HIGH * WIDTH / 4u / SUBGROUP; i++) {
        uint row = (lane + i * SUBGROUP) / (WIDTH / 4u), o = part_out + (lane + i * SUBGROUP) % (WIDTH / 4u) * 4u;
        for (uint k = 0; k < DEPTH / 8u; k++) {
            uvec2 x8 = room[stage * STAGE + (part_row + row) * PITCH + k];
            uvec2 w0 = room[b + o * PITCH + k], w1 = room[b + (o + 1u) * PITCH + k];
            uvec2 w2 = room[b + (o + 2u) * PITCH + k], w3 = room[b + (o + 3u) * PITCH + k];
            sum[i] += products(x8.x, uvec4(w0.x, w1.x, w2.x, w3.x)) + products(x8.y, uvec4(w0.y, w1.y, w2.y, w3.y));
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
            uvec4 four = uvec4(sum[m * (CM * WIDTH / 4u / SUBGROUP) + i]);
            room[at + row * PITCH_C + o4 % (LEAVES / 4u) * 2u] = four.xy;
            room[at + row * PITCH_C + o4 % (LEAVES / 4u) * 2u + 1u] = four.zw;
        }
    }
}

void sums_clear()
{
    [[unroll]] for (uint i = 0; i < HIGH * WIDTH / 4u / SUBGROUP; i++) {
        sum[i] = ivec4(0);
    }
}

/* A subgroup of this form is none of the device's. */
void part_wait()
{
    barrier();
}
#else
icoopmatNV<32, gl_ScopeSubgroup, CM, CN> sum[HIGH / CM * (WIDTH / CN)];

void multiply(uint stage, uint part_row, uint part_out)
{
    uint a = stage * STAGE + part_row * PITCH, b = stage * STAGE + (ROWS + part_out) * PITCH;
    [[unroll]] for (uint k = 0; k < DEPTH; k += CK) {
        icoopmatNV<8, gl_ScopeSubgroup, CM, CK> left[HIGH / CM];
        [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
            coopMatLoadNV(left[m], room, a + m * CM * PITCH + k / 8u, PITCH, false);
        }
        [[unroll]] for (uint n = 0; n < WIDTH / CN; n++) {
            icoopmatNV<8, gl_ScopeSubgroup, CK, CN> right;
            coopMatLoadNV(right, room, b + n * CN * PITCH + k / 8u, PITCH, true);
            [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
                sum[m * (WIDTH / CN) + n] = coopMatMulAddNV(left[m], right, sum[m * (WIDTH / CN) + n]);
            }
        }
    }
}

void sums_put(uint m, uint c, uint at)
{
    [[unroll]] for (uint n = 0; n < LEAVES / CN; n++) {
        coopMatStoreNV(sum[m * (WIDTH / CN) + c * (LEAVES / CN) + n], room, at + n * CN / 2u, PITCH_C, false);
    }
}

void sums_clear()
{
    [[unroll]] for (uint i = 0; i < HIGH / CM * (WIDTH / CN); i++) {
        sum[i] = icoopmatNV<32, gl_ScopeSubgroup, CM, CN>(0);
    }
}

/* Each subgroup reads what it wrote itself. */
void part_wait()
{
    subgroupBarrier();
}
#endif

#include "bands.glsl"

/* Before the loop that sums x begins, and behind it. */
void alls_clear()
{
    for (uint i = gl_LocalInvocationID.x; W_ZEROS && i < ROWS; i += INVOCATIONS) {
        alls[i] = 0;
    }
}

void alls_add()
{
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        uint piece = gl_LocalInvocationID.x + i * INVOCATIONS;
        if (piece < ROWS * DEPTH / 16u) {
            atomicAdd(alls[piece / (DEPTH / 16u)], all_part[i]);
        }
    }
}

/* Four outputs of a row; all: the sum of its x. */
void four_store(uint piece, uint m, uint g, uint o4, ivec4 sum, int all, int xz)
{
    if (PIECES) {
        sums[piece_at(piece, m, g, o4)] = sum_of(g, o4, sum, all);
    } else {
        row_store(m, g, o4, sum, all, xz);
    }
}

/* Sums that a subgroup has put: rows from m on, fours of outputs from o4 on; row: the first of them in the tile. */
void part_store(uint piece, uint at, uint m, uint row, uint g, uint o4, int xz)
{
    for (uint i = gl_LocalInvocationID.x % SUBGROUP; i < CM * (LEAVES / 4u); i += SUBGROUP) {
        uint r = i / (LEAVES / 4u), four = i % (LEAVES / 4u), from = at + r * PITCH_C + 2u * four;
        if (m + r < p.m && o4 + four < p.group_out4) {
            four_store(piece, m + r, g, o4 + four, ivec4(room[from], room[from + 1u]), W_ZEROS ? alls[row + r] : 0, xz);
        }
    }
}

void main()
{
    uint id = gl_LocalInvocationID.x, part = id / SUBGROUP;
    uint g = PIECES ? gl_WorkGroupID.z / p.splits : gl_WorkGroupID.z;
    uint piece = PIECES ? gl_WorkGroupID.z - g * p.splits : 0u;
    uvec2 tile = tile_choose();
    uint m0 = tile.x * ROWS, o40 = tile.y * (OUTS / 4u);
    uint part_row = part / ACROSS * HIGH, part_out = part % ACROSS * WIDTH;
    uint depth = p.kernel_h * p.kernel_w * p.group_in4, first = 0u, last = depth, stage = 0u;
    if (PIECES) {
        uint share = ((depth + p.splits - 1u) / p.splits + DEPTH / 4u - 1u) / (DEPTH / 4u) * (DEPTH / 4u);
        first = min(piece * share, depth);
        last = min(first + share, depth);
    }
    int xz = x_zero();
    uint zeros = (uint(xz) & 255u) * 0x01010101u;
    [[unroll]] for (uint i = 0; i < TAKES_A; i++) {
        pixels[i] = pixel_of(min(m0 + (id + i * INVOCATIONS) / (DEPTH / 16u), p.m - 1u));
        all_part[i] = 0;
    }
    tap = tap_at(first + id % (DEPTH / 16u) * 4u);
    sums_clear();
    alls_clear();
    if (first < last) { /* of more pieces than steps the last ones have nothing */
        fetch(g, first, o40, depth, zeros);
        keep(0u);
    }
    barrier();
    for (uint k0 = first; k0 < last; k0 += DEPTH / 4u) {
        bool more = k0 + DEPTH / 4u < last;
        if (more) {
            fetch(g, k0 + DEPTH / 4u, o40, depth, zeros);
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
    if (W_ZEROS) {
        alls_add();
        barrier();
    }
    uint at = part * CM * PITCH_C;
    [[unroll]] for (uint m = 0; m < HIGH / CM; m++) {
        [[unroll]] for (uint c = 0; c < WIDTH / LEAVES; c++) {
            sums_put(m, c, at);
            part_wait();
            part_store(piece, at, m0 + part_row + m * CM, part_row + m * CM, g, o40 + (part_out + c * LEAVES) / 4u, xz);
            part_wait();
        }
    }
}
