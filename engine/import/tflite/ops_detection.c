/*
 * TFLite_Detection_PostProcess: boxes decoded from anchors, non-maximum suppression, results padded to a fixed number. Source: the interpreter's operator:
 * centre = code / scale * anchor size + anchor centre, size = exp(code / scale) * anchor size. And NON_MAX_SUPPRESSION_V4, _V5 by themselves.
 */
#include <math.h>

#include "import/build/tensorflow.h"
#include "import/tflite/flexbuffer.h"
#include "import/tflite/reader.h"

struct detection {
    int64_t most, per_box, per_class, classes;
    float score, overlap, scale[4]; /* y, x, h, w */
    bool by_class;
};

static bool options_read(struct call *c, struct detection *d)
{
    struct flex_map m = flex_root(&c->custom_options);
    *d = (struct detection){.most = flex_int(&m, "max_detections", 0),
                            .per_box = flex_int(&m, "max_classes_per_detection", 0),
                            .per_class = flex_int(&m, "detections_per_class", 100),
                            .classes = flex_int(&m, "num_classes", 0),
                            .score = flex_float(&m, "nms_score_threshold", 0.0f),
                            .overlap = flex_float(&m, "nms_iou_threshold", 0.0f),
                            .scale = {flex_float(&m, "y_scale", 0.0f), flex_float(&m, "x_scale", 0.0f),
                                      flex_float(&m, "h_scale", 0.0f), flex_float(&m, "w_scale", 0.0f)},
                            .by_class = flex_int(&m, "use_regular_nms", 0) != 0};
    bool sane = d->most > 0 && d->most < 1000000 && d->per_box > 0 && d->per_box <= d->classes &&
                d->classes < 1000000 && d->per_class > 0 && d->per_class < 1000000;
    for (int i = 0; i < 4; i++)
        sane &= d->scale[i] > 0.0f && isfinite(d->scale[i]);
    const struct tensor *boxes = lite_tensor(c, 0), *scores = lite_tensor(c, 1), *anchors = lite_tensor(c, 2);
    sane &= boxes && scores && anchors && boxes->shape.rank == 3 && scores->shape.rank == 3 &&
            anchors->shape.rank == 2 && boxes->shape.dim[0] == 1 && boxes->shape.dim[2] >= 4 &&
            scores->shape.dim[2] >= d->classes && c->out.count >= 4;
    if (!sane)
        build_stop(c->b, PEN_ERR_CORRUPT, "its options do not suit its inputs");
    return sane;
}

static uint32_t column(struct build *b, uint32_t x, int64_t which)
{
    return build_slice(b, x, 1, which, which + 1, 1);
}

/* [n, 4] as y1, x1, y2, x2 */
static uint32_t boxes_decoded(struct call *c, const struct detection *d)
{
    struct build *b = c->b;
    uint32_t code = build_squeeze(b, lite_real(c, 0), 0), anchor = lite_real(c, 2), ends[4],
             half = build_f32_scalar(b, 0.5f);
    for (int64_t i = 0; i < 2; i++) {
        uint32_t size = column(b, anchor, 2 + i), scale = build_f32_scalar(b, d->scale[i]),
                 wide = build_f32_scalar(b, d->scale[2 + i]);
        uint32_t middle = build_2(b, OP_Mul, build_2(b, OP_Div, column(b, code, i), scale), size);
        middle = build_2(b, OP_Add, middle, column(b, anchor, i));
        uint32_t reach = build_2(b, OP_Mul, build_1(b, OP_Exp, build_2(b, OP_Div, column(b, code, 2 + i), wide)), size);
        reach = build_2(b, OP_Mul, reach, half);
        ends[i] = build_2(b, OP_Sub, middle, reach);
        ends[2 + i] = build_2(b, OP_Add, middle, reach);
    }
    return build_axis_op(b, OP_Concat, ends, 4, 1);
}

/* Rows of zeros behind, up to `rows`, in the result's shape. */
static uint32_t filled_up(struct build *b, uint32_t x, int64_t rows, int64_t width)
{
    uint32_t have = build_slice(b, build_1(b, OP_Shape, x), 0, 0, 1, 1), zero = build_i64(b, (int64_t[]){0}, 1);
    uint32_t lack = build_2(b, OP_Sub, build_i64(b, &rows, 1), have), pads[] = {zero, zero, lack, zero};
    uint32_t list = width > 0 ? build_axis_op(b, OP_Concat, pads, 4, 0)
                              : build_axis_op(b, OP_Concat, (uint32_t[]){zero, lack}, 2, 0);
    return build_reshape(b, build_2(b, OP_Pad, x, list), (int64_t[]){1, rows, 4}, width > 0 ? 3 : 2);
}

/* kept: one row per box. */
static void results_give(struct call *c, uint32_t kept, uint32_t boxes, uint32_t classes, uint32_t scores, int64_t rows)
{
    struct build *b = c->b;
    uint32_t count = build_cast(b, build_slice(b, build_1(b, OP_Shape, kept), 0, 0, 1, 1), PEN_DTYPE_F32);
    lite_give(c, 0, filled_up(b, boxes, rows, 4));
    lite_give(c, 1, filled_up(b, build_cast(b, classes, PEN_DTYPE_F32), rows, 0));
    lite_give(c, 2, filled_up(b, scores, rows, 0));
    lite_give(c, 3, count);
}

/* One suppression for all classes by each box's best score; each kept box gives its best classes. */
static void any_class(struct call *c, const struct detection *d, uint32_t boxes, uint32_t scores)
{
    struct build *b = c->b;
    uint32_t top[] = {scores, build_i64(b, &d->per_box, 1)}, best[2], flat = build_i64(b, (int64_t[]){-1}, 1);
    build_many(b, OP_TopK, top, 2, best, 2); /* [n, per box] */
    build_int(b, ATTR_axis, 1);
    struct tf_nms n = {.boxes = boxes,
                       .scores = build_reduce(b, OP_ReduceMax, scores, build_i64(b, (int64_t[]){1}, 1), false),
                       .most = build_i64_scalar(b, d->most),
                       .overlap = build_f32_scalar(b, d->overlap),
                       .score = build_f32_scalar(b, nextafterf(d->score, -INFINITY))}; /* the threshold itself passes */
    uint32_t kept = tf_non_max_suppression(b, &n, NULL), picked[3], from[] = {boxes, best[1], best[0]};
    for (int i = 0; i < 3; i++) {
        uint32_t in[] = {from[i], kept};
        picked[i] = build_axis_op(b, OP_Gather, in, 2, 0);
    }
    int64_t per_box = d->per_box;
    uint32_t wide = build_2(b, OP_Tile, build_unsqueeze(b, picked[0], 1), build_i64(b, (int64_t[]){1, per_box, 1}, 3));
    results_give(c, kept, build_reshape(b, wide, (int64_t[]){-1, 4}, 2), build_2(b, OP_Reshape, picked[1], flat),
                 build_2(b, OP_Reshape, picked[2], flat), d->most * per_box);
}

/* A suppression for each class, then the best of all. */
static void each_class(struct call *c, const struct detection *d, uint32_t boxes, uint32_t scores)
{
    struct build *b = c->b;
    uint32_t in[] = {build_unsqueeze(b, boxes, 0),
                     build_unsqueeze(b, build_transpose(b, scores, (int64_t[]){1, 0}, 2), 0),
                     build_i64_scalar(b, d->per_class), build_f32_scalar(b, d->overlap),
                     build_f32_scalar(b, nextafterf(d->score, -INFINITY))};
    uint32_t kept = build_op(b, OP_NonMaxSuppression, in, 5); /* batch, class, box */
    uint32_t class = build_squeeze(b, column(b, kept, 1), 1), box = build_squeeze(b, column(b, kept, 2), 1);
    uint32_t place[] = {build_unsqueeze(b, box, 1), build_unsqueeze(b, class, 1)};
    uint32_t score = build_2(b, OP_GatherND, scores, build_axis_op(b, OP_Concat, place, 2, 1));
    uint32_t count = build_reshape(b, build_1(b, OP_Size, class), (int64_t[]){1}, 1);
    uint32_t top[] = {score, build_2(b, OP_Min, count, build_i64(b, &d->most, 1))}, best[2];
    build_many(b, OP_TopK, top, 2, best, 2);
    uint32_t class_in[] = {class, best[1]}, box_in[] = {box, best[1]};
    uint32_t chosen[] = {boxes, build_axis_op(b, OP_Gather, box_in, 2, 0)};
    results_give(c, best[0], build_axis_op(b, OP_Gather, chosen, 2, 0), build_axis_op(b, OP_Gather, class_in, 2, 0),
                 best[0], d->most);
}

void lower_detection(struct call *c)
{
    struct detection d;
    if (!options_read(c, &d))
        return;
    int64_t labels = lite_tensor(c, 1)->shape.dim[2];
    uint32_t scores = build_squeeze(c->b, lite_real(c, 1), 0), boxes = boxes_decoded(c, &d);
    scores = build_slice(c->b, scores, 1, labels - d.classes, labels, 1); /* a background class comes first */
    if (d.by_class)
        each_class(c, &d, boxes, scores);
    else
        any_class(c, &d, boxes, scores);
}

/* Fills a list up to `most` with zeros. */
static uint32_t padded(struct build *b, uint32_t x, uint32_t most, uint32_t count)
{
    uint32_t parts[] = {build_i64(b, (int64_t[]){0}, 1), build_2(b, OP_Sub, most, count)};
    return build_2(b, OP_Pad, x, build_axis_op(b, OP_Concat, parts, 2, 0));
}

/* boxes, scores, most, overlap, score (and sigma): indices, (scores,) number; all filled up to `most` */
void lower_nms(struct call *c)
{
    static const int64_t one[] = {1};
    struct build *b = c->b;
    bool five = tflite_row_find(c->code)->op == 5;
    struct tf_nms n = {.boxes = lite_in(c, 0),
                       .scores = lite_in(c, 1),
                       .most = lite_in(c, 2),
                       .overlap = lite_in(c, 3),
                       .score = lite_in(c, 4)};
    uint32_t scores = VALUE_NONE;
    if (five && !build_f32_of(b, lite_in(c, 5), &n.sigma)) {
        build_stop(b, PEN_ERR_UNSUPPORTED, "its sigma must be constant");
        return;
    }
    uint32_t kept = tf_non_max_suppression(b, &n, five ? &scores : NULL);
    uint32_t most = build_2(b, OP_Reshape, build_cast(b, lite_in(c, 2), PEN_DTYPE_I64), build_i64(b, one, 1));
    uint32_t count = build_1(b, OP_Shape, kept), last = five ? 2 : 1;
    lite_give(c, 0, padded(b, kept, most, count));
    if (five)
        lite_give(c, 1, padded(b, scores, most, count));
    uint32_t scalar = build_squeeze(b, build_cast(b, count, PEN_DTYPE_I32), 0);
    lite_give(c, last, scalar);
}
