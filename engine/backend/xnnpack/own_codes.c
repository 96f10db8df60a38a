#include "backend/xnnpack/own_int.h"
#include "backend/xnnpack/own_vec.h"

/* Codes of 2, 4 or 8 bits, the lowest bits first, times scale, plus shift. n: whole bytes. */
void OWN(own_codes)(const uint8_t *codes, size_t bits, float scale, float shift, float *y, size_t n)
{
    if (bits == 8) {
        SIMD for (size_t i = 0; i < n; i++)
        {
            y[i] = (float)codes[i] * scale + shift;
        }
    } else if (bits == 4) {
        SIMD for (size_t i = 0; i < n / 2; i++)
        {
            const int32_t both = codes[i];
            y[2 * i] = (float)(both & 15) * scale + shift;
            y[2 * i + 1] = (float)(both >> 4) * scale + shift;
        }
    } else {
        SIMD for (size_t i = 0; i < n / 4; i++)
        {
            const int32_t all = codes[i];
            y[4 * i] = (float)(all & 3) * scale + shift;
            y[4 * i + 1] = (float)(all >> 2 & 3) * scale + shift;
            y[4 * i + 2] = (float)(all >> 4 & 3) * scale + shift;
            y[4 * i + 3] = (float)(all >> 6) * scale + shift;
        }
    }
}
