/* flat_writer.h - writes small flatbuffers front to back: tables first, what they refer to later. Every field has a slot of 8 bytes. */
#ifndef FLAT_WRITER_H
#define FLAT_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct flat {
    uint8_t bytes[32768];
    size_t size;
};

void flat_init(struct flat *f);                     /* root offset and identifier */
size_t flat_table(struct flat *f, unsigned fields); /* gives its position */
void flat_int(struct flat *f, size_t table, unsigned field, int64_t value);
void flat_float(struct flat *f, size_t table, unsigned field, float value);
void flat_ref(struct flat *f, size_t table, unsigned field, size_t target);
size_t flat_vector(struct flat *f, const void *items, uint32_t count, unsigned item_bytes);
size_t flat_tables(struct flat *f, uint32_t count); /* a list of tables, to be set */
void flat_tables_set(struct flat *f, size_t list, uint32_t index, size_t table);
void flat_root(struct flat *f, size_t table);

#endif
