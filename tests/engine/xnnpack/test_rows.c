#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

Test(xnnpack_softmax, any_axis)
{
    const enum op ops[] = {OP_Softmax, OP_LogSoftmax};
    const int64_t shapes[][4] = {{2, 3, 5, 7},    {1, 12, 40, 40}, {4, 1000, 1, 1},
                                 {3, 17, 300, 2}, {1, 1, 1, 1000}, {13, 11, 1, 16}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t s = 0; s < 6; s++) {
            for (int64_t axis = -4; axis < 4; axis++) {
                struct cross *c = cross_new(ops[i]);
                cross_range(c, -6.0f, 6.0f);
                cross_input(c, F32, 4, shapes[s], false);
                cross_int(c, ATTR_axis, axis);
                cross_check(c);
            }
        }
    }
}

Test(xnnpack_reduce, any_axes)
{
    const enum op ops[] = {OP_ReduceSum, OP_ReduceMean, OP_ReduceMax,       OP_ReduceMin,    OP_ReduceProd,
                           OP_ReduceL1,  OP_ReduceL2,   OP_ReduceSumSquare, OP_ReduceLogSum, OP_ReduceLogSumExp};
    const int64_t axes[][3] = {{0, -1, -1}, {3, -1, -1}, {1, 2, -1}, {2, 3, -1}, {-2, -1, -1}, {0, 1, -1}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        for (size_t a = 0; a < 6; a++) {
            struct cross *c = cross_new(ops[i]);
            cross_range(c, 0.5f, 1.5f);
            cross_input(c, F32, 4, (int64_t[]){3, 5, 7, 20}, false);
            cross_i64(c, a < 2 ? 1 : 2, axes[a]);
            cross_int(c, ATTR_keepdims, (int64_t)a % 2);
            cross_check(c);
        }
    }
}

Test(xnnpack_reduce, scattered_axes_and_all)
{
    const enum op ops[] = {OP_ReduceSum, OP_ReduceMean, OP_ReduceMax, OP_ReduceL2};
    for (size_t i = 0; i < 4; i++) {
        struct cross *c = cross_new(ops[i]);
        cross_input(c, F32, 5, (int64_t[]){3, 4, 5, 6, 7}, false);
        cross_i64(c, 3, (int64_t[]){0, 2, 4});
        cross_check(c);
        c = cross_new(ops[i]);
        cross_input(c, F32, 3, (int64_t[]){30, 40, 50}, false);
        cross_check(c);
        c = cross_new(ops[i]);
        cross_input(c, F32, 3, (int64_t[]){2, 3000, 5}, false);
        cross_i64(c, 1, (int64_t[]){1});
        cross_check(c);
    }
}
