/* The real worker under --watch: models that come, change, break and go while it serves. This test is its broker. */
#include "folder.h"
#include "onnx_file.h"
#include "play_broker.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct play play;
static struct play_message message;
static char root[FOLDER_PATH_BYTES];

/* "y" = op("x") over float32 [N, 2], put in place by a rename as a careful person does. */
static void put(const char *name, int version, const char *op)
{
    char folder[FOLDER_PATH_BYTES + 64], part[FOLDER_PATH_BYTES + 96], whole[FOLDER_PATH_BYTES + 96];
    const struct onnx_node node = {.op = op, .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, 2}, .rank = 2};
    snprintf(folder, sizeof folder, "%s/%s/%d", root, name, version);
    snprintf(part, sizeof part, "%s/part", folder);
    snprintf(whole, sizeof whole, "%s/model.onnx", folder);
    folder_make(folder);
    onnx_write(
        part,
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
    cr_assert(rename(part, whole) == 0);
}

/* Whole or not at all: half a file is another one, and is told. */
static void put_text(const char *path, const char *text)
{
    char whole[FOLDER_PATH_BYTES + 96], part[FOLDER_PATH_BYTES + 96];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    snprintf(part, sizeof part, "%s.part", root);
    file_write(part, text, strlen(text));
    cr_assert_eq(rename(part, whole), 0);
}

static void drop(const char *path)
{
    char whole[FOLDER_PATH_BYTES + 96];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    folder_free(whole);
}

static void open_with(const char *interval)
{
    const char *const arguments[] = {"--models", root,      "--backend", "reference",     "--slots",
                                     "1",        "--watch", interval,    "--allow-empty", NULL};
    folder_new(root);
    put("a", 1, "Neg");
    play_open(&play);
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 1, "%s", play_log(&play));
}

static void open_watched(void)
{
    open_with("60ms");
}

/* A version that nobody asks for leaves after one interval: here the test asks in time also on a busy machine. */
static void open_seldom(void)
{
    open_with("700ms");
}

static void close_watched(void)
{
    play_message_fini(&message);
    play_close(&play);
    folder_free(root);
}

TestSuite(watch, .init = open_watched, .fini = close_watched, .timeout = 60);
TestSuite(watch_seldom, .init = open_seldom, .fini = close_watched, .timeout = 60);

/* What the last update said is not served as it is now, "a:2"; with '*' where something of it serves on. */
static char failed[512];

static void note_failed(const Penstock__WorkerUpdate *update)
{
    size_t used = 0;
    failed[0] = '\0';
    cr_expect(update->failures_count == update->n_failures);
    for (size_t i = 0; i < update->n_failures && used < sizeof failed - 64; i++) {
        const Penstock__ModelFailure *failure = update->failures[i];
        cr_expect(failure->error[0] && failure->status != PEN_OK && failure->since_unix_us > 0);
        used += (size_t)snprintf(failed + used, sizeof failed - used, "%s%.20s:%d%s", i ? " " : "", failure->name,
                                 (int)failure->version, failure->serving ? "*" : "");
    }
}

/* The next WORKER_UPDATE, with the PING behind it answered: what it offers, "a:1 a:2". */
static const char *update(void)
{
    static char offers[512];
    size_t used = 0;
    play_expect(&play, FRAME_WORKER_UPDATE, &message);
    meta_arena_reset(&play.arena);
    const Penstock__WorkerUpdate *got =
        meta_unpack(&play.arena, &penstock__worker_update__descriptor, message.meta, message.env.meta_bytes);
    cr_assert_not_null(got);
    note_failed(got);
    offers[0] = '\0';
    for (size_t i = 0; i < got->n_models && used < sizeof offers - 64; i++) {
        cr_expect(got->models[i]->ready && got->models[i]->n_warm > 0, "it is warm when it is offered");
        used += (size_t)snprintf(offers + used, sizeof offers - used, "%s%.20s:%d", i ? " " : "", got->models[i]->name,
                                 (int)got->models[i]->version);
    }
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    return offers;
}

static void update_is(const char *offers)
{
    const char *got = update();
    cr_assert(strcmp(got, offers) == 0, "'%s' instead of '%s'; log:\n%s", got, offers, play_log(&play));
}

static void failed_is(const char *expected)
{
    cr_assert(strcmp(failed, expected) == 0, "'%s' instead of '%s'; log:\n%s", failed, expected, play_log(&play));
}

/* First both, then one is withdrawn; a machine that is busy elsewhere may hear of both changes at once. */
static void update_turns(const char *both, const char *last)
{
    const char *got = update();
    if (strcmp(got, last) == 0)
        return;
    cr_assert(strcmp(got, both) == 0, "'%s' instead of '%s'; log:\n%s", got, both, play_log(&play));
    update_is(last);
}

static void wait_log(const char *part)
{
    for (int i = 0; i < PLAY_WAIT_MS && !strstr(play_log(&play), part); i++)
        usleep(1000);
    cr_assert(strstr(play_log(&play), part), "'%s' is not in:\n%s", part, play_log(&play));
}

/* y for x = 2. */
static float answer(const char *model, uint64_t version, enum pen_status status)
{
    const float two[2] = {2, 2};
    struct play_result result;
    struct play_job job = {
        .sequence = 1,
        .model = model,
        .version = version,
        .input = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 2}, .data = two, .bytes = sizeof two}};
    play_submit(&play, &job, 1);
    play_results(&play, &result, 1);
    cr_assert(result.env.status == status, "%s: %s\n%s", pen_status_name(result.env.status), result.error,
              play_log(&play));
    return result.scores[0];
}

Test(watch, new_model_is_offered_warm)
{
    put("b", 1, "Abs");
    update_is("a:1 b:1");
    cr_expect(answer("b", 1, PEN_OK) == 2 && answer("a", 1, PEN_OK) == -2);
}

/* y = x + w of a TensorFlow.js model; w is the shard's one float. */
static void put_sum(float w)
{
    static const char topology[] = "{\"modelTopology\":{\"node\":["
                                   "{\"name\":\"x\",\"op\":\"Placeholder\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"},"
                                   "\"shape\":{\"shape\":{\"dim\":"
                                   "[{\"size\":\"1\"},{\"size\":\"2\"}]}}}},"
                                   "{\"name\":\"w\",\"op\":\"Const\",\"attr\":{\"dtype\":{\"type\":\"DT_FLOAT\"}}},"
                                   "{\"name\":\"y\",\"op\":\"AddV2\",\"input\":[\"x\",\"w\"]}]},"
                                   "\"weightsManifest\":[{\"paths\":[\"weights/"
                                   "w.bin\"],\"weights\":[{\"name\":\"w\",\"shape\":[1],\"dtype\":\"float32\"}]}]}";
    char folder[FOLDER_PATH_BYTES + 32], part[FOLDER_PATH_BYTES + 64], whole[FOLDER_PATH_BYTES + 64];
    snprintf(folder, sizeof folder, "%s/sum/1/weights", root);
    snprintf(part, sizeof part, "%s/part", folder);
    snprintf(whole, sizeof whole, "%s/w.bin", folder);
    folder_make(folder);
    file_write(part, &w, sizeof w);
    cr_assert(rename(part, whole) == 0);
    snprintf(whole, sizeof whole, "%s/sum/1/graph.json", root);
    if (access(whole, F_OK) != 0) /* only the shard changes the second time */
        put_text("sum/1/graph.json", topology);
}

Test(watch, model_with_shards_is_replaced_when_one_changes)
{
    put_sum(3);
    update_is("a:1 sum:1");
    cr_expect(answer("sum", 1, PEN_OK) == 5);
    put_sum(10);
    update_is("a:1 sum:1");
    cr_expect(answer("sum", 1, PEN_OK) == 12);
    put("sum", 1, "Neg"); /* an ONNX file beside it: which one is meant? */
    wait_log("holds two models, graph.json and model.onnx");
    update_is("a:1 sum:1");
    failed_is("sum:1*");
    cr_expect(answer("sum", 1, PEN_OK) == 12, "what serves goes on");
}

Test(watch_seldom, new_version_takes_over_and_the_old_one_leaves_when_nobody_asks)
{
    put("a", 2, "Abs");
    update_is("a:1 a:2");
    cr_expect(answer("a", 1, PEN_OK) == -2, "the broker may still have jobs for it");
    cr_expect(answer("a", 0, PEN_OK) == 2);
    update_is("a:2");
    wait_log("evt=model_unloaded model=a version=1 models=1");
    answer("a", 1, PEN_ERR_NOT_FOUND);
    cr_expect(answer("a", 2, PEN_OK) == 2);
}

Test(watch, jobs_of_a_withdrawn_version_that_crossed_on_the_way_are_run)
{
    drop("a");
    play_expect(&play, FRAME_WORKER_UPDATE, &message);
    play_expect(&play, FRAME_PING, &message);
    usleep(300000); /* the PONG is late: it must wait for what is on its way */
    cr_expect(!strstr(play_log(&play), "evt=model_unloaded"), "%s", play_log(&play));
    cr_expect(answer("a", 1, PEN_OK) == -2);
    play_send_type(&play, FRAME_PONG);
    wait_log("evt=model_unloaded model=a version=1 models=0 sessions=0");
    answer("a", 1, PEN_ERR_NOT_FOUND);
}

Test(watch, broken_version_leaves_the_old_one_serving_and_says_why_once)
{
    char folder[FOLDER_PATH_BYTES + 16];
    snprintf(folder, sizeof folder, "%s/a/2", root);
    folder_make(folder);
    put_text("a/2/model.onnx", "nonsense");
    wait_log("evt=model_failed model=a version=2");
    update_is("a:1");
    failed_is("a:2");
    usleep(400000);
    const char *first = strstr(play_log(&play), "evt=model_failed");
    cr_expect(first && !strstr(first + 1, "evt=model_failed"), "%s", play_log(&play));
    cr_expect(answer("a", 1, PEN_OK) == -2 && answer("a", 0, PEN_OK) == -2);
    put("a", 2, "Abs"); /* mended */
    update_turns("a:1 a:2", "a:2");
    failed_is("");
}

Test(watch, wrong_config_leaves_all_of_the_model_serving)
{
    put_text("a/config.json", "{\"max_bach_size\":4}");
    wait_log("did you mean 'max_batch_size'?");
    update_is("a:1");
    failed_is("a:0*");
    put("a", 2, "Abs");
    usleep(300000);
    cr_expect(answer("a", 0, PEN_OK) == -2);
    put_text("a/config.json", "{\"max_batch_size\":4}");
    const char *offers = update(); /* it is well again; what it says is loaded a look later */
    if (strcmp(offers, "a:1") == 0)
        update_turns("a:1 a:2", "a:2");
    else if (strcmp(offers, "a:2") != 0)
        update_is("a:2");
    failed_is("");
    const char *log = play_log(&play), *first = strstr(log, "did you mean");
    cr_expect(first && !strstr(first + 1, "did you mean"), "said once:\n%s", log);
}

Test(watch, other_content_of_a_version_takes_its_place)
{
    put("a", 1, "Abs");
    update_is("a:1");
    cr_expect(answer("a", 1, PEN_OK) == 2);
    wait_log("evt=model_unloaded model=a version=1 models=1");
}

Test(watch, going_back_is_possible_at_any_moment)
{
    put("a", 2, "Abs");
    update_is("a:1 a:2");
    drop("a/2");     /* while version 1 is still on its way out */
    int updates = 1; /* it may have been withdrawn by then: it is offered again */
    while (strcmp(update(), "a:1") != 0)
        cr_assert(++updates < 5, "%s", play_log(&play));
    cr_expect(answer("a", 0, PEN_OK) == -2);
}

Test(watch, memory_is_flat_over_many_versions)
{
    for (int version = 2; version < 22; version++) {
        char old[32], offers[32], both[32];
        put("a", version, version % 2 ? "Neg" : "Abs");
        snprintf(both, sizeof both, "a:%d a:%d", version - 1, version);
        snprintf(offers, sizeof offers, "a:%d", version);
        update_turns(both, offers);
        snprintf(old, sizeof old, "a/%d", version - 1);
        snprintf(offers, sizeof offers, "version=%d models=1 sessions=1", version - 1);
        wait_log(offers);
        drop(old);
    }
}

Test(watch, lost_folder_changes_nothing)
{
    char away[FOLDER_PATH_BYTES + 8];
    snprintf(away, sizeof away, "%s.away", root);
    cr_assert(rename(root, away) == 0);
    wait_log("evt=folder_lost");
    cr_expect(answer("a", 1, PEN_OK) == -2);
    cr_assert(rename(away, root) == 0);
    put("b", 1, "Abs");
    update_is("a:1 b:1");
}

Test(watch, update_that_a_lost_connection_swallowed_is_in_the_next_hello)
{
    play_send_welcome(&play, PEN_OK, NULL, 50000, 200000, 0); /* and then silence */
    put("b", 1, "Abs");
    for (;;) {
        Penstock__WorkerHello *hello;
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS));
        if (message.env.type != FRAME_WORKER_HELLO)
            continue;
        meta_arena_reset(&play.arena);
        hello = meta_unpack(&play.arena, &penstock__worker_hello__descriptor, message.meta, message.env.meta_bytes);
        if (hello->n_models == 2)
            break;
    }
    play_send_welcome(&play, PEN_OK, NULL, 50000, 30000000, 0);
    cr_expect(answer("b", 1, PEN_OK) == 2);
}
