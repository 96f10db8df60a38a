/* MurmurHash3 of com.microsoft: a 32-bit hash of each element. Source: Austin Appleby's MurmurHash3_x86_32, with the key's bytes as they lie in memory. */
#include <string.h>

#include "backend/reference/kernels.h"

static uint32_t turned(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static uint32_t mixed(uint32_t k)
{
    return turned(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static uint32_t hash_of(const uint8_t *key, size_t bytes, uint32_t seed)
{
    uint32_t h = seed, tail = 0;
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t word =
            (uint32_t)key[i] | (uint32_t)key[i + 1] << 8 | (uint32_t)key[i + 2] << 16 | (uint32_t)key[i + 3] << 24;
        h = turned(h ^ mixed(word), 13) * 5 + 0xe6546b64u;
    }
    for (size_t i = bytes % 4; i > 0; i--) {
        tail = tail << 8 | key[bytes - bytes % 4 + i - 1];
    }
    h ^= bytes % 4 > 0 ? mixed(tail) : 0;
    h ^= (uint32_t)bytes;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

enum pen_status kernel_murmur_hash(struct kernel_call *k)
{
    const struct rt_value *x = &k->in[0];
    uint32_t seed = (uint32_t)node_int(k->n, ATTR_seed, 0);
    enum pen_dtype dtype = node_int(k->n, ATTR_positive, 1) != 0 ? PEN_DTYPE_U32 : PEN_DTYPE_I32;
    enum pen_status status = kernel_output(k, 0, dtype, &x->shape);
    size_t size = x->dtype == PEN_DTYPE_STRING ? 0 : element_size(x->dtype);
    for (int64_t i = 0; status == PEN_OK && i < shape_elements(&x->shape); i++) {
        const struct string_view *text = x->dtype == PEN_DTYPE_STRING ? (const struct string_view *)x->data + i : NULL;
        const uint8_t *key = text != NULL ? (const uint8_t *)text->text : (const uint8_t *)x->data + (size_t)i * size;
        uint32_t h = hash_of(key, text != NULL ? text->bytes : size, seed);
        memcpy((uint8_t *)k->out[0].data + (size_t)i * sizeof h, &h, sizeof h);
    }
    return status;
}
