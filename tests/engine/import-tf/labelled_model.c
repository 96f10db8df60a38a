#include "labelled_model.h"

#include <string.h>

static void text_put(struct flat *f, size_t table, unsigned field, const char *text)
{
    flat_ref(f, table, field, flat_vector(f, text, (uint32_t)strlen(text), 1));
}

/* A table that is the only one of a list in a field of another. */
static size_t only(struct flat *f, size_t table, unsigned field, unsigned fields)
{
    size_t list = flat_tables(f, 1);
    flat_ref(f, table, field, list);
    size_t item = flat_table(f, fields);
    flat_tables_set(f, list, 0, item);
    return item;
}

/* Model: subgraph: input with a normalisation, output with a file of labels of its axis. */
static void metadata_write(struct flat *m)
{
    static const float mean[] = {127.5f, 100.0f, 3.0f}, deviation[] = {127.5f, 50.0f, 0.5f};
    flat_init(m);
    memcpy(m->bytes + 4, "M001", 4);
    size_t model = flat_table(m, 8);
    flat_root(m, model);
    size_t sub = only(m, model, 3, 4);
    size_t unit = only(m, only(m, sub, 2, 7), 4, 2), options = flat_table(m, 2);
    flat_int(m, unit, 0, 1);
    flat_ref(m, unit, 1, options);
    flat_ref(m, options, 0, flat_vector(m, mean, 3, 4));
    flat_ref(m, options, 1, flat_vector(m, deviation, 3, 4));
    size_t file = only(m, only(m, sub, 3, 7), 6, 5);
    text_put(m, file, 0, "labels.txt");
    flat_int(m, file, 2, 2);
}

static void tensor_write(struct flat *f, size_t list, uint32_t index, const char *name)
{
    static const int32_t dims[] = {1, 1, 1, 3};
    size_t table = flat_table(f, 8);
    flat_tables_set(f, list, index, table);
    flat_ref(f, table, 0, flat_vector(f, dims, 4, 4));
    text_put(f, table, 3, name);
}

/* y = relu(x) [1, 1, 1, 3], with that metadata. */
static void model_write(struct flat *f, const struct flat *metadata)
{
    static const int32_t ends[] = {0, 1};
    flat_init(f);
    size_t model = flat_table(f, 7);
    flat_root(f, model);
    flat_int(f, model, 0, 3);
    flat_int(f, only(f, model, 1, 4), 3, 19);
    size_t buffers = flat_tables(f, 2), none = 0, data = 0;
    flat_ref(f, model, 4, buffers);
    none = flat_table(f, 1);
    data = flat_table(f, 1);
    flat_tables_set(f, buffers, 0, none);
    flat_tables_set(f, buffers, 1, data);
    flat_ref(f, data, 0, flat_vector(f, metadata->bytes, (uint32_t)metadata->size, 1));
    size_t entry = only(f, model, 6, 2), sub = only(f, model, 2, 4), tensors = flat_tables(f, 2);
    text_put(f, entry, 0, "TFLITE_METADATA");
    flat_int(f, entry, 1, 1);
    flat_ref(f, sub, 0, tensors);
    flat_ref(f, sub, 1, flat_vector(f, &ends[0], 1, 4));
    flat_ref(f, sub, 2, flat_vector(f, &ends[1], 1, 4));
    tensor_write(f, tensors, 0, "x");
    tensor_write(f, tensors, 1, "y");
    size_t op = only(f, sub, 3, 6);
    flat_ref(f, op, 1, flat_vector(f, &ends[0], 1, 4));
    flat_ref(f, op, 2, flat_vector(f, &ends[1], 1, 4));
}

static void number(struct flat *f, uint32_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        f->bytes[f->size++] = (uint8_t)(value >> (8 * i));
}

static void zeros(struct flat *f, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        f->bytes[f->size++] = 0;
}

/* One file in an archive. method: 0 = stored, 8 = packed (which it is not). */
static void archive_write(struct flat *f, const char *name, const char *text, unsigned method)
{
    uint32_t local = (uint32_t)f->size, length = (uint32_t)strlen(name), bytes = (uint32_t)strlen(text);
    number(f, 0x04034b50, 4);
    zeros(f, 22);
    number(f, length, 2);
    number(f, 0, 2);
    memcpy(f->bytes + f->size, name, length);
    memcpy(f->bytes + f->size + length, text, bytes);
    f->size += length + bytes;
    uint32_t directory = (uint32_t)f->size;
    number(f, 0x02014b50, 4);
    zeros(f, 6);
    number(f, method, 2);
    zeros(f, 8);
    number(f, bytes, 4);
    number(f, bytes, 4);
    number(f, length, 2);
    zeros(f, 12);
    number(f, local, 4);
    memcpy(f->bytes + f->size, name, length);
    f->size += length;
    uint32_t end = (uint32_t)f->size;
    number(f, 0x06054b50, 4);
    zeros(f, 4);
    number(f, 1, 2);
    number(f, 1, 2);
    number(f, end - directory, 4);
    number(f, directory, 4);
    number(f, 0, 2);
}

size_t labelled_model_write(struct flat *f, const char *name, const char *labels, unsigned method)
{
    static struct flat metadata;
    metadata_write(&metadata);
    model_write(f, &metadata);
    if (name)
        archive_write(f, name, labels, method);
    return metadata.size;
}
