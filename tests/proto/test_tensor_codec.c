#include "tensor_codec.h"

#include "frame.h"
#include "job.pb-c.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Penstock__TensorDesc descs[FRAME_MAX_TENSORS + 1], *pointers[FRAME_MAX_TENSORS + 1];
static struct pen_tensor views[FRAME_MAX_TENSORS + 1];
static struct pen_error error;
static uint8_t payload[4096];
static char names[FRAME_MAX_TENSORS + 1][24];

/* n u8 tensors t0, t1 ... of `bytes` bytes each, inline. */
static void make(size_t n, size_t bytes)
{
    static int64_t dims[1];
    dims[0] = (int64_t)bytes;
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        penstock__tensor_desc__init(&descs[i]);
        descs[i].name = names[i];
        descs[i].dtype = PEN_DTYPE_U8;
        descs[i].n_dims = 1;
        descs[i].dims = dims;
        descs[i].bytes = bytes;
        descs[i].data = (ProtobufCBinaryData){bytes, payload};
        pointers[i] = &descs[i];
    }
}

static void to_frame(size_t i, uint32_t frame)
{
    descs[i].frame = frame;
    descs[i].data = (ProtobufCBinaryData){0, NULL};
}

static enum pen_status decode(size_t n, const struct raw_frame *frames, size_t frames_count)
{
    memset(&error, 0, sizeof error);
    return tensors_decode(pointers, n, frames, frames_count, "input", views, &error);
}

Test(tensor_codec, inline_and_raw_payloads_become_views)
{
    struct raw_frame frames[2] = {{payload + 10, 8}, {payload + 20, 8}};
    make(3, 8);
    to_frame(0, 2);
    to_frame(2, 1);
    cr_assert_eq(decode(3, frames, 2), PEN_OK, "%s", error.text);
    cr_assert_eq(views[0].data, payload + 20);
    cr_assert_eq(views[1].data, payload);
    cr_assert_eq(views[2].data, payload + 10);
    cr_assert_eq(views[2].bytes, 8);
    cr_assert_str_eq(views[2].name, "t2");
    cr_assert_eq(views[2].dims[0], 8);
}

Test(tensor_codec, raw_frames_are_used_exactly_once)
{
    struct raw_frame frames[2] = {{payload, 8}, {payload, 8}};
    make(2, 8);
    to_frame(0, 1);
    cr_assert_eq(decode(2, frames, 2), PEN_ERR_CORRUPT, "one is left over");
    to_frame(1, 1);
    cr_assert_eq(decode(2, frames, 2), PEN_ERR_CORRUPT, "one is taken twice");
    to_frame(1, 3);
    cr_assert_eq(decode(2, frames, 2), PEN_ERR_CORRUPT, "one does not exist");
    to_frame(1, UINT32_MAX);
    cr_assert_eq(decode(2, frames, 2), PEN_ERR_CORRUPT);
    to_frame(1, 2);
    cr_assert_eq(decode(2, frames, 2), PEN_OK);
    descs[1].data = (ProtobufCBinaryData){8, payload};
    cr_assert_eq(decode(2, frames, 2), PEN_ERR_CORRUPT, "inline and raw at once");
}

Test(tensor_codec, byte_counts_must_agree)
{
    struct raw_frame frame = {payload, 7};
    make(1, 8);
    descs[0].bytes = 9;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_CORRUPT);
    make(1, 8);
    to_frame(0, 1);
    cr_assert_eq(decode(1, &frame, 1), PEN_ERR_CORRUPT);
    descs[0].bytes = 7;
    cr_assert_eq(decode(1, &frame, 1), PEN_ERR_INVALID, "the shape needs 8");
    cr_assert(strstr(error.text, "'t0'"));
}

Test(tensor_codec, types_ranks_and_dims_are_checked)
{
    int64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    make(1, 1);
    descs[0].dtype = 0;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_DTYPE);
    descs[0].dtype = UINT32_MAX;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_DTYPE);
    make(1, 1);
    descs[0].dims = dims;
    descs[0].n_dims = 9;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_SHAPE);
    descs[0].n_dims = 8;
    cr_assert_eq(decode(1, NULL, 0), PEN_OK);
    dims[3] = -1;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_SHAPE);
    dims[3] = dims[4] = INT64_MAX;
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_TOO_LARGE);
}

Test(tensor_codec, names_are_checked)
{
    char name[300];
    make(2, 1);
    descs[1].name = descs[0].name;
    cr_assert_eq(decode(2, NULL, 0), PEN_ERR_INVALID);
    cr_assert_str_eq(error.text, "input 't0' is given twice");
    make(1, 1);
    descs[0].name = name;
    strcpy(name, "");
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_INVALID);
    strcpy(name, "a\nb");
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_INVALID);
    memset(name, 'n', 255);
    name[255] = '\0';
    cr_assert_eq(decode(1, NULL, 0), PEN_OK);
    memset(name, 'n', 256);
    name[256] = '\0';
    cr_assert_eq(decode(1, NULL, 0), PEN_ERR_TOO_LARGE);
}

Test(tensor_codec, at_most_64_tensors_and_each_pair_of_names_is_compared)
{
    make(FRAME_MAX_TENSORS + 1, 1);
    cr_assert_eq(decode(FRAME_MAX_TENSORS + 1, NULL, 0), PEN_ERR_TOO_LARGE);
    cr_assert_eq(decode(FRAME_MAX_TENSORS, NULL, 0), PEN_OK);
    for (size_t i = 1; i < FRAME_MAX_TENSORS; i++) {
        make(FRAME_MAX_TENSORS, 1);
        descs[i].name = names[i / 2];
        cr_assert_eq(decode(FRAME_MAX_TENSORS, NULL, 0), PEN_ERR_INVALID, "twin at %zu", i);
    }
}

static void encode(const struct pen_tensor *tensors, size_t n, uint32_t *order, size_t *frames)
{
    tensors_encode(tensors, n, descs, pointers, order, frames);
}

Test(tensor_codec, encode_keeps_small_jobs_inline_and_large_ones_raw)
{
    uint32_t order[3];
    size_t frames;
    struct pen_tensor tensors[3] = {{"a", PEN_DTYPE_U8, 1, {1024}, payload, 1024},
                                    {"empty", PEN_DTYPE_F32, 2, {0, 4}, NULL, 0},
                                    {"b", PEN_DTYPE_U8, 1, {1024}, payload + 1024, 1024}};
    encode(tensors, 3, order, &frames);
    cr_assert_eq(frames, 0);
    cr_assert_eq(decode(3, NULL, 0), PEN_OK);
    tensors[2].bytes = 1025;
    tensors[2].dims[0] = 1025;
    encode(tensors, 3, order, &frames);
    cr_assert_eq(frames, 2);
    cr_assert_eq(order[0], 0);
    cr_assert_eq(order[1], 2);
    cr_assert_eq(descs[1].frame, 0);
    struct raw_frame raw[2] = {{payload, 1024}, {payload + 1024, 1025}};
    cr_assert_eq(decode(3, raw, 2), PEN_OK, "%s", error.text);
    cr_assert_eq(views[2].data, payload + 1024);
}

Test(tensor_codec, a_meta_survives_packing)
{
    uint8_t bytes[8192];
    uint32_t order[1];
    size_t frames;
    struct pen_tensor tensor = {"image", PEN_DTYPE_U8, 4, {1, 3, 4, 4}, payload, 48};
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)i;
    encode(&tensor, 1, order, &frames);
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    meta.model = "digits";
    meta.inputs = pointers;
    meta.n_inputs = 1;
    size_t size = penstock__job_meta__pack(&meta, bytes);

    struct meta_arena arena;
    meta_arena_init(&arena, 64 * 1024);
    for (int round = 0; round < 3; round++) {
        Penstock__JobMeta *back = meta_unpack(&arena, &penstock__job_meta__descriptor, bytes, size);
        cr_assert_not_null(back);
        cr_assert_str_eq(back->model, "digits");
        cr_assert_eq(tensors_decode(back->inputs, back->n_inputs, NULL, 0, "input", views, &error), PEN_OK, "%s",
                     error.text);
        cr_assert_eq(memcmp(views[0].data, payload, 48), 0);
        meta_arena_reset(&arena);
    }
    meta_arena_fini(&arena);
}

/* 2 bytes on the wire that cost about 120 in memory, 30,000 times. */
Test(tensor_codec, arena_stops_a_meta_that_unfolds)
{
    enum { COPIES = 30000 };
    uint8_t *bytes = malloc(2 * COPIES);
    struct meta_arena arena;
    for (size_t i = 0; i < COPIES; i++) {
        bytes[2 * i] = 3 << 3 | 2; /* inputs, empty message */
        bytes[2 * i + 1] = 0;
    }
    meta_arena_init(&arena, 1024 * 1024);
    cr_assert_null(meta_unpack(&arena, &penstock__job_meta__descriptor, bytes, 2 * COPIES));
    cr_assert_leq(arena.total, 1024 * 1024);
    meta_arena_reset(&arena);
    cr_assert_eq(arena.used, 0);
    cr_assert_not_null(meta_unpack(&arena, &penstock__job_meta__descriptor, bytes, 200), "usable again");
    meta_arena_fini(&arena);
    cr_assert_eq(arena.total, 0);
    free(bytes);
}

Test(tensor_codec, arena_is_steady_after_warm_up)
{
    struct meta_arena arena;
    meta_arena_init(&arena, 1024 * 1024);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 400; i++) {
            uint8_t *bytes = arena.allocator.alloc(arena.allocator.allocator_data, 77);
            cr_assert_not_null(bytes);
            cr_assert_eq((uintptr_t)bytes % 16, 0);
            memset(bytes, round, 77);
        }
        size_t total = arena.total;
        meta_arena_reset(&arena);
        if (round > 4)
            cr_assert_eq(arena.total, total, "one kept block holds the whole message");
    }
    cr_assert_null(arena.allocator.alloc(arena.allocator.allocator_data, SIZE_MAX));
    cr_assert_null(arena.allocator.alloc(arena.allocator.allocator_data, 1024 * 1024 + 1));
    meta_arena_fini(&arena);
}

/* Packs the meta and puts a NUL where its texts have a '~'. */
static size_t pack_with_nul(const Penstock__JobMeta *job, uint8_t *bytes)
{
    size_t size = penstock__job_meta__pack(job, bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = bytes[i] == '~' ? 0 : bytes[i];
    return size;
}

Test(meta, a_nul_byte_in_any_text_is_invalid_and_in_bytes_is_not)
{
    static const struct {
        const char *model, *tag, *input, *parameter, *data, *field;
    } rows[] = {{"sine~evil", "t", "x", "p", "d", "model"}, {"~", "t", "x", "p", "d", "model"},
                {"sine", "t~", "x", "p", "d", "tags"},      {"sine", "t", "x~y", "p", "d", "name"},
                {"sine", "t", "x", "p~", "d", "name"},      {"sine", "t", "x", "p", "d~", NULL}};
    struct meta_arena arena;
    meta_arena_init(&arena, 65536);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t bytes[512];
        struct pen_error told = {.status = PEN_OK};
        Penstock__JobMeta job = PENSTOCK__JOB_META__INIT;
        Penstock__TensorDesc input = PENSTOCK__TENSOR_DESC__INIT, *inputs[1] = {&input};
        Penstock__Parameter parameter = PENSTOCK__PARAMETER__INIT, *parameters[1] = {&parameter};
        char *tags[2] = {(char *)(uintptr_t) "first", (char *)(uintptr_t)rows[i].tag};
        job.model = (char *)(uintptr_t)rows[i].model;
        job.version = 300;
        job.sequence_after = 7;
        job.tags = tags;
        job.n_tags = 2;
        input.name = (char *)(uintptr_t)rows[i].input;
        input.data = (ProtobufCBinaryData){strlen(rows[i].data), (uint8_t *)(uintptr_t)rows[i].data};
        job.inputs = inputs;
        parameter.name = (char *)(uintptr_t)rows[i].parameter;
        job.parameters = parameters;
        job.n_inputs = job.n_parameters = 1;
        size_t size = pack_with_nul(&job, bytes);
        const void *got = meta_unpack(&arena, &penstock__job_meta__descriptor, bytes, size);
        cr_expect_eq(got == NULL, rows[i].field != NULL, "row %zu", i);
        if (!rows[i].field)
            continue;
        cr_expect_str_eq(arena.nul, rows[i].field);
        cr_expect_eq(meta_refusal(&arena, "malformed", &told), PEN_ERR_INVALID);
        cr_expect(strstr(told.text, rows[i].field), "%s", told.text);
        cr_expect_null(meta_unpack(&arena, &penstock__job_meta__descriptor, bytes, size - 1));
        meta_arena_reset(&arena);
    }
    cr_expect_null(meta_unpack(&arena, &penstock__job_meta__descriptor, (const uint8_t *)"\x0a\x7f", 2));
    cr_expect_eq(meta_refusal(&arena, "malformed", &error), PEN_ERR_CORRUPT);
    cr_expect_str_eq(error.text, "malformed");
    meta_arena_fini(&arena);
}
