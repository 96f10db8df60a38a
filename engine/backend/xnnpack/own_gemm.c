#include <string.h>

#include "backend/xnnpack/own_lanes.h"

#include "backend/xnnpack/own_gemm_tile.inc"

void OWN(own_gemm)(const struct gemm_tile *t)
{
    tile_of(t, GEMM_F32);
}

void OWN(own_gemm_half)(const struct gemm_tile *t, enum gemm_form form)
{
    if (form == GEMM_BF16) {
        tile_of(t, GEMM_BF16);
    } else {
        tile_of(t, GEMM_F16);
    }
}
