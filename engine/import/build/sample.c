#include "import/build/sample.h"

uint32_t tf_size_of(struct build *b, uint32_t x, int64_t axis)
{
    uint32_t in[] = {build_1(b, OP_Shape, x), build_i64_scalar(b, axis)};
    return build_axis_op(b, OP_Gather, in, 2, 0);
}

uint32_t tf_count_up(struct build *b, uint32_t count)
{
    uint32_t wide = build_cast(b, count, PEN_DTYPE_I64);
    uint32_t at = build_3(b, OP_Range, build_i64_scalar(b, 0), wide, build_i64_scalar(b, 1));
    return build_cast(b, at, PEN_DTYPE_F32);
}

/* Sizes and coordinates of one image, as the steps below need them. */
struct grid {
    uint32_t rows; /* [batch * h * w, c] */
    uint32_t height, width, entry;
    uint32_t last_y, last_x; /* f32 */
};

static struct grid grid_of(struct build *b, uint32_t image, uint32_t entry)
{
    uint32_t channels = build_reshape(b, tf_size_of(b, image, 3), (int64_t[]){1}, 1),
             minus = build_i64(b, (int64_t[]){-1}, 1);
    uint32_t flat[] = {minus, channels}, one = build_i64_scalar(b, 1);
    struct grid g = {.height = tf_size_of(b, image, 1), .width = tf_size_of(b, image, 2), .entry = entry};
    g.rows = build_2(b, OP_Reshape, image, build_axis_op(b, OP_Concat, flat, 2, 0));
    g.last_y = build_cast(b, build_2(b, OP_Sub, g.height, one), PEN_DTYPE_F32);
    g.last_x = build_cast(b, build_2(b, OP_Sub, g.width, one), PEN_DTYPE_F32);
    return g;
}

static uint32_t beyond(struct build *b, uint32_t at, uint32_t last)
{
    return build_2(b, OP_Or, build_2(b, OP_Less, at, build_f32_scalar(b, 0.0f)), build_2(b, OP_Greater, at, last));
}

static uint32_t kept_in(struct build *b, uint32_t at, uint32_t last)
{
    return build_2(b, OP_Max, build_2(b, OP_Min, at, last), build_f32_scalar(b, 0.0f));
}

/* The pixel at whole coordinates, which are moved inside first. */
static uint32_t pixel(struct build *b, const struct grid *g, uint32_t y, uint32_t x, const struct tf_sampling *how)
{
    uint32_t row = build_cast(b, kept_in(b, y, g->last_y), PEN_DTYPE_I64),
             column = build_cast(b, kept_in(b, x, g->last_x), PEN_DTYPE_I64);
    uint32_t line = build_2(b, OP_Add, build_2(b, OP_Mul, g->entry, g->height), row);
    uint32_t in[] = {g->rows, build_2(b, OP_Add, build_2(b, OP_Mul, line, g->width), column)};
    uint32_t value = build_axis_op(b, OP_Gather, in, 2, 0);
    if (how->outside != TF_OUTSIDE_CORNER)
        return value;
    uint32_t out = build_2(b, OP_Or, beyond(b, y, g->last_y), beyond(b, x, g->last_x));
    return build_3(b, OP_Where, build_unsqueeze(b, out, -1), how->fill, value);
}

static uint32_t between(struct build *b, uint32_t from, uint32_t to, uint32_t part)
{
    return build_2(b, OP_Add, from, build_2(b, OP_Mul, build_2(b, OP_Sub, to, from), part));
}

static uint32_t bilinear(struct build *b, const struct grid *g, uint32_t y, uint32_t x, const struct tf_sampling *how)
{
    uint32_t one = build_f32_scalar(b, 1.0f), top = build_1(b, OP_Floor, y), left = build_1(b, OP_Floor, x);
    uint32_t bottom = build_2(b, OP_Add, top, one), right = build_2(b, OP_Add, left, one);
    uint32_t down = build_unsqueeze(b, build_2(b, OP_Sub, y, top), -1),
             across = build_unsqueeze(b, build_2(b, OP_Sub, x, left), -1);
    uint32_t upper = between(b, pixel(b, g, top, left, how), pixel(b, g, top, right, how), across);
    uint32_t lower = between(b, pixel(b, g, bottom, left, how), pixel(b, g, bottom, right, how), across);
    return between(b, upper, lower, down);
}

uint32_t tf_sample(struct build *b, uint32_t image, uint32_t entry, uint32_t y, uint32_t x,
                   const struct tf_sampling *how)
{
    struct grid g = grid_of(b, image, entry);
    if (how->outside == TF_OUTSIDE_CLAMP) {
        y = kept_in(b, y, g.last_y);
        x = kept_in(b, x, g.last_x);
    }
    uint32_t half = build_f32_scalar(b, 0.5f);
    uint32_t value = how->nearest ? pixel(b, &g, build_1(b, OP_Floor, build_2(b, OP_Add, y, half)),
                                          build_1(b, OP_Floor, build_2(b, OP_Add, x, half)), how)
                                  : bilinear(b, &g, y, x, how);
    if (how->outside != TF_OUTSIDE_WHOLE)
        return value;
    uint32_t out = build_2(b, OP_Or, beyond(b, y, g.last_y), beyond(b, x, g.last_x));
    return build_3(b, OP_Where, build_unsqueeze(b, out, -1), how->fill, value);
}

/* Along one axis: from + i (to - from) / (count - 1), or the middle when there is but one; times the last pixel's place. [n, count] */
static uint32_t crop_places(struct build *b, uint32_t from, uint32_t to, uint32_t count, uint32_t last)
{
    uint32_t one = build_f32_scalar(b, 1.0f), zero = build_f32_scalar(b, 0.0f);
    uint32_t gaps = build_2(b, OP_Sub, build_cast(b, count, PEN_DTYPE_F32), one);
    uint32_t single = build_2(b, OP_LessOrEqual, gaps, zero);
    uint32_t safe = build_2(b, OP_Max, gaps, one), way = build_2(b, OP_Mul, build_2(b, OP_Sub, to, from), last);
    uint32_t start = build_2(b, OP_Mul, from, last);
    uint32_t middle =
        build_2(b, OP_Mul, build_2(b, OP_Mul, build_2(b, OP_Add, from, to), build_f32_scalar(b, 0.5f)), last);
    uint32_t step = build_2(b, OP_Div, way, safe), at = tf_count_up(b, count);
    uint32_t spread = build_2(b, OP_Add, start, build_2(b, OP_Mul, at, step));
    return build_3(b, OP_Where, single, middle, spread);
}

uint32_t tf_crop_and_resize(struct build *b, uint32_t image, uint32_t boxes, uint32_t entries, uint32_t size,
                            bool nearest, float fill)
{
    uint32_t side[4], place[2], one = build_i64_scalar(b, 1);
    for (int64_t i = 0; i < 4; i++)
        side[i] = build_slice(b, boxes, 1, i, i + 1, 1); /* [n, 1] */
    for (int64_t i = 0; i < 2; i++) {
        uint32_t pick[] = {size, build_i64_scalar(b, i)}, count = build_axis_op(b, OP_Gather, pick, 2, 0);
        uint32_t last = build_cast(b, build_2(b, OP_Sub, tf_size_of(b, image, 1 + i), one), PEN_DTYPE_F32);
        place[i] = crop_places(b, side[i], side[2 + i], count, last);
    }
    struct tf_sampling how = {.nearest = nearest, .outside = TF_OUTSIDE_WHOLE, .fill = build_f32_scalar(b, fill)};
    uint32_t entry = build_reshape(b, build_cast(b, entries, PEN_DTYPE_I64), (int64_t[]){-1, 1, 1}, 3);
    return tf_sample(b, image, entry, build_unsqueeze(b, place[0], 2), build_unsqueeze(b, place[1], 1), &how);
}

/* p[first] x + p[first + 1] y + p[first + 2] */
static uint32_t plane(struct build *b, const uint32_t *p, uint32_t x, uint32_t y)
{
    return build_2(b, OP_Add, build_2(b, OP_Add, build_2(b, OP_Mul, p[0], x), build_2(b, OP_Mul, p[1], y)), p[2]);
}

uint32_t tf_project(struct build *b, uint32_t image, uint32_t transforms, uint32_t size, const struct tf_sampling *how)
{
    uint32_t p[9], at[2];
    for (int64_t i = 0; i < 8; i++)
        p[i] = build_unsqueeze(b, build_slice(b, transforms, 1, i, i + 1, 1), 2); /* [n, 1, 1] */
    p[8] = build_f32_scalar(b, 1.0f);
    for (int64_t i = 0; i < 2; i++) {
        uint32_t pick[] = {size, build_i64_scalar(b, i)};
        at[i] = tf_count_up(b, build_axis_op(b, OP_Gather, pick, 2, 0));
    }
    uint32_t y = build_reshape(b, at[0], (int64_t[]){1, -1, 1}, 3),
             x = build_reshape(b, at[1], (int64_t[]){1, 1, -1}, 3);
    uint32_t k = plane(b, p + 6, x, y);
    uint32_t from_x = build_2(b, OP_Div, plane(b, p, x, y), k), from_y = build_2(b, OP_Div, plane(b, p + 3, x, y), k);
    uint32_t count = tf_size_of(b, image, 0);
    uint32_t entry = build_3(b, OP_Range, build_i64_scalar(b, 0), count, build_i64_scalar(b, 1));
    return tf_sample(b, image, build_reshape(b, entry, (int64_t[]){-1, 1, 1}, 3), from_y, from_x, how);
}
