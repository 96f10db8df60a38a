#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

static void reduce_rows(void)
{
    static const enum op ops[] = {OP_ReduceSum, OP_ReduceMean, OP_ReduceMax,    OP_ReduceMin,       OP_ReduceProd,
                                  OP_ReduceL1,  OP_ReduceL2,   OP_ReduceLogSum, OP_ReduceLogSumExp, OP_ReduceSumSquare};
    static const int64_t axes[][3] = {{1, 0, 0}, {3, 1, 2}, {0, 2, -1}};
    static const int32_t counts[] = {1, 2, 2};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        for (size_t a = 0; a < 3; a++) {
            struct cross *c = cross_new(ops[i]);
            cross_range(c, 0.5f, 1.2f);
            cross_input(c, F32, 4, (int64_t[]){3, 4, 20, 5}, false);
            cross_i64(c, counts[a], axes[a] + (a == 1));
            cross_int(c, ATTR_keepdims, a & 1);
            cross_check(c);
        }
    }
}

Test(vulkan_reduce, every_kind_over_any_axes, .timeout = 110)
{
    device_f32(reduce_rows);
}

static void wide_rows(void)
{
    static const enum op ops[] = {OP_ReduceMean, OP_ReduceMax, OP_ReduceLogSumExp};
    for (size_t i = 0; i < 3; i++) {
        struct cross *c = cross_new(ops[i]);
        cross_input(c, F32, 2, (int64_t[]){3, 3001}, false);
        cross_i64(c, 1, (int64_t[]){1});
        cross_check(c);
    }
    for (int64_t layout = 0; layout < 2; layout++) {
        struct cross *c = cross_new(layout ? OP_GlobalAveragePool : OP_GlobalMaxPool);
        cross_input(c, F32, 4, (int64_t[]){2, 17, 19, 5}, false);
        cross_int(c, ATTR_layout, layout);
        cross_check(c);
    }
}

Test(vulkan_reduce, long_rows_and_global_pools_in_every_storage, .timeout = 110)
{
    device_each(wide_rows);
}

static void arg_rows(void)
{
    for (int64_t i = 0; i < 8; i++) {
        struct cross *c = cross_new(i & 1 ? OP_ArgMax : OP_ArgMin);
        cross_input(c, F32, 3, (int64_t[]){4, 9, 5}, false);
        cross_int(c, ATTR_axis, i / 2 - 1);
        cross_int(c, ATTR_select_last_index, i & 1);
        cross_check(c);
    }
}

Test(vulkan_reduce, arguments, .timeout = 110)
{
    device_f32(arg_rows);
}

static void softmax_rows(void)
{
    for (int64_t i = 0; i < 8; i++) {
        struct cross *c = cross_new(i & 1 ? OP_Softmax : OP_LogSoftmax);
        cross_range(c, -6.0f, 6.0f);
        cross_input(c, F32, 3, (int64_t[]){3, i < 4 ? 300 : 11, 7}, false);
        cross_int(c, ATTR_axis, i / 2 % 3);
        cross_check(c);
    }
}

Test(vulkan_reduce, softmax, .timeout = 110)
{
    device_each(softmax_rows);
}

static void norm_rows(void)
{
    for (int64_t i = 0; i < 6; i++) {
        int64_t from = i / 2;
        struct cross *c = cross_new(i & 1 ? OP_RMSNormalization : OP_LayerNormalization);
        const int64_t shape[3] = {4, 11, 20};
        cross_input(c, F32, 3, shape, false);
        cross_input(c, F32, (int32_t)(3 - from), shape + from, true);
        if (i == 2) {
            cross_input(c, F32, (int32_t)(3 - from), shape + from, false);
            cross_outputs(c, 3);
        }
        cross_int(c, ATTR_axis, from);
        cross_check(c);
    }
    for (int64_t groups = 0; groups < 4; groups++) {
        struct cross *c = cross_new(groups == 0 ? OP_InstanceNormalization : OP_GroupNormalization);
        cross_input(c, F32, 4, (int64_t[]){2, 12, 7, 5}, false);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        cross_input(c, F32, 1, (int64_t[]){12}, true);
        if (groups > 0) {
            cross_int(c, ATTR_num_groups, groups);
        }
        cross_check(c);
    }
    for (int64_t layout = 0; layout < 2; layout++) {
        struct cross *c = cross_new(OP_BatchNormalization);
        cross_input(c, F32, 4, (int64_t[]){2, 12, 9, 12}, false);
        for (int k = 0; k < 4; k++) {
            cross_range(c, 0.5f, 2.0f);
            cross_input(c, F32, 1, (int64_t[]){12}, k != 2);
        }
        cross_int(c, ATTR_layout, layout);
        cross_check(c);
        c = cross_new(OP_LRN);
        cross_input(c, F32, 4, (int64_t[]){1, 9, 5, 9}, false);
        cross_int(c, ATTR_size, 3 + layout);
        cross_float(c, ATTR_alpha, 0.5f);
        cross_int(c, ATTR_layout, layout);
        cross_check(c);
    }
}

Test(vulkan_reduce, normalisation, .timeout = 110)
{
    device_each(norm_rows);
}

/* No axes in the list of axes: all of them, or with noop_with_empty_axes none. */
static void empty_axes_rows(void)
{
    for (int64_t noop = 0; noop < 2; noop++) {
        struct cross *c = cross_new(OP_ReduceSum);
        cross_input(c, F32, 3, (int64_t[]){3, 4, 5}, false);
        cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){0}, "", true);
        cross_int(c, ATTR_noop_with_empty_axes, noop);
        cross_check(c);
    }
}

Test(vulkan_reduce, an_empty_list_of_axes)
{
    device_f32(empty_axes_rows);
}

static void loss_rows(void)
{
    static const char *const reductions[] = {"none", "sum", "mean"};
    int64_t targets[3 * 70];
    for (size_t i = 0; i < 3 * 70; i++) {
        targets[i] = (int64_t)(i * 7 % 5);
    }
    for (int i = 0; i < 12; i++) {
        bool entropy = i % 2 == 1, weights = i / 2 % 2 == 1;
        struct cross *c = cross_new(entropy ? OP_SoftmaxCrossEntropyLoss : OP_NegativeLogLikelihoodLoss);
        cross_range(c, 0.1f, 1.0f);
        cross_input(c, F32, 3, (int64_t[]){3, 5, 70}, false);
        cross_data(c, PEN_DTYPE_I64, 2, (int64_t[]){3, 70}, targets, false);
        if (weights) {
            cross_input(c, F32, 1, (int64_t[]){5}, true);
        }
        cross_text(c, ATTR_reduction, reductions[i / 4]);
        if (weights) {
            cross_int(c, ATTR_ignore_index, 2);
        }
        cross_outputs(c, entropy && weights ? 2 : 1);
        cross_check(c);
    }
}

Test(vulkan_reduce, losses_in_every_storage, .timeout = 110)
{
    device_each(loss_rows);
}
