/* Floats between the host and a device that stores f16: every half, every rounding, every length. No device is needed. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/halves.h"
#include "penstock/dtype.h"

#define HALVES 65536u

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

Test(vulkan_halves, every_half_widens_exactly_and_comes_back)
{
    uint16_t *halves = malloc(2 * HALVES * sizeof *halves);
    float *floats = malloc(HALVES * sizeof *floats);
    cr_assert(halves != NULL && floats != NULL);
    for (uint32_t i = 0; i < HALVES; i++) {
        halves[i] = (uint16_t)i;
    }
    vk_halves_widen(floats, halves, HALVES);
    vk_halves_narrow(halves + HALVES, floats, HALVES);
    for (uint32_t i = 0; i < HALVES; i++) {
        cr_assert(same(floats[i], pen_f16_to_f32((uint16_t)i)), "half %x", i);
        cr_assert(isnan(floats[i]) || halves[HALVES + i] == i, "half %x", i);
    }
    free(halves);
    free(floats);
}

/* Between each half and the next: a quarter, the tie and three quarters of the way. */
Test(vulkan_halves, what_lies_between_goes_to_the_nearest)
{
    float from[24];
    uint16_t to[24];
    for (uint32_t i = 0; i < 0x7C00u; i += 8) {
        for (uint32_t k = 0; k < 24; k++) {
            const float low = pen_f16_to_f32((uint16_t)(i + k / 3)), high = pen_f16_to_f32((uint16_t)(i + k / 3 + 1));
            from[k] =
                isinf(high) ? 65504.0f + 8.0f * (float)(k % 3 + 1) : low + (high - low) * 0.25f * (float)(k % 3 + 1);
            from[k] = i / 8 % 2 == 0 ? from[k] : -from[k];
        }
        vk_halves_narrow(to, from, 24);
        for (uint32_t k = 0; k < 24; k++) {
            cr_assert_eq(to[k], pen_f32_to_f16(from[k]), "%.9g gives %x", (double)from[k], to[k]);
        }
    }
}

/* What stands behind the last one stays. */
Test(vulkan_halves, lengths_that_are_no_whole_eights)
{
    float floats[40], back[40];
    uint16_t halves[40];
    for (size_t i = 0; i < 40; i++) {
        floats[i] = (float)i / 4.0f;
    }
    for (size_t count = 0; count < 36; count++) {
        memset(halves, 0xAB, sizeof halves);
        memset(back, 0xAB, sizeof back);
        vk_halves_put(halves, floats, count * sizeof(float), true);
        vk_halves_get(back, halves, count * sizeof(float), true);
        cr_assert(memcmp(back, floats, count * sizeof(float)) == 0 && halves[count] == 0xABAB);
        cr_assert_eq(((unsigned char *)back)[count * sizeof(float)], 0xAB);
        cr_assert_eq(vk_halves_bytes(count * sizeof(float), true), 2 * count);
    }
    memset(back, 0xAB, sizeof back);
    vk_halves_put(back, floats, 7, false);
    cr_assert(memcmp(back, floats, 7) == 0 && ((unsigned char *)back)[7] == 0xAB,
              "other values are copied as they are");
    cr_assert_eq(vk_halves_bytes(7, false), 7);
}
