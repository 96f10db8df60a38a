/* LinearClassifier and LinearRegressor are a Gemm, and what scores mean; SVMClassifier has its own operator. Source: ONNX-ML. */
#include "graph/scores.h"
#include "import/onnx/ml.h"

#include <string.h>

/* One row [features] is a table [1, features]. */
static uint32_t table_of(struct call *c, uint32_t x)
{
    static const int64_t one_row[2] = {1, -1};
    if (c->status != PEN_OK || c->g->values[x].shape.rank != 1)
        return x;
    return call_value(c, OP_Reshape, (uint32_t[]){x, call_i64(c, one_row, 2, false)}, 2);
}

/* x [rows, features] -> x w^T + b [rows, columns]; *columns from the intercepts, else as given. shared: one intercept is that of all columns. */
static uint32_t product(struct call *c, uint32_t *columns, bool shared)
{
    const float *w = NULL, *b = NULL;
    uint32_t count = 0, biases = 0;
    if (call_input(c, 0) == VALUE_NONE || !call_floats(c, "coefficients", &w, &count)) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no input or no coefficients", c->name, c->origin);
        return VALUE_NONE;
    }
    if (call_floats(c, "intercepts", &b, &biases) && biases > 0 && (biases > 1 || !shared))
        *columns = biases;
    if (*columns == 0 || count % *columns != 0) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): %u coefficients do not suit %u intercepts", c->name, c->origin,
                  count, *columns);
        return VALUE_NONE;
    }
    uint32_t x = table_of(c, ml_as_f32(c, call_input(c, 0)));
    uint32_t in[3] = {x, ml_floats(c, w, count, (int64_t[]){*columns, count / *columns}, 2), VALUE_NONE};
    if (biases > 0)
        in[2] = ml_floats(c, b, biases, (int64_t[]){biases}, 1);
    uint32_t y = call_value(c, OP_Gemm, in, biases > 0 ? 3 : 2);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[y].producer, ATTR_transB, 1);
    return y;
}

void up_linear_classifier(struct call *c)
{
    uint32_t labels = ml_label_count(c), columns = labels;
    uint32_t raw = product(c, &columns, false);
    if (c->status != PEN_OK)
        return;
    bool pair = columns == 1 && labels == 2;
    if (!pair && columns != 1 && labels < columns) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has %u classes for %u scores", c->name, c->origin, labels, columns);
        return;
    }
    ml_put_classes(c, raw, pair ? SCORE_PAIR : SCORE_MOST, pair ? 2 : columns, NULL, 0, columns == 1 && !pair);
}

void up_linear_regressor(struct call *c)
{
    uint32_t targets = (uint32_t)call_int(c, "targets", 1);
    uint32_t y = product(c, &targets, true);
    if (c->status != PEN_OK)
        return;
    if (!call_attr(c, "post_transform") || call_text_is(c, "post_transform", "NONE")) {
        ml_put(c, y);
        return;
    }
    uint32_t out[2] = {VALUE_NONE, c->out[0]};
    c->status = graph_value(c->g, NULL, &out[0]);
    uint32_t node = call_emit(c, OP_ClassScores, &y, 1, out, 2);
    call_set_int(c, node, ATTR_rule, SCORE_MOST);
    call_set_int(c, node, ATTR_classes, targets);
    call_copy_attrs(c, node, (const char *const[]){"coefficients", "intercepts", "targets", NULL});
}

void up_svm_classifier(struct call *c)
{
    uint32_t out[2] = {VALUE_NONE, c->out_count > 1 ? c->out[1] : VALUE_NONE}, classes = ml_label_count(c);
    if (call_input(c, 0) == VALUE_NONE || classes == 0) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no input or no classes", c->name, c->origin);
        return;
    }
    for (uint32_t i = 0; i < 2 && c->status == PEN_OK; i++) {
        if (out[i] == VALUE_NONE)
            c->status = graph_value(c->g, NULL, &out[i]);
    }
    uint32_t x = ml_as_f32(c, call_input(c, 0));
    uint32_t node = call_emit(c, OP_SVMClassifier, &x, 1, out, 2);
    call_copy_attrs(c, node, (const char *const[]){"classlabels_strings", "classlabels_ints", NULL});
    call_set_int(c, node, ATTR_classes, classes);
    if (c->status == PEN_OK)
        ml_put_labels(c, out[0], false);
}
