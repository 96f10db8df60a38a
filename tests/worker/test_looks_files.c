/* What lies in a folder of models beside files: pipes, and links that lead out of it. Nothing of that may stop a worker, or be read. */
#include "looks.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play_broker.h"

/* Whoever waits for a pipe runs into the limit. */
TestSuite(looks_files, .init = looks_setup, .fini = looks_teardown, .timeout = 30);
TestSuite(files, .timeout = 60);

static void pipe_at(const char *path)
{
    unlink(looks_at(path));
    cr_assert(mkfifo(looks_at(path), 0600) == 0);
}

static void link_at(const char *path, const char *target)
{
    unlink(looks_at(path));
    cr_assert(symlink(target, looks_at(path)) == 0);
}

/* It is told, what serves goes on, and the folder mended is taken. */
static void refused(const char *path, const char *part)
{
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    LOGGED_ONCE(part);
    looks_offers_are("a:1");
    unlink(looks_at(path));
}

Test(looks_files, a_pipe_as_config_is_told_and_stops_no_look)
{
    looks_start();
    pipe_at("a/config.json");
    refused("a/config.json", "a/config.json is not a regular file");
    looks_put_text("a/config.json", "{\"max_batch_size\": 3}");
    cr_expect(!looks_again() && looks_again());
    cr_expect_eq(catalog_find(&looks_catalog, "a", 1)->max_batch_size, 3);
}

Test(looks_files, a_pipe_as_labels_is_told_and_stops_no_look)
{
    looks_start();
    pipe_at("a/names.txt");
    looks_put_text("a/config.json", "{\"output\": {\"labels_file\": \"names.txt\"}}");
    refused("a/names.txt", "a/names.txt is not a regular file");
}

Test(looks_files, a_pipe_as_state_of_a_sequence_is_told_and_stops_no_look)
{
    looks_start();
    pipe_at("a/zero.bin");
    looks_put_text("a/config.json",
                   "{\"max_batch_size\": 0, \"sequence_batching\": {\"state\": [{\"input_name\": \"x\", "
                   "\"output_name\": \"y\", \"data_type\": \"TYPE_FP32\", \"dims\": [1, 2], "
                   "\"initial_state\": [{\"data_file\": \"zero.bin\"}]}]}}");
    refused("a/zero.bin", "a/zero.bin is not a regular file");
}

Test(looks_files, a_pipe_as_model_is_told_and_stops_no_look)
{
    static const char *const files[] = {"a/2/model.onnx", "a/3/model.json", "a/4/model.tflite"};
    looks_start();
    for (size_t i = 0; i < 3; i++) {
        char part[64];
        snprintf(part, sizeof part, "a/%zu", i + 2);
        folder_make(looks_at(part));
        pipe_at(files[i]);
        snprintf(part, sizeof part, "%s is not a regular file", files[i]);
        refused(files[i], part);
    }
    looks_put("a/2", "Abs");
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("(a:1) a:2");
}

Test(looks_files, labels_behind_a_link_out_of_the_folder_are_not_told_to_clients)
{
    looks_start();
    folder_make(looks_at(".secret"));
    looks_put_text(".secret/names.txt", "the key\n");
    link_at("a/names.txt", "../.secret/names.txt");
    looks_put_text("a/config.json", "{\"output\": {\"labels_file\": \"names.txt\"}}");
    refused("a/names.txt", "a/names.txt leads out of the model's folder");
    link_at("a/names.txt", looks_at(".secret/names.txt"));
    cr_expect(!looks_again() && !looks_again());
    cr_expect_eq(catalog_find(&looks_catalog, "a", 1)->config.labels_count, 0);
}

Test(looks_files, a_model_or_config_behind_a_link_out_of_the_folder_is_refused)
{
    looks_start();
    looks_put(".secret", "Abs");
    looks_put_text(".secret/config.json", "{\"max_batch_size\": 3}");
    folder_make(looks_at("a/2"));
    link_at("a/2/model.onnx", "../../.secret/model.onnx");
    refused("a/2/model.onnx", "a/2/model.onnx leads out of the model's folder");
    link_at("a/config.json", "../.secret/config.json");
    refused("a/config.json", "a/config.json leads out of the model's folder");
    link_at("a/config.json", "nowhere");
    refused("a/config.json", "a/config.json: it is a link that leads nowhere");
}

/* Kubernetes: files are links to ..data, which is one to a folder that is exchanged as a whole. */
Test(looks_files, a_folder_as_kubernetes_fills_it_is_served_and_followed)
{
    folder_free(looks_at("a"));
    looks_put("a/..one/1", "Neg");
    looks_put_text("a/..one/config.json", "{\"output\": {\"labels_file\": \"names.txt\"}}");
    looks_put_text("a/..one/names.txt", "left\n");
    looks_put("a/..two/1", "Abs");
    looks_put_text("a/..two/config.json", "{\"max_batch_size\": 3}");
    link_at("a/..data", "..one");
    link_at("a/config.json", "..data/config.json");
    link_at("a/names.txt", "..data/names.txt");
    folder_make(looks_at("a/1"));
    link_at("a/1/model.onnx", "../..data/1/model.onnx");
    looks_start();
    looks_offers_are("a:1");
    cr_assert_eq(catalog_find(&looks_catalog, "a", 1)->config.labels_count, 1);
    cr_expect(!looks_again());
    cr_assert(symlink("..two", looks_at("a/..next")) == 0 && rename(looks_at("a/..next"), looks_at("a/..data")) == 0);
    cr_expect(!looks_again() && looks_again());
    cr_expect_eq(catalog_find(&looks_catalog, "a", 1)->max_batch_size, 3);
}

/* The program itself: it serves what is sound, and hears SIGTERM, at the start and while it looks. */
Test(files, pipes_in_a_folder_neither_stop_the_start_nor_the_end_of_a_worker)
{
    struct play play;
    struct play_message message;
    const char *const arguments[] = {"--models", looks_root, "--backend", "reference", "--slots",
                                     "1",        "--watch",  "50ms",      NULL};
    memset(&play, 0, sizeof play);
    memset(&message, 0, sizeof message);
    folder_new(looks_root);
    looks_put("a/1", "Neg");
    looks_put("b/1", "Neg");
    folder_make(looks_at("c/1"));
    pipe_at("b/config.json");
    pipe_at("c/1/model.onnx");
    play_open(&play);
    play_start(&play, arguments);
    Penstock__WorkerHello *hello = play_serve(&play, &message);
    cr_assert(hello->n_models == 1, "%s", play_log(&play));
    pipe_at("a/config.json");
    cr_assert(play_logged(&play, "a/config.json is not a regular file"), "%s", play_log(&play));
    kill(play.pid, SIGTERM);
    do /* what was refused is told in an update, before or after */
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS), "%s", play_log(&play));
    while (message.env.type != FRAME_DRAIN);
    play_expect(&play, FRAME_PING, &message);
    play_send_type(&play, FRAME_PONG);
    cr_expect_eq(play_exit_code(&play, PLAY_WAIT_MS), 0, "%s", play_log(&play));
    play_message_fini(&message);
    play_close(&play);
    folder_free(looks_root);
}
