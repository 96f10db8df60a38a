/* Inputs whose contents decide shapes: a variant of the model per combination of their values, capped, and right on every backend. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "onnx_file.h"
#include "penstock/engine.h"
#include "penstock/explain.h"
#include "run/variant.h"

#define ITEMS 512

struct fixture {
    char folder[FOLDER_PATH_BYTES];
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    struct pen_error error;
    float x[ITEMS];
};

/* y = exp(x[starts : ends]), both bounds are inputs. */
static void slice_write(const char *path)
{
    const struct onnx_node nodes[] = {{.op = "Slice", .inputs = {"x", "starts", "ends"}, .outputs = {"part"}},
                                      {.op = "Exp", .inputs = {"part"}, .outputs = {"y"}}};
    const struct onnx_value inputs[] = {{.name = "x", .dtype = PEN_DTYPE_F32, .dims = {ITEMS}, .rank = 1},
                                        {.name = "starts", .dtype = PEN_DTYPE_I64, .dims = {1}, .rank = 1},
                                        {.name = "ends", .dtype = PEN_DTYPE_I64, .dims = {1}, .rank = 1}};
    const struct onnx_value y = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1}, .rank = 1};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 2, .inputs = inputs, .inputs_count = 3, .outputs = &y, .outputs_count = 1});
}

static void fixture_open(struct fixture *f, const char *backend, bool strict)
{
    struct pen_engine_options options;
    char path[FOLDER_PATH_BYTES + 16];
    memset(f, 0, sizeof *f);
    folder_new(f->folder);
    snprintf(path, sizeof path, "%s/model.onnx", f->folder);
    slice_write(path);
    pen_engine_options_init(&options);
    options.backend = backend;
    options.strict = strict;
    for (int i = 0; i < ITEMS; i++) {
        f->x[i] = (float)i / ITEMS;
    }
    if (pen_engine_new(&options, &f->engine, &f->error) != PEN_OK) {
        cr_skip("%s", f->error.text);
    }
    cr_assert_eq(pen_model_load(f->engine, path, &f->model, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_session_new(f->model, &f->session, &f->error), PEN_OK, "%s", f->error.text);
}

static void fixture_close(struct fixture *f)
{
    pen_session_free(f->session);
    pen_model_free(f->model);
    pen_engine_free(f->engine);
    folder_free(f->folder);
    struct pen_memory memory;
    pen_memory(&memory);
    cr_assert_eq(memory.models + memory.sessions + memory.buckets + memory.weights_bytes + memory.arena_bytes, 0u);
}

static enum pen_status slice_run(struct fixture *f, int64_t start, int64_t end, const struct pen_tensor **ret_out)
{
    const struct pen_tensor in[] = {
        {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {ITEMS}, .data = f->x, .bytes = sizeof f->x},
        {.name = "starts", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}, .data = &start, .bytes = sizeof start},
        {.name = "ends", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}, .data = &end, .bytes = sizeof end}};
    size_t count = 0;
    return pen_session_run(f->session, in, 3, NULL, ret_out, &count, &f->error);
}

static void slice_check(struct fixture *f, const struct pen_tensor *out, int64_t start, int64_t end)
{
    cr_assert_eq(out->dims[0], end - start);
    for (int64_t i = start; i < end; i++) {
        double want = __builtin_exp((double)f->x[i]), got = (double)((const float *)out->data)[i - start];
        cr_assert_float_eq(got, want, 1e-5 * want);
    }
}

static void slice_expect(struct fixture *f, int64_t start, int64_t end)
{
    const struct pen_tensor *out = NULL;
    cr_assert_eq(slice_run(f, start, end, &out), PEN_OK, "%s", f->error.text);
    slice_check(f, out, start, end);
}

Test(variant, strict_placement_waits_for_the_values)
{
    struct fixture f;
    fixture_open(&f, "xnnpack", true);
    cr_assert(strstr(pen_model_placement(f.model), "placed again") != NULL, "%s", pen_model_placement(f.model));
    slice_expect(&f, 3, 10);
    slice_expect(&f, 0, ITEMS);
    slice_expect(&f, 3, 10);
    slice_expect(&f, 500, 501);
    fixture_close(&f);
}

/* On reference nothing is a fallback: strict or not, shapes that only the values tell are run. */
Test(variant, strict_reference_runs_every_shape)
{
    struct fixture f;
    fixture_open(&f, "reference", true);
    slice_expect(&f, 3, 10);
    slice_expect(&f, 0, ITEMS);
    fixture_close(&f);
}

Test(variant, values_seen_before_prepare_nothing)
{
    struct fixture f;
    fixture_open(&f, "xnnpack", true);
    slice_expect(&f, 3, 10);
    slice_expect(&f, 4, 10);
    uint64_t prepared = pen_session_prepared(f.session);
    for (int i = 0; i < 10; i++) {
        slice_expect(&f, 3 + i % 2, 10);
    }
    cr_assert_eq(pen_session_prepared(f.session), prepared);
    slice_expect(&f, 5, 10);
    cr_assert_gt(pen_session_prepared(f.session), prepared);
    fixture_close(&f);
}

/* Values that keep changing are data: after VARIANTS_BUILT of them the general program runs, or nothing where that is not allowed. */
Test(variant, values_without_end_meet_a_cap)
{
    struct fixture f;
    fixture_open(&f, "xnnpack", false);
    for (int64_t i = 0; i < VARIANTS_BUILT + 20; i++) {
        slice_expect(&f, i, i + 7);
    }
    fixture_close(&f);
    fixture_open(&f, "xnnpack", true);
    const struct pen_tensor *out = NULL;
    for (int64_t i = 0; i < VARIANTS_BUILT; i++) {
        slice_expect(&f, i, i + 7);
    }
    cr_assert_eq(slice_run(&f, 0, 9, &out), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(f.error.text, "too many") != NULL, "%s", f.error.text);
    slice_expect(&f, VARIANTS_BUILT - 1, VARIANTS_BUILT + 6); /* what is kept goes on */
    fixture_close(&f);
}

/* Of the runs with these ends, how many prepared a bucket anew. */
static uint64_t prepares(struct fixture *f, const char *ends)
{
    uint64_t before = pen_session_prepared(f->session);
    for (; *ends != '\0'; ends++) {
        slice_expect(f, 0, *ends - 'a' + 1);
    }
    return pen_session_prepared(f->session) - before;
}

Test(variant, a_session_keeps_the_four_that_it_used_last)
{
    struct fixture f;
    fixture_open(&f, "xnnpack", true);
    cr_expect_eq(prepares(&f, "abcd"), 5u, "and that of the general program, where inputs are bound");
    cr_expect_eq(prepares(&f, "dcba"), 0u);
    cr_expect_eq(prepares(&f, "e"), 1u, "in the place of d");
    cr_expect_eq(prepares(&f, "abce"), 0u);
    cr_expect_eq(prepares(&f, "d"), 1u, "in the place of a");
    cr_expect_eq(prepares(&f, "bced"), 0u);
    cr_expect_eq(prepares(&f, "a"), 1u);
    fixture_close(&f);
}

static size_t made(const struct pen_explain *log)
{
    size_t count = 0, found = 0;
    const struct pen_explain_row *row = pen_explain_rows(log, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        found += row[i].about == PEN_CHOICE_BUCKET && strcmp(row[i].subject, "the model") == 0;
    }
    return found;
}

/* A graph is made for each combination that comes for the first time, and again for one that went. */
Test(variant, a_model_keeps_the_eight_that_were_used_last)
{
    struct fixture f;
    struct pen_engine_options options;
    char path[FOLDER_PATH_BYTES + 16];
    struct pen_explain *log = pen_explain_new();
    fixture_open(&f, "xnnpack", true);
    pen_session_free(f.session);
    pen_model_free(f.model);
    pen_engine_free(f.engine);
    snprintf(path, sizeof path, "%s/model.onnx", f.folder);
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.explain = log;
    cr_assert_eq(pen_engine_new(&options, &f.engine, &f.error), PEN_OK);
    cr_assert_eq(pen_model_load(f.engine, path, &f.model, &f.error), PEN_OK);
    cr_assert_eq(pen_session_new(f.model, &f.session, &f.error), PEN_OK);
    static const struct {
        const char *ends;
        size_t made; /* so far */
    } steps[] = {{"abcdefgh", 8}, {"hgfedcba", 8}, {"i", 9}, {"abcdefgi", 9}, {"h", 10}, {"bcdefgih", 10}, {"a", 11}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        prepares(&f, steps[i].ends);
        cr_expect_eq(made(log), steps[i].made, "step %zu: %zu", i, made(log));
    }
    uint64_t kept = pen_model_memory(f.model);
    prepares(&f, "jklmnopq");
    cr_expect_leq(pen_model_memory(f.model), kept + kept / 2, "those that went are given back");
    fixture_close(&f);
    pen_explain_free(log);
}

Test(variant, bound_memory_decides_too)
{
    struct fixture f;
    const struct pen_tensor shapes[] = {{.name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {ITEMS}},
                                        {.name = "starts", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}},
                                        {.name = "ends", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}}};
    fixture_open(&f, "xnnpack", true);
    for (int64_t end = 20; end < 24; end++) {
        const struct pen_tensor *out = NULL;
        size_t bytes = 0, count = 0;
        const int64_t bounds[] = {7, end};
        cr_assert_eq(pen_session_bind(f.session, shapes, 3, &f.error), PEN_OK, "%s", f.error.text);
        memcpy(pen_session_input(f.session, 0, &bytes), f.x, sizeof f.x);
        memcpy(pen_session_input(f.session, 1, &bytes), &bounds[0], sizeof bounds[0]);
        memcpy(pen_session_input(f.session, 2, &bytes), &bounds[1], sizeof bounds[1]);
        cr_assert_eq(pen_session_run_bound(f.session, NULL, &out, &count, &f.error), PEN_OK, "%s", f.error.text);
        slice_check(&f, out, 7, end);
    }
    fixture_close(&f);
}

Test(variant, contradictory_values_are_an_error_and_no_more)
{
    struct fixture f;
    const struct pen_tensor *out = NULL;
    fixture_open(&f, "xnnpack", true);
    cr_assert_eq(slice_run(&f, 9, 2, &out), PEN_OK, "%s", f.error.text);
    cr_assert_eq(out->dims[0], 0);
    slice_expect(&f, 2, 9);
    fixture_close(&f);
}

Test(variant, the_reference_needs_none)
{
    struct fixture f;
    fixture_open(&f, "reference", true);
    cr_assert(strstr(pen_model_placement(f.model), "placed again") == NULL, "%s", pen_model_placement(f.model));
    slice_expect(&f, 3, 10);
    fixture_close(&f);
}

/* y = exp(x[starts : ends]), flat = w without its dims of 1: of w the shape decides, of starts and ends the values. A key holds no more of an input than decides. */
static void both_write(const char *path)
{
    const struct onnx_node nodes[] = {{.op = "Slice", .inputs = {"x", "starts", "ends"}, .outputs = {"part"}},
                                      {.op = "Exp", .inputs = {"part"}, .outputs = {"y"}},
                                      {.op = "Squeeze", .inputs = {"w"}, .outputs = {"flat"}}};
    const struct onnx_value inputs[] = {{.name = "x", .dtype = PEN_DTYPE_F32, .dims = {ITEMS}, .rank = 1},
                                        {.name = "starts", .dtype = PEN_DTYPE_I64, .dims = {1}, .rank = 1},
                                        {.name = "ends", .dtype = PEN_DTYPE_I64, .dims = {1}, .rank = 1},
                                        {.name = "w", .dtype = PEN_DTYPE_F32, .dims = {-1, -1}, .rank = 2}};
    const struct onnx_value outputs[] = {{.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1}, .rank = 1},
                                         {.name = "flat", .dtype = PEN_DTYPE_F32, .dims = {-1}, .rank = 1}};
    onnx_write(path, &(struct onnx_model){.nodes = nodes,
                                          .nodes_count = 3,
                                          .inputs = inputs,
                                          .inputs_count = 4,
                                          .outputs = outputs,
                                          .outputs_count = 2});
}

Test(variant, the_shape_of_one_input_and_the_values_of_others_decide)
{
    struct fixture f;
    char path[FOLDER_PATH_BYTES + 16];
    fixture_open(&f, "xnnpack", false);
    pen_session_free(f.session);
    pen_model_free(f.model);
    snprintf(path, sizeof path, "%s/both.onnx", f.folder);
    both_write(path);
    cr_assert_eq(pen_model_load(f.engine, path, &f.model, &f.error), PEN_OK, "%s", f.error.text);
    cr_assert_eq(pen_session_new(f.model, &f.session, &f.error), PEN_OK, "%s", f.error.text);
    static const int64_t asked[][4] = {
        {3, 10, 1, ITEMS}, {3, 10, 2, 100}, {0, 1, 2, 100}, {3, 10, 1, ITEMS}, {3, 10, 7, 1}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        const int64_t *a = asked[i];
        const struct pen_tensor in[] = {
            {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {ITEMS}, .data = f.x, .bytes = sizeof f.x},
            {.name = "starts", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}, .data = &a[0], .bytes = 8},
            {.name = "ends", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {1}, .data = &a[1], .bytes = 8},
            {.name = "w",
             .dtype = PEN_DTYPE_F32,
             .rank = 2,
             .dims = {a[2], a[3]},
             .data = f.x,
             .bytes = (size_t)(a[2] * a[3]) * sizeof(float)}};
        const struct pen_tensor *out = NULL;
        size_t count = 0;
        cr_assert_eq(pen_session_run(f.session, in, 4, NULL, &out, &count, &f.error), PEN_OK, "%s", f.error.text);
        slice_check(&f, &out[0], a[0], a[1]);
        uint32_t rank = (a[2] > 1 ? 1u : 0u) + (a[3] > 1 ? 1u : 0u);
        cr_assert(out[1].rank == rank && out[1].bytes == in[3].bytes, "%u", out[1].rank);
        cr_assert_eq(memcmp(out[1].data, f.x, in[3].bytes), 0);
    }
    fixture_close(&f);
}
