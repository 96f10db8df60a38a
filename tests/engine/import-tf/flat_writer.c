#include "flat_writer.h"

#include <assert.h>
#include <string.h>

static void put(struct flat *f, size_t at, uint64_t value, unsigned bytes)
{
    assert(at + bytes <= sizeof f->bytes);
    for (unsigned i = 0; i < bytes; i++)
        f->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

static void align(struct flat *f)
{
    f->size = (f->size + 7) & ~(size_t)7;
}

void flat_init(struct flat *f)
{
    memset(f, 0, sizeof *f);
    memcpy(f->bytes + 4, "TFL3", 4);
    f->size = 8;
}

size_t flat_table(struct flat *f, unsigned fields)
{
    align(f);
    size_t vtable = f->size, at = (vtable + 4 + 2 * fields + 7) & ~(size_t)7;
    put(f, vtable, 4 + 2 * fields, 2);
    put(f, vtable + 2, 8 + 8 * fields, 2);
    put(f, at, at - vtable, 4);
    f->size = at + 8 + 8 * (size_t)fields;
    return at;
}

/* The slot of a field, entered in the vtable. */
static size_t slot(struct flat *f, size_t table, unsigned field)
{
    uint32_t back;
    memcpy(&back, f->bytes + table, 4);
    put(f, table - back + 4 + 2 * (size_t)field, 8 + 8 * field, 2);
    return table + 8 + 8 * (size_t)field;
}

void flat_int(struct flat *f, size_t table, unsigned field, int64_t value)
{
    put(f, slot(f, table, field), (uint64_t)value, 8);
}

void flat_float(struct flat *f, size_t table, unsigned field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    put(f, slot(f, table, field), bits, 4);
}

void flat_ref(struct flat *f, size_t table, unsigned field, size_t target)
{
    size_t at = slot(f, table, field);
    put(f, at, target - at, 4);
}

size_t flat_vector(struct flat *f, const void *items, uint32_t count, unsigned item_bytes)
{
    align(f);
    size_t at = f->size + 4; /* items end up aligned to 8 */
    put(f, at, count, 4);
    if (items)
        memcpy(f->bytes + at + 4, items, (size_t)count * item_bytes);
    f->size = at + 4 + (size_t)count * item_bytes;
    return at;
}

size_t flat_tables(struct flat *f, uint32_t count)
{
    return flat_vector(f, NULL, count, 4);
}

void flat_tables_set(struct flat *f, size_t list, uint32_t index, size_t table)
{
    size_t at = list + 4 + 4 * (size_t)index;
    put(f, at, table - at, 4);
}

void flat_root(struct flat *f, size_t table)
{
    put(f, 0, table, 4);
}
