/* Small cases computed by hand, and what the official cases do not reach: errors, wrap-around, optional inputs. */
#include <criterion/criterion.h>
#include <math.h>

#include "fixture.h"

Test(kernels, add_broadcasts_a_row_over_a_matrix)
{
    struct fixture f;
    fixture_init(&f, OP_Add, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, 2, 3, 4, 5, 6), 2, DIMS(2, 3));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(10, 20, 30), 1, DIMS(3));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 2, DIMS(2, 3), ITEMS(11, 22, 33, 14, 25, 36), 0.0);
    fixture_fini(&f);
}

Test(kernels, a_fused_clamp_follows_the_sum)
{
    struct fixture f;
    fixture_init(&f, OP_Add, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(-4, 1, 9), 1, DIMS(3));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1), 0, NULL);
    fixture_node(&f);
    graph_attr_int(f.g, f.node, ATTR_act, ACT_CLAMP);
    graph_attr_float(f.g, f.node, ATTR_act_min, 0.0f);
    graph_attr_float(f.g, f.node, ATTR_act_max, 6.0f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, DIMS(3), ITEMS(0, 2, 6), 0.0);
    fixture_fini(&f);
}

Test(kernels, int8_addition_wraps)
{
    struct fixture f;
    fixture_init(&f, OP_Add, 1);
    fixture_in(&f, PEN_DTYPE_I8, ITEMS(127), 1, DIMS(1));
    fixture_in(&f, PEN_DTYPE_I8, ITEMS(1), 1, DIMS(1));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, DIMS(1), ITEMS(-128), 0.0);
    fixture_fini(&f);
}

Test(kernels, integer_division_by_zero_is_an_error_that_names_the_node)
{
    struct fixture f;
    fixture_init(&f, OP_Div, 1);
    fixture_in(&f, PEN_DTYPE_I32, ITEMS(7), 1, DIMS(1));
    fixture_in(&f, PEN_DTYPE_I32, ITEMS(0), 1, DIMS(1));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_ERR_INVALID);
    cr_assert_str_eq(f.error.text, "node n (Div): integer division by zero");
    fixture_fini(&f);
}

Test(kernels, matrix_product_of_two_by_two)
{
    struct fixture f;
    fixture_init(&f, OP_MatMul, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, 2, 3, 4), 2, DIMS(2, 2));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(5, 6, 7, 8), 2, DIMS(2, 2));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 2, DIMS(2, 2), ITEMS(19, 22, 43, 50), 0.0);
    fixture_fini(&f);
}

Test(kernels, sums_are_made_in_double)
{
    double items[3] = {1e8, 1.0, -1e8};
    struct fixture f;
    fixture_init(&f, OP_ReduceSum, 1);
    fixture_in(&f, PEN_DTYPE_F32, items, 1, DIMS(3));
    fixture_node(&f);
    graph_attr_int(f.g, f.node, ATTR_keepdims, 0);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 0, NULL, ITEMS(1), 0.0);
    fixture_fini(&f);
}

Test(kernels, softmax_of_large_numbers_stays_finite)
{
    struct fixture f;
    fixture_init(&f, OP_Softmax, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(10000, 10000), 1, DIMS(2));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, DIMS(2), ITEMS(0.5, 0.5), 0.0);
    fixture_fini(&f);
}

Test(kernels, gather_refuses_an_index_outside)
{
    struct fixture f;
    fixture_init(&f, OP_Gather, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, 2, 3), 1, DIMS(3));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(3), 1, DIMS(1));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_ERR_INVALID);
    fixture_fini(&f);
}

Test(kernels, slice_walks_backwards)
{
    struct fixture f;
    fixture_init(&f, OP_Slice, 1);
    fixture_in(&f, PEN_DTYPE_I32, ITEMS(0, 1, 2, 3, 4), 1, DIMS(5));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(-1), 1, DIMS(1));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(-9), 1, DIMS(1));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(0), 1, DIMS(1));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(-2), 1, DIMS(1));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, DIMS(3), ITEMS(4, 2, 0), 0.0);
    fixture_fini(&f);
}

Test(kernels, int4_elements_transpose)
{
    struct fixture f;
    fixture_init(&f, OP_Transpose, 1);
    fixture_in(&f, PEN_DTYPE_I4, ITEMS(-8, 1, 2, 3, -4, 7), 2, DIMS(2, 3));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 2, DIMS(3, 2), ITEMS(-8, 3, 1, -4, 2, 7), 0.0);
    fixture_fini(&f);
}

Test(kernels, quantisation_rounds_halves_to_even_and_saturates)
{
    struct fixture f;
    fixture_init(&f, OP_QuantizeLinear, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(0.5, 1.5, 2.5, -300, 300), 1, DIMS(5));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1), 0, NULL);
    fixture_in(&f, PEN_DTYPE_I8, ITEMS(0), 0, NULL);
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, DIMS(5), ITEMS(0, 2, 2, -128, 127), 0.0);
    fixture_fini(&f);
}

Test(kernels, reshape_keeps_and_completes_dims)
{
    struct fixture f;
    fixture_init(&f, OP_Reshape, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, 2, 3, 4, 5, 6), 2, DIMS(2, 3));
    fixture_in(&f, PEN_DTYPE_I64, ITEMS(0, -1, 1), 1, DIMS(3));
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 3, DIMS(2, 3, 1), ITEMS(1, 2, 3, 4, 5, 6), 0.0);
    fixture_fini(&f);
}

/* clip: of the gates; the cell is larger, and leaves as it is. */
static void zero_lstm(float clip)
{
    double zero[16] = {0};
    struct fixture f;
    fixture_init(&f, OP_LSTM, 3);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(1), 3, DIMS(1, 1, 1));
    fixture_in(&f, PEN_DTYPE_F32, zero, 3, DIMS(1, 4, 1));
    fixture_in(&f, PEN_DTYPE_F32, zero, 3, DIMS(1, 4, 1));
    fixture_none(&f);
    fixture_none(&f);
    fixture_in(&f, PEN_DTYPE_F32, zero, 3, DIMS(1, 1, 1));
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(2), 3, DIMS(1, 1, 1));
    fixture_node(&f);
    graph_attr_int(f.g, f.node, ATTR_hidden_size, 1);
    graph_attr_float(f.g, f.node, ATTR_clip, clip);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 2, 3, DIMS(1, 1, 1), ITEMS(1.0), 0.0); /* sigmoid(0) * 2 + sigmoid(0) * tanh(0) */
    fixture_expect(&f, 1, 3, DIMS(1, 1, 1), ITEMS(0.5 * tanh(1.0)), 1e-7);
    fixture_fini(&f);
}

Test(kernels, an_lstm_with_zero_weights_keeps_half_of_its_cell)
{
    zero_lstm(0.0f);
    zero_lstm(0.3f);
}

Test(kernels, a_pool_rounded_up_has_a_window_that_reaches_past_the_image)
{
    struct fixture f;
    fixture_init(&f, OP_AveragePool, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(3, 5), 4, DIMS(1, 1, 1, 2));
    fixture_node(&f);
    graph_attr_ints(f.g, f.node, ATTR_kernel_shape, DIMS(2, 2), 2);
    graph_attr_ints(f.g, f.node, ATTR_strides, DIMS(2, 2), 2);
    graph_attr_int(f.g, f.node, ATTR_ceil_mode, 1);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 4, DIMS(1, 1, 1, 1), ITEMS(4), 0.0);
    fixture_fini(&f);
}

/* x = 0, 1, 2 ... along one axis, made shorter: y has the indices that were taken. factor 0: `out` is given. */
static void nearest_takes(const char *positions, int64_t in, double factor, int64_t by_step, int64_t out,
                          const double *taken)
{
    double items[16];
    struct fixture f;
    for (int i = 0; i < 16; i++) {
        items[i] = i;
    }
    fixture_init(&f, OP_Resize, 1);
    fixture_in(&f, PEN_DTYPE_F32, items, 1, &in);
    fixture_none(&f);
    if (factor > 0.0) {
        fixture_in(&f, PEN_DTYPE_F32, &factor, 1, DIMS(1));
    } else {
        fixture_none(&f);
        fixture_in(&f, PEN_DTYPE_I64, ITEMS((double)out), 1, DIMS(1));
    }
    fixture_node(&f);
    graph_attr_text(f.g, f.node, ATTR_nearest_mode, "floor");
    graph_attr_text(f.g, f.node, ATTR_coordinate_transformation_mode, positions);
    graph_attr_int(f.g, f.node, ATTR_by_step, by_step);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_expect(&f, 0, 1, &out, taken, 0.0);
    fixture_fini(&f);
}

/* 3 / 0.6f is 5 in floats and less in double; 2 / (4 / 14) is less than 7 in floats; TensorFlow multiplies by 14 / 4. */
Test(kernels, nearest_elements_are_those_of_floats)
{
    nearest_takes("asymmetric", 9, 0.6, 0, 5, ITEMS(0, 1, 3, 5, 6));
    nearest_takes("asymmetric", 14, 0.0, 0, 4, ITEMS(0, 3, 6, 10));
    nearest_takes("asymmetric", 14, 0.0, 1, 4, ITEMS(0, 3, 7, 10));
    nearest_takes("align_corners", 9, 0.6, 0, 5, ITEMS(0, 2, 4, 6, 8)); /* five elements, not 5.4 */
}

Test(kernels, an_empty_batch_is_resized_to_an_empty_one)
{
    for (int by_size = 0; by_size < 2; by_size++) {
        struct fixture f;
        fixture_init(&f, OP_Resize, 1);
        fixture_in(&f, PEN_DTYPE_F32, ITEMS(0), 3, DIMS(0, 2, 3));
        fixture_none(&f);
        if (by_size) {
            fixture_none(&f);
            fixture_in(&f, PEN_DTYPE_I64, ITEMS(0, 2, 6), 1, DIMS(3));
        } else {
            fixture_in(&f, PEN_DTYPE_F32, ITEMS(1, 1, 2), 1, DIMS(3));
        }
        fixture_node(&f);
        graph_attr_text(f.g, f.node, ATTR_mode, "linear");
        cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
        fixture_expect(&f, 0, 3, DIMS(0, 2, 6), ITEMS(0), 0.0);
        fixture_fini(&f);
    }
}

Test(kernels, a_range_of_floats_rounds_its_steps)
{
    struct fixture f;
    fixture_init(&f, OP_Range, 1);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(-3), 0, NULL);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(0.5), 0, NULL);
    fixture_in(&f, PEN_DTYPE_F32, ITEMS(0.6), 0, NULL);
    fixture_node(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    cr_assert_eq(fixture_at(&f, 0, 5), 0.0);
    fixture_fini(&f);
}

Test(kernels, a_reduction_over_no_axes_takes_each_element_alone)
{
    const enum op ops[] = {OP_ReduceL1, OP_ReduceSumSquare, OP_ReduceSum};
    const double *expected[] = {ITEMS(2, 3), ITEMS(4, 9), ITEMS(-2, 3)};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        fixture_init(&f, ops[i], 1);
        fixture_in(&f, PEN_DTYPE_F32, ITEMS(-2, 3), 1, DIMS(2));
        fixture_node(&f);
        graph_attr_int(f.g, f.node, ATTR_noop_with_empty_axes, 1);
        cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
        fixture_expect(&f, 0, 1, DIMS(2), expected[i], 0.0);
        fixture_fini(&f);
    }
}

Test(kernels, no_number_stays_none_in_clipped_curves)
{
    const enum op ops[] = {OP_Celu, OP_HardSigmoid, OP_HardSwish};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        fixture_init(&f, ops[i], 1);
        fixture_in(&f, PEN_DTYPE_F32, ITEMS(NAN), 1, DIMS(1));
        fixture_node(&f);
        cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
        cr_assert(isnan(fixture_at(&f, 0, 0)), "%s", op_def(ops[i])->name);
        fixture_fini(&f);
    }
}
