#include "import/tflite/flatbuffer.h"

#include <string.h>

/* The whole safety of the reader: [at, at + bytes) lies in the file. */
static bool inside(struct fb *f, size_t at, uint64_t bytes)
{
    if (at <= f->size && bytes <= f->size - at)
        return true;
    uint64_t end = at > UINT64_MAX - bytes ? UINT64_MAX : at + bytes;
    f->beyond = end > f->beyond ? end : f->beyond;
    f->broken = true;
    return false;
}

uint64_t fb_read(struct fb *f, size_t at, unsigned bytes)
{
    uint64_t value = 0;
    if (!inside(f, at, bytes))
        return 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)f->at[at + i] << (8 * i);
    return value;
}

/* Position that the unsigned 32-bit offset at `at` leads to; 0 when it leads nowhere. */
static size_t follow(struct fb *f, size_t at)
{
    uint64_t offset = fb_read(f, at, 4);
    if (offset == 0 || !inside(f, at, offset)) {
        f->broken = true;
        return 0;
    }
    return at + (size_t)offset;
}

static struct fb_table table_at(struct fb *f, size_t at)
{
    struct fb_table t = {.f = f};
    if (at == 0 || !inside(f, at, 4))
        return t;
    int64_t back = (int32_t)fb_read(f, at, 4);
    int64_t vtable = (int64_t)at - back;
    if (vtable < 0 || !inside(f, (size_t)vtable, 4))
        goto broken;
    uint64_t bytes = fb_read(f, (size_t)vtable, 2);
    if (bytes < 4 || bytes % 2 != 0 || !inside(f, (size_t)vtable, bytes))
        goto broken;
    t.at = at;
    t.vtable = (size_t)vtable;
    t.fields = (uint16_t)((bytes - 4) / 2);
    return t;
broken:
    f->broken = true;
    return t;
}

struct fb_table fb_root(struct fb *f)
{
    return table_at(f, follow(f, 0));
}

/* Position of a field, 0 when absent. */
static size_t field_at(const struct fb_table *t, unsigned field)
{
    if (t->at == 0 || field >= t->fields)
        return 0;
    uint64_t offset = fb_read(t->f, t->vtable + 4 + 2 * (size_t)field, 2);
    return offset && inside(t->f, t->at, offset) ? t->at + (size_t)offset : 0;
}

bool fb_has(const struct fb_table *t, unsigned field)
{
    return field_at(t, field) != 0;
}

static int64_t sign_extend(uint64_t value, unsigned bytes)
{
    unsigned shift = 64 - 8 * bytes;
    return (int64_t)(value << shift) >> shift;
}

int64_t fb_int(const struct fb_table *t, unsigned field, unsigned bytes, int64_t def)
{
    size_t at = field_at(t, field);
    return at ? sign_extend(fb_read(t->f, at, bytes), bytes) : def;
}

uint64_t fb_uint(const struct fb_table *t, unsigned field, unsigned bytes, uint64_t def)
{
    size_t at = field_at(t, field);
    return at ? fb_read(t->f, at, bytes) : def;
}

static float float_of(uint64_t bits)
{
    uint32_t narrow = (uint32_t)bits;
    float value;
    memcpy(&value, &narrow, sizeof value);
    return value;
}

float fb_float(const struct fb_table *t, unsigned field, float def)
{
    size_t at = field_at(t, field);
    return at ? float_of(fb_read(t->f, at, 4)) : def;
}

bool fb_bool(const struct fb_table *t, unsigned field, bool def)
{
    return fb_uint(t, field, 1, def) != 0;
}

struct fb_table fb_child(const struct fb_table *t, unsigned field)
{
    size_t at = field_at(t, field);
    return at ? table_at(t->f, follow(t->f, at)) : (struct fb_table){.f = t->f};
}

struct fb_list fb_vector(const struct fb_table *t, unsigned field, uint32_t item_bytes)
{
    struct fb_list l = {.f = t->f, .item_bytes = item_bytes};
    size_t at = field_at(t, field);
    size_t from = at ? follow(t->f, at) : 0;
    if (from == 0)
        return l;
    uint64_t count = fb_read(t->f, from, 4);
    if (!inside(t->f, from + 4, count * item_bytes)) /* count < 2^32, item_bytes <= 8 */
        return l;
    l.at = from + 4;
    l.count = (uint32_t)count;
    return l;
}

struct fb_text fb_string(const struct fb_table *t, unsigned field)
{
    struct fb_list l = fb_vector(t, field, 1);
    const char *at = fb_list_data(&l);
    return at ? (struct fb_text){at, l.count} : (struct fb_text){"", 0};
}

struct fb_table fb_list_table(const struct fb_list *l, uint32_t index)
{
    if (index >= l->count || l->item_bytes != 4)
        return (struct fb_table){.f = l->f};
    return table_at(l->f, follow(l->f, l->at + 4 * (size_t)index));
}

int64_t fb_list_int(const struct fb_list *l, uint32_t index)
{
    if (index >= l->count)
        return 0;
    return sign_extend(fb_read(l->f, l->at + (size_t)index * l->item_bytes, l->item_bytes), l->item_bytes);
}

float fb_list_float(const struct fb_list *l, uint32_t index)
{
    return index < l->count && l->item_bytes == 4 ? float_of(fb_read(l->f, l->at + 4 * (size_t)index, 4)) : 0.0f;
}

const void *fb_list_data(const struct fb_list *l)
{
    return l->count ? l->f->at + l->at : NULL;
}
