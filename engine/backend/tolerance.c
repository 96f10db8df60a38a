#include "backend/tolerance.h"

#include <fnmatch.h>
#include <string.h>

/* |d| <= atol + rtol |expected| of one operator, and the normalised mean square error of a whole model, by precision. */
static const struct {
    double atol, rtol, nmse;
} by_precision[] = {
    [PEN_PRECISION_ANY] = {1e-5, 1e-4, 1e-9},         [PEN_PRECISION_F32] = {1e-5, 1e-4, 1e-9},
    [PEN_PRECISION_F16_STORAGE] = {2e-3, 1e-2, 1e-5}, [PEN_PRECISION_F16_MMA] = {2e-3, 1e-2, 1e-5},
    [PEN_PRECISION_F16_MATH] = {2e-3, 5e-2, 1e-3},    [PEN_PRECISION_BF16] = {2e-3, 1e-2, 1e-3},
    [PEN_PRECISION_INT8] = {1e-5, 1e-4, 1e-9}, /* integers are bound in steps */
};

/* The suite compares with rtol 1e-3 and atol 1e-7 (numpy's assert_allclose). */
#define SUITE_RTOL 1e-3
#define SUITE_ATOL 1e-7

/* Cases with a wider atol, because the expected value is a sum of more than 64 terms that nearly cancel: any order of adding them, the suite's own
 * included, is off by about sqrt(terms) x 6e-8 x the largest term. */
static const struct {
    const char *name; /* a pattern for the last part of the case's name */
    double atol;
} near_zero[] = {
    {"test_dft_inverse*", 1e-5}, /* sums over 100 samples */
};

#define F16_ROUNDING 0x1p-11 /* of a value that is stored as f16 */

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

struct tolerance tolerance_suite(const char *case_name, enum pen_precision precision)
{
    struct tolerance t = {.rtol = SUITE_RTOL, .atol = SUITE_ATOL};
    for (size_t i = 0; i < sizeof near_zero / sizeof near_zero[0]; i++) {
        if (fnmatch(near_zero[i].name, last_part(case_name), 0) == 0) {
            t.atol = near_zero[i].atol;
        }
    }
    if (precision > PEN_PRECISION_F32 && precision != PEN_PRECISION_INT8) {
        t.rtol = by_precision[precision].rtol;
        t.atol = by_precision[precision].atol;
    }
    return t;
}

struct tolerance tolerance_golden(enum pen_precision precision, bool quantised, bool classifier)
{
    if (quantised) {
        bool halves = precision >= PEN_PRECISION_F16_STORAGE && precision <= PEN_PRECISION_F16_MATH;
        return (struct tolerance){.lsb = 2, .rtol = halves ? F16_ROUNDING : 0, .top1 = true};
    }
    bool full = precision <= PEN_PRECISION_F32 || precision == PEN_PRECISION_INT8;
    return (struct tolerance){.by_range = true,
                              .rtol = full ? 1e-4 : by_precision[precision].rtol,
                              .atol = full ? SUITE_ATOL : by_precision[PEN_PRECISION_F32].atol,
                              .nmse = by_precision[precision].nmse,
                              .top1 = classifier};
}

struct tolerance tolerance_operator(enum pen_precision precision, bool quantised)
{
    return (struct tolerance){
        .rtol = by_precision[precision].rtol, .atol = by_precision[precision].atol, .lsb = quantised ? 1 : 0};
}
