/* Values that are not numbers: texts between their wire form and views, sessions that take and give them; sequences in runs by value. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run/session_values.h"
#include "run/wire_string.h"
#include "written.h"

#define ROOM (1u << 20)

static struct rt_arena arena;
static struct pen_error error;

static void arena_open(void)
{
    rt_arena_init(&arena, ROOM);
    error = (struct pen_error){0};
}

static void arena_close(void)
{
    rt_arena_fini(&arena);
}

TestSuite(wire_string, .init = arena_open, .fini = arena_close);

/* A copy without a byte to spare, so that the address sanitizer sees what is read beyond it. */
static enum pen_status decode(const void *wire, size_t bytes, size_t count, struct string_view **ret_items)
{
    unsigned char *exact = malloc(bytes > 0 ? bytes : 1);
    memcpy(exact, wire, bytes);
    enum pen_status status = wire_string_decode(&arena, exact, bytes, count, ret_items, &error);
    for (size_t i = 0; status == PEN_OK && i < count; i++) { /* the views outlive the copy */
        (*ret_items)[i].text = (const char *)wire + ((*ret_items)[i].text - (const char *)exact);
    }
    free(exact);
    return status;
}

Test(wire_string, lengths_are_little_endian_and_texts_come_back)
{
    char *large = malloc(70000);
    memset(large, 'x', 70000);
    const struct string_view items[] = {{"one", 3}, {"", 0}, {large, 70000}, {"a\0b", 3}, {large, 300}};
    struct string_view *again = NULL;
    void *wire = NULL;
    size_t bytes = 0;
    cr_assert_eq(wire_string_encode(&arena, items, 5, &wire, &bytes, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(bytes, 5 * 4 + 3 + 70000 + 3 + 300u);
    cr_assert_eq(memcmp(wire, "\3\0\0\0one\0\0\0\0\x70\x11\1\0xxx", 18), 0);
    cr_assert_eq(decode(wire, bytes, 5, &again), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(again[i].bytes, items[i].bytes);
        cr_assert_eq(memcmp(again[i].text, items[i].text, items[i].bytes), 0);
    }
    const unsigned char huge[] = {0, 0, 0, 1};
    cr_assert_eq(decode(huge, 4, 1, &again), PEN_ERR_SHAPE, "16 MiB are announced and none is there");
    free(large);
}

Test(wire_string, what_reaches_past_the_end_is_refused)
{
    static const char wire[] = "\2\0\0\0ab\1\0\0\0c";
    struct string_view *items = NULL;
    cr_assert_eq(decode(wire, 11, 2, &items), PEN_OK);
    cr_assert(items[1].bytes == 1 && *items[1].text == 'c');
    for (size_t bytes = 0; bytes < 11; bytes++) {
        error = (struct pen_error){0};
        cr_assert_eq(decode(wire, bytes, 2, &items), PEN_ERR_SHAPE, "%zu bytes are too few", bytes);
        cr_assert_gt(strlen(error.text), 10u);
    }
    cr_assert_eq(decode(wire, 11, 3, &items), PEN_ERR_SHAPE, "there is no third one");
    cr_assert_eq(decode("\3\0\0\0ab", 6, 1, &items), PEN_ERR_SHAPE);
    cr_assert_eq(decode(wire, 0, 0, &items), PEN_OK, "no texts need no bytes");
    cr_assert_eq(decode("\0\0\0\0", 4, 1, &items), PEN_OK, "an empty one needs its length");
}

Test(wire_string, what_the_session_may_not_hold_is_refused)
{
    char *text = calloc(1, ROOM);
    struct string_view item = {text, ROOM}, *items = NULL;
    size_t bytes = ROOM * 3;
    void *wire = NULL;
    cr_assert_eq(wire_string_encode(&arena, &item, 1, &wire, &bytes, &error), PEN_ERR_NO_MEMORY);
    cr_assert_gt(strlen(error.text), 10u);
    char *many = calloc(1, ROOM);
    cr_assert_eq(wire_string_decode(&arena, many, ROOM, ROOM / 4, &items, &error), PEN_ERR_NO_MEMORY);
    free(many);
    free(text);
}

/* ---- sessions ------------------------------------------------------------------------------------------------------------------------ */

static struct written w;

static void close_written(void)
{
    written_close(&w);
}

TestSuite(values, .fini = close_written);

/* y = t + u, text by text. */
static void texts_open(void)
{
    struct onnx_writer *g = onnx_writer_new("texts");
    onnx_writer_input(g, "t", ONNX_STRING, 2, WRITTEN_DIMS(-1, 2), NULL);
    onnx_writer_input(g, "u", ONNX_STRING, 2, WRITTEN_DIMS(-1, 2), NULL);
    onnx_writer_node(g, "Concat", ONNX_LIST("t", "u"), ONNX_LIST("y"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}});
    onnx_writer_output(g, "y", ONNX_STRING, 2, WRITTEN_DIMS(-1, 2), NULL);
    written_open(&w, g, NULL);
}

static const char first[] = "\1\0\0\0a\2\0\0\0bc", second[] = "\0\0\0\0\3\0\0\0def";

static struct pen_tensor text_tensor(const char *wire, size_t bytes)
{
    return written_tensor(PEN_DTYPE_STRING, 2, WRITTEN_DIMS(1, 2), wire, bytes);
}

Test(values, a_session_takes_and_gives_texts)
{
    texts_open();
    const struct pen_tensor in[] = {text_tensor(first, 11), text_tensor(second, 11)};
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(written_run(&w, in, 2), PEN_OK, "%s", w.error.text);
        cr_assert(w.out[0].dtype == PEN_DTYPE_STRING && w.out[0].rank == 2 && w.out[0].dims[0] == 2);
        cr_assert_eq(w.out[0].bytes, 22u);
        cr_assert(memcmp(w.out[0].data, first, 11) == 0 && memcmp((const char *)w.out[0].data + 11, second, 11) == 0);
    }
    struct pen_tensor cut[] = {in[0], text_tensor(second, 10)};
    cr_assert_neq(written_run(&w, cut, 2), PEN_OK);
    cr_assert_gt(strlen(w.error.text), 10u);
}

Test(values, texts_have_no_buffer_to_write_into_and_are_warmed_as_empty_ones)
{
    texts_open();
    const struct pen_tensor in[] = {text_tensor(NULL, 0), text_tensor(NULL, 0)};
    uint64_t prepare_us = UINT64_MAX, run_us = UINT64_MAX;
    size_t bytes = 77;
    cr_assert_eq(pen_session_warm(w.session, in, 2, &prepare_us, &run_us, &w.error), PEN_OK, "%s", w.error.text);
    cr_assert(prepare_us < UINT64_MAX && run_us < UINT64_MAX);
    cr_assert_eq(pen_session_warm(w.session, in, 2, NULL, NULL, &w.error), PEN_OK, "times are not wanted");
    cr_assert_eq(pen_session_bind(w.session, in, 2, &w.error), PEN_OK);
    cr_assert_null(pen_session_input(w.session, 0, &bytes));
    cr_assert_eq(bytes, 77u);
}

/* y = [x, x + x] as a sequence, its length, and x without its first part. */
static void sequences_open(void)
{
    struct onnx_writer *g = onnx_writer_new("sequences");
    onnx_writer_sequence(g, "s", PEN_DTYPE_F32);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), NULL);
    onnx_writer_node(g, "SequenceInsert", ONNX_LIST("s", "x"), ONNX_LIST("longer"), NULL);
    onnx_writer_node(g, "ConcatFromSequence", ONNX_LIST("longer"), ONNX_LIST("all"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}});
    onnx_writer_output(g, "all", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, NULL);
}

/* all = [-x, (x + 1)^2], where 1 is the length of the sequence that holds -x: what comes later must not take that item's memory. */
static void item_open(void)
{
    static const int64_t to = 1;
    struct onnx_writer *g = onnx_writer_new("item");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), NULL);
    onnx_writer_node(g, "SequenceEmpty", ONNX_LIST(NULL), ONNX_LIST("none"), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("minus"), NULL);
    onnx_writer_node(g, "SequenceInsert", ONNX_LIST("none", "minus"), ONNX_LIST("one"), NULL);
    onnx_writer_node(g, "SequenceLength", ONNX_LIST("one"), ONNX_LIST("length"), NULL);
    onnx_writer_node(g, "Cast", ONNX_LIST("length"), ONNX_LIST("float"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "to", .i = to}, {0}});
    onnx_writer_node(g, "Add", ONNX_LIST("x", "float"), ONNX_LIST("more"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("more", "more"), ONNX_LIST("square"), NULL);
    onnx_writer_node(g, "SequenceInsert", ONNX_LIST("one", "square"), ONNX_LIST("two"), NULL);
    onnx_writer_node(g, "ConcatFromSequence", ONNX_LIST("two"), ONNX_LIST("all"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}});
    onnx_writer_output(g, "all", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, NULL);
}

Test(values, an_item_of_a_sequence_keeps_its_memory)
{
    const struct pen_tensor in = WRITTEN_F32(1, WRITTEN_DIMS(2), 2, 5);
    item_open();
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(4), WRITTEN_FLOATS(-2, -5, 9, 36));
}

Test(values, a_run_by_value_takes_sequences)
{
    static float one[] = {1, 2, 3}, two[] = {8, 9};
    struct rt_value item = {.dtype = PEN_DTYPE_F32, .shape = shape_of(1, WRITTEN_DIMS(3)), .data = one, .bytes = 12};
    struct rt_value in[2] = {{.kind = VALUE_SEQUENCE, .dtype = PEN_DTYPE_F32, .items = &item, .item_count = 1},
                             {.dtype = PEN_DTYPE_F32, .shape = shape_of(1, WRITTEN_DIMS(2)), .data = two, .bytes = 8}};
    struct rt_value out[2] = {{0}};
    sequences_open();
    cr_assert_eq(model_input_kind(w.model, 0), VALUE_SEQUENCE);
    cr_assert_eq(model_input_kind(w.model, 1), VALUE_TENSOR);
    cr_assert_eq(model_output_kind(w.model, 0), VALUE_TENSOR);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(session_run_values(w.session, in, 2, out, 2, &w.error), PEN_OK, "%s", w.error.text);
        cr_assert(out[0].dtype == PEN_DTYPE_F32 && out[0].bytes == 20 && out[0].shape.dim[0] == 5);
        cr_assert_eq(memcmp(out[0].data, WRITTEN_FLOATS(1, 2, 3, 8, 9), 20), 0);
    }
    cr_assert_eq(session_run_values(w.session, in, 1, out, 2, &w.error), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "2 inputs and gives 1 output") != NULL, "%s", w.error.text);
    cr_assert_eq(session_run_values(w.session, in, 2, out, 0, &w.error), PEN_ERR_INVALID);
    cr_assert_eq(session_run_values(w.session, in, 2, out, 1, &w.error), PEN_OK, "room for all outputs is enough");
}

Test(values, a_sequence_cannot_be_bound)
{
    static const float x[] = {1, 2};
    sequences_open();
    const struct pen_tensor in[] = {written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), x, 8),
                                    written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), x, 8)};
    cr_assert_eq(written_run(&w, in, 2), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(w.error.text, "'s' is a sequence") != NULL, "%s", w.error.text);
}

/* ---- indices ---- */

/* A refusal names the index itself and where it stands, on every backend that is there. */
static void index_check(const char *backend, const char *op, uint32_t rank, const char *words)
{
    struct onnx_writer *g = onnx_writer_new("indices");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(5), NULL);
    onnx_writer_input(g, "i", PEN_DTYPE_I64, rank, WRITTEN_DIMS(3, 1), NULL);
    onnx_writer_node(g, op, ONNX_LIST("x", "i"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(3), NULL);
    written_open(&w, g, &(struct pen_engine_options){.backend = backend});
    const int64_t indices[] = {4, -5, -77};
    const struct pen_tensor in[] = {WRITTEN_F32(1, WRITTEN_DIMS(5), 1, 2, 3, 4, 5),
                                    written_tensor(PEN_DTYPE_I64, rank, WRITTEN_DIMS(3, 1), indices, sizeof indices)};
    cr_assert_eq(written_run(&w, in, 2), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, words) != NULL, "%s: %s", backend, w.error.text);
    close_written();
}

Test(indices, a_wrong_one_is_named)
{
    static const char *const backends[] = {"reference", "xnnpack"};
    for (size_t b = 0; b < 2; b++) {
        index_check(backends[b], "Gather", 1, "index -77 (number 2 of them) is outside of an axis of 5");
        index_check(backends[b], "GatherND", 2, "index -77 (number ");
        index_check(backends[b], "GatherElements", 1, b == 0 ? "index -77 (number 2" : "an index ");
    }
}
