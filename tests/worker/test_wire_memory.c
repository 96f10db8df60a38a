/* Memory of the real worker: what jobs' shapes make it take is told, bounded and given back. This test is its broker. */
#include "folder.h"
#include "onnx_writer.h"
#include "play_broker.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT (8 << 20)

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];

static void setup(void)
{
    folder_new(root);
    play_open(&play);
}

static void teardown(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
}

TestSuite(memory, .init = setup, .fini = teardown, .timeout = 90);

static void save(struct onnx_writer *w, const char *name)
{
    char path[FOLDER_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s/1", root, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", root, name);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

/* y = softmax(exp(x)) over any number of rows of 256: dims[0] is the caller's. */
static void put_open(const char *name)
{
    struct onnx_writer *w = onnx_writer_new("open");
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, 256}, (const char *const[]){"rows"});
    const char *e = onnx_writer_step(w, "Exp", ONNX_LIST("x"), NULL);
    onnx_writer_node(w, "Softmax", ONNX_LIST(e), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 2, (int64_t[]){-1, 256}, (const char *const[]){"rows"});
    save(w, name);
}

/* Nothing is measured beside the jobs: a model that is being measured does not leave. */
static void start(const char *option, const char *value)
{
    const char *const arguments[] = {"--models", root,        "--backend",   "reference", "--slots", "2", "--measure",
                                     "off",      "--metrics", "127.0.0.1:0", option,      value,     NULL};
    play_start(&play, arguments);
    play_serve(&play, &message);
}

static enum pen_status run(const char *model, int64_t rows, struct play_result *result)
{
    static uint64_t sequence;
    size_t bytes = (size_t)rows * 256 * sizeof(float);
    float *x = calloc(1, bytes);
    struct play_job job = {
        .sequence = ++sequence,
        .model = model,
        .input = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {rows, 256}, .data = x, .bytes = bytes}};
    play_submit(&play, &job, 1);
    play_results(&play, result, 1);
    free(x);
    return (enum pen_status)result->env.status;
}

Test(memory, ever_larger_shapes_end_with_a_sentence_and_are_told_meanwhile)
{
    char limit[32];
    struct play_result result;
    enum pen_status status = PEN_OK;
    put_open("open");
    snprintf(limit, sizeof limit, "%d", LIMIT);
    start("--memory-limit", limit);
    long before = play_metric(&play, "device_memory_used_bytes");
    int64_t rows = 1;
    for (; status == PEN_OK && rows < 20000; rows += rows / 3 + 1) {
        status = run("open", rows, &result);
        long now = play_metric(&play, "device_memory_used_bytes");
        cr_expect(now > before && now <= LIMIT, "%ld bytes after %ld, rows %" PRId64, now, before, rows);
    }
    cr_expect_eq(status, PEN_ERR_TOO_LARGE, "%" PRId64 " rows: %s", rows, result.error);
    cr_expect(strstr(result.error, "a session of this model may hold"), "%s", result.error);
    cr_expect_eq(run("open", 5, &result), PEN_OK, "%s", result.error);
    for (int64_t i = 0; i < 40; i++) {
        cr_expect_eq(run("open", 300 + i, &result), PEN_OK, "shapes that change for ever: %s", result.error);
        cr_expect_leq(play_metric(&play, "device_memory_used_bytes"), LIMIT);
    }
}

/* Two models fit when they are loaded, and one of them grows: the other makes room. */
Test(memory, a_model_that_grows_beyond_the_budget_makes_the_least_recently_used_leave)
{
    struct play_result result;
    put_open("first");
    put_open("second");
    start("--memory-budget", "4MiB");
    play.skips_updates = true; /* the one that leaves is told of between two results, or behind the last */
    cr_expect_eq(run("first", 300, &result), PEN_OK, "%s", result.error);
    for (int64_t i = 0; i < 12; i++)
        cr_expect_eq(run("second", 280 + i, &result), PEN_OK, "%s", result.error);
    cr_expect(play_logged(&play, "evt=model_leaves model=first"), "%s", play_log(&play));
}

Test(memory, fold_limit_decides_what_the_load_computes)
{
    const char *const limits[] = {"1KiB", "64MiB"};
    unsigned long long bytes[2] = {0, 0};
    static const int64_t size = 1 << 20;
    struct onnx_writer *w = onnx_writer_new("fill");
    onnx_writer_constant(w, "size", PEN_DTYPE_I64, 1, (int64_t[]){1}, &size, sizeof size);
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
    const char *fill = onnx_writer_step(w, "ConstantOfShape", ONNX_LIST("size"), NULL);
    onnx_writer_node(w, "Add", ONNX_LIST(fill, "x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, &size, NULL);
    save(w, "fill");
    for (size_t i = 0; i < 2; i++) {
        start("--fold-limit", limits[i]);
        const char *line = strstr(play_log(&play), "evt=model_ready");
        line = line ? strstr(line, " bytes=") : NULL;
        cr_assert_not_null(line, "%s", play_log(&play));
        bytes[i] = strtoull(line + 7, NULL, 10);
        play_message_fini(&message);
        play_close(&play);
        play_open(&play);
    }
    cr_expect(bytes[0] != bytes[1], "%llu and %llu bytes", bytes[0], bytes[1]);
}
