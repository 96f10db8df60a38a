/* A slot with three dispatches on a device (Mesa's lavapipe will do): which of them runs, as the watchdog and the vitals see it. */
#include "slot_internal.h"
#include "warmup.h"

#include "deadline.h"
#include "folder.h"
#include "onnx_file.h"
#include "tensor_codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 16, FLIGHTS = 3 };

/* The linker puts this in place of the worker's own (--wrap): a cancel comes when a slot has looked for cancelled jobs and has submitted nothing yet. */
void __real_gather_shapes(const struct batch *batch, struct pen_tensor shapes[SERVED_TENSORS_MAX]);
void __wrap_gather_shapes(const struct batch *batch, struct pen_tensor shapes[SERVED_TENSORS_MAX]);

static struct slot *cancelling; /* the next time, a batch's only job */

void __wrap_gather_shapes(const struct batch *batch, struct pen_tensor shapes[SERVED_TENSORS_MAX])
{
    if (cancelling)
        slot_cancel(cancelling, batch->tasks[0]->job);
    cancelling = NULL;
    __real_gather_shapes(batch, shapes);
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

static void engine_open(struct bench *bench)
{
    struct pen_engine_options options;
    struct pen_backend_info info;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = "vulkan";
    options.vulkan.allow_software = true;
    options.vulkan.in_flight = FLIGHTS;
    if (pen_backend_find(&options, "vulkan", &info) && !info.available)
        cr_skip_test("no Vulkan device: %s", info.reason);
    cr_assert_eq(pen_engine_new(&options, &bench->engine, &error), PEN_OK, "%s", error.text);
}

/* y = -x, float32 [N, WIDTH], batches of up to 8. */
static void bench_open(struct bench *bench)
{
    static const char *const choice[] = {"net"};
    const struct onnx_value x = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, WIDTH}, .rank = 2};
    const struct onnx_value y = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, WIDTH}, .rank = 2};
    const struct onnx_node node = {.op = "Neg", .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_model model = {
        .nodes = &node, .nodes_count = 1, .inputs = &x, .outputs = &y, .inputs_count = 1, .outputs_count = 1};
    char file[FOLDER_PATH_BYTES + 16];
    struct pen_error error = {0};
    memset(bench, 0, sizeof *bench);
    engine_open(bench);
    folder_new(bench->folder);
    snprintf(file, sizeof file, "%s/net.onnx", bench->folder);
    onnx_write(file, &model);
    model_folder_make(bench->folder, "net", file, "{\"max_batch_size\": 8}");
    remove(file);
    bench->identity =
        (struct identity){.worker = "w", .backend = "vulkan", .device = "", .library = "", .precision = PRECISION_F32};
    cr_assert_eq(catalog_scan(bench->folder, choice, 1, &bench->catalog, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(catalog_load(&bench->catalog, bench->engine, NULL, NULL, NULL, &error), PEN_OK, "%s", error.text);
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

/* One job: a row of its number. */
static struct dispatch *dispatch_of(uint64_t number)
{
    float row[WIDTH];
    struct pen_tensor x = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}, .data = row, .bytes = sizeof row};
    Penstock__TensorDesc desc, *descs[1];
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    struct dispatch *dispatch = NULL;
    struct pen_error error = {0};
    struct inbox *inbox = inbox_new();
    char model[] = "net";
    uint32_t order[1];
    size_t raw = 0;
    zmq_msg_t frame;
    for (size_t i = 0; i < WIDTH; i++)
        row[i] = (float)number;
    tensors_encode(&x, 1, &desc, descs, order, &raw);
    cr_assert_eq(raw, 0);
    meta.model = model;
    meta.inputs = descs;
    meta.n_inputs = 1;
    env.job = (struct job_id){.client = 1, .sequence = number};
    env.meta_bytes = (uint32_t)penstock__job_meta__get_packed_size(&meta);
    zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES + env.meta_bytes);
    envelope_encode(&env, zmq_msg_data(&frame));
    penstock__job_meta__pack(&meta, (uint8_t *)zmq_msg_data(&frame) + FRAME_ENVELOPE_BYTES);
    struct message message = {.frames = &frame, .frames_count = 1};
    cr_assert_eq(inbox_dispatch(inbox, &message, clock_now_us(), &dispatch, &error), PEN_OK, "%s", error.text);
    inbox_free(inbox);
    return dispatch;
}

/* Numbers of the jobs that were answered since, added up; ends their dispatches. */
static uint64_t answers_take(struct outbox *outbox)
{
    uint64_t sum = 0;
    for (struct reply *reply = outbox_take_all(outbox), *next; reply; reply = next) {
        next = reply->next;
        for (size_t i = 0; i < reply->jobs_count; i++)
            sum += reply->jobs[i].sequence;
        if (reply->finished)
            dispatch_free(reply->finished);
        reply_free(reply);
    }
    return sum;
}

/* Each runs from when the one before it has landed: its wait behind others is nobody's wedged run. */
Test(flights, the_one_that_runs_is_the_oldest_and_since_the_last_landed, .timeout = 60)
{
    struct bench bench;
    struct slot_running running;
    bench_open(&bench);
    slot_run(bench.slot, dispatch_of(100)); /* the session knows its window from here on */
    cr_assert_eq(answers_take(bench.outbox), 100u);
    for (uint64_t i = 1; i <= FLIGHTS; i++) {
        slot_dispatch_begin(bench.slot, dispatch_of(i));
        cr_assert_eq(bench.slot->flying, i);
    }
    for (uint64_t i = 1; i <= FLIGHTS; i++) {
        slot_running(bench.slot, &running);
        cr_expect(running.busy && running.job.sequence == i, "%zu instead of %zu", (size_t)running.job.sequence,
                  (size_t)i);
        uint64_t before_us = clock_now_us();
        slot_flight_land(bench.slot);
        cr_expect_eq(answers_take(bench.outbox), i);
        slot_running(bench.slot, &running);
        cr_expect(i == FLIGHTS ? !running.busy : running.started_us >= before_us, "flight %zu", (size_t)i + 1);
    }
    cr_expect_eq(bench.slot->flying, 0u);
    bench_close(&bench);
}

Test(flights, a_job_that_is_cancelled_just_before_its_submit_does_not_fly, .timeout = 60)
{
    struct bench bench;
    bench_open(&bench);
    slot_run(bench.slot, dispatch_of(100));
    cr_assert_eq(answers_take(bench.outbox), 100u);
    cr_assert_eq(bench.stats.batches, 1u);
    cancelling = bench.slot;
    slot_dispatch_begin(bench.slot, dispatch_of(1));
    cr_expect_null(cancelling);
    cr_expect_eq(bench.slot->flying, 0u);
    cr_expect_eq(answers_take(bench.outbox), 1u);
    cr_expect_eq(bench.stats.batches, 1u, "nothing was computed");
    slot_run(bench.slot, dispatch_of(2));
    cr_expect_eq(answers_take(bench.outbox), 2u);
    cr_expect_eq(bench.stats.batches, 2u, "the next is");
    bench_close(&bench);
}
