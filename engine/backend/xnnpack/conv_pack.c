#include "backend/xnnpack/conv.h"

#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/window.h"
#include "graph/askew.h"

bool conv_is_dense(const struct filter *f)
{
    return isa_own()->wide && (f->groups == 1 || (f->out / f->groups >= 16 && f->in >= 4));
}

static enum pen_status no_memory(const struct node *n, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
}

static enum pen_status pack_depthwise(const struct node *n, const struct filter *f, const struct value *w,
                                      const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    void *packed = packed_alloc(depthwise_packed_bytes(f));
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 64);
    if (packed == NULL || ohwi == NULL) {
        free(packed);
        free(ohwi);
        return no_memory(n, reterr);
    }
    filter_to_ohwi(f, w->data, ohwi);
    depthwise_pack(f, ohwi, bias, packed);
    free(ohwi);
    *ret_packed = packed;
    *ret_bytes = depthwise_packed_bytes(f);
    return PEN_OK;
}

static enum pen_status pack_narrow(const struct node *n, const struct filter *f, const struct value *w,
                                   const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    void *packed = packed_alloc(narrow_packed_bytes(f));
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 64);
    if (packed != NULL && ohwi != NULL) {
        filter_to_ohwi(f, w->data, ohwi);
        narrow_pack(f, ohwi, bias, packed);
    }
    const bool both = packed != NULL && ohwi != NULL;
    free(ohwi);
    if (!both) {
        free(packed);
        return no_memory(n, reterr);
    }
    *ret_packed = packed;
    *ret_bytes = narrow_packed_bytes(f);
    return PEN_OK;
}

static enum pen_status pack_groups(const struct node *n, const struct filter *f, const struct value *w,
                                   const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    uint8_t *packed = packed_alloc(groups_packed_bytes(f));
    if (packed == NULL || groups_pack(f, w->data, bias, packed) != PEN_OK) {
        free(packed);
        return no_memory(n, reterr);
    }
    *ret_packed = packed;
    *ret_bytes = groups_packed_bytes(f);
    return PEN_OK;
}

/* In two bytes. */
static enum pen_status pack_short(const struct node *n, const struct filter *f, const struct value *w,
                                  const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    const enum gemm_form form = dense_form_bf16();
    const size_t bytes = filter_packed_bytes(f, form);
    uint8_t *packed = packed_alloc(bytes);
    float *ohwi = malloc(2 * filter_floats(f) * sizeof *ohwi + 64); /* and what lies in the file at any byte */
    enum pen_status status = packed != NULL && ohwi != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        const float *at = w->data;
        at = (uintptr_t)at % sizeof *at == 0 ? at : memcpy(ohwi + filter_floats(f), at, filter_floats(f) * sizeof *at);
        status = filter_pack_form(f, form, at, bias, ohwi, packed);
    }
    free(ohwi);
    if (status != PEN_OK) {
        free(packed);
        return no_memory(n, reterr);
    }
    *ret_packed = packed;
    *ret_bytes = bytes;
    return PEN_OK;
}

static enum pen_status pack_dense(const struct node *n, const struct filter *f, const struct value *w,
                                  const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    uint8_t *packed = packed_alloc(filter_packed_bytes(f, GEMM_F32));
    float *scratch = filter_is_ohwi(f) ? NULL : malloc(filter_turn_floats(f) * sizeof *scratch + 64);
    if (packed == NULL || (scratch == NULL && !filter_is_ohwi(f))) {
        free(packed);
        free(scratch);
        return no_memory(n, reterr);
    }
    if (scratch != NULL) {
        filter_pack_turned(f, w->data, bias, scratch, packed);
    } else {
        filter_pack(f, w->data, bias, packed);
    }
    free(scratch);
    *ret_packed = packed;
    *ret_bytes = filter_packed_bytes(f, GEMM_F32);
    return PEN_OK;
}

#define FIRST_K   64 /* terms of a sum */
#define GROUPS_IN 16 /* groups of so few channels leave most of a tile of pairs empty */

/*
 * Another kernel takes weights of four bytes, and saves more than rounding does: Winograd's tiles, but for where AMX multiplies; there, first layers whose patches are short: an odd number of
 * channels makes no pairs of a whole image, and copies of such patches cost more than their products.
 */
static bool stays_whole(const struct node *n, const struct filter *f)
{
    return isa_tiles() ? f->in % 2 == 1 && f->kernel_h * f->kernel_w > 1 && f->kernel_h * f->kernel_w * f->in < FIRST_K
                       : winograd_may_take(n, f);
}

static enum pen_status pack_any(const struct graph *g, const struct node *n, bool rounded, void **ret_packed,
                                size_t *ret_bytes, struct pen_error *reterr)
{
    struct filter f;
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    if (w->data == NULL || (bias != NULL && bias->data == NULL) || !filter_read(n, &w->shape, &f)) {
        return PEN_OK;
    }
    const float *b = bias != NULL ? bias->data : NULL;
    if (depthwise_takes(&f)) {
        if (graph_align(g, n->in[1]) != PEN_OK) {
            return no_memory(n, reterr);
        }
        return pack_depthwise(n, &f, w, b, ret_packed, ret_bytes, reterr);
    }
    if (narrow_takes(n, &f)) {
        return graph_align(g, n->in[1]) == PEN_OK ? pack_narrow(n, &f, w, b, ret_packed, ret_bytes, reterr)
                                                  : no_memory(n, reterr);
    }
    const bool is_short = rounded && OWN_KEPT_PAIRS && conv_is_dense(&f) && !stays_whole(n, &f);
    if (groups_takes(n, &f) && !(is_short && f.in > GROUPS_IN)) {
        return graph_align(g, n->in[1]) == PEN_OK ? pack_groups(n, &f, w, b, ret_packed, ret_bytes, reterr)
                                                  : no_memory(n, reterr);
    }
    if (!conv_is_dense(&f)) {
        return PEN_OK;
    }
    return is_short ? pack_short(n, &f, w, b, ret_packed, ret_bytes, reterr)
                    : pack_dense(n, &f, w, b, ret_packed, ret_bytes, reterr);
}

enum pen_status conv_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                          struct pen_error *reterr)
{
    return pack_any(g, n, false, ret_packed, ret_bytes, reterr);
}

enum pen_status conv_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                               struct pen_error *reterr)
{
    return pack_any(g, n, true, ret_packed, ret_bytes, reterr);
}
