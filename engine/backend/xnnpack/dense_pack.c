/* Weights in panels: of four bytes, or of two that are each rounded once. */
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"
#include "graph/lifetime.h"
#include "penstock/dtype.h"

size_t dense_packed_floats(size_t k, size_t n)
{
    size_t nr = isa_own()->gemm_nr;
    return (n + nr - 1) / nr * nr * k;
}

#define STAGE_ROWS   16
#define STAGE_FLOATS 64 /* of a row; the stage stays in the first cache */

static bool is_askew(const float *w)
{
    return (uintptr_t)w % sizeof *w != 0;
}

/* Columns that lie in a file at any byte (graph/askew.h) are turned by way of a stage. */
static void columns_turn_askew(float *panel, const float *w, size_t n_stride, size_t k, size_t width)
{
    const size_t nr = isa_own()->gemm_nr;
    uint32_t stage[STAGE_ROWS * STAGE_FLOATS];
    for (size_t c = 0; c < width; c += STAGE_ROWS) {
        const size_t rows = width - c < STAGE_ROWS ? width - c : STAGE_ROWS;
        for (size_t i = 0; i < k; i += STAGE_FLOATS) {
            const size_t count = k - i < STAGE_FLOATS ? k - i : STAGE_FLOATS;
            for (size_t r = 0; r < rows; r++) {
                memcpy(stage + r * STAGE_FLOATS, (const char *)w + ((c + r) * n_stride + i) * sizeof *w,
                       count * sizeof *w);
            }
            isa_own()->transpose(stage, STAGE_FLOATS, (uint32_t *)(void *)(panel + i * nr + c), nr, rows, count);
        }
    }
}

/* One panel; columns beyond `width` are 0. */
static void panel_pack(float *panel, const float *w, size_t k_stride, size_t n_stride, size_t k, size_t width)
{
    size_t nr = isa_own()->gemm_nr;
    if (width < nr) {
        memset(panel, 0, k * nr * sizeof *panel);
    }
    if (k_stride == 1 && is_askew(w)) {
        columns_turn_askew(panel, w, n_stride, k, width);
        return;
    }
    if (k_stride == 1) { /* columns lie in memory one after the other: a transpose */
        isa_own()->transpose((const uint32_t *)(const void *)w, n_stride, (uint32_t *)(void *)panel, nr, width, k);
        return;
    }
    for (size_t i = 0; i < k; i++) {
        const float *from = w + i * k_stride;
        float *to = panel + i * nr;
        for (size_t c = 0; c < width; c++) {
            to[c] = from[c * n_stride];
        }
    }
}

#define ROWS_BLOCK 32 /* of rows: they stay in the second cache while all panels take their piece */

/* Rows lie in memory one after the other. Each page is looked up once for all panels, not once for each. */
static void rows_pack(float *panels, const float *w, size_t k_stride, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr;
    if (n % nr != 0) {
        memset(panels + n / nr * nr * k, 0, k * nr * sizeof *panels);
    }
    for (size_t i = 0; i < k; i += ROWS_BLOCK) {
        const size_t end = k - i < ROWS_BLOCK ? k : i + ROWS_BLOCK;
        for (size_t j = 0; j < n; j += nr) {
            const size_t width = n - j < nr ? n - j : nr;
            for (size_t r = i; r < end; r++) {
                memcpy(panels + j * k + r * nr, (const char *)w + (r * k_stride + j) * sizeof *w, width * sizeof *w);
            }
        }
    }
}

void dense_pack_into(float *panels, const float *w, size_t k_stride, size_t n_stride, size_t k, size_t n)
{
    size_t nr = isa_own()->gemm_nr;
    if (n_stride == 1 && k_stride != 1) {
        rows_pack(panels, w, k_stride, k, n);
        return;
    }
    for (size_t j = 0; j < n; j += nr) {
        panel_pack(panels + j * k, w + j * n_stride, k_stride, n_stride, k, n - j < nr ? n - j : nr);
    }
}

size_t dense_weights_bytes(size_t k, size_t n)
{
    size_t nr = isa_own()->gemm_nr;
    size_t floats = dense_packed_floats(k, n) + (n + nr - 1) / nr * nr;
    return (sizeof(struct dense_weights) + floats * sizeof(float) + LIFETIME_PAD + 63) / 64 * 64;
}

void dense_pack(struct dense_weights *p, const float *w, size_t k_stride, size_t n_stride, const float *bias, size_t k,
                size_t n)
{
    dense_pack_into(p->data, w, k_stride, n_stride, k, n);
    dense_pack_bias(p, bias, k, n);
}

void dense_pack_bias(struct dense_weights *p, const float *bias, size_t k, size_t n)
{
    p->form = GEMM_F32;
    dense_bias_put(p, bias, k, n);
}

const float *dense_bias(const struct dense_weights *p)
{
    return p->has_bias ? p->data + dense_form_floats(p->form, p->k, p->n) : NULL;
}

/* ---- weights of two bytes ---- */

size_t dense_pairs(size_t k)
{
    const size_t pairs = (k + 1) / 2;
    return isa_tiles() ? (pairs + OWN_TILES_K - 1) / OWN_TILES_K * OWN_TILES_K : pairs;
}

size_t dense_form_floats(enum gemm_form form, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr, columns = (n + nr - 1) / nr * nr;
    switch (form) {
    case GEMM_F16:
    case GEMM_BF16:
        return columns * k / 2;
    case GEMM_PAIRS:
        return columns * dense_pairs(k);
    case GEMM_F32:
    default:
        return columns * k;
    }
}

size_t dense_form_bytes(enum gemm_form form, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr;
    const size_t floats = dense_form_floats(form, k, n) + (n + nr - 1) / nr * nr;
    return (sizeof(struct dense_weights) + floats * sizeof(float) + LIFETIME_PAD + 63) / 64 * 64;
}

void dense_bias_put(struct dense_weights *p, const float *bias, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr;
    p->k = k;
    p->n = n;
    p->nr = nr;
    p->has_bias = bias != NULL;
    float *b = p->data + dense_form_floats(p->form, k, n);
    for (size_t j = 0; j < (n + nr - 1) / nr * nr; j++) {
        b[j] = bias != NULL && j < n ? bias[j] : 0.0f;
    }
}

static uint16_t half_of(enum gemm_form form, float x)
{
    return form == GEMM_F16 ? pen_f32_to_f16(x) : pen_f32_to_bf16(x);
}

/* A panel [k][nr] of floats to the form's. */
static void panel_turn(enum gemm_form form, const float *from, size_t k, size_t nr, uint16_t *to)
{
    if (form != GEMM_PAIRS) {
        for (size_t i = 0; i < k * nr; i++) {
            to[i] = half_of(form, from[i]);
        }
        return;
    }
    for (size_t i = 0; i < k; i++) {
        for (size_t c = 0; c < nr; c++) {
            to[(i / 2 * nr + c) * 2 + i % 2] = half_of(form, from[i * nr + c]);
        }
    }
    for (size_t c = 0; k % 2 == 1 && c < nr; c++) {
        to[(k / 2 * nr + c) * 2 + 1] = 0;
    }
    const size_t filled = (k + 1) / 2 * nr * 2;
    memset(to + filled, 0, (dense_pairs(k) * nr * 2 - filled) * sizeof *to);
}

enum pen_status dense_pack_form(struct dense_weights *p, enum gemm_form form, const struct dense_matrix *w)
{
    const size_t nr = isa_own()->gemm_nr;
    if (form == GEMM_F32 && w->alpha == 1.0f) {
        dense_pack(p, w->w, w->k_stride, w->n_stride, w->bias, w->k, w->n);
        return PEN_OK;
    }
    float *panel = malloc((w->k * nr + 1) * sizeof *panel);
    if (panel == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (size_t j = 0; j < w->n; j += nr) {
        dense_pack_into(panel, w->w + j * w->n_stride, w->k_stride, w->n_stride, w->k, w->n - j < nr ? w->n - j : nr);
        for (size_t i = 0; w->alpha != 1.0f && i < w->k * nr; i++) {
            panel[i] *= w->alpha;
        }
        float *to = p->data + dense_form_floats(form, w->k, j);
        if (form == GEMM_F32) {
            memcpy(to, panel, w->k * nr * sizeof *to);
        } else {
            panel_turn(form, panel, w->k, nr, (uint16_t *)(void *)to);
        }
    }
    free(panel);
    p->form = form;
    dense_bias_put(p, w->bias, w->k, w->n);
    return PEN_OK;
}

static bool exact(enum gemm_form form, const float *at)
{
    float x;
    memcpy(&x, at, sizeof x); /* it may lie in a file at any byte */
    const uint16_t half = half_of(form, x);
    const float back = form == GEMM_F16 ? pen_f16_to_f32(half) : pen_bf16_to_f32(half);
    return back == x && x - x == 0.0f; /* no infinity */
}

enum gemm_form dense_form_exact(const float *w, size_t count)
{
    static const enum gemm_form forms[] = {GEMM_F16, GEMM_BF16};
    for (size_t f = 0; OWN_KEPT_HALVES && f < 2; f++) {
        size_t i = 0;
        while (i < count && exact(forms[f], w + i)) {
            i++;
        }
        if (i == count) {
            return forms[f];
        }
    }
    return GEMM_F32;
}
