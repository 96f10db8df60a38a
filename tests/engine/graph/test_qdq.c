/* Operators between DequantizeLinear and QuantizeLinear on bytes: the same numbers within one step, and integers all the way. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "build.h"
#include "graph/pass.h"

static uint32_t constant(struct graph *g, enum pen_dtype dtype, int32_t rank, const int64_t *dims, const void *data)
{
    const struct shape shape = shape_of(rank, dims);
    size_t bytes = 0;
    uint32_t id = VALUE_NONE;
    cr_assert_eq(shape_bytes(&shape, dtype, 0, &bytes), PEN_OK);
    cr_assert_eq(graph_constant(g, NULL, dtype, &shape, data, bytes, true, &id), PEN_OK);
    return id;
}

static uint32_t point(struct graph *g, enum pen_dtype dtype, int value)
{
    const uint8_t byte = (uint8_t)value;
    return constant(g, dtype, 0, NULL, &byte);
}

static uint32_t floats_of(struct graph *g, uint32_t bytes, float scale, int zero)
{
    return build_node(g, OP_DequantizeLinear,
                      IDS(bytes, build_scalar(g, scale), point(g, g->values[bytes].dtype, zero)));
}

static uint32_t bytes_of(struct graph *g, uint32_t floats, enum pen_dtype dtype, float scale, int zero)
{
    return build_node(g, OP_QuantizeLinear, IDS(floats, build_scalar(g, scale), point(g, dtype, zero)));
}

static uint32_t byte_weights(struct graph *g, int32_t rank, const int64_t *dims)
{
    int8_t items[4096];
    for (int i = 0; i < 4096; i++)
        items[i] = (int8_t)((i * 37 + i / 7) % 251 - 125);
    return constant(g, PEN_DTYPE_I8, rank, dims, items);
}

/* Runs the graph before and after the passes; no more than `left` nodes quantise or dequantise then. */
static void check(struct graph *g, enum op integer, uint32_t left)
{
    struct shape_env *before = run_graph(g);
    const struct pass_options options = {.fold = true, .fuse = true};
    struct pass_report report = {0};
    cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
    cr_assert_eq(report.quantised, 1u, "%s", op_def(integer)->name);
    cr_assert_eq(count_op(g, integer), 1u, "%s", op_def(integer)->name);
    cr_assert_eq(count_op(g, OP_DequantizeLinear) + count_op(g, OP_QuantizeLinear), left);
    struct shape_env *after = run_graph(g);
    const struct fact *a = &before->facts[g->outputs[0]], *b = &after->facts[g->outputs[0]];
    cr_assert_eq(a->dtype, b->dtype);
    cr_assert(shape_equal(&a->shape, &b->shape));
    int differ = 0;
    for (size_t i = 0; i < a->bytes; i++) {
        int p = a->dtype == PEN_DTYPE_I8 ? ((const int8_t *)a->data)[i] : ((const uint8_t *)a->data)[i];
        int q = b->dtype == PEN_DTYPE_I8 ? ((const int8_t *)b->data)[i] : ((const uint8_t *)b->data)[i];
        cr_assert(abs(p - q) <= 1, "%s: element %zu is %d, was %d", op_def(integer)->name, i, q, p);
        differ += p != q;
    }
    cr_assert(differ * 10 <= (int)a->bytes, "%d of %zu differ", differ, a->bytes);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

/* A float input made bytes and floats again: the former stays, for nothing is before it. */
static uint32_t input_of(struct graph *g, const char *name, enum pen_dtype dtype, int32_t rank, const int64_t *dims,
                         float scale, int zero)
{
    uint32_t bytes = bytes_of(g, build_input(g, name, rank, dims), dtype, scale, zero);
    g->values[bytes].dtype = dtype;
    return floats_of(g, bytes, scale, zero);
}

static struct graph *start(enum pen_dtype dtype, int32_t rank, const int64_t *dims, uint32_t *ret_floats)
{
    struct graph *g = build_graph();
    *ret_floats = input_of(g, "x", dtype, rank, dims, 0.02f, dtype == PEN_DTYPE_U8 ? 128 : 3);
    return g;
}

static void finish(struct graph *g, uint32_t floats, enum pen_dtype dtype, float scale, int zero)
{
    build_output(g, bytes_of(g, floats, dtype, scale, zero));
}

Test(qdq, convolutions_take_bias_and_activation_along)
{
    for (int form = 0; form < 4; form++) {
        uint32_t x, in[3], count = 2;
        struct graph *g = start(PEN_DTYPE_U8, DIMS(1, 3, 9, 9), &x);
        const float scales[4] = {0.01f, 0.02f, 0.005f, 0.015f};
        uint32_t w = byte_weights(g, DIMS(4, 3, 3, 3));
        in[0] = x;
        if (form & 1) { /* per channel */
            in[1] = build_node(g, OP_DequantizeLinear, IDS(w, constant(g, PEN_DTYPE_F32, DIMS(4), scales)));
            cr_assert_eq(graph_attr_int(g, maker(g, in[1]), ATTR_axis, 0), PEN_OK);
        } else {
            in[1] = floats_of(g, w, 0.01f, 0);
        }
        if (form & 2) {
            const float bias[4] = {0.1f, -0.4f, 1.0f, 0.0f};
            in[count++] = constant(g, PEN_DTYPE_F32, DIMS(4), bias);
        }
        uint32_t y = build_node(g, OP_Conv, count, in);
        y = form & 2 ? build_node(g, OP_Relu, IDS(y)) : y;
        finish(g, y, PEN_DTYPE_U8, 0.3f, form & 2 ? 0 : 120);
        check(g, OP_QLinearConv, 1);
    }
}

/* Scales for each column, weights of either order, with and without a bias. */
Test(qdq, products_with_scales_for_each_column)
{
    const float scales[4] = {0.01f, 0.02f, 0.005f, 0.015f}, bias[4] = {0.1f, -0.4f, 1.0f, 0.0f};
    for (int form = 0; form < 12; form++) {
        bool gemm = form >= 4, turn = gemm && form & 1, several = form & 2;
        uint32_t x, in[3], count = form >= 8 ? 3 : 2;
        struct graph *g = start(PEN_DTYPE_U8, DIMS(5, 32), &x);
        uint32_t w = turn ? byte_weights(g, DIMS(4, 32)) : byte_weights(g, DIMS(32, 4));
        in[0] = x;
        if (several) {
            in[1] = build_node(g, OP_DequantizeLinear, IDS(w, constant(g, PEN_DTYPE_F32, DIMS(4), scales)));
            cr_assert_eq(graph_attr_int(g, maker(g, in[1]), ATTR_axis, turn ? 0 : 1), PEN_OK);
        } else {
            in[1] = floats_of(g, w, 0.01f, 0);
        }
        in[2] = count > 2 ? constant(g, PEN_DTYPE_F32, DIMS(4), bias) : VALUE_NONE;
        uint32_t y = build_node(g, gemm ? OP_Gemm : OP_MatMul, count, in);
        cr_assert(!gemm || graph_attr_int(g, maker(g, y), ATTR_transB, turn) == PEN_OK);
        finish(g, y, PEN_DTYPE_U8, 0.2f, 120);
        check(g, gemm ? OP_QGemm : OP_QLinearMatMul, 1);
    }
}

Test(qdq, products_sums_and_curves)
{
    uint32_t x, b;
    struct graph *g = start(PEN_DTYPE_I8, DIMS(5, 32), &x);
    finish(g, build_node(g, OP_MatMul, IDS(x, floats_of(g, byte_weights(g, DIMS(32, 6)), 0.01f, 0))), PEN_DTYPE_I8,
           0.2f, 1);
    check(g, OP_QLinearMatMul, 1);
    for (int mul = 0; mul < 2; mul++) {
        g = start(PEN_DTYPE_U8, DIMS(5, 32), &x);
        b = input_of(g, "b", PEN_DTYPE_U8, DIMS(1, 32), 0.05f, 100);
        finish(g, build_node(g, mul ? OP_Mul : OP_Add, IDS(x, b)), PEN_DTYPE_U8, 0.1f, 110);
        check(g, mul ? OP_QLinearMul : OP_QLinearAdd, 2);
    }
    g = start(PEN_DTYPE_U8, DIMS(5, 32), &x);
    finish(g, build_node(g, OP_Sigmoid, IDS(x)), PEN_DTYPE_U8, 1.0f / 256, 0);
    check(g, OP_QLinearSigmoid, 1);
    g = start(PEN_DTYPE_U8, DIMS(5, 32), &x);
    finish(g, build_node(g, OP_Softmax, IDS(x)), PEN_DTYPE_U8, 1.0f / 256, 0);
    check(g, OP_QLinearSoftmax, 1);
    g = start(PEN_DTYPE_I8, DIMS(2, 3, 8, 8), &x);
    finish(g, build_node(g, OP_GlobalAveragePool, IDS(x)), PEN_DTYPE_I8, 0.01f, 0);
    check(g, OP_QLinearGlobalAveragePool, 1);
}

/* Curves without an operator on bytes of their own, several in a row, and from one type of bytes to the other. */
Test(qdq, functions_of_one_byte_become_a_table)
{
    static const enum op ops[] = {OP_HardSwish, OP_Tanh, OP_Gelu, OP_Elu, OP_HardSigmoid, OP_Sigmoid, OP_Exp};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint32_t x;
        struct graph *g = start(i % 2 ? PEN_DTYPE_U8 : PEN_DTYPE_I8, DIMS(5, 32), &x);
        uint32_t y = build_node(g, ops[i], IDS(x));
        y = i % 3 == 0 ? build_node(g, OP_Neg, IDS(build_node(g, OP_Clip, IDS(y, build_scalar(g, -0.1f))))) : y;
        finish(g, y, i % 2 ? PEN_DTYPE_I8 : PEN_DTYPE_U8, 0.02f, 10);
        check(g, OP_ByteTable, 1);
    }
}

/* Exporters write one slope for all channels as [1, 1, 1]. */
Test(qdq, numbers_of_a_table_may_have_dims)
{
    const float slope = 0.3f;
    uint32_t x;
    struct graph *g = start(PEN_DTYPE_U8, DIMS(2, 3, 8, 8), &x);
    uint32_t y = build_node(g, OP_PRelu, IDS(x, constant(g, PEN_DTYPE_F32, DIMS(1, 1, 1), &slope)));
    y = build_node(g, OP_Mul, IDS(constant(g, PEN_DTYPE_F32, DIMS(1, 1), &slope), y));
    finish(g, y, PEN_DTYPE_U8, 0.02f, 10);
    check(g, OP_ByteTable, 1);
}

Test(qdq, moves_keep_bytes_as_they_are)
{
    uint32_t x;
    struct graph *g = start(PEN_DTYPE_U8, DIMS(4, 6), &x);
    finish(g, build_node(g, OP_Transpose, IDS(x)), PEN_DTYPE_U8, 0.02f, 128);
    check(g, OP_Transpose, 1);
}

Test(qdq, what_does_not_fit_stays)
{
    uint32_t x;
    struct graph *g = start(PEN_DTYPE_U8, DIMS(4, 6), &x);
    finish(g, build_node(g, OP_Transpose, IDS(x)), PEN_DTYPE_U8, 0.03f, 128); /* another scale */
    const struct pass_options options = {.fold = true, .fuse = true};
    struct pass_report report = {0};
    cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
    cr_assert_eq(report.quantised, 0u);
    cr_assert_eq(count_op(g, OP_QuantizeLinear), 2u);
    graph_free(g);

    g = start(PEN_DTYPE_U8, DIMS(4, 6), &x);
    uint32_t y = build_node(g, OP_Sigmoid, IDS(x));
    build_output(g, y); /* the float value is wanted too */
    finish(g, y, PEN_DTYPE_U8, 1.0f / 256, 0);
    report = (struct pass_report){0};
    cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
    cr_assert_eq(report.quantised, 0u);
    graph_free(g);
}

/* x * sigmoid(x), each with bytes of its own between, and what else is a function of one tensor: one table. */
Test(qdq, functions_of_one_tensor_become_one_table)
{
    for (int form = 0; form < 4; form++) {
        uint32_t x, y;
        struct graph *g = start(form % 2 ? PEN_DTYPE_U8 : PEN_DTYPE_I8, DIMS(5, 32), &x);
        const enum pen_dtype dtype = form % 2 ? PEN_DTYPE_U8 : PEN_DTYPE_I8;
        const int zero = form % 2 ? 100 : -20;
        if (form < 2) {
            uint32_t curve = bytes_of(g, build_node(g, OP_Sigmoid, IDS(x)), dtype, 1.0f / 256, form % 2 ? 0 : -128);
            g->values[curve].dtype = dtype;
            y = build_node(g, OP_Mul, IDS(x, floats_of(g, curve, 1.0f / 256, form % 2 ? 0 : -128)));
        } else { /* a number that is stored as a byte, then a clip between bytes */
            uint32_t three = floats_of(g, point(g, dtype, 120), 0.025f, 0);
            uint32_t sum = bytes_of(g, build_node(g, OP_Add, IDS(x, three)), dtype, 0.03f, zero);
            g->values[sum].dtype = dtype;
            y = build_node(g, OP_Clip,
                           IDS(floats_of(g, sum, 0.03f, zero), build_scalar(g, 0.0f), build_scalar(g, 6.0f)));
            y = build_node(g, OP_Sub, IDS(build_node(g, OP_Mul, IDS(x, y)), build_scalar(g, 0.5f)));
        }
        finish(g, y, dtype, 0.02f, zero);
        struct shape_env *before = run_graph(g);
        const struct pass_options options = {.fold = true, .fuse = true};
        struct pass_report report = {0};
        cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
        cr_assert_eq(count_op(g, OP_ByteTable), 1u, "form %d", form);
        cr_assert_eq(count_op(g, OP_DequantizeLinear) + count_op(g, OP_QLinearMul) + count_op(g, OP_Mul), 0u);
        struct shape_env *after = run_graph(g);
        const struct fact *a = &before->facts[g->outputs[0]], *b = &after->facts[g->outputs[0]];
        cr_assert_eq(a->bytes, b->bytes);
        for (size_t i = 0; i < a->bytes; i++) {
            int p = ((const uint8_t *)a->data)[i], q = ((const uint8_t *)b->data)[i];
            cr_assert(abs((int8_t)(p - q)) <= 1, "form %d: element %zu is %d, was %d", form, i, q, p);
        }
        shape_env_free(before);
        shape_env_free(after);
        graph_free(g);
    }
}

/* TFLite's graphs have no floats between. */
Test(qdq, integer_operators_of_one_tensor_become_one_table)
{
    uint32_t x;
    struct graph *g = start(PEN_DTYPE_I8, DIMS(5, 32), &x);
    const uint32_t bytes = g->nodes[maker(g, x)].in[0], scale = build_scalar(g, 0.02f),
                   zero = point(g, PEN_DTYPE_I8, 3);
    uint32_t curve = build_node(g, OP_QLinearSigmoid,
                                IDS(bytes, scale, zero, build_scalar(g, 1.0f / 256), point(g, PEN_DTYPE_I8, -128)));
    build_output(g, build_node(g, OP_QLinearMul,
                               IDS(bytes, scale, zero, curve, build_scalar(g, 1.0f / 256), point(g, PEN_DTYPE_I8, -128),
                                   build_scalar(g, 0.015f), point(g, PEN_DTYPE_I8, -10))));
    struct shape_env *before = run_graph(g);
    const struct pass_options options = {.fold = true, .fuse = true};
    struct pass_report report = {0};
    cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
    cr_assert_eq(count_op(g, OP_ByteTable), 1u);
    cr_assert_eq(count_op(g, OP_QLinearMul) + count_op(g, OP_QLinearSigmoid), 0u);
    struct shape_env *after = run_graph(g);
    const struct fact *a = &before->facts[g->outputs[0]], *b = &after->facts[g->outputs[0]];
    cr_assert_eq(a->bytes, b->bytes);
    cr_assert_arr_eq((const uint8_t *)a->data, (const uint8_t *)b->data, a->bytes);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

/* ConvTranspose in every form that has phases: windows that meet or leave gaps, padding, given sizes, both layouts; weights with a zero point behind a Transpose. */
static const struct deconv_form {
    int64_t kernel[2], stride, pads[4], padding[2], shape[2]; /* shape: 0 = none */
    const char *auto_pad;
    bool last, turned, each; /* channels last; weights behind a Transpose, with a scale for each channel */
} deconv_forms[] = {
    {{4, 4}, 2, {1, 1, 1, 1}, {0, 0}, {0, 0}, NULL, false, false, true},
    {{3, 3}, 2, {1, 1, 1, 1}, {1, 1}, {0, 0}, NULL, false, false, false},
    {{3, 3}, 2, {0, 0, 0, 0}, {0, 0}, {0, 0}, NULL, true, true, true},
    {{4, 4}, 2, {0, 0, 0, 0}, {0, 0}, {10, 8}, "SAME_UPPER", true, true, false},
    {{3, 3}, 2, {0, 0, 0, 0}, {0, 0}, {10, 8}, "SAME_UPPER", true, true, true},
    {{5, 4}, 3, {0, 0, 0, 0}, {0, 0}, {0, 0}, "SAME_LOWER", false, false, false},
    {{3, 3}, 1, {1, 0, 1, 2}, {0, 0}, {0, 0}, NULL, false, false, true},
    {{2, 2}, 3, {0, 0, 0, 0}, {0, 0}, {0, 0}, NULL, false, false, false},
    {{2, 2}, 2, {0, 0, 0, 0}, {0, 0}, {0, 0}, "VALID", true, true, true},
    {{3, 3}, 2, {0, 0, 0, 0}, {0, 0}, {12, 9}, NULL, false, false, false}, /* longer than the windows reach */
};

Test(qdq, transposed_convolutions_are_phases_of_plain_ones)
{
    for (size_t i = 0; i < sizeof deconv_forms / sizeof *deconv_forms; i++) {
        const struct deconv_form *f = &deconv_forms[i];
        const float scales[4] = {0.01f, 0.02f, 0.005f, 0.015f}, bias[4] = {0.1f, -0.4f, 1.0f, 0.0f};
        const int64_t axis = f->turned ? 0 : 1, rows = f->kernel[0], columns = f->kernel[1];
        uint32_t x;
        struct graph *g =
            f->last ? start(PEN_DTYPE_U8, DIMS(2, 5, 4, 3), &x) : start(PEN_DTYPE_U8, DIMS(2, 3, 5, 4), &x);
        uint32_t w =
            f->turned ? byte_weights(g, DIMS(4, rows, columns, 3)) : byte_weights(g, DIMS(3, 4, rows, columns));
        uint32_t in[3] = {x, floats_of(g, w, 0.01f, i % 2 ? 7 : 0), constant(g, PEN_DTYPE_F32, DIMS(4), scales)};
        if (f->each) {
            in[1] = build_node(g, OP_DequantizeLinear, IDS(w, in[2]));
            cr_assert_eq(graph_attr_int(g, maker(g, in[1]), ATTR_axis, axis), PEN_OK);
        }
        if (f->turned) {
            in[1] = build_node(g, OP_Transpose, IDS(in[1]));
            cr_assert_eq(graph_attr_ints(g, maker(g, in[1]), ATTR_perm, (const int64_t[]){3, 0, 1, 2}, 4), PEN_OK);
        }
        in[2] = constant(g, PEN_DTYPE_F32, DIMS(4), bias);
        uint32_t y = build_node(g, OP_ConvTranspose, i % 3 ? 3 : 2, in), node = maker(g, y);
        enum pen_status status = graph_attr_ints(g, node, ATTR_strides, (const int64_t[]){f->stride, f->stride}, 2);
        if (f->last)
            status = status ? status : graph_attr_int(g, node, ATTR_layout, LAYOUT_NHWC);
        if (f->auto_pad)
            status = status ? status : graph_attr_text(g, node, ATTR_auto_pad, f->auto_pad);
        else
            status = status ? status : graph_attr_ints(g, node, ATTR_pads, f->pads, 4);
        if (f->shape[0] > 0)
            status = status ? status : graph_attr_ints(g, node, ATTR_output_shape, f->shape, 2);
        status = status ? status : graph_attr_ints(g, node, ATTR_output_padding, f->padding, 2);
        cr_assert_eq(status, PEN_OK);
        finish(g, y, PEN_DTYPE_U8, 0.05f, 120);
        check(g, OP_QLinearConv, 1);
    }
}

/* A window of one in strides of three would be nine times the work, and a channel that stays a group of its own no matrix. */
Test(qdq, transposed_convolutions_that_stay)
{
    for (int form = 0; form < 2; form++) {
        uint32_t x;
        struct graph *g = start(PEN_DTYPE_U8, DIMS(2, 4, 5, 4), &x);
        uint32_t w = form ? byte_weights(g, DIMS(4, 1, 2, 2)) : byte_weights(g, DIMS(4, 4, 1, 1));
        uint32_t y = build_node(g, OP_ConvTranspose, IDS(x, floats_of(g, w, 0.01f, 0))), node = maker(g, y);
        const int64_t stride = form ? 2 : 3;
        cr_assert_eq(graph_attr_ints(g, node, ATTR_strides, (const int64_t[]){stride, stride}, 2), PEN_OK);
        cr_assert_eq(graph_attr_int(g, node, ATTR_group, form ? 4 : 1), PEN_OK);
        finish(g, y, PEN_DTYPE_U8, 0.05f, 120);
        const struct pass_options options = {.fold = true, .fuse = true};
        cr_assert_eq(pass_run(g, &options, NULL, NULL), PEN_OK);
        cr_assert_eq(count_op(g, OP_ConvTranspose), 1u);
        graph_free(g);
    }
}

Test(qdq, parts_differences_and_means)
{
    uint32_t x, b;
    struct graph *g = start(PEN_DTYPE_U8, DIMS(2, 3, 5, 8), &x);
    b = input_of(g, "b", PEN_DTYPE_U8, DIMS(2, 3, 8, 6), 0.05f, 100); /* matrices that are computed */
    finish(g, build_node(g, OP_MatMul, IDS(x, b)), PEN_DTYPE_U8, 0.3f, 120);
    check(g, OP_QLinearMatMul, 2);
    g = start(PEN_DTYPE_U8, DIMS(5, 32), &x);
    b = input_of(g, "b", PEN_DTYPE_U8, DIMS(5, 32), 0.05f, 100);
    uint32_t y = build_node(g, OP_Concat, IDS(x, b));
    cr_assert_eq(graph_attr_int(g, maker(g, y), ATTR_axis, 1), PEN_OK);
    finish(g, y, PEN_DTYPE_U8, 0.04f, 110);
    check(g, OP_QLinearConcat, 2);
    g = start(PEN_DTYPE_I8, DIMS(5, 32), &x);
    b = input_of(g, "b", PEN_DTYPE_I8, DIMS(5, 1), 0.05f, 10);
    finish(g, build_node(g, OP_Sub, IDS(x, b)), PEN_DTYPE_I8, 0.06f, 11);
    check(g, OP_QLinearAdd, 2);
    for (int form = 0; form < 4; form++) { /* channels first and last, with and without the dims */
        const int64_t axes[2] = {form % 2 ? 1 : 2, form % 2 ? 2 : -1}, count = 2;
        g = start(PEN_DTYPE_U8, DIMS(2, 6, 5, 4), &x);
        y = build_node(g, OP_ReduceMean, IDS(x, constant(g, PEN_DTYPE_I64, 1, &count, axes)));
        cr_assert_eq(graph_attr_int(g, maker(g, y), ATTR_keepdims, form / 2), PEN_OK);
        finish(g, y, PEN_DTYPE_U8, 0.01f, 100);
        check(g, OP_QLinearGlobalAveragePool, 1);
    }
}
