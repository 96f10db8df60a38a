#include <math.h>
#include <string.h>

#include "backend/vulkan/ops/epilogue.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/range.h"

/*
 * MatMulNBits: y = a w^T + bias, w [N, K] in blocks of 2, 4 or 8 bits. The codes stay as they are in the file, on the device too; each kernel decodes them where
 * it reads them. What follows it is computed with it, as with other products (epilogue.h).
 */
enum { IN_A, IN_CODES, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };
enum { PACK_SCALES, PACK_BIAS = VK_EPILOGUE_BIAS, PACK_ZEROS };

struct nbits {
    size_t k, n, bits, block, blocks;
};

static struct nbits nbits_of(const struct node *n)
{
    struct nbits q = {.k = (size_t)node_int(n, ATTR_K, 0),
                      .n = (size_t)node_int(n, ATTR_N, 0),
                      .bits = (size_t)node_int(n, ATTR_bits, 4),
                      .block = (size_t)node_int(n, ATTR_block_size, 0)};
    q.blocks = q.block > 0 ? (q.k + q.block - 1) / q.block : 0;
    return q;
}

static bool attrs_fit(const struct node *n)
{
    int64_t bits = node_int(n, ATTR_bits, 4), block = node_int(n, ATTR_block_size, 0), k = node_int(n, ATTR_K, 0),
            outs = node_int(n, ATTR_N, 0);
    return (bits == 2 || bits == 4 || bits == 8) && block >= 16 && block <= INT32_MAX && block * bits % 32 == 0 &&
           k > 0 && k <= INT32_MAX && outs > 0 && outs <= INT32_MAX;
}

static bool floats_fit(const struct value *v, size_t count)
{
    return v == NULL ||
           (vk_dtype_is(v, PEN_DTYPE_F32) && v->data != NULL && shape_elements(&v->shape) == (int64_t)count);
}

/* Packed like the codes, each row padded to whole bytes. */
static size_t zero_row(const struct nbits *q)
{
    return (q->blocks * q->bits + 7) / 8;
}

static bool zeros_fit(const struct value *v, const struct nbits *q)
{
    if (v == NULL || v->dtype != PEN_DTYPE_U8) {
        return floats_fit(v, q->n * q->blocks);
    }
    return v->data != NULL && shape_elements(&v->shape) >= (int64_t)(q->n * zero_row(q));
}

static bool nbits_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *codes = node_in(g, n, IN_CODES);
    const struct nbits q = nbits_of(n);
    if (!attrs_fit(n)) {
        return vk_refuse(ret_reason, "only 2, 4 or 8 bits, in blocks of whole words");
    }
    bool fits = vk_dtype_is(node_in(g, n, IN_A), PEN_DTYPE_F32) && vk_dtype_is(codes, PEN_DTYPE_U8) &&
                codes->data != NULL &&
                shape_elements(&codes->shape) == (int64_t)(q.n * q.blocks * q.block * q.bits / 8);
    fits = fits && node_in(g, n, IN_SCALES) != NULL && floats_fit(node_in(g, n, IN_SCALES), q.n * q.blocks) &&
           zeros_fit(node_in(g, n, IN_ZEROS), &q) && floats_fit(node_in(g, n, IN_BIAS), q.n);
    return (fits && node_in(g, n, IN_GROUPS) == NULL) ||
           vk_refuse(ret_reason, "only f32 with constant codes in bytes and constant scales, groups in order");
}

static float zero_at(const struct value *v, const struct nbits *q, size_t row, size_t block)
{
    if (v->dtype == PEN_DTYPE_F32) {
        return ((const float *)v->data)[row * q->blocks + block];
    }
    size_t per_byte = 8 / q->bits;
    unsigned byte = ((const uint8_t *)v->data)[row * zero_row(q) + block / per_byte];
    return (float)(byte >> (block % per_byte * q->bits) & ((1u << q->bits) - 1u));
}

/* In whole fours. */
static enum pen_status floats_pack(struct vk_pack *p, uint32_t slot, const struct value *v)
{
    float *to = v != NULL ? vk_pack_floats(p, slot, (v->bytes / sizeof(float) + 3) / 4 * 4) : NULL;
    if (v != NULL && to != NULL) {
        memcpy(to, v->data, v->bytes);
        vk_pack_wide_if_outside(p, slot);
    }
    return v == NULL || to != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static enum pen_status nbits_pack(struct vk_pack *p)
{
    const struct nbits q = nbits_of(p->n);
    const struct value *zeros = node_in(p->g, p->n, IN_ZEROS);
    float *to = zeros != NULL ? vk_pack_floats(p, PACK_ZEROS, q.n * q.blocks) : NULL;
    for (size_t i = 0; to != NULL && i < q.n * q.blocks; i++) {
        to[i] = zero_at(zeros, &q, i / q.blocks, i % q.blocks);
    }
    if (zeros != NULL && to == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    enum pen_status status = floats_pack(p, PACK_SCALES, node_in(p->g, p->n, IN_SCALES));
    const struct value *own = node_in(p->g, p->n, IN_BIAS), *next = vk_epilogue_bias(p->g, p->n, q.n);
    status = status == PEN_OK ? floats_pack(p, PACK_BIAS, own != NULL ? own : next) : status;
    if (own == NULL && next != NULL && status == PEN_OK && vk_range_large(next->data, q.n)) {
        vk_pack_wide(p, PACK_BIAS);
    }
    return status;
}

static struct vk_work *dispatch(struct vk_build *b, enum shader shader, const struct nbits *q,
                                const struct vk_product *p, uint32_t tile)
{
    const uint32_t scales = p->codes->scales, zeros = p->codes->zeros;
    struct vk_work *w = vk_dispatch(b, shader);
    vk_bind(w, p->y, VK_WRITE);
    vk_bind(w, p->x, VK_READ);
    vk_bind(w, p->weights, VK_READ);
    vk_bind(w, scales, VK_READ);
    vk_bind(w, zeros != VK_CELL_NONE ? zeros : scales, VK_READ);
    vk_bind(w, p->bias != VK_CELL_NONE ? p->bias : scales, VK_READ);
    vk_bind(w, p->adds != VK_RESIDUAL_NONE ? p->residual : p->x, VK_READ);
    vk_spec_act(w, &p->act);
    vk_spec(w, (uint32_t)q->bits);
    vk_spec(w, zeros != VK_CELL_NONE);
    vk_spec(w, p->bias != VK_CELL_NONE);
    vk_spec(w, tile);
    vk_spec(w, vk_cell_wide(b, scales) | (uint32_t)vk_cell_wide(b, p->bias) << 1 | (uint32_t)p->adds |
                   (uint32_t)vk_cell_wide(b, zeros) << 4);
    const size_t words[] = {p->w.out[1], q->n, q->k, q->blocks * q->block * q->bits / 32, q->block * q->bits / 32,
                            q->blocks};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    return w;
}

/* As f16: every value that a code may stand for. */
static bool values_fit(const struct vk_build *b, const struct nbits *q)
{
    const float *scales = vk_in(b, IN_SCALES)->data;
    const struct fact *zeros = vk_in(b, IN_ZEROS);
    float scale = 0.0f, zero = (float)(1u << q->bits);
    for (size_t i = 0; i < q->n * q->blocks; i++) {
        scale = fmaxf(scale, fabsf(scales[i]));
        zero =
            zeros != NULL && zeros->dtype == PEN_DTYPE_F32 ? fmaxf(zero, fabsf(((const float *)zeros->data)[i])) : zero;
    }
    return scale * (zero + (float)(1u << q->bits)) < 65504.0f;
}

static void product(struct vk_build *b, const struct nbits *q, const struct vk_product *p, const struct vk_choice *c)
{
    const size_t rows = p->w.out[1];
    if (c->family == VK_FAMILY_CM) {
        vk_product_codes(b, p, c);
    } else if (c->family == VK_FAMILY_TILED) {
        vk_groups(dispatch(b, SHADER_nbits_tiled, q, p, c->tile), (rows + 16 * c->tile - 1) / (16 * c->tile),
                  (q->n + 63) / 64, 1);
    } else if (c->family == VK_FAMILY_GEMV) {
        uint32_t lanes = q->k >= 1024 ? 1 : q->k >= 256 ? 4 : 16;
        struct vk_work *w = dispatch(b, SHADER_nbits_gemv, q, p, c->tile);
        vk_spec(w, lanes);
        vk_groups(w, (q->n + lanes - 1) / lanes, (rows + c->tile - 1) / c->tile, 1);
    } else {
        vk_items(dispatch(b, SHADER_nbits, q, p, c->tile), (rows + c->tile - 1) / c->tile * q->n);
    }
}

static void nbits_build(struct vk_build *b)
{
    const struct nbits q = nbits_of(b->n);
    const bool has_bias = vk_in(b, IN_BIAS) != NULL;
    size_t rows = vk_elements(vk_in(b, IN_A)) / q.k;
    if (rows * q.k != vk_elements(vk_in(b, IN_A)) || rows * q.n != vk_elements(vk_out(b, 0))) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and weights do not fit each other");
        return;
    }
    if (b->epilogue == NULL && vk_epilogue_waits(b, has_bias)) {
        return;
    }
    const struct vk_coding coding = {(uint32_t)q.bits, (uint32_t)q.block};
    const struct vk_codes codes = {
        .coding = coding, .scales = vk_packed_cell(b, PACK_SCALES), .zeros = vk_packed_cell(b, PACK_ZEROS)};
    struct vk_product p = {.w = vk_matrix_window(rows, q.k),
                           .groups = 1,
                           .group_in = q.k,
                           .group_out = q.n,
                           .x = vk_in_cell(b, IN_A),
                           .weights = vk_in_cell(b, IN_CODES),
                           .bias = has_bias ? vk_packed_cell(b, PACK_BIAS) : VK_CELL_NONE,
                           .act = vk_act_read(b->n),
                           .codes = &codes};
    vk_epilogue_apply(b, &p);
    const struct vk_product_shape shape = {
        .kind = VK_PRODUCT_CODES, .rows = rows, .outs = q.n, .depth = q.k, .groups = 1};
    const struct vk_choice c =
        vk_build_choose_codes(b, &shape, &coding, !vk_cell_wide(b, codes.scales) && values_fit(b, &q));
    for (uint32_t i = vk_build_repeats(b); i > 0; i--) {
        product(b, &q, &p, &c);
    }
}

const struct vk_op vk_op_nbits = {nbits_supports, nbits_pack, nbits_build};
