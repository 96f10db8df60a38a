/*
 * A batch's inputs and outputs are copied once each between the messages and the engine: the linker puts these memcpy and memmove in place of the C
 * library's in everything that is ours (--wrap), and they count what is large.
 */
#include "slot.h"
#include "warmup.h"

#include "deadline.h"
#include "folder.h"
#include "onnx_file.h"
#include "tensor_codec.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16384, ROW_BYTES = WIDTH * 4, LARGE = 4096 };

void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);

static size_t copied;

void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    copied += bytes >= LARGE ? bytes : 0;
    return __real_memcpy(to, from, bytes);
}

void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    copied += bytes >= LARGE ? bytes : 0;
    return __real_memmove(to, from, bytes);
}

struct bench {
    struct pen_engine *engine;
    struct catalog catalog;
    struct slot *slot;
    struct outbox *outbox;
    struct stats stats;
    struct identity identity;
    char folder[FOLDER_PATH_BYTES];
};

/* y = -x, float32 [N, WIDTH], batches of up to 8. */
static void bench_open(struct bench *bench)
{
    static const char *const choice[] = {"net"};
    const struct onnx_value x = {.name = "x", .dtype = 1, .dims = {-1, WIDTH}, .rank = 2};
    const struct onnx_value y = {.name = "y", .dtype = 1, .dims = {-1, WIDTH}, .rank = 2};
    const struct onnx_node node = {.op = "Neg", .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_model model = {
        .nodes = &node, .nodes_count = 1, .inputs = &x, .outputs = &y, .inputs_count = 1, .outputs_count = 1};
    char file[FOLDER_PATH_BYTES + 16];
    struct pen_error error = {0};
    struct pen_engine_options options;
    memset(bench, 0, sizeof *bench);
    folder_new(bench->folder);
    snprintf(file, sizeof file, "%s/net.onnx", bench->folder);
    onnx_write(file, &model);
    model_folder_make(bench->folder, "net", file, "{\"max_batch_size\": 8}");
    remove(file);
    pen_engine_options_init(&options);
    options.backend = "reference";
    bench->identity = (struct identity){
        .worker = "w", .backend = "reference", .device = "", .library = "", .precision = PRECISION_F32};
    cr_assert_eq(pen_engine_new(&options, &bench->engine, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(catalog_scan(bench->folder, choice, 1, &bench->catalog, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(catalog_load(&bench->catalog, bench->engine, NULL, NULL, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(bench->catalog.count, 1);
    cr_assert_eq(warmup_run(bench->catalog.models[0], 1, &error), PEN_OK, "%s", error.text);
    bench->outbox = outbox_new();
    struct slot_context context = {
        .catalog = &bench->catalog, .outbox = bench->outbox, .stats = &bench->stats, .identity = &bench->identity};
    cr_assert_eq(slot_new(&context, 0, &bench->slot, &error), PEN_OK, "%s", error.text);
}

static void bench_close(struct bench *bench)
{
    slot_free(bench->slot);
    outbox_free(bench->outbox);
    catalog_fini(&bench->catalog);
    pen_engine_free(bench->engine);
    folder_free(bench->folder);
}

/* A header and one raw frame: a row that holds the job's number. */
static void job_fill(zmq_msg_t frames[2], uint64_t number)
{
    struct pen_tensor x = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}, .bytes = ROW_BYTES};
    Penstock__TensorDesc desc, *descs[1];
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    char model[] = "net";
    uint32_t order[1];
    size_t raw = 0;
    zmq_msg_init_size(&frames[1], ROW_BYTES);
    float *row = zmq_msg_data(&frames[1]);
    for (size_t i = 0; i < WIDTH; i++)
        row[i] = (float)number;
    x.data = row;
    tensors_encode(&x, 1, &desc, descs, order, &raw);
    cr_assert_eq(raw, 1);
    meta.model = model;
    meta.inputs = descs;
    meta.n_inputs = 1;
    env.job = (struct job_id){.client = 1, .sequence = number};
    env.frames = 1;
    env.meta_bytes = (uint32_t)penstock__job_meta__get_packed_size(&meta);
    zmq_msg_init_size(&frames[0], FRAME_ENVELOPE_BYTES + env.meta_bytes);
    envelope_encode(&env, zmq_msg_data(&frames[0]));
    penstock__job_meta__pack(&meta, (uint8_t *)zmq_msg_data(&frames[0]) + FRAME_ENVELOPE_BYTES);
}

static struct dispatch *dispatch_of(size_t jobs)
{
    zmq_msg_t frames[2 * 8];
    struct inbox *inbox = inbox_new();
    struct dispatch *dispatch = NULL;
    struct pen_error error = {0};
    for (size_t i = 0; i < jobs; i++)
        job_fill(&frames[2 * i], i + 1);
    struct message message = {.frames = frames, .frames_count = 2 * jobs};
    copied = 0;
    cr_assert_eq(inbox_dispatch(inbox, &message, clock_now_us(), &dispatch, &error), PEN_OK, "%s", error.text);
    inbox_free(inbox);
    return dispatch;
}

static void check_answers(struct outbox *outbox, size_t jobs)
{
    struct reply *reply = outbox_take_all(outbox);
    cr_assert_not_null(reply);
    cr_assert_null(reply->next, "one batch, one message");
    cr_assert_eq(reply->frames_count, 2 * jobs);
    for (size_t i = 0; i < jobs; i++) {
        const float *row = zmq_msg_data(&reply->frames[2 * i + 1]);
        cr_assert_eq(zmq_msg_size(&reply->frames[2 * i + 1]), ROW_BYTES);
        cr_assert(row[0] == -(float)(i + 1) && row[WIDTH - 1] == row[0]);
    }
    reply_free(reply);
}

/* The engine's own work is no memcpy here: Neg reads one buffer and writes another. */
Test(copies, inputs_and_outputs_of_a_batch_are_copied_once)
{
    static const size_t sizes[] = {8, 1, 8};
    struct bench bench;
    bench_open(&bench);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct dispatch *dispatch = dispatch_of(sizes[i]);
        slot_run(bench.slot, dispatch);
        cr_assert_eq(copied, 2 * sizes[i] * ROW_BYTES, "%zu jobs: %zu bytes of %d-byte rows", sizes[i], copied,
                     ROW_BYTES);
        cr_assert_eq(bench.stats.batches, i + 1);
        check_answers(bench.outbox, sizes[i]);
        dispatch_free(dispatch);
    }
    bench_close(&bench);
}

/* Five jobs run at eight rows: only the three that fill it are beyond one copy. */
Test(copies, rows_that_fill_a_batch_are_the_only_ones_more)
{
    struct bench bench;
    bench_open(&bench);
    struct dispatch *dispatch = dispatch_of(5);
    slot_run(bench.slot, dispatch);
    cr_assert_leq(copied, (2 * 5 + 3) * ROW_BYTES);
    cr_assert_geq(copied, 2 * 5 * ROW_BYTES);
    check_answers(bench.outbox, 5);
    dispatch_free(dispatch);
    bench_close(&bench);
}
