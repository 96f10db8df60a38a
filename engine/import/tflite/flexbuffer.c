/*
 * Layout: the last byte tells the root's width, the one before its type (kind << 2 | log2 of its width), before these the root itself. A map is an offset
 * backwards to its values; in front of them lie their number, and the offset and width of the keys; behind them one type per value.
 */
#include "import/tflite/flexbuffer.h"

#include <string.h>

#define ITEMS_MAX 4096

enum {
    FLEX_INT = 1,
    FLEX_UINT = 2,
    FLEX_FLOAT = 3,
    FLEX_WIDE_INT = 6,
    FLEX_WIDE_UINT = 7,
    FLEX_WIDE_FLOAT = 8,
    FLEX_MAP = 9,
    FLEX_LIST = 10
};
enum { FLEX_LIST_INT = 11, FLEX_LIST_UINT = 12, FLEX_BOOL = 26 };

struct flex_value {
    struct fb *f;
    size_t at;      /* of the number, or of the list's first item */
    unsigned kind;  /* 0 = nothing */
    unsigned width; /* of the number or of an item */
    uint64_t count; /* of a list */
};

static bool width_fits(unsigned width)
{
    return width == 1 || width == 2 || width == 4 || width == 8;
}

/* Where the offset at `at` leads, backwards; 0 when it leads nowhere. */
static size_t back(struct fb *f, size_t at, unsigned width)
{
    uint64_t offset = fb_read(f, at, width);
    return offset > 0 && offset <= at ? at - (size_t)offset : 0;
}

struct flex_map flex_root(const struct fb_list *bytes)
{
    struct flex_map m = {.f = bytes->f};
    struct fb *f = bytes->f;
    size_t end = bytes->at + bytes->count;
    if (bytes->count < 3)
        return m;
    unsigned root_width = (unsigned)fb_read(f, end - 1, 1), type = (unsigned)fb_read(f, end - 2, 1);
    if (type >> 2 != FLEX_MAP || !width_fits(root_width) || root_width + 2 > bytes->count)
        return m;
    unsigned width = 1u << (type & 3);
    size_t at = back(f, end - 2 - root_width, root_width);
    if (at < bytes->at + 3 * width)
        return m;
    size_t keys = back(f, at - 3 * width, width);
    uint64_t key_width = fb_read(f, at - 2 * width, width), count = fb_read(f, at - width, width);
    if (keys < bytes->at || key_width > 8 || !width_fits((unsigned)key_width) || count > ITEMS_MAX)
        return m;
    m.at = at;
    m.keys = keys;
    m.count = count;
    m.width = width;
    m.key_width = (unsigned)key_width;
    return m;
}

static bool key_is(const struct flex_map *m, uint64_t index, const char *name)
{
    size_t at = back(m->f, m->keys + (size_t)index * m->key_width, m->key_width), bytes = strlen(name) + 1;
    return at != 0 && at + bytes <= m->f->size && memcmp(m->f->at + at, name, bytes) == 0;
}

static struct flex_value value_at(const struct flex_map *m, uint64_t index)
{
    struct flex_value v = {.f = m->f, .at = m->at + (size_t)index * m->width, .width = m->width};
    unsigned type = (unsigned)fb_read(m->f, m->at + (size_t)m->count * m->width + (size_t)index, 1);
    v.kind = type >> 2;
    if (v.kind >= 4 && v.kind != FLEX_BOOL) { /* lies elsewhere */
        v.at = back(m->f, v.at, m->width);
        v.width = 1u << (type & 3);
    }
    if (v.at == 0 || m->f->broken)
        v.kind = 0;
    if ((v.kind == FLEX_LIST_INT || v.kind == FLEX_LIST_UINT || v.kind == FLEX_LIST) && v.at >= v.width)
        v.count = fb_read(m->f, v.at - v.width, v.width);
    return v;
}

static struct flex_value find(const struct flex_map *m, const char *name)
{
    for (uint64_t i = 0; i < m->count && !m->f->broken; i++) {
        if (key_is(m, i, name))
            return value_at(m, i);
    }
    return (struct flex_value){.f = m->f};
}

static int64_t signed_read(struct fb *f, size_t at, unsigned width)
{
    unsigned shift = 64 - 8 * width;
    return (int64_t)(fb_read(f, at, width) << shift) >> shift;
}

static double real_read(struct fb *f, size_t at, unsigned width)
{
    uint64_t bits = fb_read(f, at, width);
    uint32_t narrow = (uint32_t)bits;
    float single;
    double wide;
    memcpy(&single, &narrow, sizeof single);
    memcpy(&wide, &bits, sizeof wide);
    return width == 8 ? wide : width == 4 ? (double)single : 0.0;
}

static bool number_of(const struct flex_value *v, double *ret)
{
    switch (v->kind) {
    case FLEX_INT:
    case FLEX_WIDE_INT:
        *ret = (double)signed_read(v->f, v->at, v->width);
        return true;
    case FLEX_UINT:
    case FLEX_WIDE_UINT:
    case FLEX_BOOL:
        *ret = (double)fb_read(v->f, v->at, v->width);
        return true;
    case FLEX_FLOAT:
    case FLEX_WIDE_FLOAT:
        *ret = real_read(v->f, v->at, v->width);
        return true;
    default:
        return false;
    }
}

int64_t flex_int(const struct flex_map *m, const char *name, int64_t def)
{
    struct flex_value v = find(m, name);
    double number;
    return number_of(&v, &number) && number > -9e15 && number < 9e15 ? (int64_t)number : def;
}

float flex_float(const struct flex_map *m, const char *name, float def)
{
    struct flex_value v = find(m, name);
    double number;
    return number_of(&v, &number) ? (float)number : def;
}

uint32_t flex_ints(const struct flex_map *m, const char *name, int64_t *items, uint32_t room)
{
    struct flex_value v = find(m, name);
    bool listed = v.kind == FLEX_LIST_INT || v.kind == FLEX_LIST_UINT || v.kind == FLEX_LIST;
    uint32_t n = 0;
    for (; listed && n < v.count && n < room && !v.f->broken; n++)
        items[n] = signed_read(v.f, v.at + (size_t)n * v.width, v.width);
    return n;
}
