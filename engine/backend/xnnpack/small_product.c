#include "backend/xnnpack/small_product.h"

#include <math.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"

struct small_product small_product_of(enum gemm_form form)
{
    return (struct small_product){.form = form, .tiles = OWN_KEPT_PAIRS && form == GEMM_PAIRS && isa_tiles()};
}

size_t small_product_rows(const struct small_product *p)
{
    return p->tiles ? OWN_TILES_MR : isa_own()->gemm_mr;
}

size_t small_product_words(const struct small_product *p, size_t terms)
{
    return p->form == GEMM_PAIRS ? dense_pairs(terms) : terms;
}

void small_product_run(const struct small_product *p, const struct gemm_tile *all)
{
    const size_t nr = isa_own()->gemm_nr, mr = small_product_rows(p);
    const size_t halves = p->form == GEMM_F16 || p->form == GEMM_BF16 ? 2 : 1; /* weights in a word */
    for (size_t c = 0; c < all->n; c += nr) {
        for (size_t r = 0, rows; r < all->m; r += rows) {
            struct gemm_tile t = *all;
            rows = p->tiles ? (all->m - r < mr ? all->m - r : mr) : gemm_rows_next(mr, all->m - r);
            t.x += r * t.x_stride;
            t.w += c * t.k / halves;
            t.next = t.w;
            t.y += r * t.y_stride + c;
            t.m = rows;
            t.n = all->n - c < nr ? all->n - c : nr;
            t.bands = 1;
            t.last = true;
            t.bias = t.sum = NULL;
            t.min = -INFINITY;
            t.max = INFINITY;
            t.split = OWN_TILES_MR / 2;
            t.more = t.x + t.split * t.x_stride;
            dense_tile(p->form, p->tiles, &t);
        }
    }
}
