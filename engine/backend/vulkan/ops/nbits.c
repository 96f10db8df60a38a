#include <string.h>

#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/product.h"

/*
 * MatMulNBits: y = a w^T + bias, w [N, K] in blocks of 2, 4 or 8 bits. The codes stay as they are in the file, on the device too; each kernel decodes them where
 * it reads them.
 */
enum { IN_A, IN_CODES, IN_SCALES, IN_ZEROS, IN_GROUPS, IN_BIAS };
enum { PACK_SCALES, PACK_ZEROS, PACK_BIAS };

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

static enum pen_status floats_pack(struct vk_pack *p, uint32_t slot, const struct value *v)
{
    float *to = v != NULL ? vk_pack_floats(p, slot, v->bytes / sizeof(float)) : NULL;
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
    return status == PEN_OK ? floats_pack(p, PACK_BIAS, node_in(p->g, p->n, IN_BIAS)) : status;
}

static struct vk_work *dispatch(struct vk_build *b, enum shader shader, const struct nbits *q, size_t rows,
                                uint32_t tile)
{
    uint32_t scales = vk_packed_cell(b, PACK_SCALES), zeros = vk_packed_cell(b, PACK_ZEROS),
             bias = vk_packed_cell(b, PACK_BIAS);
    struct vk_work *w = vk_dispatch(b, shader);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, IN_A), VK_READ);
    vk_bind(w, vk_in_cell(b, IN_CODES), VK_READ);
    vk_bind(w, scales, VK_READ);
    vk_bind(w, zeros != VK_CELL_NONE ? zeros : scales, VK_READ);
    vk_bind(w, bias != VK_CELL_NONE ? bias : scales, VK_READ);
    vk_spec(w, (uint32_t)q->bits);
    vk_spec(w, zeros != VK_CELL_NONE);
    vk_spec(w, bias != VK_CELL_NONE);
    vk_spec(w, tile);
    vk_spec(w, vk_cell_wide(b, scales) | (uint32_t)vk_cell_wide(b, zeros) << 1 | (uint32_t)vk_cell_wide(b, bias) << 2);
    const size_t words[] = {rows, q->n, q->k, q->blocks * q->block * q->bits / 32, q->block * q->bits / 32, q->blocks};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        vk_push(w, words[i]);
    }
    return w;
}

static void nbits_build(struct vk_build *b)
{
    const struct nbits q = nbits_of(b->n);
    size_t rows = vk_elements(vk_in(b, IN_A)) / q.k;
    if (rows * q.k != vk_elements(vk_in(b, IN_A)) || rows * q.n != vk_elements(vk_out(b, 0))) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and weights do not fit each other");
        return;
    }
    const struct vk_product_shape shape = {
        .kind = VK_PRODUCT_MATRIX, .rows = rows, .outs = q.n, .depth = q.k, .groups = 1};
    const struct vk_choice c = vk_build_choose_codes(b, &shape);
    if (c.family == VK_FAMILY_TILED) {
        vk_groups(dispatch(b, SHADER_nbits_tiled, &q, rows, c.tile), (rows + 16 * c.tile - 1) / (16 * c.tile),
                  (q.n + 63) / 64, 1);
    } else if (c.family == VK_FAMILY_GEMV) {
        uint32_t lanes = q.k >= 1024 ? 1 : q.k >= 256 ? 4 : 16;
        struct vk_work *w = dispatch(b, SHADER_nbits_gemv, &q, rows, c.tile);
        vk_spec(w, lanes);
        vk_groups(w, (q.n + lanes - 1) / lanes, (rows + c.tile - 1) / c.tile, 1);
    } else {
        vk_items(dispatch(b, SHADER_nbits, &q, rows, c.tile), (rows + c.tile - 1) / c.tile * q.n);
    }
}

const struct vk_op vk_op_nbits = {nbits_supports, nbits_pack, nbits_build};
