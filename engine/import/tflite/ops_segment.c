/* Rows joined by segment, diagonals, buckets. */
#include <float.h>

#include "import/build/sample.h"
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

/* What a segment without rows holds, and how rows meet. */
static const struct {
    const char *how;
    double real, whole;
} kinds[] = {{"add", 0, 0},
             {"mul", 1, 1},
             {"max", -(double)FLT_MAX, -2147483648.0},
             {"add", 0, 0},
             {"min", (double)FLT_MAX, 2147483647.0}};

/* data, ids, number of segments (SEGMENT_SUM: as many as the last id needs). Rows of negative ids go to a segment that is cut off again. */
void lower_segment(struct call *c)
{
    struct build *b = c->b;
    const struct tensor *x = lite_tensor(c, 0);
    int kind = tflite_row_find(c->code)->op;
    uint32_t ids = build_cast(b, lite_in(c, 1), PEN_DTYPE_I64), one = build_i64(b, (int64_t[]){1}, 1),
             zero = build_i64(b, (int64_t[]){0}, 1);
    uint32_t count = kind == 0 ? build_2(b, OP_Add, build_reduce(b, OP_ReduceMax, ids, zero, true), one)
                               : build_reshape(b, build_cast(b, lite_in(c, 2), PEN_DTYPE_I64), (int64_t[]){1}, 1);
    if (!lite_tensor(c, 1) || lite_tensor(c, 1)->shape.rank != 1) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "its ids must be a list");
        return;
    }
    uint32_t at = build_3(b, OP_Where, build_2(b, OP_Less, ids, zero), count, ids);
    uint32_t dims[] = {build_2(b, OP_Add, count, one),
                       build_slice(b, build_1(b, OP_Shape, lite_in(c, 0)), 0, 1, INT64_MAX, 1)};
    uint32_t empty = build_scalar(b, x->dtype, x->dtype == PEN_DTYPE_F32 ? kinds[kind].real : kinds[kind].whole);
    uint32_t rows = build_2(b, OP_Expand, empty, build_axis_op(b, OP_Concat, dims, 2, 0));
    uint32_t y = build_3(b, OP_ScatterND, rows, build_unsqueeze(b, at, 1), lite_in(c, 0));
    build_text(b, ATTR_reduction, kinds[kind].how);
    uint32_t cut[] = {y, zero, count, zero};
    lite_give(c, 0, build_op(b, OP_Slice, cut, 4));
}

/* x [..., h, w] with its diagonals replaced by [..., min(h, w)] */
void lower_matrix_set_diag(struct call *c)
{
    struct build *b = c->b;
    const struct tensor *x = lite_tensor(c, 0);
    if (x->shape.rank < 2) {
        build_stop(b, PEN_ERR_CORRUPT, "it needs a matrix");
        return;
    }
    int64_t h = x->shape.dim[x->shape.rank - 2], w = x->shape.dim[x->shape.rank - 1];
    uint32_t rows = build_unsqueeze(b, tf_count_up(b, build_i64_scalar(b, h)), 1),
             columns = tf_count_up(b, build_i64_scalar(b, w));
    uint32_t diagonal = build_unsqueeze(b, lite_in(c, 1), h <= w ? -1 : -2);
    lite_give(c, 0, build_3(b, OP_Where, build_2(b, OP_Equal, rows, columns), diagonal, lite_in(c, 0)));
}

/* How many of the boundaries each number reaches. */
void lower_bucketize(struct call *c)
{
    struct build *b = c->b;
    struct fb_list list = fb_vector(&c->options, 0, 4);
    float edges[256];
    if (list.count > 256) {
        build_stop(b, PEN_ERR_TOO_LARGE, "it has %u boundaries", list.count);
        return;
    }
    for (uint32_t i = 0; i < list.count; i++)
        edges[i] = fb_list_float(&list, i);
    uint32_t x = build_unsqueeze(b, build_cast(b, lite_in(c, 0), PEN_DTYPE_F32), -1);
    uint32_t reached = build_2(b, OP_LessOrEqual, build_f32(b, edges, list.count), x);
    lite_give(
        c, 0,
        build_reduce(b, OP_ReduceSum, build_cast(b, reached, PEN_DTYPE_I32), build_i64(b, (int64_t[]){-1}, 1), false));
}
