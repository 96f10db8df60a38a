#include "backend/xnnpack/own_vec.h"

const struct own OWN(own) = {
    .name = OWN_TEXT(OWN_ISA),
    .lanes = OWN_LANES,
    .unary = OWN(own_unary),
    .binary = OWN(own_binary),
    .fold = OWN(own_fold),
    .fold_rows = OWN(own_fold_rows),
    .exp_sum = OWN(own_exp_sum),
    .square_sum = OWN(own_square_sum),
    .affine = OWN(own_affine),
    .axpy = OWN(own_axpy),
    .dot = OWN(own_dot),
    .pool_max = OWN(own_pool_max),
    .pool_sum = OWN(own_pool_sum),
    .transpose = OWN(own_transpose),
    .gemm_mr = 2 * OWN_LANES == 32   ? 14
               : 2 * OWN_LANES == 16 ? 6
                                     : 4,
    .gemm_nr = 2 * OWN_LANES,
    .gemm = OWN(own_gemm),
};
