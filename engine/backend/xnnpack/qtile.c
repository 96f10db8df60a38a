/* What products of bytes need beside their rows, whoever copies these. */
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qdense.h"

struct requantise qdense_limits(enum pen_dtype y_dtype, int32_t y_zero)
{
    int32_t low = y_dtype == PEN_DTYPE_I8 ? -128 : 0;
    return (struct requantise){.zero = y_zero, .low = (float)(low - y_zero), .high = (float)(low + 255 - y_zero)};
}

struct int_tile qdense_tile(const struct qdense *d, const struct qweights *w, size_t panel)
{
    size_t nr = isa_product()->nr, col = panel * nr;
    struct requantise q = qdense_limits(d->y_dtype, d->y_zero);
    return (struct int_tile){.w = w->panels + col * d->words,
                             .add = w->add32 + col,
                             .scale = w->scale + col,
                             .w_zero = w->w_zero_any ? w->w_zero + col : NULL,
                             .y_stride = d->y_stride,
                             .n = d->n - col < nr ? d->n - col : nr,
                             .zero = d->y_zero,
                             .low = q.low,
                             .high = q.high};
}
