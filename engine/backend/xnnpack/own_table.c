#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_vec.h"

const struct own OWN(own) = {
    .name = OWN_TEXT(OWN_ISA),
    .lanes = OWN_LANES,
    .wide = OWN_WIDE,
    .unary = OWN(own_unary),
    .binary = OWN(own_binary),
    .fold = OWN_KEPT_FOLD ? OWN(own_fold) : NULL,
    .fold_rows = OWN_KEPT_FOLD ? OWN(own_fold_rows) : NULL,
    .exp_sum = OWN_KEPT_EXP_SUM ? OWN(own_exp_sum) : NULL,
    .square_sum = OWN_KEPT_SQUARE_SUM ? OWN(own_square_sum) : NULL,
    .affine = OWN_KEPT_AFFINE ? OWN(own_affine) : NULL,
    .axpy = OWN(own_axpy),
    .dot = OWN_KEPT_DOT ? OWN(own_dot) : NULL,
    .range = OWN_KEPT_RANGE ? OWN(own_range) : NULL,
    .steps = OWN_KEPT_STEPS ? OWN(own_steps) : NULL,
    .step_bytes = OWN_KEPT_STEPS ? OWN(own_step_bytes) : NULL,
    .pool_max = OWN_KEPT_POOL ? OWN(own_pool_max) : NULL,
    .pool_sum = OWN_KEPT_POOL ? OWN(own_pool_sum) : NULL,
    .transpose = OWN(own_transpose),
    .depthwise = OWN_KEPT_CONV && OWN_WIDE ? OWN(own_depthwise) : NULL,
    .dots = OWN_KEPT_CONV && OWN_WIDE ? OWN(own_dots) : NULL,
    .winograd_in = OWN_KEPT_CONV && OWN_WIDE ? OWN(own_winograd_in) : NULL,
    .winograd_out = OWN_KEPT_CONV && OWN_WIDE ? OWN(own_winograd_out) : NULL,
    .winograd_filters = OWN_KEPT_CONV && OWN_WIDE ? OWN(own_winograd_filters) : NULL,
    .gemm_mr = 2 * OWN_LANES == 32   ? 14
               : 2 * OWN_LANES == 16 ? 6
               : OWN_WIDE            ? 12
                                     : 4,
    .gemm_nr = 2 * OWN_LANES,
    .gemm = OWN(own_gemm),
    .gemm_row = OWN(own_gemm_row),
    .gemm_half = OWN_KEPT_HALVES ? OWN(own_gemm_half) : NULL,
};
