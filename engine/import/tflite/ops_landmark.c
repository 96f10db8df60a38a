/*
 * MediaPipe's operators around landmarks: an affine matrix from a subset of landmarks, images and landmarks moved by it. Source: MediaPipe's TFLite operations
 * (versions 2, and version 1 of TransformLandmarks).
 */
#include <math.h>
#include <string.h>

#include "import/build/sample.h"
#include "import/build/tensorflow.h"
#include "import/tflite/flexbuffer.h"
#include "import/tflite/reader.h"

#define SUBSET_MAX 1024

static uint32_t number(struct build *b, float x)
{
    return build_f32_scalar(b, x);
}

static uint32_t product(struct build *b, uint32_t x, uint32_t y)
{
    return build_2(b, OP_Mul, x, y);
}

static uint32_t sum(struct build *b, uint32_t x, uint32_t y)
{
    return build_2(b, OP_Add, x, y);
}

static uint32_t minus(struct build *b, uint32_t x, uint32_t y)
{
    return build_2(b, OP_Sub, x, y);
}

/* Element `at` of a flat list. */
static uint32_t item(struct build *b, uint32_t flat, int64_t at)
{
    uint32_t in[] = {flat, build_i64_scalar(b, at)};
    return build_axis_op(b, OP_Gather, in, 2, 0);
}

static uint32_t flat_in(struct call *c, uint32_t index)
{
    return build_reshape(c->b, lite_real(c, index), (int64_t[]){-1}, 1);
}

struct crop {
    int64_t subset[SUBSET_MAX], left, right, height, width;
    uint32_t count;
    float turn, scale_x, scale_y;
};

static bool crop_read(struct call *c, struct crop *k)
{
    struct flex_map m = flex_root(&c->custom_options);
    *k = (struct crop){.left = flex_int(&m, "left_rotation_idx", -1),
                       .right = flex_int(&m, "right_rotation_idx", -1),
                       .height = flex_int(&m, "output_height", 0),
                       .width = flex_int(&m, "output_width", 0),
                       .turn = flex_float(&m, "target_rotation_radians", 0.0f),
                       .scale_x = flex_float(&m, "scale_x", 0.0f),
                       .scale_y = flex_float(&m, "scale_y", 0.0f)};
    k->count = flex_ints(&m, "subset_idxs", k->subset, SUBSET_MAX);
    int64_t marks = shape_elements(&lite_tensor(c, 0)->shape) / 3;
    bool sane = k->count > 0 && k->left >= 0 && k->left < marks && k->right >= 0 && k->right < marks && k->height > 0 &&
                k->width > 0 && k->height < INT32_MAX && k->width < INT32_MAX && k->scale_x > 0.0f && k->scale_y > 0.0f;
    for (uint32_t i = 0; i < k->count; i++)
        sane &= k->subset[i] >= 0 && k->subset[i] < marks;
    if (!sane)
        build_miss(c->b, "Landmarks2TransformMatrix of version 1, or with such options");
    return sane;
}

/* Extent of the subset turned by the angle: its middle, turned back, and its size. */
static void box_of(struct call *c, const struct crop *k, uint32_t flat, uint32_t cosine, uint32_t sine,
                   uint32_t middle[2], uint32_t size[2])
{
    struct build *b = c->b;
    int64_t at[2][SUBSET_MAX];
    uint32_t turned[2], centre[2], half = number(b, 0.5f), first = build_i64(b, (int64_t[]){0}, 1);
    for (uint32_t i = 0; i < k->count; i++) {
        at[0][i] = 3 * k->subset[i];
        at[1][i] = at[0][i] + 1;
    }
    uint32_t x_in[] = {flat, build_i64(b, at[0], k->count)}, y_in[] = {flat, build_i64(b, at[1], k->count)};
    uint32_t x = build_axis_op(b, OP_Gather, x_in, 2, 0), y = build_axis_op(b, OP_Gather, y_in, 2, 0);
    turned[0] = minus(b, product(b, x, cosine), product(b, y, sine));
    turned[1] = sum(b, product(b, x, sine), product(b, y, cosine));
    for (int i = 0; i < 2; i++) {
        uint32_t most = build_reduce(b, OP_ReduceMax, turned[i], first, false);
        uint32_t least = build_reduce(b, OP_ReduceMin, turned[i], first, false);
        size[i] = minus(b, most, least);
        centre[i] = product(b, sum(b, most, least), half);
    }
    middle[0] = sum(b, product(b, centre[0], cosine), product(b, centre[1], sine));
    middle[1] = minus(b, product(b, centre[1], cosine), product(b, centre[0], sine));
}

/* shift to the middle, turn by -r, scale to the output's size, shift by half the output: rows of [1, 4, 4] */
void lower_landmarks_matrix(struct call *c)
{
    struct build *b = c->b;
    struct crop *k = graph_alloc(b->g, sizeof *k);
    uint32_t middle[2], size[2], one[16], zero = number(b, 0.0f);
    if (!k || !crop_read(c, k))
        return;
    uint32_t flat = flat_in(c, 0);
    uint32_t across = minus(b, item(b, flat, 3 * k->right), item(b, flat, 3 * k->left));
    uint32_t down = minus(b, item(b, flat, 3 * k->right + 1), item(b, flat, 3 * k->left + 1));
    uint32_t angle = minus(b, number(b, k->turn), tf_atan2(b, down, across));
    uint32_t cosine = build_1(b, OP_Cos, angle), sine = build_1(b, OP_Sin, angle);
    box_of(c, k, flat, cosine, sine, middle, size);
    uint32_t sx = product(b, size[0], number(b, k->scale_x / (float)k->width));
    uint32_t sy = product(b, size[1], number(b, k->scale_y / (float)k->height));
    uint32_t a[2][2] = {{product(b, cosine, sx), product(b, sine, sy)},
                        {build_1(b, OP_Neg, product(b, sine, sx)), product(b, cosine, sy)}};
    uint32_t half_x = number(b, (float)k->width * 0.5f), half_y = number(b, (float)k->height * 0.5f);
    for (int i = 0; i < 16; i++)
        one[i] = i == 10 || i == 15 ? number(b, 1.0f) : zero;
    for (int r = 0; r < 2; r++) {
        one[4 * r] = a[r][0];
        one[4 * r + 1] = a[r][1];
        one[4 * r + 3] = minus(b, middle[r], sum(b, product(b, a[r][0], half_x), product(b, a[r][1], half_y)));
    }
    for (int i = 0; i < 16; i++)
        one[i] = build_reshape(b, one[i], (int64_t[]){1}, 1);
    lite_give(c, 0, build_reshape(b, build_axis_op(b, OP_Concat, one, 16, 0), (int64_t[]){1, 4, 4}, 3));
}

/* The image read at the matrix's places of pixel centres; places outside give zeros. */
void lower_transform_tensor(struct call *c)
{
    struct build *b = c->b;
    struct flex_map m = flex_root(&c->custom_options);
    int64_t size[] = {flex_int(&m, "output_height", 0), flex_int(&m, "output_width", 0)};
    const struct tensor *y = lite_result(c, 0);
    uint32_t at[2], row[2], half = number(b, 0.5f);
    if (c->version < 2) {
        build_miss(b, "TransformTensorBilinear of version 1: it reads half a pixel beside version 2");
        return;
    }
    if (y->shape.rank == 4) { /* as the file has it */
        size[0] = y->shape.dim[1];
        size[1] = y->shape.dim[2];
    }
    if (!lite_tensor(c, 1) || lite_tensor(c, 0)->shape.rank != 4 || size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX ||
        size[1] > INT32_MAX) {
        build_stop(b, PEN_ERR_CORRUPT, "it needs an image, a matrix and the size of its result");
        return;
    }
    uint32_t matrix = flat_in(c, 1);
    at[0] = build_reshape(b, sum(b, tf_count_up(b, build_i64_scalar(b, size[1])), half), (int64_t[]){1, 1, -1}, 3);
    at[1] = build_reshape(b, sum(b, tf_count_up(b, build_i64_scalar(b, size[0])), half), (int64_t[]){1, -1, 1}, 3);
    for (int r = 0; r < 2; r++) {
        uint32_t along =
            sum(b, product(b, item(b, matrix, 4 * r), at[0]), product(b, item(b, matrix, 4 * r + 1), at[1]));
        row[r] = minus(b, sum(b, along, item(b, matrix, 4 * r + 3)), half);
    }
    struct tf_sampling how = {.outside = TF_OUTSIDE_WHOLE, .fill = number(b, 0.0f)};
    uint32_t entry = build_reshape(b, build_i64_scalar(b, 0), (int64_t[]){1, 1, 1}, 3);
    lite_give(c, 0, tf_sample(b, lite_real(c, 0), entry, row[1], row[0], &how));
}

/* x and y of each landmark by the matrix's first two rows; a third coordinate stays. */
void lower_transform_landmarks(struct call *c)
{
    struct build *b = c->b;
    struct flex_map m = flex_root(&c->custom_options);
    int64_t dims = flex_int(&m, "dimensions", 0);
    const struct tensor *t = lite_tensor(c, 0);
    float scale = flex_float(&m, "scale", 1.0f); /* version 1: of the shifts */
    if ((dims != 2 && dims != 3) || !lite_tensor(c, 1) || shape_elements(&t->shape) % dims != 0) {
        build_stop(b, PEN_ERR_CORRUPT, "its landmarks need 2 or 3 coordinates");
        return;
    }
    uint32_t marks = build_reshape(b, lite_real(c, 0), (int64_t[]){-1, dims}, 2), matrix = flat_in(c, 1), parts[3];
    uint32_t x = build_slice(b, marks, 1, 0, 1, 1), y = build_slice(b, marks, 1, 1, 2, 1);
    for (int r = 0; r < 2; r++) {
        uint32_t along = sum(b, product(b, item(b, matrix, 4 * r), x), product(b, item(b, matrix, 4 * r + 1), y));
        parts[r] = sum(b, along, product(b, item(b, matrix, 4 * r + 3), number(b, scale)));
    }
    if (dims == 3)
        parts[2] = build_slice(b, marks, 1, 2, 3, 1);
    uint32_t all = build_axis_op(b, OP_Concat, parts, (uint32_t)dims, 1);
    lite_give(c, 0, build_reshape(b, all, t->shape.dim, (uint32_t)t->shape.rank));
}
