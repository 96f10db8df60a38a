#include "backend/vulkan/coopmat.h"

#include <stdlib.h>
#include <string.h>

/* SPIR-V: an instruction's first word is its length in words and its number; the module starts with five words, the fourth bounds the ids. */
#define HEADER 5u
#define BOUND  3u

enum {
    OP_EXTENSION = 10,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_CONSTANT_TRUE = 41,
    OP_CONSTANT = 43,
    OP_LOAD = 61,
    OP_TYPE_NV = 5358,
    OP_LOAD_NV = 5359,
    OP_STORE_NV = 5360,
    OP_MUL_ADD_NV = 5361,
    OP_LENGTH_NV = 5362,
    OP_TYPE_KHR = 4456,
    OP_LOAD_KHR = 4457,
    OP_STORE_KHR = 4458,
    OP_MUL_ADD_KHR = 4459,
    CAPABILITY_NV = 5357,
    CAPABILITY_KHR = 6022
};

/* Of a product: all four matrices are of signed whole numbers. */
#define SIGNED_COMPONENTS 15u

enum use { USE_LEFT, USE_RIGHT, USE_SUM, USE_COUNT, USE_UNKNOWN };

struct module {
    const uint32_t *words;
    size_t count;
    uint32_t bound;
    uint32_t *type_of;  /* [bound] the type of a result; 0 = none */
    uint8_t *use_of;    /* [bound] of a matrix type */
    uint32_t constants; /* ids from here: 0, 1, 2 as 32-bit unsigned */
    uint32_t uint_type, true_id;
    bool whole; /* the matrices are of signed whole numbers */
    uint32_t *out;
    size_t out_count;
};

static uint32_t op_at(const struct module *m, size_t at)
{
    return m->words[at] & 0xFFFFu;
}

/* Of the instruction at `at`; 0 = it does not end within the module. */
static size_t length_at(const struct module *m, size_t at)
{
    size_t length = m->words[at] >> 16;
    return length <= m->count - at ? length : 0;
}

static bool id_fits(const struct module *m, uint32_t id)
{
    return id != 0 && id < m->bound;
}

/* A type of signed whole numbers. */
static bool is_signed(const struct module *m, uint32_t type)
{
    for (size_t at = HEADER; at < m->count && length_at(m, at) > 0; at += length_at(m, at)) {
        if (op_at(m, at) == OP_TYPE_INT && length_at(m, at) == 4 && m->words[at + 1] == type) {
            return m->words[at + 3] == 1;
        }
    }
    return false;
}

/* Types of loads and products, and by the products the use of each type: M x K left, K x N right, M x N sum are three types of the shader. */
static bool uses_find(struct module *m)
{
    for (size_t at = HEADER; at < m->count; at += length_at(m, at)) {
        uint32_t op = op_at(m, at);
        const uint32_t *w = m->words + at;
        size_t length = length_at(m, at);
        if (length == 0 || op == OP_LENGTH_NV) {
            return false;
        }
        if (op == OP_TYPE_INT && length == 4 && w[2] == 32 && w[3] == 0) {
            m->uint_type = w[1];
        }
        if (op == OP_CONSTANT_TRUE && length == 3) {
            m->true_id = w[2];
        }
        if (op == OP_TYPE_NV && length == 6) {
            m->whole = is_signed(m, w[2]);
        }
        if ((op == OP_LOAD || op == OP_LOAD_NV || op == OP_MUL_ADD_NV) && length >= 4 && id_fits(m, w[2])) {
            m->type_of[w[2]] = w[1];
        }
        if (op == OP_MUL_ADD_NV) {
            for (uint32_t i = 0; i < USE_COUNT; i++) {
                uint32_t operand = length == 6 ? w[3 + i] : 0;
                uint32_t type = id_fits(m, operand) ? m->type_of[operand] : 0;
                if (!id_fits(m, type) || (m->use_of[type] != USE_UNKNOWN && m->use_of[type] != i)) {
                    return false;
                }
                m->use_of[type] = (uint8_t)i;
            }
        }
    }
    return m->uint_type != 0;
}

static void put(struct module *m, uint32_t word)
{
    m->out[m->out_count++] = word;
}

static void put_op(struct module *m, uint32_t op, size_t length)
{
    put(m, (uint32_t)length << 16 | op);
}

static void put_all(struct module *m, const uint32_t *words, size_t count)
{
    memcpy(m->out + m->out_count, words, count * sizeof *words);
    m->out_count += count;
}

/* Behind the type of unsigned ints: the constants 0, 1, 2, uses and the layouts by rows and by columns. */
static void constants_put(struct module *m)
{
    for (uint32_t i = 0; i < USE_COUNT; i++) {
        put_op(m, OP_CONSTANT, 4);
        put(m, m->uint_type);
        put(m, m->constants + i);
        put(m, i);
    }
}

/* "SPV_NV_cooperative_matrix" with KHR for NV is one letter longer, in as many words: the text is padded to fours. */
static bool extension_put(struct module *m, const uint32_t *w, size_t length)
{
    static const char nv[] = "SPV_NV_cooperative_matrix", khr[] = "SPV_KHR_cooperative_matrix";
    if ((length - 1) * 4 < sizeof nv || memcmp(w + 1, nv, sizeof nv) != 0) {
        put_all(m, w, length);
        return true;
    }
    uint32_t text[(sizeof khr + 3) / 4] = {0};
    memcpy(text, khr, sizeof khr);
    put_op(m, OP_EXTENSION, 1 + sizeof text / 4);
    put_all(m, text, sizeof text / 4);
    return true;
}

static bool type_put(struct module *m, const uint32_t *w, size_t length)
{
    if (length != 6 || !id_fits(m, w[1]) || m->use_of[w[1]] == USE_UNKNOWN) {
        return false;
    }
    put_op(m, OP_TYPE_KHR, 7);
    put_all(m, w + 1, 5);
    put(m, m->constants + m->use_of[w[1]]);
    return true;
}

static void layout_put(struct module *m, uint32_t by_columns)
{
    put(m, m->constants + (by_columns == m->true_id ? 1 : 0));
}

/* type, result, pointer, stride, by columns, access... -> type, result, pointer, layout, stride, access... */
static bool load_put(struct module *m, const uint32_t *w, size_t length)
{
    if (length < 6) {
        return false;
    }
    put_op(m, OP_LOAD_KHR, length);
    put_all(m, w + 1, 3);
    layout_put(m, w[5]);
    put(m, w[4]);
    put_all(m, w + 6, length - 6);
    return true;
}

/* pointer, matrix, stride, by columns, access... -> pointer, matrix, layout, stride, access... */
static bool store_put(struct module *m, const uint32_t *w, size_t length)
{
    if (length < 5) {
        return false;
    }
    put_op(m, OP_STORE_KHR, length);
    put_all(m, w + 1, 2);
    layout_put(m, w[4]);
    put(m, w[3]);
    put_all(m, w + 5, length - 5);
    return true;
}

static bool instruction_put(struct module *m, const uint32_t *w, size_t length)
{
    switch (w[0] & 0xFFFFu) {
    case OP_CAPABILITY:
        put(m, w[0]);
        put(m, w[1] == CAPABILITY_NV ? CAPABILITY_KHR : w[1]);
        return true;
    case OP_EXTENSION:
        return extension_put(m, w, length);
    case OP_TYPE_INT:
        put_all(m, w, length);
        if (w[1] == m->uint_type) {
            constants_put(m);
        }
        return true;
    case OP_TYPE_NV:
        return type_put(m, w, length);
    case OP_LOAD_NV:
        return load_put(m, w, length);
    case OP_STORE_NV:
        return store_put(m, w, length);
    case OP_MUL_ADD_NV:
        put_op(m, OP_MUL_ADD_KHR, length + m->whole);
        put_all(m, w + 1, length - 1);
        if (m->whole) {
            put(m, SIGNED_COMPONENTS);
        }
        return true;
    default:
        put_all(m, w, length);
        return true;
    }
}

static bool rewrite(struct module *m)
{
    put_all(m, m->words, HEADER);
    m->out[BOUND] = m->bound + USE_COUNT;
    for (size_t at = HEADER; at < m->count; at += length_at(m, at)) {
        if (!instruction_put(m, m->words + at, length_at(m, at))) {
            return false;
        }
    }
    return true;
}

#define WORDS_MOST ((size_t)1 << 22)

bool vk_coopmat_khr(const uint32_t *words, size_t count, uint32_t **ret_words, size_t *ret_count)
{
    struct module m = {.words = words, .count = count};
    if (count <= HEADER || count > WORDS_MOST || words[BOUND] == 0 || words[BOUND] > WORDS_MOST) {
        return false;
    }
    m.bound = words[BOUND];
    m.constants = m.bound;
    m.type_of = calloc(m.bound, sizeof *m.type_of);
    m.use_of = malloc(m.bound);
    m.out = malloc((2 * count + 64) * sizeof *m.out);
    bool done = m.type_of != NULL && m.use_of != NULL && m.out != NULL;
    if (done) {
        memset(m.use_of, USE_UNKNOWN, m.bound);
        done = uses_find(&m) && rewrite(&m);
    }
    free(m.type_of);
    free(m.use_of);
    if (!done) {
        free(m.out);
        return false;
    }
    *ret_words = m.out;
    *ret_count = m.out_count;
    return true;
}
