#include "backend/xnnpack/conv.h"

#include <stdlib.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

#define TURNING_BYTES ((size_t)512 << 10)

bool conv_is_dense(const struct filter *f)
{
    return isa_own()->lanes >= 8 && (f->groups == 1 || (f->out / f->groups >= 16 && f->in >= 4));
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

static enum pen_status pack_dense(const struct node *n, const struct filter *f, const struct value *w,
                                  const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    uint8_t *packed = packed_alloc(filter_packed_bytes(f));
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
    *ret_bytes = filter_packed_bytes(f);
    return PEN_OK;
}

static void batch_assume(struct shape *s)
{
    s->dim[0] = s->dim[0] == SHAPE_DIM_UNKNOWN ? 1 : s->dim[0];
}

static bool is_worth_turning(const struct graph *g, const struct node *n, const struct filter *f)
{
    struct shape x = node_in(g, n, 0)->shape, y = node_out(g, n, 0)->shape;
    struct window w;
    if (x.rank != 4 || y.rank != 4 || !dims_known(node_in(g, n, 0), 1, 4) || !dims_known(node_out(g, n, 0), 1, 4)) {
        return false;
    }
    batch_assume(&x);
    batch_assume(&y);
    return window_read_exact(n, &x, &y, f->kernel, &w) && winograd_wants(&w, f);
}

/* Turned weights take four times the memory. A model's may take this much more than it has as it is, and the first nodes, whose pictures are the largest, gain most by
 * it. */
static size_t turning_room(size_t weights_bytes)
{
    return weights_bytes * 2 / 5 + TURNING_BYTES;
}

/* Reads the filter of a Conv whose weights are known; false: it is none. */
static bool conv_filter(const struct graph *g, const struct node *n, struct filter *ret_filter)
{
    const struct value *w = n->op == OP_Conv ? node_in(g, n, 1) : NULL;
    return w != NULL && w->shape.rank == 4 && dims_known(w, 0, 4) && filter_read(n, &w->shape, ret_filter);
}

bool conv_is_turned(const struct graph *g, const struct node *n, const struct filter *f)
{
    struct filter each;
    size_t weights = 0, more = 0;
    if (!is_worth_turning(g, n, f)) {
        return false;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        weights += conv_filter(g, &g->nodes[i], &each) ? filter_floats(&each) * sizeof(float) : 0;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct node *other = &g->nodes[i];
        if (!conv_filter(g, other, &each) || (other != n && !is_worth_turning(g, other, &each))) {
            continue;
        }
        size_t extra = winograd_packed_bytes(&each) - filter_floats(&each) * sizeof(float);
        bool fits = more + extra <= turning_room(weights);
        if (other == n) {
            return fits;
        }
        more += fits ? extra : 0;
    }
    return false;
}

static enum pen_status pack_turned(const struct node *n, const struct filter *f, const struct value *w,
                                   const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    void *packed = packed_alloc(winograd_packed_bytes(f));
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 64);
    bool done = packed != NULL && ohwi != NULL;
    if (done) {
        filter_to_ohwi(f, w->data, ohwi);
        done = winograd_pack(f, ohwi, bias, packed);
    }
    free(ohwi);
    if (!done) {
        free(packed);
        return no_memory(n, reterr);
    }
    *ret_packed = packed;
    *ret_bytes = winograd_packed_bytes(f);
    return PEN_OK;
}

enum pen_status conv_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                          struct pen_error *reterr)
{
    struct filter f;
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    if (w->data == NULL || (bias != NULL && bias->data == NULL) || !filter_read(n, &w->shape, &f)) {
        return PEN_OK;
    }
    const float *b = bias != NULL ? bias->data : NULL;
    return depthwise_takes(&f)        ? pack_depthwise(n, &f, w, b, ret_packed, ret_bytes, reterr)
           : conv_is_turned(g, n, &f) ? pack_turned(n, &f, w, b, ret_packed, ret_bytes, reterr)
           : conv_is_dense(&f)        ? pack_dense(n, &f, w, b, ret_packed, ret_bytes, reterr)
                                      : PEN_OK;
}
