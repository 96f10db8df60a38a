/* TFLite files meant to hurt: the published CVEs as files, and real models cut and garbled. Nothing may be read outside the file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "flat_writer.h"
#include "import/importer.h"
#include "mapped.h"

/* ---- a model of one operator -------------------------------------------------------------------------------------------- */

struct tensor_spec {
    int32_t dims[4];
    uint32_t rank;
    int type, buffer;
    const char *name;
    bool sparse;
};

struct spec {
    struct tensor_spec tensors[4];
    uint32_t tensor_count, in_count, out;
    int code, stride;
    const void *data; /* of buffer 1 */
    uint32_t data_bytes;
    int32_t csr_segments[3], csr_indices[3];
};

static size_t int_list(struct flat *f, const int32_t *items, uint32_t count)
{
    return flat_vector(f, items, count, 4);
}

static void write_sparsity(struct flat *f, size_t tensor, const struct spec *s)
{
    static const int32_t order[] = {0, 1};
    size_t sparsity = flat_table(f, 3);
    flat_ref(f, tensor, 6, sparsity);
    flat_ref(f, sparsity, 0, int_list(f, order, 2));
    size_t dims = flat_tables(f, 2);
    flat_ref(f, sparsity, 2, dims);
    size_t dense = flat_table(f, 6), csr = flat_table(f, 6);
    flat_tables_set(f, dims, 0, dense);
    flat_tables_set(f, dims, 1, csr);
    flat_int(f, dense, 1, 2);
    flat_int(f, csr, 0, 1);
    flat_int(f, csr, 2, 1);
    size_t segments = flat_table(f, 1);
    flat_ref(f, csr, 3, segments);
    flat_ref(f, segments, 0, int_list(f, s->csr_segments, 3));
    flat_int(f, csr, 4, 1);
    size_t indices = flat_table(f, 1);
    flat_ref(f, csr, 5, indices);
    flat_ref(f, indices, 0, int_list(f, s->csr_indices, 3));
}

static void write_tensor(struct flat *f, size_t list, uint32_t index, const struct spec *s)
{
    const struct tensor_spec *t = &s->tensors[index];
    size_t table = flat_table(f, 8);
    flat_tables_set(f, list, index, table);
    flat_int(f, table, 1, t->type);
    flat_int(f, table, 2, t->buffer);
    flat_ref(f, table, 0, int_list(f, t->dims, t->rank));
    flat_ref(f, table, 3, flat_vector(f, t->name, (uint32_t)strlen(t->name), 1));
    if (t->sparse)
        write_sparsity(f, table, s);
}

static void write_operator(struct flat *f, size_t sub, const struct spec *s)
{
    static const int32_t in[] = {0, 1, 2};
    int32_t out = (int32_t)s->out;
    size_t list = flat_tables(f, 1);
    flat_ref(f, sub, 3, list);
    size_t op = flat_table(f, 6);
    flat_tables_set(f, list, 0, op);
    flat_int(f, op, 0, 0);
    flat_ref(f, op, 1, int_list(f, in, s->in_count));
    flat_ref(f, op, 2, int_list(f, &out, 1));
    size_t options = flat_table(f, 6);
    flat_ref(f, op, 4, options);
    flat_int(f, options, 1, s->stride);
    flat_int(f, options, 2, s->stride);
}

static void write_model(struct flat *f, const struct spec *s)
{
    static const int32_t first = 0;
    int32_t out = (int32_t)s->out;
    flat_init(f);
    size_t model = flat_table(f, 5);
    flat_root(f, model);
    flat_int(f, model, 0, 3);
    size_t codes = flat_tables(f, 1);
    flat_ref(f, model, 1, codes);
    size_t code = flat_table(f, 4);
    flat_tables_set(f, codes, 0, code);
    flat_int(f, code, 3, s->code);
    size_t subs = flat_tables(f, 1);
    flat_ref(f, model, 2, subs);
    size_t buffers = flat_tables(f, 2);
    flat_ref(f, model, 4, buffers);
    size_t none = flat_table(f, 1), data = flat_table(f, 1);
    flat_tables_set(f, buffers, 0, none);
    flat_tables_set(f, buffers, 1, data);
    if (s->data)
        flat_ref(f, data, 0, flat_vector(f, s->data, s->data_bytes, 1));
    size_t sub = flat_table(f, 4);
    flat_tables_set(f, subs, 0, sub);
    flat_ref(f, sub, 1, int_list(f, &first, 1));
    flat_ref(f, sub, 2, int_list(f, &out, 1));
    size_t tensors = flat_tables(f, s->tensor_count);
    flat_ref(f, sub, 0, tensors);
    for (uint32_t i = 0; i < s->tensor_count; i++)
        write_tensor(f, tensors, i, s);
    write_operator(f, sub, s);
}

/* Reads from memory of the exact size. */
static enum pen_status read_exact(const void *bytes, size_t size, struct pen_error *error)
{
    struct graph *g = NULL;
    struct import_extra extra = {0};
    void *exact = malloc(size ? size : 1);
    cr_assert(exact);
    memcpy(exact, bytes, size);
    enum pen_status status = tflite_read(exact, size, NULL, NULL, &g, &extra, error);
    if (status == PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
    }
    free(exact);
    return status;
}

static enum pen_status read_spec(const struct spec *s, struct pen_error *error)
{
    static struct flat f;
    write_model(&f, s);
    return read_exact(f.bytes, f.size, error);
}

static const float four[] = {1, 2, 3, 4};

static struct spec conv_spec(void)
{
    return (struct spec){.tensors = {{{1, 2, 2, 1}, 4, 0, 0, "x", false},
                                     {{1, 2, 2, 1}, 4, 0, 1, "w", false},
                                     {{1, 1, 1, 1}, 4, 0, 0, "y", false}},
                         .tensor_count = 3,
                         .in_count = 2,
                         .out = 2,
                         .code = 3,
                         .stride = 1,
                         .data = four,
                         .data_bytes = sizeof four};
}

TestSuite(tflite_hostile, .init = reference_evaluator_register);

Test(tflite_hostile, the_writer_makes_a_model_that_is_read)
{
    struct spec s = conv_spec();
    struct pen_error error = {0};
    cr_expect_eq(read_spec(&s, &error), PEN_OK, "%s", error.text);
}

Test(tflite_hostile, a_cut_file_is_called_truncated)
{
    static struct flat f;
    struct spec s = conv_spec();
    write_model(&f, &s);
    size_t needed = f.size - 32; /* behind it: fields of the last table that nobody set */
    for (size_t size = 16; size < needed; size += 1 + needed / 50) {
        struct pen_error error = {0};
        enum pen_status status = read_exact(f.bytes, size, &error);
        cr_expect_eq(status, PEN_ERR_CORRUPT, "%zu bytes of %zu", size, f.size);
        cr_expect_not_null(strstr(error.text, "truncated"), "%zu bytes of %zu: %s", size, f.size, error.text);
    }
}

/* CVE-2022-23558: sizes that overflow an int when they are multiplied. */
Test(tflite_hostile, a_nul_byte_in_a_name_is_refused)
{
    struct pen_error error = {0};
    static struct flat f;
    struct spec s = conv_spec();
    s.tensors[0].name = "in~put";
    write_model(&f, &s);
    *(uint8_t *)memchr(f.bytes, '~', f.size) = 0;
    cr_expect_eq(read_exact(f.bytes, f.size, &error), PEN_ERR_INVALID, "%s", error.text);
    cr_expect(strstr(error.text, "NUL"), "%s", error.text);
}

Test(tflite_hostile, dimensions_that_overflow_are_refused)
{
    struct spec s = conv_spec();
    struct pen_error error = {0};
    for (int i = 0; i < 4; i++)
        s.tensors[1].dims[i] = 0x7FFFFFFF;
    enum pen_status status = read_spec(&s, &error);
    cr_expect(status == PEN_ERR_CORRUPT || status == PEN_ERR_TOO_LARGE, "%s", error.text);
    cr_expect(strstr(error.text, "'w'"), "%s", error.text);
}

/* CVE-2022-23560: sparse indices and segments that lead outside. */
Test(tflite_hostile, sparse_indices_stay_inside)
{
    static const int32_t bad[][6] = {{0, 2, 3, 0, 1, 9},  {0, 2, 3, 0, 1, -1}, {0, 2, 99, 0, 1, 1},
                                     {0, -2, 3, 0, 1, 1}, {3, 2, 3, 0, 1, 1},  {0, 3, 6, 0, 1, 1}};
    struct spec s = conv_spec();
    s.code = 124;
    s.tensors[0] = (struct tensor_spec){{2, 2}, 2, 0, 0, "x", false};
    s.tensors[1] = (struct tensor_spec){{2, 2}, 2, 0, 1, "w", true};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pen_error error = {0};
        memcpy(s.csr_segments, bad[i], 12);
        memcpy(s.csr_indices, bad[i] + 3, 12);
        cr_expect_eq(read_spec(&s, &error), PEN_ERR_CORRUPT, "case %zu: %s", i, error.text);
    }
    struct pen_error error = {0};
    memcpy(s.csr_segments, (int32_t[]){0, 2, 3}, 12);
    memcpy(s.csr_indices, (int32_t[]){0, 1, 1}, 12);
    cr_expect_eq(read_spec(&s, &error), PEN_OK, "%s", error.text);
}

/* CVE-2023-27579: a convolution whose weights have no input channels divides by zero. */
Test(tflite_hostile, weights_without_channels_are_refused)
{
    struct spec s = conv_spec();
    struct pen_error error = {0};
    s.tensors[1].dims[3] = 0;
    cr_expect_neq(read_spec(&s, &error), PEN_OK);
}

/* Zero and negative strides divide by zero as well. */
Test(tflite_hostile, strides_must_be_positive)
{
    for (int stride = -1; stride <= 0; stride++) {
        struct spec s = conv_spec();
        struct pen_error error = {0};
        s.stride = stride;
        cr_expect_eq(read_spec(&s, &error), PEN_ERR_INVALID, "%s", error.text);
    }
}

Test(tflite_hostile, unknown_operators_are_listed_by_name_and_node)
{
    struct spec s = conv_spec();
    struct pen_error error = {0};
    s.code = 33;
    cr_expect_eq(read_spec(&s, &error), PEN_ERR_UNSUPPORTED);
    cr_expect(strstr(error.text, "EMBEDDING_LOOKUP_SPARSE (node y)"), "%s", error.text);
}

Test(tflite_hostile, tensors_that_are_not_there_are_refused)
{
    struct spec s = conv_spec();
    struct pen_error error = {0};
    s.tensors[1].buffer = 7;
    cr_expect_eq(read_spec(&s, &error), PEN_ERR_CORRUPT, "%s", error.text);
    s = conv_spec();
    s.in_count = 3; /* its own output */
    cr_expect_eq(read_spec(&s, &error), PEN_ERR_CORRUPT, "%s", error.text);
}

/* ---- real models, garbled ---------------------------------------------------------------------------------------------------- */

static uint64_t step(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

Test(tflite_hostile, garbled_models_are_read_or_refused)
{
    static const char *const names[] = {"hello_world_int8", "hello_world_float", "micro_speech_int8",
                                        "mlperf_tiny_kws_float", "mnist_lstm_float"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        char path[1024];
        size_t bytes;
        uint64_t seed = n;
        snprintf(path, sizeof path, "%s/models/tflite/%s/model.tflite", PENSTOCK_SHARED, names[n]);
        uint8_t *file = mapped_read(path, &bytes);
        if (!file)
            cr_skip_test("no test data at %s", path);
        uint8_t *copy = malloc(bytes);
        cr_assert(copy);
        for (int round = 0; round < 400; round++) {
            struct pen_error error = {0};
            memcpy(copy, file, bytes);
            for (uint64_t flips = 1 + step(&seed) % 8; flips > 0; flips--)
                copy[8 + step(&seed) % (bytes - 8)] = (uint8_t)step(&seed);
            (void)read_exact(copy, round % 4 == 0 ? 16 + step(&seed) % (bytes - 16) : bytes, &error);
        }
        free(copy);
        free(file);
    }
}
