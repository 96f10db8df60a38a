/* What a TFLite file says of its classes and pixels, in the metadata buffer and in the archive behind the model; broken metadata harms nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "flat_writer.h"
#include "import/importer.h"

#define LABELS "cat\ndog\nbird\n"

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
    static const float mean[] = {127.5f, 100.0f}, deviation[] = {127.5f, 50.0f};
    flat_init(m);
    memcpy(m->bytes + 4, "M001", 4);
    size_t model = flat_table(m, 8);
    flat_root(m, model);
    size_t sub = only(m, model, 3, 4);
    size_t unit = only(m, only(m, sub, 2, 7), 4, 2), options = flat_table(m, 2);
    flat_int(m, unit, 0, 1);
    flat_ref(m, unit, 1, options);
    flat_ref(m, options, 0, flat_vector(m, mean, 2, 4));
    flat_ref(m, options, 1, flat_vector(m, deviation, 2, 4));
    size_t file = only(m, only(m, sub, 3, 7), 6, 5);
    text_put(m, file, 0, "labels.txt");
    flat_int(m, file, 2, 2);
}

static void tensor_write(struct flat *f, size_t list, uint32_t index, const char *name)
{
    static const int32_t dims[] = {1, 3};
    size_t table = flat_table(f, 8);
    flat_tables_set(f, list, index, table);
    flat_ref(f, table, 0, flat_vector(f, dims, 2, 4));
    text_put(f, table, 3, name);
}

/* y = relu(x) [1, 3], with that metadata. */
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

/* Reads from memory of the exact size; NULL when the model is refused. */
static struct graph *read_exact(const struct flat *f, void **ret_memory)
{
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    *ret_memory = malloc(f->size);
    cr_assert(*ret_memory);
    memcpy(*ret_memory, f->bytes, f->size);
    if (tflite_read(*ret_memory, f->size, NULL, NULL, &g, &extra, &error) != PEN_OK)
        return NULL;
    import_extra_fini(&extra);
    return g;
}

static struct flat metadata, file;

static void write_all(const char *name, const char *text, unsigned method)
{
    metadata_write(&metadata);
    model_write(&file, &metadata);
    if (name)
        archive_write(&file, name, text, method);
}

TestSuite(tflite_metadata, .init = reference_evaluator_register);

Test(tflite_metadata, labels_and_normalisation_are_noted)
{
    void *memory;
    write_all("labels.txt", LABELS, 0);
    struct graph *g = read_exact(&file, &memory);
    cr_assert(g && g->notes);
    cr_assert(g->notes->labels);
    cr_expect_str_eq(g->notes->labels, LABELS);
    cr_expect_eq(g->notes->labels_bytes, strlen(LABELS));
    cr_assert_eq(g->notes->channels, 2);
    cr_expect_eq(g->notes->mean[1], 100.0f);
    cr_expect_eq(g->notes->deviation[0], 127.5f);
    graph_free(g);
    free(memory);
}

Test(tflite_metadata, labels_that_are_not_there_or_packed_are_left_out)
{
    static const struct {
        const char *name;
        unsigned method;
    } rows[] = {{NULL, 0}, {"other.txt", 0}, {"labels.txt", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *memory;
        write_all(rows[i].name, LABELS, rows[i].method);
        struct graph *g = read_exact(&file, &memory);
        cr_assert(g && g->notes, "row %zu", i);
        cr_expect_null(g->notes->labels);
        cr_expect_eq(g->notes->channels, 2);
        graph_free(g);
        free(memory);
    }
}

/* Every byte of the metadata and of the archive turned over: the model is read, with notes or without; nothing outside the file is. */
Test(tflite_metadata, broken_metadata_harms_nothing)
{
    write_all("labels.txt", LABELS, 0);
    size_t from = 0;
    while (memcmp(file.bytes + from, "M001", 4) != 0)
        from++;
    for (size_t at = from; at < file.size; at++) {
        bool ours = at < from - 4 + metadata.size || at >= file.size - 110;
        uint8_t held = file.bytes[at];
        void *memory;
        file.bytes[at] = (uint8_t)~held;
        struct graph *g = ours ? read_exact(&file, &memory) : NULL;
        file.bytes[at] = held;
        if (!ours)
            continue;
        cr_expect(g, "byte %zu", at);
        graph_free(g);
        free(memory);
    }
}
