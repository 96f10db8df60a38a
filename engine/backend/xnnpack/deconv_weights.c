#include "backend/xnnpack/deconv_weights.h"

#include <stdlib.h>

#include "backend/xnnpack/emit.h"

struct deconv_weights deconv_weights_of(const struct shape *w, size_t groups, bool rows)
{
    return (struct deconv_weights){.groups = groups,
                                   .in = (size_t)w->dim[0] / groups,
                                   .out = (size_t)w->dim[1],
                                   .height = w->rank == 4 ? (size_t)w->dim[2] : 1,
                                   .width = (size_t)w->dim[w->rank - 1],
                                   .rows = rows};
}

size_t deconv_weights_columns(const struct deconv_weights *d)
{
    return d->rows ? d->width * d->out : d->out;
}

size_t deconv_weights_products(const struct deconv_weights *d)
{
    return d->rows ? d->height : d->height * d->width;
}

const struct dense_weights *deconv_weights_at(const struct deconv_weights *d, enum gemm_form form, const void *packed,
                                              size_t group, size_t product)
{
    const size_t one = dense_form_bytes(form, d->in, deconv_weights_columns(d));
    return (const void *)((const uint8_t *)packed + (group * deconv_weights_products(d) + product) * one);
}

/* The columns of one product, [in][columns], and behind them the bias of each. w: of the group. */
static void product_turn(const struct deconv_weights *d, const float *w, const float *bias, size_t product, float *to)
{
    const size_t positions = d->height * d->width, columns = deconv_weights_columns(d);
    const size_t first = d->rows ? product * d->width : product;
    for (size_t c = 0; c < d->in; c++) {
        for (size_t j = 0; j < columns; j++) {
            *to++ = w[(c * d->out + j % d->out) * positions + first + j / d->out];
        }
    }
    for (size_t j = 0; j < columns; j++) {
        *to++ = bias != NULL ? bias[j % d->out] : 0.0f;
    }
}

static enum pen_status products_pack(const struct deconv_weights *d, enum gemm_form form, const float *w,
                                     const float *bias, float *turned, void *packed)
{
    const size_t products = deconv_weights_products(d), columns = deconv_weights_columns(d);
    const struct dense_matrix matrix = {.w = turned,
                                        .bias = turned + d->in * columns,
                                        .k_stride = columns,
                                        .n_stride = 1,
                                        .k = d->in,
                                        .n = columns,
                                        .alpha = 1.0f};
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < d->groups * products && status == PEN_OK; i++) {
        const size_t group = i / products;
        product_turn(d, w + group * d->in * d->out * d->height * d->width, bias != NULL ? bias + group * d->out : NULL,
                     i % products, turned);
        const struct dense_weights *to = deconv_weights_at(d, form, packed, group, i % products);
        status = dense_pack_form((struct dense_weights *)(uintptr_t)to, form, &matrix);
    }
    return status;
}

enum pen_status deconv_weights_pack(const struct graph *g, const struct node *n, const struct deconv_weights *d,
                                    enum gemm_form form, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    const struct value *bias = node_in(g, n, 2);
    const size_t columns = deconv_weights_columns(d);
    const size_t bytes = d->groups * deconv_weights_products(d) * dense_form_bytes(form, d->in, columns);
    void *packed = packed_alloc(bytes);
    float *turned = malloc((d->in + 1) * columns * sizeof *turned + 64);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (packed != NULL && turned != NULL) {
        status = products_pack(d, form, node_in(g, n, 1)->data, bias != NULL ? bias->data : NULL, turned, packed);
    }
    free(turned);
    if (status != PEN_OK) {
        free(packed);
        return pen_error_set(reterr, status, "xnnpack: no memory for the weights of node %s", n->name);
    }
    *ret_packed = packed;
    *ret_bytes = bytes;
    return PEN_OK;
}
