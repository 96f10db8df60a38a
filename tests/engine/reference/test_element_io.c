#include <criterion/criterion.h>
#include <math.h>

#include "backend/reference/element_io.h"

Test(element_io, every_code_of_a_small_float_survives_a_round_trip)
{
    static const enum pen_dtype dtypes[] = {PEN_DTYPE_F8E4M3FN, PEN_DTYPE_F8E4M3FNUZ, PEN_DTYPE_F8E5M2,
                                            PEN_DTYPE_F8E5M2FNUZ};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (int code = 0; code < 256; code++) {
            double v = small_float_decode(dtypes[d], (uint8_t)code);
            if (!isnan(v)) {
                cr_assert_eq(small_float_encode(dtypes[d], v, false, 0), code, "%s code %d is %g",
                             pen_dtype_name(dtypes[d]), code, v);
            }
        }
    }
}

Test(element_io, small_floats_have_the_largest_values_of_their_formats)
{
    cr_assert_eq(small_float_decode(PEN_DTYPE_F8E4M3FN, 0x7E), 448.0);
    cr_assert_eq(small_float_decode(PEN_DTYPE_F8E4M3FNUZ, 0x7F), 240.0);
    cr_assert_eq(small_float_decode(PEN_DTYPE_F8E5M2, 0x7B), 57344.0);
    cr_assert_eq(small_float_decode(PEN_DTYPE_F8E5M2FNUZ, 0x7F), 57344.0);
    cr_assert_eq(small_float_decode(PEN_DTYPE_F4E2M1, 0x7), 6.0);
    cr_assert_eq(small_float_encode(PEN_DTYPE_F8E4M3FN, 1e6, true, 0), 0x7E);
    cr_assert(isnan(small_float_decode(PEN_DTYPE_F8E4M3FN, small_float_encode(PEN_DTYPE_F8E4M3FN, 1e6, false, 0))));
}

Test(element_io, integers_wrap_around_as_their_type_does)
{
    int8_t narrow[1];
    store_one_i64(narrow, PEN_DTYPE_I8, 0, 200);
    cr_assert_eq(narrow[0], -56);
    uint64_t wide[1] = {UINT64_MAX};
    cr_assert_eq(load_one_i64(wide, PEN_DTYPE_U64, 0), -1);
    cr_assert_eq(load_one_f64(wide, PEN_DTYPE_U64, 0), 18446744073709551616.0);
}

Test(element_io, nibbles_lie_low_first)
{
    uint8_t packed[2] = {0};
    const int64_t items[3] = {-8, 7, -1};
    store_i64(packed, PEN_DTYPE_I4, 0, 1, 3, items);
    cr_assert_eq(packed[0], 0x78);
    cr_assert_eq(packed[1], 0x0F);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(load_one_i64(packed, PEN_DTYPE_I4, i), items[i]);
    }
}

Test(element_io, a_double_out_of_range_saturates_instead_of_trapping)
{
    cr_assert_eq(i64_from_f64(1e300), INT64_MAX);
    cr_assert_eq(i64_from_f64(-1e300), INT64_MIN);
    cr_assert_eq(i64_from_f64((double)NAN), 0);
}
