#include "import/build/tensorflow.h"

#include <string.h>

#define SPLIT_MAX 256

/* ---- images ------------------------------------------------------------------------------------------------------------- */

uint32_t tf_resize(struct build *b, uint32_t x, uint32_t size, bool nearest, bool align_corners, bool half_pixel)
{
    static const int64_t axes[] = {1, 2};
    int64_t sizes[2];
    uint32_t n = 0;
    uint32_t wide = build_ints_of(b, size, sizes, 2, &n) ? build_i64(b, sizes, n) : build_cast(b, size, PEN_DTYPE_I64);
    uint32_t in[] = {x, VALUE_NONE, VALUE_NONE, wide};
    uint32_t y = build_op(b, OP_Resize, in, 4);
    build_ints(b, ATTR_axes, axes, 2);
    build_text(b, ATTR_mode, nearest ? "nearest" : "linear");
    build_text(b, ATTR_coordinate_transformation_mode,
               align_corners ? "align_corners"
               : half_pixel  ? "half_pixel"
                             : "asymmetric");
    if (nearest) { /* floor((i + 0.5) * scale) is half_pixel rounded with ties up */
        build_text(b, ATTR_nearest_mode, align_corners || half_pixel ? "round_prefer_ceil" : "floor");
        build_int(b, ATTR_by_step, 1);
    }
    return y;
}

/* ---- padding ------------------------------------------------------------------------------------------------------------------ */

/* Mirrors that repeat the edge: turned slices joined at both ends, axis by axis. */
static uint32_t pad_symmetric(struct build *b, uint32_t x, const int64_t *pads, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t parts[3], count = 0;
        if (pads[2 * i] > 0)
            parts[count++] = tf_reverse(b, build_slice(b, x, i, 0, pads[2 * i], 1), i);
        parts[count++] = x;
        if (pads[2 * i + 1] > 0)
            parts[count++] = tf_reverse(b, build_slice(b, x, i, -pads[2 * i + 1], INT64_MAX, 1), i);
        if (count > 1)
            x = build_axis_op(b, OP_Concat, parts, count, i);
    }
    return x;
}

uint32_t tf_pad(struct build *b, uint32_t x, uint32_t paddings, const char *mode, uint32_t value)
{
    int64_t pads[2 * PEN_MAX_RANK], turned[2 * PEN_MAX_RANK];
    uint32_t count = 0, list;
    bool known = build_ints_of(b, paddings, pads, 2 * PEN_MAX_RANK, &count) && count % 2 == 0;
    for (uint32_t i = 0; known && i < count / 2; i++) {
        turned[i] = pads[2 * i];
        turned[count / 2 + i] = pads[2 * i + 1];
        if (pads[2 * i] < 0 || pads[2 * i + 1] < 0 || pads[2 * i] > INT32_MAX || pads[2 * i + 1] > INT32_MAX)
            build_stop(b, PEN_ERR_INVALID, "paddings of %lld and %lld", (long long)pads[2 * i],
                       (long long)pads[2 * i + 1]);
    }
    if (strcmp(mode, "symmetric") == 0) {
        if (known)
            return pad_symmetric(b, x, pads, count / 2);
        build_stop(b, PEN_ERR_UNSUPPORTED, "symmetric paddings must be constant");
        return VALUE_NONE;
    }
    if (known) {
        list = build_i64(b, turned, count);
    } else {
        static const int64_t perm[] = {1, 0}, flat[] = {-1};
        list = build_transpose(b, build_cast(b, paddings, PEN_DTYPE_I64), perm, 2);
        list = build_2(b, OP_Reshape, list, build_i64(b, flat, 1));
    }
    uint32_t y = build_3(b, OP_Pad, x, list, value);
    build_text(b, ATTR_mode, mode);
    return y;
}

/* ---- arithmetic ----------------------------------------------------------------------------------------------------------------- */

uint32_t tf_floor_mod(struct build *b, uint32_t x, uint32_t y, bool integers)
{
    if (integers)
        return build_2(b, OP_Mod, x, y);
    uint32_t times = build_1(b, OP_Floor, build_2(b, OP_Div, x, y));
    return build_2(b, OP_Sub, x, build_2(b, OP_Mul, times, y));
}

uint32_t tf_floor_div(struct build *b, uint32_t x, uint32_t y, bool integers)
{
    if (!integers)
        return build_1(b, OP_Floor, build_2(b, OP_Div, x, y));
    uint32_t exact = build_2(b, OP_Sub, x, build_2(b, OP_Mod, x, y)); /* Mod takes the divisor's sign */
    return build_2(b, OP_Div, exact, y);
}

/* atan(y / x), moved by pi where x is negative. */
uint32_t tf_atan2(struct build *b, uint32_t y, uint32_t x)
{
    uint32_t zero = build_f32_scalar(b, 0.0f), pi = build_f32_scalar(b, 3.14159265358979f);
    uint32_t minus_pi = build_f32_scalar(b, -3.14159265358979f), half = build_f32_scalar(b, 1.57079632679490f);
    uint32_t plain = build_1(b, OP_Atan, build_2(b, OP_Div, y, x));
    uint32_t turn = build_3(b, OP_Where, build_2(b, OP_Less, y, zero), minus_pi, pi);
    turn = build_3(b, OP_Where, build_2(b, OP_Less, x, zero), turn, zero);
    uint32_t upright = build_2(b, OP_Mul, build_1(b, OP_Sign, y), half);
    uint32_t moved = build_2(b, OP_Add, plain, turn);
    return build_3(b, OP_Where, build_2(b, OP_Equal, x, zero), upright, moved);
}

uint32_t tf_squared_difference(struct build *b, uint32_t x, uint32_t y)
{
    uint32_t d = build_2(b, OP_Sub, x, y);
    return build_2(b, OP_Mul, d, d);
}

uint32_t tf_rsqrt(struct build *b, uint32_t x)
{
    return build_1(b, OP_Reciprocal, build_1(b, OP_Sqrt, x));
}

/* x / sqrt(max(sum(x^2), epsilon)) */
uint32_t tf_l2_normalise(struct build *b, uint32_t x, int64_t axis, float epsilon)
{
    uint32_t sum = build_reduce(b, OP_ReduceSumSquare, x, build_i64(b, &axis, 1), true);
    uint32_t floor = build_2(b, OP_Max, sum, build_f32_scalar(b, epsilon));
    return build_2(b, OP_Div, x, build_1(b, OP_Sqrt, floor));
}

static uint32_t adjoint(struct build *b, uint32_t x, int32_t rank)
{
    int64_t perm[PEN_MAX_RANK];
    if (rank < 2) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "a transposed factor of unknown rank");
        return VALUE_NONE;
    }
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    return build_transpose(b, x, perm, (uint32_t)rank);
}

uint32_t tf_matmul(struct build *b, uint32_t x, uint32_t y, bool adjoint_x, bool adjoint_y, int32_t rank_x,
                   int32_t rank_y)
{
    if (adjoint_x)
        x = adjoint(b, x, rank_x);
    if (adjoint_y)
        y = adjoint(b, y, rank_y);
    return build_2(b, OP_MatMul, x, y);
}

/* ---- moving data ------------------------------------------------------------------------------------------------------------------- */

/* An axis behind the batch: it is moved there, and what lay between is moved back in front of the picked places. */
static uint32_t gather_behind(struct build *b, uint32_t x, uint32_t indices, int64_t axis, int64_t batch)
{
    int32_t rank = build_rank(b, x), picks = build_rank(b, indices);
    int64_t perm[PEN_MAX_RANK], back[2 * PEN_MAX_RANK], n = 0, between = axis - batch;
    axis += axis < 0 ? rank : 0;
    if (rank < 1 || picks < 0 || batch < 0 || batch > axis || axis >= rank || rank + picks > PEN_MAX_RANK) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "a gather along axis %lld with %lld batch dimensions", (long long)axis,
                   (long long)batch);
        return VALUE_NONE;
    }
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i < batch || i > axis ? i : i == batch ? axis : i - 1;
    uint32_t y = tf_gather(b, build_transpose(b, x, perm, (uint32_t)rank), indices, batch, batch);
    for (int64_t i = 0; i < batch; i++)
        back[n++] = i;
    for (int64_t i = 0; i < between; i++)
        back[n++] = picks + i;
    for (int64_t i = batch; i < picks; i++)
        back[n++] = i;
    for (int64_t i = picks + between; i < rank - 1 + picks - batch; i++)
        back[n++] = i;
    return build_transpose(b, y, back, (uint32_t)n);
}

uint32_t tf_gather(struct build *b, uint32_t x, uint32_t indices, int64_t axis, int64_t batch_dims)
{
    uint32_t in[] = {x, indices};
    if (batch_dims == 0)
        return build_axis_op(b, OP_Gather, in, 2, axis);
    if (axis != batch_dims || batch_dims < 0)
        return gather_behind(b, x, indices, axis, batch_dims);
    uint32_t wide = build_cast(b, indices, PEN_DTYPE_I64); /* GatherND takes int64 only */
    uint32_t y = build_2(b, OP_GatherND, x, build_unsqueeze(b, wide, -1));
    build_int(b, ATTR_batch_dims, batch_dims);
    return y;
}

uint32_t tf_split_sizes(struct build *b, uint32_t x, uint32_t sizes, int64_t axis)
{
    int64_t items[SPLIT_MAX];
    uint32_t count = 0, zero = build_i64_scalar(b, 0);
    bool known = build_ints_of(b, sizes, items, SPLIT_MAX, &count), rest = !known;
    for (uint32_t i = 0; i < count; i++)
        rest |= items[i] < 0;
    uint32_t wide = known ? build_i64(b, items, count) : build_cast(b, sizes, PEN_DTYPE_I64);
    if (!rest)
        return wide;
    uint32_t pick[] = {build_1(b, OP_Shape, x), build_i64_scalar(b, axis)},
             whole = build_axis_op(b, OP_Gather, pick, 2, 0);
    uint32_t given =
        build_reduce(b, OP_ReduceSum, build_2(b, OP_Max, wide, zero), build_i64(b, (int64_t[]){0}, 1), false);
    return build_3(b, OP_Where, build_2(b, OP_Less, wide, zero), build_2(b, OP_Sub, whole, given), wide);
}

uint32_t tf_pack(struct build *b, const uint32_t *parts, uint32_t count, int64_t axis)
{
    uint32_t *wide = graph_alloc(b->g, ((size_t)count + 1) * sizeof *wide);
    if (!wide || count == 0) {
        build_stop(b, wide ? PEN_ERR_INVALID : PEN_ERR_NO_MEMORY, "nothing to stack");
        return VALUE_NONE;
    }
    for (uint32_t i = 0; i < count; i++)
        wide[i] = build_unsqueeze(b, parts[i], axis);
    return count == 1 ? wide[0] : build_axis_op(b, OP_Concat, wide, count, axis);
}

void tf_unpack(struct build *b, uint32_t x, int64_t axis, uint32_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t in[] = {x, build_i64_scalar(b, i)};
        out[i] = build_axis_op(b, OP_Gather, in, 2, axis);
    }
}

uint32_t tf_shape(struct build *b, uint32_t x, enum pen_dtype dtype)
{
    uint32_t shape = build_1(b, OP_Shape, x);
    return dtype == PEN_DTYPE_I64 ? shape : build_cast(b, shape, dtype);
}

/* The numbers of a list that was put together from parts; 1 for those that are not known. False when even their count is not known, or nothing is. */
static bool known_parts(struct build *b, uint32_t list, int64_t *dims, uint32_t *ret_count)
{
    const struct value *v = build_value(b, list);
    const struct node *n = v && v->producer != NODE_NONE ? &b->g->nodes[v->producer] : NULL;
    bool any = false;
    for (; n && n->op == OP_Cast && (v = build_value(b, n->in[0])) != NULL;)
        n = v->producer != NODE_NONE ? &b->g->nodes[v->producer] : NULL;
    *ret_count = 0;
    for (uint32_t i = 0; n && n->op == OP_Concat && i < n->in_count; i++) {
        uint32_t room = PEN_MAX_RANK - *ret_count, count = 0;
        if (build_ints_of(b, n->in[i], dims + *ret_count, room, &count)) {
            any = any || count > 0;
        } else if (build_dim(b, n->in[i], 0) == 1 && room > 0) {
            dims[*ret_count] = 1;
            count = 1;
        } else {
            return false;
        }
        *ret_count += count;
    }
    return any;
}

#define FILL_KNOWN_MAX 65536 /* elements of a constant that says what is known of a shape */

uint32_t tf_fill(struct build *b, uint32_t dims, uint32_t value)
{
    int64_t known[PEN_MAX_RANK], count = 1;
    uint32_t rank;
    if (known_parts(b, dims, known, &rank)) {
        for (uint32_t i = 0; i < rank && count <= FILL_KNOWN_MAX; i++)
            count = known[i] < 1 || known[i] > FILL_KNOWN_MAX ? FILL_KNOWN_MAX + 1 : count * known[i];
        if (count <= FILL_KNOWN_MAX)
            value = build_2(b, OP_Expand, value, build_i64(b, known, rank));
    }
    return build_2(b, OP_Expand, value, build_cast(b, dims, PEN_DTYPE_I64));
}

/* Places outside the depth give rows that are off, negative ones too: ours would count from the end. */
uint32_t tf_one_hot(struct build *b, uint32_t indices, uint32_t depth, uint32_t on, uint32_t off, int64_t axis)
{
    static const int64_t one[] = {1};
    enum pen_dtype dtype = build_dtype(b, indices);
    uint32_t parts[] = {build_reshape(b, off, one, 1), build_reshape(b, on, one, 1)},
             wide = build_cast(b, depth, PEN_DTYPE_I64);
    if (dtype != PEN_DTYPE_I64)
        indices = build_cast(b, indices, PEN_DTYPE_I64);
    uint32_t below = build_2(b, OP_Less, indices, build_i64_scalar(b, 0));
    uint32_t in[] = {build_3(b, OP_Where, below, build_reshape(b, wide, NULL, 0), indices), wide,
                     build_axis_op(b, OP_Concat, parts, 2, 0)};
    return build_axis_op(b, OP_OneHot, in, 3, axis);
}

void tf_top_k(struct build *b, uint32_t x, uint32_t k, uint32_t *ret_values, uint32_t *ret_indices)
{
    static const int64_t one[] = {1};
    uint32_t wide = build_2(b, OP_Reshape, build_cast(b, k, PEN_DTYPE_I64), build_i64(b, one, 1));
    uint32_t in[] = {x, wide}, out[2];
    build_many(b, OP_TopK, in, 2, out, 2);
    build_int(b, ATTR_axis, -1);
    *ret_values = out[0];
    *ret_indices = build_cast(b, out[1], PEN_DTYPE_I32);
}

uint32_t tf_non_max_suppression(struct build *b, const struct tf_nms *n, uint32_t *ret_scores)
{
    static const int64_t front[] = {0}, front2[] = {0, 1}, column[] = {2};
    uint32_t in[] = {build_2(b, OP_Unsqueeze, n->boxes, build_i64(b, front, 1)),
                     build_2(b, OP_Unsqueeze, n->scores, build_i64(b, front2, 2)),
                     build_cast(b, n->most, PEN_DTYPE_I64), n->overlap, n->score};
    uint32_t out[2] = {VALUE_NONE, VALUE_NONE}; /* [kept, 3]: batch, class, box; [kept] */
    build_many(b, OP_NonMaxSuppression, in, 5, out, n->sigma > 0.0f ? 2 : 1);
    if (n->sigma > 0.0f)
        build_float(b, ATTR_soft_sigma, n->sigma);
    uint32_t at = build_i64(b, column, 1), pick[] = {out[0], at};
    uint32_t kept = build_cast(b, build_squeeze(b, build_axis_op(b, OP_Gather, pick, 2, 1), 1), PEN_DTYPE_I32);
    uint32_t chosen_scores[] = {n->scores, kept};
    if (ret_scores)
        *ret_scores = out[1] != VALUE_NONE ? out[1] : build_axis_op(b, OP_Gather, chosen_scores, 2, 0);
    return kept;
}
