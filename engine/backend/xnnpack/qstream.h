/*
 * qstream.h - depthwise convolution of bytes as one stream: rows of the image are copied with their padding, pixels of each stride apart, so that a row of
 * the output is bytes whose taps all lie equally far, whatever the number of channels. For processors with dot products of bytes.
 *
 * Sums are exact, so the result is the same as of every other kernel and for any number of threads.
 * Threads: packed weights are shared by any; a qstream belongs to one exec.
 */
#ifndef XNNPACK_QSTREAM_H
#define XNNPACK_QSTREAM_H

#include "backend/xnnpack/qdense.h"
#include "backend/xnnpack/window.h"

#define QSTREAM_TAPS 64

struct qstream {
    struct window w;
    size_t blocks, groups;
    bool by_pixel; /* the channels' period is too long: every pixel starts anew */
    size_t phase_bytes, row_bytes, band_rows;
    uint32_t taps[QSTREAM_TAPS], ones[QSTREAM_TAPS / 4];
};

bool qstream_fits(const struct filter *f, enum pen_dtype y_dtype); /* on this processor */
size_t qstream_packed_bytes(const struct filter *f);
/* False when sums may leave 32 bits: what was packed is of no use then. */
bool qstream_pack(const struct filter *f, const struct qparams *p, uint8_t *packed);

/* False when the rows of a window do not fit 4 GiB. */
bool qstream_init(struct qstream *s, const struct window *w, size_t threads);
size_t qstream_scratch_bytes(const struct qstream *s, size_t threads);
void qstream_run(const struct qstream *s, const struct qparams *p, const uint8_t *packed, const uint8_t *x, uint8_t *y,
                 void *scratch, struct run *r);

#endif
