#include "backend/vulkan/ops/quantised.h"

#include <math.h>

#include "backend/vulkan/ops/chain.h"

bool vk_is_byte(const struct value *v)
{
    return vk_dtype_is(v, PEN_DTYPE_U8) || vk_dtype_is(v, PEN_DTYPE_I8);
}

bool vk_one(const struct value *v, enum pen_dtype dtype)
{
    return vk_dtype_is(v, dtype) && v->data != NULL && shape_elements(&v->shape) == 1;
}

bool vk_affine_signed_fits(const struct graph *g, const struct node *n, uint32_t scale, enum pen_dtype dtype)
{
    const struct value *zero = node_in(g, n, scale + 1);
    return vk_one(node_in(g, n, scale), PEN_DTYPE_F32) && (zero == NULL || vk_one(zero, dtype));
}

bool vk_affine_fits(const struct graph *g, const struct node *n, uint32_t scale, enum pen_dtype dtype)
{
    return vk_affine_signed_fits(g, n, scale, dtype) && *(const float *)node_in(g, n, scale)->data >= 0x1p-100f &&
           *(const float *)node_in(g, n, scale)->data <= 0x1p100f;
}

int32_t vk_byte_at(const void *data, enum pen_dtype dtype, size_t i)
{
    return dtype == PEN_DTYPE_I8 ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
}

struct vk_affine vk_affine_read(const struct graph *g, const struct node *n, uint32_t scale)
{
    const struct value *zero = node_in(g, n, scale + 1);
    return (struct vk_affine){.scale = (double)*(const float *)node_in(g, n, scale)->data,
                              .zero = zero != NULL ? (double)vk_byte_at(zero->data, zero->dtype, 0) : 0.0};
}

struct vk_affine vk_affine_of(const struct vk_build *b, uint32_t scale)
{
    return vk_affine_read(b->g, b->n, scale);
}

uint8_t vk_quantised(const struct vk_affine *y, enum pen_dtype dtype, double real)
{
    double low = dtype == PEN_DTYPE_I8 ? -128.0 : 0.0, high = low + 255.0, v = nearbyint(real / y->scale) + y->zero;
    v = v >= low ? v : low;
    return (uint8_t)(int32_t)(v > high ? high : v);
}

double vk_real(const struct vk_affine *x, enum pen_dtype dtype, uint8_t code)
{
    return ((double)vk_byte_at(&code, dtype, 0) - x->zero) * x->scale;
}

void vk_table_dispatch(struct vk_build *b, const struct shape *shape, uint32_t y, uint32_t x, uint32_t table)
{
    const struct shape one = shape_scalar();
    struct vk_chain c;
    vk_chain_init(&c, shape);
    c.whole = true;
    vk_chain_input(&c, x, shape, EW_U8);
    vk_chain_step(&c, EW_TABLE, vk_chain_input(&c, table, &one, EW_U8), 0.0f, 0.0f);
    vk_chain_dispatch(b, &c, y, EW_U8);
}
