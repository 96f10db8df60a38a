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

#define STAGE_WORDS 64 /* of a row of pairs */

#ifdef OWN_PAIRS
/* Columns that lie in memory one after the other: their pairs are turned by way of a stage. */
static void columns_pair(uint32_t *panel, const float *x, size_t n_stride, size_t k, size_t width)
{
    const size_t nr = isa_own()->gemm_nr;
    uint32_t stage[STAGE_ROWS * STAGE_WORDS];
    for (size_t c = 0; c < width; c += STAGE_ROWS) {
        const size_t rows = width - c < STAGE_ROWS ? width - c : STAGE_ROWS;
        for (size_t i = 0; i < k; i += 2 * STAGE_WORDS) {
            const size_t count = k - i < 2 * STAGE_WORDS ? k - i : 2 * STAGE_WORDS;
            for (size_t r = 0; r < rows; r++) {
                own_pairs_make(x + (c + r) * n_stride + i, stage + r * STAGE_WORDS, count);
            }
            isa_own()->transpose(stage, STAGE_WORDS, panel + i / 2 * nr + c, nr, rows, (count + 1) / 2);
        }
    }
}

/* Rows that lie in memory one after the other, in blocks as rows_pack. */
static void rows_pair(uint32_t *panels, const float *x, size_t k_stride, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr, words = dense_pairs(k);
    for (size_t i = 0; i < k; i += ROWS_BLOCK) {
        const size_t end = k - i < ROWS_BLOCK ? k : i + ROWS_BLOCK;
        for (size_t j = 0; j < n; j += nr) {
            for (size_t r = i; r < end; r += 2) {
                const float *even = x + r * k_stride + j;
                own_pairs_lay(even, r + 1 < k ? even + k_stride : NULL, panels + j * words + r / 2 * nr,
                              n - j < nr ? n - j : nr);
            }
        }
    }
}

/* Rows and columns of any distance. */
static void numbers_pair(uint32_t *panel, const float *x, size_t k_stride, size_t n_stride, size_t k, size_t width)
{
    for (size_t i = 0; i < k; i += 2, panel += isa_own()->gemm_nr) {
        for (size_t c = 0; c < width; c++) {
            const float *even = x + i * k_stride + c * n_stride;
            own_pairs_lay(even, i + 1 < k ? even + k_stride : NULL, panel + c, 1);
        }
    }
}

void dense_pairs_into(float *panels, const float *x, size_t k_stride, size_t n_stride, size_t k, size_t n)
{
    const size_t nr = isa_own()->gemm_nr, words = dense_pairs(k);
    uint32_t *to = (uint32_t *)(void *)panels;
    for (size_t j = 0; j < n; j += nr) { /* what fills the last panel, and the last tile of each */
        const size_t from = n - j < nr ? 0 : (k + 1) / 2 * nr;
        memset(to + j * words + from, 0, (words * nr - from) * sizeof *to);
    }
    if (n_stride == 1) {
        rows_pair(to, x, k_stride, k, n);
        return;
    }
    for (size_t j = 0; j < n; j += nr) {
        const size_t width = n - j < nr ? n - j : nr;
        if (k_stride == 1) {
            columns_pair(to + j * words, x + j * n_stride, n_stride, k, width);
        } else {
            numbers_pair(to + j * words, x + j * n_stride, k_stride, n_stride, k, width);
        }
    }
}
#else
void dense_pairs_into(float *panels, const float *x, size_t k_stride, size_t n_stride, size_t k, size_t n)
{
    (void)panels, (void)x, (void)k_stride, (void)n_stride, (void)k, (void)n; /* no form of this build has pairs */
}
#endif

/* Columns [j, j + width) of w, by way of a panel of floats. */
static void panel_turn(enum gemm_form form, const struct dense_matrix *w, size_t j, float *panel, float *to)
{
    const size_t nr = isa_own()->gemm_nr, width = w->n - j < nr ? w->n - j : nr, count = w->k * nr;
    dense_pack_into(panel, w->w + j * w->n_stride, w->k_stride, w->n_stride, w->k, width);
    for (size_t i = 0; w->alpha != 1.0f && i < count; i++) {
        panel[i] *= w->alpha;
    }
    if (form == GEMM_F32) {
        memcpy(to, panel, count * sizeof *to);
    } else if (form == GEMM_PAIRS) {
        dense_pairs_into(to, panel, nr, 1, w->k, nr);
    } else {
        uint16_t *half = (uint16_t *)(void *)to;
        for (size_t i = 0; i < count; i++) {
            half[i] = half_of(form, panel[i]);
        }
    }
}

enum pen_status dense_pack_form(struct dense_weights *p, enum gemm_form form, const struct dense_matrix *w)
{
    const size_t nr = isa_own()->gemm_nr;
    const bool plain = w->alpha == 1.0f && !is_askew(w->w);
    if (form == GEMM_F32 && w->alpha == 1.0f) {
        dense_pack(p, w->w, w->k_stride, w->n_stride, w->bias, w->k, w->n);
        return PEN_OK;
    }
    if (form == GEMM_PAIRS && plain) {
        dense_pairs_into(p->data, w->w, w->k_stride, w->n_stride, w->k, w->n);
    } else {
        float *panel = malloc((w->k * nr + 1) * sizeof *panel);
        if (panel == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        for (size_t j = 0; j < w->n; j += nr) {
            panel_turn(form, w, j, panel, p->data + dense_form_floats(form, w->k, j));
        }
        free(panel);
    }
    p->form = form;
    dense_bias_put(p, w->bias, w->k, w->n);
    return PEN_OK;
}

enum gemm_form dense_form_bf16(void)
{
    return !OWN_KEPT_PAIRS ? GEMM_F32 : isa_pairs() ? GEMM_PAIRS : GEMM_BF16;
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
