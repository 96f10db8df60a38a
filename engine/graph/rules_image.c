/* Resampling and rearranging of images and grids. */
#include <math.h>
#include <string.h>

#include "graph/axes.h"
#include "graph/infer_util.h"
#include "graph/rules.h"

/* ---- Resize --------------------------------------------------------------------------------------------------------- */

/* The axes that scales or sizes speak of: ATTR_axes, or all. 0 on a bad one. */
static uint32_t resized_axes(const struct infer *c, int32_t rank, int32_t *ret_axes)
{
    uint32_t count;
    const int64_t *axes = node_ints(c->n, ATTR_axes, &count);
    if (!axes)
        count = (uint32_t)rank;
    for (uint32_t i = 0; i < count; i++) {
        ret_axes[i < PEN_MAX_RANK ? i : 0] = axes ? shape_axis(axes[i], rank) : (int32_t)i;
        if (i >= PEN_MAX_RANK || ret_axes[i] < 0)
            return 0;
    }
    return count;
}

static enum pen_status by_scales(struct infer *c, const int32_t *axes, uint32_t count, struct shape *y,
                                 struct pen_error *reterr)
{
    const struct fact *f = &c->in[2];
    if (shape_elements(&f->shape) != (int64_t)count)
        return infer_fail(c, reterr, "scales must be one number per axis");
    for (uint32_t i = 0; i < count; i++) {
        float scale = ((const float *)f->data)[i];
        if (!(scale > 0) || scale > 1e6f)
            return infer_fail(c, reterr, "a scale is %g", (double)scale);
        if (y->dim[axes[i]] >= 0)
            y->dim[axes[i]] = (int64_t)floorf((float)y->dim[axes[i]] * scale);
    }
    return PEN_OK;
}

static enum pen_status by_sizes(struct infer *c, const int64_t *sizes, const int32_t *axes, uint32_t count,
                                struct shape *y, struct pen_error *reterr)
{
    bool larger = node_text_is(c->n, ATTR_keep_aspect_ratio_policy, "not_smaller", false);
    bool smaller = node_text_is(c->n, ATTR_keep_aspect_ratio_policy, "not_larger", false);
    float scale = larger ? 0.0f : INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return infer_fail(c, reterr, "a size is negative");
        float own = y->dim[axes[i]] > 0 ? (float)sizes[i] / (float)y->dim[axes[i]] : 1.0f;
        scale = larger ? fmaxf(scale, own) : fminf(scale, own);
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t *dim = &y->dim[axes[i]];
        if (!larger && !smaller)
            *dim = sizes[i];
        else if (*dim >= 0)
            *dim = (int64_t)floorf(scale * (float)*dim + 0.5f);
    }
    return PEN_OK;
}

enum pen_status infer_resize(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct shape y = *x;
    int32_t axes[PEN_MAX_RANK];
    int64_t sizes[PEN_MAX_RANK];
    size_t given = 0;
    enum pen_status status = PEN_OK;
    if (x->rank >= 0) {
        uint32_t count = resized_axes(c, x->rank, axes);
        int got = infer_ints(c, 3, sizes, PEN_MAX_RANK, &given);
        bool scaled = infer_ask(c, 2) && c->in[2].dtype == PEN_DTYPE_F32;
        if (count == 0 && x->rank > 0)
            return infer_fail(c, reterr, "axes are out of range");
        if (infer_has(c, 3) && got != 0) {
            if (got < 0 || given != count)
                return infer_fail(c, reterr, "sizes must be one number per axis");
            status = by_sizes(c, sizes, axes, count, &y, reterr);
        } else if (!infer_has(c, 3) && scaled) {
            status = by_scales(c, axes, count, &y, reterr);
        } else if (!infer_has(c, 2) && !infer_has(c, 3)) {
            status = infer_fail(c, reterr, "neither scales nor sizes are given");
        } else {
            for (uint32_t i = 0; i < count; i++)
                y.dim[axes[i]] = SHAPE_DIM_UNKNOWN;
        }
    }
    if (status == PEN_OK)
        infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return status;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------ */

enum pen_status infer_depth_to_space(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    int64_t block = node_int(c->n, ATTR_blocksize, 0);
    struct spatial_axes at;
    if (block < 1 || block > 65536)
        return infer_fail(c, reterr, "blocksize must be positive");
    if (y.rank >= 0) {
        if (y.rank != 4 || !spatial_axes_of(c->n, 4, &at))
            return infer_fail(c, reterr, "the input must have 4 dimensions");
        if (y.dim[at.channel] >= 0 && y.dim[at.channel] % (block * block) != 0)
            return infer_fail(c, reterr, "%lld channels do not divide by blocksize squared",
                              (long long)y.dim[at.channel]);
        y.dim[at.channel] = y.dim[at.channel] < 0 ? SHAPE_DIM_UNKNOWN : y.dim[at.channel] / (block * block);
        if (!infer_mul_add(y.dim[at.first], block, 0, &y.dim[at.first]) ||
            !infer_mul_add(y.dim[at.first + 1], block, 0, &y.dim[at.first + 1]))
            return infer_fail(c, reterr, "the result is too large");
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_space_to_depth(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 0);
    int64_t block = node_int(c->n, ATTR_blocksize, 0);
    struct spatial_axes at;
    if (block < 1 || block > 65536)
        return infer_fail(c, reterr, "blocksize must be positive");
    if (y.rank >= 0) {
        if (y.rank != 4 || !spatial_axes_of(c->n, 4, &at))
            return infer_fail(c, reterr, "the input must have 4 dimensions");
        for (int32_t i = at.first; i < at.first + 2; i++) {
            if (y.dim[i] >= 0 && y.dim[i] % block != 0)
                return infer_fail(c, reterr, "axis %d does not divide by blocksize", i);
            y.dim[i] = y.dim[i] < 0 ? SHAPE_DIM_UNKNOWN : y.dim[i] / block;
        }
        if (!infer_mul_add(y.dim[at.channel], block * block, 0, &y.dim[at.channel]))
            return infer_fail(c, reterr, "the result is too large");
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_col2im(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    int64_t image[PEN_MAX_RANK], block[PEN_MAX_RANK], cells = 1;
    size_t n_image, n_block;
    struct shape y = shape_unknown();
    int got = infer_ints(c, 1, image, PEN_MAX_RANK - 2, &n_image);
    int got_block = infer_ints(c, 2, block, PEN_MAX_RANK, &n_block);
    if (got < 0 || got_block < 0 || (x->rank >= 0 && x->rank != 3))
        return infer_fail(c, reterr, "the input must have 3 dimensions, image and block at most %d", PEN_MAX_RANK - 2);
    if (got == 1) {
        y = infer_unknown_of_rank((int32_t)n_image + 2);
        for (size_t i = 0; i < n_image; i++) {
            y.dim[2 + i] = image[i];
            if (image[i] < 0)
                return infer_fail(c, reterr, "the image has a negative size");
        }
        if (x->rank == 3)
            y.dim[0] = x->dim[0];
    }
    for (size_t i = 0; got_block == 1 && i < n_block; i++) {
        if (block[i] < 1 || __builtin_mul_overflow(cells, block[i], &cells))
            return infer_fail(c, reterr, "the block has a size that is not positive");
    }
    if (got == 1 && got_block == 1 && x->rank == 3 && x->dim[1] >= 0) {
        if (n_block != n_image || x->dim[1] % cells != 0)
            return infer_fail(c, reterr, "the input's second axis is not channels times block");
        y.dim[1] = x->dim[1] / cells;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

/* ---- grids and regions ----------------------------------------------------------------------------------------------------- */

enum pen_status infer_grid_sample(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *grid = infer_shape_of(c, 1);
    struct shape y = *x;
    if (x->rank >= 0 && (x->rank < 3 || (grid->rank >= 0 && grid->rank != x->rank)))
        return infer_fail(c, reterr, "input and grid must have the same 3 or more dimensions");
    for (int32_t i = 2; i < x->rank; i++)
        y.dim[i] = grid->rank == x->rank ? grid->dim[i - 1] : SHAPE_DIM_UNKNOWN;
    if (grid->rank == x->rank && x->rank > 0 && grid->dim[x->rank - 1] >= 0 && grid->dim[x->rank - 1] != x->rank - 2)
        return infer_fail(c, reterr, "the grid does not hold %d coordinates per point", x->rank - 2);
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

/* Size N, C, H, W or N, C, D, H, W gives N, H, W, 2 or N, D, H, W, 3. */
enum pen_status infer_affine_grid(struct infer *c, struct pen_error *reterr)
{
    int64_t size[PEN_MAX_RANK];
    size_t count;
    struct shape y = shape_unknown();
    int got = infer_ints(c, 1, size, PEN_MAX_RANK, &count);
    if (got < 0 || (got == 1 && count != 4 && count != 5))
        return infer_fail(c, reterr, "size must be 4 or 5 numbers");
    if (got == 1) {
        y.rank = (int32_t)count;
        y.dim[0] = size[0];
        for (size_t i = 2; i < count; i++)
            y.dim[i - 1] = size[i];
        y.dim[count - 1] = (int64_t)count - 2;
        for (int32_t i = 0; i < y.rank; i++) {
            if (y.dim[i] < 0)
                return infer_fail(c, reterr, "size is negative");
        }
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

static enum pen_status regions(struct infer *c, int64_t height, int64_t width, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *boxes = infer_shape_of(c, 1);
    struct shape y = infer_unknown_of_rank(4);
    if ((x->rank >= 0 && x->rank != 4) || (boxes->rank >= 0 && boxes->rank != 2) || height < 1 || width < 1)
        return infer_fail(c, reterr, "the input needs 4 dimensions, the boxes 2, the output a positive size");
    if (boxes->rank == 2)
        y.dim[0] = boxes->dim[0];
    if (x->rank == 4)
        y.dim[1] = x->dim[1];
    y.dim[2] = height;
    y.dim[3] = width;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

enum pen_status infer_roi_align(struct infer *c, struct pen_error *reterr)
{
    return regions(c, node_int(c->n, ATTR_output_height, 1), node_int(c->n, ATTR_output_width, 1), reterr);
}

enum pen_status infer_max_roi_pool(struct infer *c, struct pen_error *reterr)
{
    int64_t pooled[2];
    if (!node_attr(c->n, ATTR_pooled_shape) || !infer_list(c, ATTR_pooled_shape, 2, 1, 1, pooled))
        return infer_fail(c, reterr, "pooled_shape must be two positive numbers");
    return regions(c, pooled[0], pooled[1], reterr);
}

enum pen_status infer_image_decoder(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(3);
    (void)reterr;
    y.dim[2] = node_text_is(c->n, ATTR_pixel_format, "Grayscale", false) ? 1 : 3;
    infer_put(c, 0, PEN_DTYPE_U8, &y);
    return PEN_OK;
}
