#include <math.h>
#include <string.h>

#include "backend/vulkan/tune.h"
#include "backend/vulkan/verdicts.h"

static bool floats_agree(const float *got, const float *want, size_t count, double share)
{
    double largest = 0.0;
    bool agree = true;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)want[i]));
    }
    for (size_t i = 0; i < count && agree; i++) {
        agree = fabs((double)got[i] - (double)want[i]) <= share * largest; /* NaN is no agreement */
    }
    return agree;
}

bool vk_tune_agrees(const struct backend *b, const struct buffer_view *got, const void *want)
{
    return got->dtype == PEN_DTYPE_F32 ? floats_agree(got->data, want, got->bytes / sizeof(float), vk_selftest_bound(b))
                                       : memcmp(got->data, want, got->bytes) == 0;
}
