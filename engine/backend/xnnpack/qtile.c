/* What products of bytes need beside their rows, whoever copies these. */
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_tiles.h"
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

/* ---- AMX ---- */

#define TILES_MACS  200000 /* fewer are done before tiles are set up twice */
#define TILES_WORDS 4      /* of a run: fewer leave most of a tile empty */

bool qdense_tiles(size_t rows, size_t runs, size_t run_words, size_t macs)
{
#ifdef OWN_X86
    return isa_tiles() && rows >= OWN_TILES_MR / 2 && runs <= OWN_TILES_RUNS && run_words >= TILES_WORDS &&
           macs >= TILES_MACS;
#else
    (void)rows, (void)runs, (void)run_words, (void)macs;
    return false;
#endif
}

void qdense_tile_run(bool tiles, const struct int_tile *t)
{
#ifdef OWN_X86
    if (tiles && t->m >= OWN_TILES_MR / 2) {
        own_int_tile_tiles(t);
        return;
    }
#endif
    (void)tiles;
    isa_bytes()->tile(t);
}

void qdense_tiles_hold(bool tiles)
{
#ifdef OWN_X86
    if (tiles) {
        own_tiles_begin();
    }
#else
    (void)tiles;
#endif
}

void qdense_tiles_leave(bool tiles)
{
#ifdef OWN_X86
    if (tiles) {
        own_tiles_end();
    }
#else
    (void)tiles;
#endif
}
