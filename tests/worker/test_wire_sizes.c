/* The real worker and batch sizes: what warm-up declared is never prepared again, other sizes are filled up. This test is its broker. */
#include "folder.h"
#include "onnx_file.h"
#include "play_broker.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 60

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];
static const char config[] = "{\"max_batch_size\":8,\"dynamic_batching\":{\"preferred_batch_size\":[4]}}";

/* Many nodes over few numbers: preparing it costs much, one row more costs next to nothing. */
static void chain_write(const char *path)
{
    static char names[LAYERS + 1][16];
    static struct onnx_node nodes[LAYERS];
    for (size_t i = 0; i <= LAYERS; i++)
        snprintf(names[i], sizeof names[i], i == 0 ? "x" : i == LAYERS ? "y" : "x%zu", i);
    for (size_t i = 0; i < LAYERS; i++)
        nodes[i] = (struct onnx_node){.op = i % 2 ? "Atan" : "Sin", .inputs = {names[i]}, .outputs = {names[i + 1]}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    onnx_write(path, &(struct onnx_model){.nodes = nodes,
                                          .nodes_count = LAYERS,
                                          .inputs = &in,
                                          .inputs_count = 1,
                                          .outputs = &out,
                                          .outputs_count = 1});
}

/* The places of what is not 0, one per row: as many rows as the input has numbers, whatever its batch. */
static void places_write(const char *path)
{
    const struct onnx_node nodes[] = {{.op = "NonZero", .inputs = {"x"}, .outputs = {"columns"}},
                                      {.op = "Transpose", .inputs = {"columns"}, .outputs = {"y"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_I64, .dims = {-1, 2}, .rank = 2};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 2, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

static void open_served(void)
{
    char file[FOLDER_PATH_BYTES + 16];
    const char *const arguments[] = {"--models", root, "--backend", "reference", "--slots", "1", NULL};
    folder_new(root);
    snprintf(file, sizeof file, "%s/file", root);
    chain_write(file);
    model_folder_make(root, "chain", file, config);
    places_write(file);
    model_folder_make(root, "places", file, config);
    play_open(&play);
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 2, "%s", play_log(&play));
}

static void close_served(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
}

TestSuite(sizes, .init = open_served, .fini = close_served, .timeout = 60);

static const float numbers[] = {0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f, 0.7f, 0.8f,
                                0.9f, 1.0f,  1.1f, 1.2f, 1.3f,  1.4f, 1.5f, 1.6f};

static struct pen_tensor rows(size_t first, int64_t count)
{
    return (struct pen_tensor){.name = "x",
                               .dtype = PEN_DTYPE_F32,
                               .rank = 2,
                               .dims = {count, 2},
                               .data = numbers + 2 * first,
                               .bytes = (size_t)count * 8};
}

/* `count` jobs of one row in one dispatch. */
static void submit(const char *model, size_t count, struct play_result *results)
{
    struct play_job jobs[8];
    for (size_t i = 0; i < count; i++)
        jobs[i] = (struct play_job){.sequence = i + 1, .model = model, .input = rows(i, 1)};
    play_submit(&play, jobs, count);
    play_results(&play, results, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(results[i].env.status == PEN_OK, "%s", results[i].error);
}

static bool drain_tells(const char *counts)
{
    kill(play.pid, SIGTERM);
    play_expect(&play, FRAME_DRAIN, &message);
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    cr_assert(play_exit_code(&play, PLAY_WAIT_MS) == 0, "%s", play_log(&play));
    return strstr(play_log(&play), counts) != NULL;
}

static void drained_with(const char *counts)
{
    cr_expect(drain_tells(counts), "'%s' is not in:\n%s", counts, play_log(&play));
}

Test(sizes, declared_sizes_are_never_prepared_while_jobs_wait)
{
    struct play_result results[8];
    for (int round = 0; round < 20; round++)
        for (size_t count = 1; count <= 8; count *= count == 1 ? 4 : 2)
            submit("chain", count, results);
    drained_with("prepared=0 rows_filled=0");
}

static void fill_some(void)
{
    struct play_result alone[3], together[3], whole;
    for (size_t i = 0; i < 3; i++) {
        struct play_job job = {.sequence = i + 1, .model = "chain", .input = rows(i, 1)};
        play_submit(&play, &job, 1);
        play_results(&play, &alone[i], 1);
    }
    submit("chain", 3, together);
    for (size_t i = 0; i < 3; i++) {
        cr_expect(together[i].batch_size == 3 && together[i].rows == 1 && together[i].scores_bytes == 8);
        cr_expect(memcmp(together[i].scores, alone[i].scores, 8) == 0, "job %zu", i);
    }
    struct play_job job = {.sequence = 9, .model = "chain", .input = rows(0, 3)};
    play_submit(&play, &job, 1);
    play_results(&play, &whole, 1);
    cr_expect(whole.rows == 3 && whole.scores_bytes == 24 && whole.batch_size == 1);
    cr_expect(memcmp(whole.scores + 4, alone[2].scores, 8) == 0);
}

/* What filling and preparing cost is measured by each worker at its start; one that was held up while it measured may prefer to prepare. */
Test(sizes, others_are_filled_and_their_results_are_their_own)
{
    fill_some();
    for (int again = 0; !drain_tells("prepared=0 rows_filled=2"); again++) {
        cr_assert(again < 4, "never filled:\n%s", play_log(&play));
        close_served();
        open_served();
        fill_some();
    }
}

Test(sizes, outputs_that_cannot_be_cut_run_at_their_own_size)
{
    struct play_result result;
    struct play_job job = {.sequence = 1, .model = "places", .input = rows(0, 3)};
    for (int round = 0; round < 2; round++, job.sequence++) {
        play_submit(&play, &job, 1);
        play_results(&play, &result, 1);
        cr_expect(result.env.status == PEN_OK && result.rows == 6, "%s, %ld rows", result.error, (long)result.rows);
    }
    drained_with("prepared=1 rows_filled=0");
}
