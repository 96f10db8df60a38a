/*
 * conv_cm2.glsl - family `cm2`: a workgroup makes ROWS x OUTS of a product of matrices (z: of one of a batch, or of a piece of the depth) as one matrix of f32 sums,
 * DEPTH steps of k at a time. How tiles come from memory and pass to the units that multiply is the driver's affair.
 *
 * Three forms share sizes, edges, bands, pieces and the epilogue:
 *   TENSOR   matrices of a workgroup; tensor addressing brings them, zeros in place of what lies beyond an edge, and drops results there
 *   STAGED   the same steps by matrices of a workgroup of one subgroup, with tensor addressing spelled out: for a driver that has no more
 *   neither  plain loops, for one without such matrices
 *
 * SWIZZLE: as in conv_cm.glsl. PIECES: z is a piece of k, whose sums leave as they are (split_sum.comp). BATCH: z is one of a batch, both sides computed, each matrix
 * begins at a whole eight of elements.
 */
layout(local_size_x_id = 8) in;
layout(constant_id = 8) const uint INVOCATIONS = 256;
layout(constant_id = 9) const uint ROWS = 64;
layout(constant_id = 10) const uint OUTS = 64;
layout(constant_id = 11) const uint DEPTH = 64;
layout(constant_id = 12) const uint SWIZZLE = 0;
layout(constant_id = 13) const bool PIECES = false;
layout(constant_id = 14) const bool BATCH = false;

layout(std430, binding = 0) writeonly buffer Sums { float sums[]; };
layout(std430, binding = 2) readonly buffer W1 { REAL w1[]; };

/* A matrix in a buffer: its first element, a whole eight; its sides; from one row to the next. */
struct Sheet {
    uint first, rows, columns, pitch;
};

/* Of this workgroup. */
uint piece, group, from, to; /* steps of k */
Sheet left, right, result;

void sheets_set()
{
    uint pitch = BATCH ? p.group_out : 4u * p.group_out4;
    uvec2 at = BATCH ? matrices_of(group) : uvec2(0u);
    left = Sheet(at.x * p.m * p.group_in, p.m, to, p.in_c);
    right = Sheet(at.y * p.group_in * p.group_out, to, pitch, pitch);
    if (PIECES) {
        result = Sheet(4u * piece * p.m * p.group_out4, p.m, pitch, pitch);
    } else {
        result = Sheet(BATCH ? group * p.m * p.group_out : 0u, p.m, p.group_out, p.out_c);
    }
}

void piece_set()
{
    piece = PIECES ? gl_WorkGroupID.z : 0u;
    group = PIECES ? 0u : gl_WorkGroupID.z;
    from = 0u;
    to = p.group_in;
    if (PIECES) {
        uint share = ((p.group_in + p.splits - 1u) / p.splits + DEPTH - 1u) / DEPTH * DEPTH;
        from = min(piece * share, p.group_in);
        to = min(from + share, p.group_in);
    }
}

#include "bands.glsl"

/* What leaves in place of a sum; beyond the edges nothing does. */
float element_finished(const in uint32_t row, const in uint32_t column, const in float sum, const in uint m0, const in uint o0)
{
    uint m = m0 + row, o = o0 + column;
    if (m >= result.rows || o >= result.columns) {
        return 0.0;
    }
    float x = finished(sum + bias_of(0u, o / 4u)[o % 4u], result.first + m * result.pitch + o);
    return rounded(vec4(x)).x;
}

#if defined(TENSOR) || defined(STAGED)
#ifdef TENSOR
#define ACROSS gl_ScopeWorkgroup
#define UNROLL 4u /* steps */
#else
#define ACROSS gl_ScopeSubgroup
#define UNROLL 2u
#endif
#define LEFT   coopmat<float16_t, ACROSS, ROWS, DEPTH, gl_MatrixUseA>
#define RIGHT  coopmat<float16_t, ACROSS, DEPTH, OUTS, gl_MatrixUseB>
#define SUM    coopmat<float, ACROSS, ROWS, OUTS, gl_MatrixUseAccumulator>
#define HALVES coopmat<float16_t, ACROSS, ROWS, OUTS, gl_MatrixUseAccumulator>

#ifdef TENSOR
#define PLAIN   tensorLayoutNV<2>
#define CLAMPED tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV>
#define PLAIN_NEW()   createTensorLayoutNV(2)
#define CLAMPED_NEW() createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV)
#define SIZED(layout_of, rows, columns) setTensorLayoutDimensionNV(layout_of, rows, columns)
#define PITCHED(layout_of, pitch)       setTensorLayoutStrideNV(layout_of, pitch, 1)
#define SLICED(layout_of, row, high, column, wide) sliceTensorLayoutNV(layout_of, row, high, column, wide)
#define LEFT_BRING(matrix, layout_of)    coopMatLoadTensorNV(matrix, x, left.first, layout_of)
#define RIGHT_BRING(matrix, layout_of)   coopMatLoadTensorNV(matrix, w1, right.first, layout_of)
#define SUMS_PUT(matrix, layout_of)      coopMatStoreTensorNV(matrix, sums, result.first, layout_of)
#define RESULTS_PUT(matrix, layout_of)   coopMatStoreTensorNV(matrix, y, result.first, layout_of)
#else
/* What tensor addressing is by its specification, as far as it is used here: the sides of a tensor, its pitch, and the slice that a matrix is. */
struct Layout {
    bool clamped;
    uint rows, columns, pitch;
    int row, column;
    uint high, wide;
};
#define PLAIN   Layout
#define CLAMPED Layout
#define PLAIN_NEW()   Layout(false, 0u, 0u, 0u, 0, 0, 0u, 0u)
#define CLAMPED_NEW() Layout(true, 0u, 0u, 0u, 0, 0, 0u, 0u)
#define SIZED(layout_of, rows, columns) layout_sized(layout_of, rows, columns)
#define PITCHED(layout_of, pitch)       layout_pitched(layout_of, pitch)
#define SLICED(layout_of, row, high, column, wide) layout_sliced(layout_of, int(row), high, int(column), wide)

Layout layout_sized(Layout t, uint rows, uint columns)
{
    return Layout(t.clamped, rows, columns, columns, 0, 0, rows, columns);
}

Layout layout_pitched(Layout t, uint pitch)
{
    t.pitch = pitch;
    return t;
}

Layout layout_sliced(Layout t, int row, uint high, int column, uint wide)
{
    return Layout(t.clamped, t.rows, t.columns, t.pitch, t.row + row, t.column + column, high, wide);
}

/* Where element i of the slice lies, counted by rows; false: beyond an edge of a layout that looks. */
bool element_find(Layout t, uint i, out uint at)
{
    int row = int(i / t.wide) + t.row, column = int(i % t.wide) + t.column;
    at = uint(row) * t.pitch + uint(column);
    return !t.clamped || (row >= 0 && row < int(t.rows) && column >= 0 && column < int(t.columns));
}

shared float16_t room_left[ROWS * DEPTH];
shared float16_t room_right[DEPTH * OUTS];
shared float room_sum[ROWS * OUTS];
shared float16_t room_result[ROWS * OUTS];

void left_stage(Layout t)
{
    uint at;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * DEPTH; i += INVOCATIONS) {
        room_left[i] = element_find(t, i, at) ? x[left.first + at] : float16_t(0.0);
    }
    barrier();
}

void right_stage(Layout t)
{
    uint at;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < DEPTH * OUTS; i += INVOCATIONS) {
        room_right[i] = element_find(t, i, at) ? w1[right.first + at] : float16_t(0.0);
    }
    barrier();
}

void room_put(Layout t)
{
    uint at;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < ROWS * OUTS; i += INVOCATIONS) {
        if (element_find(t, i, at)) {
            if (PIECES) {
                sums[result.first + at] = room_sum[i];
            } else {
                y[result.first + at] = room_result[i];
            }
        }
    }
}

#define LEFT_BRING(matrix, layout_of)                                                  \
    {                                                                                  \
        left_stage(layout_of);                                                         \
        coopMatLoad(matrix, room_left, 0, DEPTH, gl_CooperativeMatrixLayoutRowMajor);  \
    }
#define RIGHT_BRING(matrix, layout_of)                                                 \
    {                                                                                  \
        right_stage(layout_of);                                                        \
        coopMatLoad(matrix, room_right, 0, OUTS, gl_CooperativeMatrixLayoutRowMajor);  \
    }
#define SUMS_PUT(matrix, layout_of)                                                    \
    {                                                                                  \
        coopMatStore(matrix, room_sum, 0, OUTS, gl_CooperativeMatrixLayoutRowMajor);   \
        room_put(layout_of);                                                           \
    }
#define RESULTS_PUT(matrix, layout_of)                                                  \
    {                                                                                   \
        coopMatStore(matrix, room_result, 0, OUTS, gl_CooperativeMatrixLayoutRowMajor); \
        room_put(layout_of);                                                            \
    }
#endif

/* The pitch last: setting the sides sets one, too. */
#define SHEET_LAID(layout_of, s, pitch) PITCHED(SIZED(layout_of, s.rows, s.columns), pitch)

#define STEP(a, b)                                        \
    {                                                     \
        LEFT l;                                           \
        RIGHT r;                                          \
        LEFT_BRING(l, SLICED(a, m0, ROWS, k, DEPTH));     \
        RIGHT_BRING(r, SLICED(b, k, DEPTH, o0, OUTS));    \
        sum = coopMatMulAdd(l, r, sum);                   \
        k += DEPTH;                                       \
    }

#define STEPS(a, b)                                  \
    while (k + UNROLL * DEPTH <= to) {               \
        [[unroll]] for (uint i = 0; i < UNROLL; i++) \
            STEP(a, b)                               \
    }                                                \
    while (k < to)                                   \
        STEP(a, b)

/* The whole tile and all steps lie within both sheets: nothing needs to be compared, and rows begin at whole 16 bytes. */
bool whole(uint m0, uint o0)
{
    bool even = left.pitch % 8u == 0u && right.pitch % 8u == 0u;
    return even && m0 + ROWS <= left.rows && o0 + OUTS <= right.columns && (to - from) % DEPTH == 0u;
}

void main()
{
    piece_set();
    sheets_set();
    uvec2 tile = tile_choose() * uvec2(ROWS, OUTS);
    uint m0 = tile.x, o0 = tile.y, k = from & ~(DEPTH - 1u);
    SUM sum = SUM(0.0);
    if (whole(m0, o0)) {
        PLAIN a = SHEET_LAID(PLAIN_NEW(), left, left.pitch & ~7u);
        PLAIN b = SHEET_LAID(PLAIN_NEW(), right, right.pitch & ~7u);
        STEPS(a, b)
    } else {
        CLAMPED a = SHEET_LAID(CLAMPED_NEW(), left, left.pitch);
        CLAMPED b = SHEET_LAID(CLAMPED_NEW(), right, right.pitch);
        STEPS(a, b)
    }
    CLAMPED c = SHEET_LAID(CLAMPED_NEW(), result, result.pitch);
    if (PIECES) {
        SUMS_PUT(sum, SLICED(c, m0, ROWS, o0, OUTS));
    } else {
        coopMatPerElementNV(sum, sum, element_finished, m0, o0);
        RESULTS_PUT(HALVES(sum), SLICED(c, m0, ROWS, o0, OUTS));
    }
}
#else
float16_t left_at(uint m, uint k)
{
    return m < left.rows && k < left.columns ? x[left.first + m * left.pitch + k] : float16_t(0.0);
}

float16_t right_at(uint k, uint o)
{
    return k < right.rows && o < right.columns ? w1[right.first + k * right.pitch + o] : float16_t(0.0);
}

void result_put(uint m, uint o, float value)
{
    uint at = result.first + m * result.pitch + o;
    if (m < result.rows && o < result.columns) {
        if (PIECES) {
            sums[at] = value;
        } else {
            y[at] = float16_t(value);
        }
    }
}

/* In eights: lavapipe ends an invocation's loops after 65536 rounds in all, without a word. */
float element_sum(uint m, uint o)
{
    float sum = 0.0;
    for (uint k = from; k < to; k += DEPTH) {
        for (uint e = 0; e < DEPTH; e += 8u) {
            [[unroll]] for (uint j = 0; j < 8u; j++) {
                sum += float(left_at(m, k + e + j)) * float(right_at(k + e + j, o));
            }
        }
    }
    return sum;
}

void main()
{
    piece_set();
    sheets_set();
    uvec2 tile = tile_choose() * uvec2(ROWS, OUTS);
    for (uint i = gl_LocalInvocationID.x; i < ROWS * OUTS; i += INVOCATIONS) {
        uint row = i / OUTS, column = i % OUTS;
        float sum = element_sum(tile.x + row, tile.y + column);
        result_put(tile.x + row, tile.y + column, PIECES ? sum : element_finished(row, column, sum, tile.x, tile.y));
    }
}
#endif
