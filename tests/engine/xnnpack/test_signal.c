/* Fourier transforms of lengths with all kinds of factors; reductions and bits of integers. */
#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

static void dft_row(int64_t have, int64_t length, int64_t axis, int64_t parts, bool inverse, bool onesided)
{
    struct cross *c = cross_new(OP_DFT);
    int64_t dims[] = {2, have, 3, parts};
    if (axis == -3 || axis == 1) {
        cross_input(c, F32, 4, dims, false);
    } else {
        cross_input(c, F32, 3, (int64_t[]){4, have, parts}, false);
    }
    if (length > 0) {
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &length, true);
    } else {
        cross_omit(c);
    }
    cross_data(c, PEN_DTYPE_I64, 0, NULL, &axis, true);
    cross_int(c, ATTR_inverse, inverse);
    cross_int(c, ATTR_onesided, onesided);
    cross_check(c);
}

Test(xnnpack_signal, transforms_of_every_length)
{
    static const int64_t lengths[] = {1, 2, 3, 4, 7, 8, 12, 30, 49, 64, 97, 100, 210, 256};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int64_t n = lengths[i];
        dft_row(n, 0, -2, 2, false, false);
        dft_row(n, 0, 1, 2, true, false);
        dft_row(n, 0, -3, 1, false, true);
        dft_row(n / 2 + 1, n, -2, 2, true, true); /* back to n reals */
        dft_row(n, n + 5, -2, 1, false, true);    /* padded, cut */
        dft_row(n + 3, n, 1, 1, false, false);
    }
}

Test(xnnpack_signal, frames_under_a_window)
{
    for (int form = 0; form < 12; form++) {
        struct cross *c = cross_new(OP_STFT);
        int64_t frame = form % 3 == 0 ? 16 : 15, hop = form % 2 == 0 ? 5 : 16, parts = form % 4 == 3 ? 2 : 1;
        cross_input(c, F32, 3, (int64_t[]){2, 64, parts}, false);
        cross_data(c, PEN_DTYPE_I64, 0, NULL, &hop, true);
        if (form % 3 == 1) {
            cross_omit(c);
        } else {
            cross_input(c, F32, 1, &frame, form % 3 == 2);
        }
        if (form % 3 != 2) {
            cross_data(c, PEN_DTYPE_I64, 0, NULL, &frame, true);
        }
        cross_int(c, ATTR_onesided, parts == 1);
        cross_check(c);
    }
}

Test(xnnpack_signal, a_length_that_only_the_run_knows_is_refused)
{
    struct cross *c = cross_new(OP_DFT);
    cross_input(c, F32, 2, (int64_t[]){8, 1}, false);
    cross_data(c, PEN_DTYPE_I64, 0, NULL, &(int64_t){8}, false);
    cross_refused(c);
}

Test(xnnpack_signal, integers_are_reduced)
{
    static const enum pen_dtype types[] = {PEN_DTYPE_I32, PEN_DTYPE_I64, PEN_DTYPE_U8, PEN_DTYPE_I8};
    static const enum op ops[] = {OP_ReduceSum, OP_ReduceProd, OP_ReduceMax, OP_ReduceMin};
    static const int64_t axes[][3] = {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {0, 2, 2}, {0, 1, 2}, {-1, -2, 2}, {0, 0, 0}};
    for (int form = 0; form < 7 * 16; form++) {
        struct cross *c = cross_new(ops[form / 4 % 4]);
        const int64_t *a = axes[form / 16];
        cross_input(c, types[form % 4], 3, (int64_t[]){3, 5, 7}, false);
        if (a[2] > 0) {
            cross_i64(c, (int32_t)a[2], a);
        }
        cross_int(c, ATTR_keepdims, form & 1);
        cross_check(c);
    }
    for (int form = 0; form < 6; form++) {
        struct cross *c = cross_new(form & 1 ? OP_ReduceMin : OP_ReduceMax);
        cross_input(c, PEN_DTYPE_BOOL, 2, (int64_t[]){4, 300}, false);
        cross_i64(c, 1, (int64_t[]){form / 2 % 2});
        cross_check(c);
    }
}

Test(xnnpack_signal, bits_of_integers)
{
    static const enum pen_dtype types[] = {PEN_DTYPE_I32, PEN_DTYPE_I64, PEN_DTYPE_U8,  PEN_DTYPE_I8,
                                           PEN_DTYPE_U16, PEN_DTYPE_U32, PEN_DTYPE_I16, PEN_DTYPE_U64};
    static const enum op ops[] = {OP_BitwiseAnd, OP_BitwiseOr, OP_BitwiseXor, OP_BitwiseNot};
    for (int form = 0; form < 64; form++) {
        struct cross *c = cross_new(ops[form % 4]);
        cross_input(c, types[form / 8], 3, (int64_t[]){2, 5, 7}, false);
        if (form % 4 != 3) {
            cross_input(c, types[form / 8], 2, form & 4 ? (int64_t[]){5, 7} : (int64_t[]){5, 1}, false);
        }
        cross_check(c);
    }
}
