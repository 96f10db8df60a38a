/* Reordering of elements: Transpose, DepthToSpace, SpaceToDepth, Expand, Tile. Source: ONNX. */
#include "backend/reference/raw.h"

#include <string.h>

/* Input 0 through strides into output 0 of shape `out`. */
static enum pen_status strided(struct kernel_call *k, const struct shape *walk, const struct shape *out,
                               const int64_t *strides, int64_t offset)
{
    struct raw x, y;
    enum pen_status status = raw_in(k, 0, &x);
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, out, &y);
    }
    if (status == PEN_OK) {
        raw_gather(y.data, x.data, x.size, walk, strides, offset);
        raw_done(k, 0, &y);
    }
    return status;
}

/* y[i_0, i_1, ...] = x with dim perm[d] of x running along d of y; default reverses. */
enum pen_status kernel_transpose(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    uint32_t count = 0;
    const int64_t *perm = node_ints(k->n, ATTR_perm, &count);
    int64_t own[PEN_MAX_RANK], strides[PEN_MAX_RANK];
    struct shape out = {.rank = in->rank};
    bool seen[PEN_MAX_RANK] = {false};
    if (perm != NULL && count != (uint32_t)in->rank) {
        return kernel_fail(k, PEN_ERR_INVALID, "perm has %u items for rank %d", count, in->rank);
    }
    dims_strides(in, own);
    for (int32_t d = 0; d < in->rank; d++) {
        int32_t from = 0;
        enum pen_status status = kernel_axis(k, perm != NULL ? perm[d] : in->rank - 1 - d, in->rank, &from);
        if (status != PEN_OK || seen[from]) {
            return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_INVALID, "perm names axis %d twice", from);
        }
        seen[from] = true;
        out.dim[d] = in->dim[from];
        strides[d] = own[from];
    }
    return strided(k, &out, &out, strides, 0);
}

/* A walk over 6 dims: the input is seen as [n, ...split channels or positions...]; `order` says which follows which in the output. */
static enum pen_status split_walk(struct kernel_call *k, const int64_t *dims, const int32_t *order,
                                  const struct shape *out)
{
    struct shape seen = shape_of(6, dims), walk = {.rank = 6};
    int64_t own[PEN_MAX_RANK], strides[PEN_MAX_RANK];
    dims_strides(&seen, own);
    for (int32_t d = 0; d < 6; d++) {
        walk.dim[d] = dims[order[d]];
        strides[d] = own[order[d]];
    }
    return strided(k, &walk, out, strides, 0);
}

/* Channels become b x b blocks of pixels: DCR takes the block from the outer part of the channels, CRD from the inner. */
enum pen_status kernel_depth_to_space(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int64_t b = node_int(k->n, ATTR_blocksize, 1);
    bool nhwc = node_int(k->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC,
         crd = node_text_is(k->n, ATTR_mode, "CRD", false);
    int64_t channels = in->rank == 4 ? in->dim[nhwc ? 3 : 1] : 0;
    if (in->rank != 4 || b < 1 || channels % (b * b) != 0) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld channels in blocks of %lld", (long long)channels, (long long)b);
    }
    int64_t n = in->dim[0], c = channels / (b * b), h = in->dim[nhwc ? 1 : 2], w = in->dim[nhwc ? 2 : 3];
    if (nhwc) {
        struct shape out = shape_of(4, (const int64_t[]){n, h * b, w * b, c});
        const int32_t dcr_order[] = {0, 1, 3, 2, 4, 5}, crd_order[] = {0, 1, 4, 2, 5, 3};
        const int64_t dcr_dims[] = {n, h, w, b, b, c}, crd_dims[] = {n, h, w, c, b, b};
        return split_walk(k, crd ? crd_dims : dcr_dims, crd ? crd_order : dcr_order, &out);
    }
    struct shape out = shape_of(4, (const int64_t[]){n, c, h * b, w * b});
    const int32_t dcr_order[] = {0, 3, 4, 1, 5, 2}, crd_order[] = {0, 1, 4, 2, 5, 3};
    const int64_t dcr_dims[] = {n, b, b, c, h, w}, crd_dims[] = {n, c, b, b, h, w};
    return split_walk(k, crd ? crd_dims : dcr_dims, crd ? crd_order : dcr_order, &out);
}

/* The reverse. */
enum pen_status kernel_space_to_depth(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    int64_t b = node_int(k->n, ATTR_blocksize, 1);
    bool nhwc = node_int(k->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC,
         crd = node_text_is(k->n, ATTR_mode, "CRD", false);
    int32_t at = nhwc ? 1 : 2;
    if (in->rank != 4 || b < 1 || in->dim[at] % b != 0 || in->dim[at + 1] % b != 0) {
        return kernel_fail(k, PEN_ERR_SHAPE, "the image does not divide into blocks of %lld", (long long)b);
    }
    int64_t n = in->dim[0], c = in->dim[nhwc ? 3 : 1], h = in->dim[at] / b, w = in->dim[at + 1] / b;
    if (nhwc) {
        struct shape out = shape_of(4, (const int64_t[]){n, h, w, c * b * b});
        const int32_t dcr_order[] = {0, 1, 3, 2, 4, 5}, crd_order[] = {0, 1, 3, 5, 2, 4};
        return split_walk(k, (const int64_t[]){n, h, b, w, b, c}, crd ? crd_order : dcr_order, &out);
    }
    struct shape out = shape_of(4, (const int64_t[]){n, c * b * b, h, w});
    const int32_t dcr_order[] = {0, 3, 5, 1, 2, 4}, crd_order[] = {0, 1, 3, 5, 2, 4};
    return split_walk(k, (const int64_t[]){n, c, h, b, w, b}, crd ? crd_order : dcr_order, &out);
}

/* Repeats dims of 1. */
enum pen_status kernel_expand(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    struct shape want = {.rank = 0}, out;
    size_t count = 0;
    int64_t own[PEN_MAX_RANK], strides[PEN_MAX_RANK];
    enum pen_status status = kernel_ints(k, 1, want.dim, PEN_MAX_RANK, &count);
    want.rank = (int32_t)count;
    for (int32_t d = 0; d < want.rank && status == PEN_OK; d++) {
        status = want.dim[d] < 0 ? kernel_fail(k, PEN_ERR_SHAPE, "dimension %lld", (long long)want.dim[d]) : PEN_OK;
    }
    if (status != PEN_OK) {
        return status;
    }
    if (!shape_broadcast(in, &want, &out)) {
        char a[96], b[96];
        return kernel_fail(k, PEN_ERR_SHAPE, "%s does not expand to %s", shape_text(in, a, sizeof a),
                           shape_text(&want, b, sizeof b));
    }
    dims_strides(in, own);
    for (int32_t d = 0; d < out.rank; d++) {
        int32_t e = d - (out.rank - in->rank);
        strides[d] = e < 0 || in->dim[e] == 1 ? 0 : own[e];
    }
    return strided(k, &out, &out, strides, 0);
}

/* Seen as [repeat_0, dim_0, repeat_1, dim_1, ...], one copy along each repeat; done dim by dim from the inside to stay within 8 dims. */
static void tile_dim(uint8_t *dst, const uint8_t *src, int64_t outer, int64_t run, int64_t repeats)
{
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t r = 0; r < repeats; r++) {
            memcpy(dst + (o * repeats + r) * run, src + o * run, (size_t)run);
        }
    }
}

enum pen_status kernel_tile(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    struct shape out = *in, part = *in;
    int64_t repeats[PEN_MAX_RANK];
    size_t count = 0;
    struct raw x, y;
    enum pen_status status = kernel_ints(k, 1, repeats, PEN_MAX_RANK, &count);
    for (int32_t d = 0; d < in->rank && status == PEN_OK; d++) {
        if (count != (size_t)in->rank || repeats[d] < 0 ||
            __builtin_mul_overflow(in->dim[d], repeats[d], &out.dim[d])) {
            status = kernel_fail(k, PEN_ERR_SHAPE, "repeats do not fit rank %d", in->rank);
        }
    }
    if (status == PEN_OK) {
        status = raw_in(k, 0, &x);
    }
    if (status == PEN_OK) {
        status = raw_out(k, 0, k->in[0].dtype, &out, &y);
    }
    if (status != PEN_OK || y.count == 0) {
        return status;
    }
    const uint8_t *from = x.data;
    for (int32_t d = in->rank - 1; d >= 0; d--) {
        int64_t outer = dims_product(&part, 0, d), run = dims_product(&part, d, part.rank) * (int64_t)x.size;
        uint8_t *to = kernel_scratch(k, (size_t)(outer * run * repeats[d]));
        if (to == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to repeat dimension %d", d);
        }
        tile_dim(to, from, outer, run, repeats[d]);
        part.dim[d] = out.dim[d];
        from = to;
    }
    memcpy(y.data, from, (size_t)y.count * y.size);
    raw_done(k, 0, &y);
    return PEN_OK;
}
