/* Sessions: what binds, what is refused and how it is said, buckets, warm-up, stopping, memory. On the digits model and small written models. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "graph/evaluator.h"
#include "onnx_file.h"
#include "penstock/engine.h"
#include "written.h"
#include "run/ledger.h"

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

struct fixture {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    struct pen_error error;
};

static void fixture_open(struct fixture *f, const char *backend, const char *path, bool strict)
{
    struct pen_engine_options options;
    memset(f, 0, sizeof *f);
    pen_engine_options_init(&options);
    options.backend = backend;
    options.strict = strict;
    cr_assert_eq(pen_engine_new(&options, &f->engine, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_model_load(f->engine, path, &f->model, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_session_new(f->model, &f->session, &f->error), PEN_OK, "%s", f->error.text);
}

static void fixture_close(struct fixture *f)
{
    pen_session_free(f->session);
    pen_model_free(f->model);
    pen_engine_free(f->engine);
}

static struct pen_tensor image(const float *pixels, int64_t batch)
{
    return (struct pen_tensor){.name = "image",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 4,
                               .dims = {batch, 1, 8, 8},
                               .data = pixels,
                               .bytes = (size_t)batch * 64 * sizeof(float)};
}

static const float *run(struct fixture *f, const float *pixels, int64_t batch)
{
    struct pen_tensor in = image(pixels, batch);
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    cr_assert_eq(pen_session_run(f->session, &in, 1, NULL, &out, &count, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(count, 1u);
    cr_assert_eq(out[0].dims[0], batch);
    cr_assert_eq(out[0].bytes, (size_t)batch * 10 * sizeof(float));
    return out[0].data;
}

Test(session, digits_probabilities_sum_to_one_on_every_backend)
{
    struct pen_backend_info infos[8];
    size_t backends = pen_backends(NULL, infos, 8);
    float pixels[64];
    for (int i = 0; i < 64; i++) {
        pixels[i] = (float)(i % 7) / 7.0f;
    }
    float first[10];
    const char *name = NULL;
    for (size_t b = 0; b < backends; b++) {
        struct fixture f;
        if (!infos[b].available) {
            continue;
        }
        fixture_open(&f, infos[b].name, DIGITS, true);
        const float *p = run(&f, pixels, 1);
        float sum = 0;
        for (int i = 0; i < 10; i++) {
            sum += p[i];
            first[i] = name == NULL ? p[i] : first[i];
            cr_assert(fabsf(p[i] - first[i]) < 1e-5f, "%s differs from %s at %d", infos[b].name, name, i);
        }
        name = infos[b].name;
        cr_assert(fabsf(sum - 1) < 1e-5f);
        fixture_close(&f);
    }
}

/* The sum of nothing is a shape that XNNPACK does not take: alone it refuses in a sentence, with help the sum is 0. */
Test(session, strict_placement_holds_for_every_shape)
{
    const struct onnx_node node = {.op = "ReduceSum", .inputs = {"x"}, .outputs = {"sum"}};
    const struct onnx_value x = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 4}, .rank = 2};
    const struct onnx_value sum = {.name = "sum", .dtype = PEN_DTYPE_F32, .dims = {1, 1}, .rank = 2};
    const float four[4] = {1, 2, 3, 4};
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &x, .inputs_count = 1, .outputs = &sum, .outputs_count = 1});
    for (int strict = 0; strict < 2; strict++) {
        struct fixture f;
        const struct pen_tensor *out = NULL;
        size_t count = 0;
        fixture_open(&f, "xnnpack", path, strict);
        struct pen_tensor in = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {0, 4}, .data = four};
        enum pen_status status = pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error);
        if (strict) {
            cr_assert_eq(status, PEN_ERR_UNSUPPORTED);
            cr_assert(strstr(f.error.text, "backend xnnpack cannot run") != NULL, "%s", f.error.text);
        } else {
            cr_assert_eq(status, PEN_OK, "%s", f.error.text);
            cr_assert_eq(*(const float *)out[0].data, 0.0f);
        }
        in.dims[0] = 1;
        in.bytes = sizeof four;
        cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_OK, "%s", f.error.text);
        cr_assert_eq(*(const float *)out[0].data, 10.0f);
        fixture_close(&f);
    }
    folder_free(folder);
}

Test(session, batch_rows_equal_single_runs)
{
    struct fixture f;
    float pixels[3 * 64];
    float single[3][10];
    for (int i = 0; i < 3 * 64; i++) {
        pixels[i] = (float)((i * 37) % 16) / 16.0f;
    }
    fixture_open(&f, "auto", DIGITS, false);
    for (int k = 0; k < 3; k++) {
        memcpy(single[k], run(&f, pixels + k * 64, 1), sizeof single[k]);
    }
    const float *p = run(&f, pixels, 3);
    for (int i = 0; i < 30; i++) {
        cr_assert(fabsf(p[i] - single[i / 10][i % 10]) < 1e-6f);
    }
    fixture_close(&f);
}

Test(session, refusals_name_the_input_and_what_it_must_be)
{
    struct fixture f;
    float pixels[128] = {0};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    fixture_open(&f, "auto", DIGITS, false);
    struct pen_tensor in = image(pixels, 1);
    in.dims[3] = 9;
    cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_ERR_SHAPE);
    cr_assert(strstr(f.error.text, "image") != NULL && strstr(f.error.text, "8x8") != NULL, "%s", f.error.text);
    in = image(pixels, 1);
    in.dtype = PEN_DTYPE_U8;
    cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_ERR_DTYPE);
    cr_assert(strstr(f.error.text, "f32") != NULL, "%s", f.error.text);
    in = image(pixels, 1);
    in.name = "picture";
    cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_ERR_NOT_FOUND);
    in = image(pixels, 1);
    in.bytes--;
    cr_assert_neq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_OK);
    in = image(pixels, -1);
    in.bytes = 0;
    cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_ERR_SHAPE);
    cr_assert_eq(pen_session_run(f.session, &in, 0, NULL, &out, &count, &f.error), PEN_ERR_INVALID);
    cr_assert(fabsf(run(&f, pixels, 2)[0]) <= 1.0f, "a refused run left the session unusable");
    fixture_close(&f);
}

Test(session, more_shapes_than_buckets_still_run_and_memory_stays_bounded)
{
    struct fixture f;
    float *pixels = calloc(64 * 64, sizeof *pixels);
    fixture_open(&f, "auto", DIGITS, false);
    for (int round = 0; round < 3; round++) {
        for (int64_t batch = 1; batch <= 40; batch++) {
            run(&f, pixels, batch);
        }
    }
    struct pen_memory memory;
    pen_memory(&memory);
    cr_assert(memory.buckets >= 1 && memory.buckets <= 16, "%llu buckets", (unsigned long long)memory.buckets);
    fixture_close(&f);
    pen_memory(&memory);
    cr_assert_eq(memory.models + memory.sessions + memory.buckets + memory.weights_bytes + memory.arena_bytes, 0u);
    free(pixels);
}

Test(session, warming_reports_times_and_bound_memory_is_used)
{
    struct fixture f;
    struct pen_tensor in = image(NULL, 4);
    uint64_t prepare = 0;
    uint64_t ran = 0;
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    size_t bytes = 0;
    fixture_open(&f, "auto", DIGITS, false);
    cr_assert_eq(pen_session_warm(f.session, &in, 1, &prepare, &ran, &f.error), PEN_OK, "%s", f.error.text);
    cr_assert(prepare + ran > 0);
    cr_assert_eq(pen_session_bind(f.session, &in, 1, &f.error), PEN_OK);
    float *pixels = pen_session_input(f.session, 0, &bytes);
    cr_assert(pixels != NULL && bytes == 4 * 64 * sizeof(float));
    for (int i = 0; i < 4 * 64; i++) {
        pixels[i] = (float)(i % 5) / 5.0f;
    }
    float copy[4 * 64];
    memcpy(copy, pixels, sizeof copy);
    cr_assert_eq(pen_session_run_bound(f.session, NULL, &out, &count, &f.error), PEN_OK);
    float bound[40];
    memcpy(bound, out[0].data, sizeof bound);
    cr_assert_eq(memcmp(run(&f, copy, 4), bound, sizeof bound), 0);
    fixture_close(&f);
}

static void *stop_later(void *stop)
{
    struct timespec wait = {.tv_nsec = 3000000};
    nanosleep(&wait, NULL);
    pen_stop_now(stop);
    return NULL;
}

Test(session, a_running_model_stops_between_layers)
{
    char folder[FOLDER_PATH_BYTES];
    char path[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/slow.onnx", folder);
    onnx_write_slow(path, 256);
    struct fixture f;
    fixture_open(&f, "auto", path, false);
    struct pen_tensor in = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 16, 64, 64}, .bytes = 16 * 64 * 64 * 4};
    in.data = calloc(1, in.bytes);
    struct pen_stop *stop = pen_stop_new();
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    pthread_t thread;
    enum pen_status status = PEN_OK;
    for (int i = 0; i < 10 && status == PEN_OK; i++) { /* a busy machine may be late with the stop */
        pen_stop_arm(stop, UINT64_MAX);
        cr_assert_eq(pthread_create(&thread, NULL, stop_later, stop), 0);
        status = pen_session_run(f.session, &in, 1, stop, &out, &count, &f.error);
        pthread_join(thread, NULL);
    }
    cr_assert_eq(status, PEN_ERR_CANCELLED, "%s", f.error.text);
    pen_stop_arm(stop, 1);
    cr_assert_eq(pen_session_run(f.session, &in, 1, stop, &out, &count, &f.error), PEN_ERR_DEADLINE, "%s",
                 f.error.text);
    pen_stop_free(stop);
    free((void *)(uintptr_t)in.data);
    fixture_close(&f);
    folder_free(folder);
}

Test(session, an_unknown_backend_is_refused_with_the_list)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = "abacus";
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "abacus") != NULL && strstr(error.text, "reference") != NULL, "%s", error.text);
}

Test(session, the_digest_follows_the_file)
{
    struct fixture f;
    uint8_t digest[16];
    uint8_t again[16];
    char folder[FOLDER_PATH_BYTES];
    char path[FOLDER_PATH_BYTES + 16];
    fixture_open(&f, "reference", DIGITS, true);
    pen_model_digest(f.model, digest);
    pen_model_digest(f.model, again);
    cr_assert_eq(memcmp(digest, again, 16), 0);
    fixture_close(&f);
    folder_new(folder);
    snprintf(path, sizeof path, "%s/identity.onnx", folder);
    onnx_write_identity(path);
    fixture_open(&f, "reference", path, true);
    pen_model_digest(f.model, again);
    cr_assert_neq(memcmp(digest, again, 16), 0);
    fixture_close(&f);
    folder_free(folder);
}

Test(session, a_ledger_that_gives_back_more_than_was_booked_ends_the_program, .signal = SIGABRT)
{
    struct model_ledger model = {.budget = 0};
    struct ledger l = {.model = &model, .alone = 100};
    ledger_book(&l, 0, 60);
    ledger_book(&l, 60, 20);
    cr_assert_eq(l.bytes, 20u);
    ledger_book(&l, 21, 0);
}

static const struct evaluator *whole;

static bool has_no_neg(enum op op)
{
    return op != OP_Neg && whole->has(op);
}

static bool supports_whole(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return whole->supports(g, n, ret_reason);
}

static enum pen_status run_whole(struct evaluation *e)
{
    return whole->run(e);
}

/* y = x + -w: with a kernel to fold with, -w is a constant; without, the placement says so, and the run computes it. */
Test(session, what_could_not_be_folded_is_told_in_the_placement)
{
    static const struct evaluator part = {.has = has_no_neg, .supports = supports_whole, .run = run_whole};
    const float two = 2.0f;
    const struct onnx_value x = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {2}, .rank = 1},
                            y = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {2}, .rank = 1},
                            w = {.name = "w", .dtype = PEN_DTYPE_F32, .dims = {1}, .rank = 1, .data = &two};
    const struct onnx_node nodes[] = {{.op = "Neg", .inputs = {"w"}, .outputs = {"v"}},
                                      {.op = "Add", .inputs = {"x", "v"}, .outputs = {"y"}}};
    const struct onnx_model written = {nodes, 2, &x, &y, &w, 1, 1, 1};
    struct pen_engine_options options;
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    onnx_write(path, &written);
    pen_engine_options_init(&options);
    for (int round = 0; round < 2; round++) {
        struct fixture f = {0};
        cr_assert_eq(pen_engine_new(&options, &f.engine, &f.error), PEN_OK, "%s", f.error.text);
        whole = evaluator_get();
        evaluator_register(round == 0 ? whole : &part);
        cr_assert_eq(pen_model_load(f.engine, path, &f.model, &f.error), PEN_OK, "%s", f.error.text);
        cr_assert_eq(pen_session_new(f.model, &f.session, &f.error), PEN_OK, "%s", f.error.text);
        const bool told =
            strstr(pen_model_placement(f.model), "1 node with known inputs is not folded, the first is Neg: "
                                                 "this build has no kernel for it") != NULL;
        cr_assert_eq(told, round == 1, "%s", pen_model_placement(f.model));
        const float values[2] = {5.0f, 7.0f};
        struct pen_tensor in = {
            .name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {2}, .data = values, .bytes = sizeof values};
        const struct pen_tensor *out = NULL;
        size_t count = 0;
        cr_assert_eq(pen_session_run(f.session, &in, 1, NULL, &out, &count, &f.error), PEN_OK, "%s", f.error.text);
        cr_assert_eq(((const float *)out[0].data)[1], 5.0f);
        fixture_close(&f);
    }
    folder_free(folder);
}

/* What a file declares of an output is no promise. y = reshape(x, to): the rank is as many as `to` has numbers, and here that is open; z = x transposed has x's rank. */
Test(session, an_outputs_rank_follows_from_the_inputs)
{
    struct written w = {.model = NULL};
    struct onnx_writer *g = onnx_writer_new("ranks");
    size_t count = 0;
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 6), NULL);
    onnx_writer_input(g, "to", PEN_DTYPE_I64, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "Reshape", ONNX_LIST("x", "to"), ONNX_LIST("y"), NULL);
    onnx_writer_node(g, "Transpose", ONNX_LIST("x"), ONNX_LIST("z"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(2, 3), NULL);
    onnx_writer_output(g, "z", PEN_DTYPE_F32, 2, WRITTEN_DIMS(6, 1), NULL);
    written_open(&w, g, NULL);
    const struct pen_tensor *outputs = pen_model_outputs(w.model, &count);
    cr_assert_eq(count, 2);
    cr_expect_eq(outputs[0].rank, 0u, "%u", outputs[0].rank);
    cr_expect(outputs[1].rank == 2 && outputs[1].dims[0] == 6 && outputs[1].dims[1] == -1);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const int64_t to[3] = {1, 2, 3};
    const struct pen_tensor in[] = {written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(1, 6), x, sizeof x),
                                    written_tensor(PEN_DTYPE_I64, 1, WRITTEN_DIMS(3), to, sizeof to)};
    cr_assert_eq(written_run(&w, in, 2), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 3, to, x);
    written_close(&w);
}
