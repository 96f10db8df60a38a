/* What a TFLite file says of its classes and pixels, in the metadata buffer and in the archive behind the model; broken metadata harms nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "labelled_model.h"
#include "import/importer.h"

#define LABELS "cat\ndog\nbird\n"

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

static struct flat file;

TestSuite(tflite_metadata, .init = reference_evaluator_register);

Test(tflite_metadata, labels_and_normalisation_are_noted)
{
    void *memory;
    (void)labelled_model_write(&file, "labels.txt", LABELS, 0);
    struct graph *g = read_exact(&file, &memory);
    cr_assert(g && g->notes);
    cr_assert(g->notes->labels);
    cr_expect_str_eq(g->notes->labels, LABELS);
    cr_expect_eq(g->notes->labels_bytes, strlen(LABELS));
    cr_assert_eq(g->notes->channels, 3);
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
        (void)labelled_model_write(&file, rows[i].name, LABELS, rows[i].method);
        struct graph *g = read_exact(&file, &memory);
        cr_assert(g && g->notes, "row %zu", i);
        cr_expect_null(g->notes->labels);
        cr_expect_eq(g->notes->channels, 3);
        graph_free(g);
        free(memory);
    }
}

/* Every byte of the metadata and of the archive turned over: the model is read, with notes or without; nothing outside the file is. */
Test(tflite_metadata, broken_metadata_harms_nothing)
{
    size_t metadata = labelled_model_write(&file, "labels.txt", LABELS, 0);
    size_t from = 0;
    while (memcmp(file.bytes + from, "M001", 4) != 0)
        from++;
    for (size_t at = from; at < file.size; at++) {
        bool ours = at < from - 4 + metadata || at >= file.size - 110;
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
