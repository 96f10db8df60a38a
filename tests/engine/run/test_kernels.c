/* Kernels that were timed are kept beside the model: the next process takes them. Without the file it times again, and answers are within winograd.h's bound. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "graph/memo.h"
#include "onnx_writer.h"
#include "penstock/engine.h"
#include "penstock/explain.h"

#define CHANNELS  32
#define SIDE      20
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* What a process tells. */
struct told {
    char reason[192];
    float y[CHANNELS * SIDE * SIDE];
    bool done;
};

static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16], file[FOLDER_PATH_BYTES + 32];

static void model_write(void)
{
    static float w[CHANNELS * CHANNELS * 9];
    static const int64_t pads[] = {1, 1, 1, 1};
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "pads", .ints = pads, .count = 4}, {0}};
    struct onnx_writer *g = onnx_writer_new("kernels");
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        w[i] = (float)(i * 7919 % 1009) / 1009.0f - 0.5f;
    }
    folder_new(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    snprintf(file, sizeof file, "%s/" MEMO_FILE, folder);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, DIMS(-1, CHANNELS, SIDE, SIDE), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 4, DIMS(CHANNELS, CHANNELS, 3, 3), w, sizeof w);
    onnx_writer_node(g, "Conv", ONNX_LIST("x", "w"), ONNX_LIST("y"), attrs);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, DIMS(-1, CHANNELS, SIDE, SIDE), NULL);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
}

static void reason_find(const struct pen_explain *rows, struct told *t)
{
    size_t count = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (row[i].about == PEN_CHOICE_KERNEL && strncmp(row[i].reason, "measured:", 9) == 0) {
            snprintf(t->reason, sizeof t->reason, "%s", row[i].reason);
        }
    }
}

static void model_run(struct told *t)
{
    static float x[CHANNELS * SIDE * SIDE];
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    struct pen_tensor in = {
        .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, CHANNELS, SIDE, SIDE}, .data = x, .bytes = sizeof x};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        x[i] = (float)(i * 104729 % 2003) / 1001.5f - 1.0f;
    }
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.keep_measured = true;
    options.explain = pen_explain_new();
    t->done = pen_engine_new(&options, &engine, &error) == PEN_OK &&
              pen_model_load(engine, path, &model, &error) == PEN_OK &&
              pen_session_new(model, &session, &error) == PEN_OK &&
              pen_session_run(session, &in, 1, NULL, &out, &count, &error) == PEN_OK;
    if (t->done) {
        memcpy(t->y, out[0].data, sizeof t->y);
        reason_find(options.explain, t);
    }
    pen_session_free(session);
    pen_model_free(model);
    pen_engine_free(engine);
    pen_explain_free(options.explain);
}

/* In a process of its own, which knows nothing. */
static struct told *process_run(void)
{
    struct told *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(t, MAP_FAILED);
    const pid_t child = fork();
    cr_assert_neq(child, -1);
    if (child == 0) {
        model_run(t);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert(t->done);
    return t;
}

Test(engine_kernels, what_was_timed_is_kept)
{
    model_write();
    struct told *first = process_run(), *second = process_run();
    if (first->reason[0] == '\0') {
        folder_free(folder);
        cr_skip("this processor has one kernel for the convolution");
    }
    cr_expect_str_eq(second->reason, first->reason, "the times are those of the first process");
    cr_expect_eq(memcmp(second->y, first->y, sizeof first->y), 0, "and so are the bits");
    cr_assert_eq(remove(file), 0);
    struct told *third = process_run();
    float range = 0.0f;
    for (size_t i = 0; i < sizeof first->y / sizeof first->y[0]; i++) {
        range = fmaxf(range, fabsf(first->y[i]));
    }
    for (size_t i = 0; i < sizeof first->y / sizeof first->y[0]; i++) {
        cr_assert_leq(fabsf(third->y[i] - first->y[i]), 2e-6f * range, "element %zu", i);
    }
    cr_expect_eq(access(file, R_OK), 0, "kept again");
    cr_expect_str_neq(third->reason, "");
    folder_free(folder);
}
