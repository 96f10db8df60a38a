/*
 * Texts that say how a model is served, what comes after it, and the queues between the worker's threads are made while their first allocation fails, then their
 * second, and so on: each says NO_MEMORY with a sentence, or is what it should be, and loses no memory (sanitizers look). The linker leads allocations through lean.c.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "config.h"
#include "folder.h"
#include "handoff.h"
#include "lean.h"
#include "outbox.h"

enum { TRIES = 2000, BOXES = 900 };

static struct pen_error error;
static char folder[FOLDER_PATH_BYTES];

/* life: OK when the part was made and is what it should be. */
static void try_each(const char *name, enum pen_status (*life)(const char *text), const char *text)
{
    for (unsigned long k = 1; k < TRIES; k++) {
        unsigned long failed = lean_failed();
        error = (struct pen_error){.status = PEN_OK};
        lean_watch(true);
        lean_fail_kth(k);
        enum pen_status status = life(text);
        lean_watch(false);
        lean_fail_none();
        if (lean_failed() == failed) {
            cr_expect(status == PEN_OK && k > 1, "%s: %s", name, error.text);
            return;
        }
        cr_expect(status == PEN_OK || (status == PEN_ERR_NO_MEMORY && strlen(error.text) > 10),
                  "%s, allocation %lu: %s '%s'", name, k, pen_status_name(status), error.text);
    }
    cr_expect_fail("%s allocates without end", name);
}

/* ---- config.json and config.pbtxt ---- */

static enum pen_status read_json(const char *text)
{
    struct config config;
    config_init(&config);
    enum pen_status status = config_parse(text, strlen(text), &config, &error);
    cr_expect(status != PEN_OK || config.present);
    config_fini(&config);
    return status;
}

static enum pen_status read_pbtxt(const char *text)
{
    struct config config;
    config_init(&config);
    enum pen_status status = config_parse_pbtxt(text, strlen(text), &config, &error);
    cr_expect(status != PEN_OK || config.pbtxt);
    config_fini(&config);
    return status;
}

static enum pen_status read_folder(const char *unused)
{
    struct config config;
    (void)unused;
    config_init(&config);
    enum pen_status status = config_load(&(struct config_place){folder, NULL}, &config, &error);
    cr_expect(status != PEN_OK || (config.labels_count == 2 && strcmp(config.labels[1], "dog") == 0 && config.stamp));
    config_fini(&config);
    return status;
}

Test(beginnings, a_config_is_read_whole_or_not_at_all, .timeout = 120)
{
    try_each("of a model", read_json,
             "{\"max_batch_size\":8,\"dynamic_batching\":{\"priority_levels\":2,\"priority_queue_policy\":{\"1\":{"
             "\"max_queue_size\":3}}},\"version_labels\":{\"stable\":1,\"canary\":{\"version\":2,\"share\":0.05}},"
             "\"model_warmup\":[{\"batch_size\":2,\"inputs\":{\"x\":{\"dims\":[4]}}}],\"input\":{\"preprocess\":{"
             "\"input\":\"x\",\"height\":8,\"width\":9,\"channels\":3}},\"output\":{\"labels\":[\"cat\",\"dog\"]}}");
    try_each("of pictures", read_json,
             "{\"picture\":{\"input\":\"x\",\"steps\":[{\"crop\":{\"width\":4,\"height\":5}}]},\"answer\":{\"steps\":[{"
             "\"top_k\":{\"output\":\"y\"}}]}}");
    try_each("of sequences", read_json,
             "{\"sequence_batching\":{\"state\":[{\"input_name\":\"h\",\"output_name\":\"hn\"},{\"input_name\":\"c\","
             "\"output_name\":\"cn\"}]}}");
    try_each("of a measure", read_json,
             "{\"precision\":\"max_relative_error=1e-2\",\"calibration\":{\"sets\":[{\"x\":\"x1.npy\"},{\"x\":\"x2.npy"
             "\"}],\"ranges\":{\"x\":[-1,3]}}}");
    try_each(
        "of an ensemble", read_json,
        "{\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],\"output\":[{\"name\":\"z\","
        "\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],\"ensemble_scheduling\":{\"step\":[{\"model_name\":\"m\","
        "\"input_map\":{\"x\":\"a\"},\"output_map\":{\"y\":\"b\",\"w\":\"c\"}},{\"model_name\":\"n\",\"input_map\":"
        "{\"x\":\"b\",\"v\":\"c\"},\"output_map\":{\"y\":\"z\"}}]}}");
    try_each("of Triton", read_pbtxt,
             "name: \"m\" max_batch_size: 32 input [{ name: \"x\" data_type: TYPE_FP16 dims: [3, -1] }]\n"
             "output { name: \"y\" data_type: TYPE_FP32 dims: 10 label_filename: \"names.txt\" }\n"
             "dynamic_batching { preferred_batch_size: [4, 8] priority_levels: 3\n"
             "  priority_queue_policy { key: 1 value { default_timeout_microseconds: 9 } } }\n"
             "instance_group [{ count: 2 kind: KIND_CPU }] version_policy: { specific { versions: [1, 3] } }\n"
             "model_warmup { name: \"w\" batch_size: 8 inputs { key: \"x\" value: { dims: [3, 5] } } }\n"
             "parameters { key: \"a\" value { string_value: \"b\" } } nonsense: 3");
}

Test(beginnings, a_config_and_its_labels_are_loaded_whole_or_not_at_all, .timeout = 120)
{
    char path[FOLDER_PATH_BYTES + 16];
    static const char json[] = "{\"max_batch_size\":4,\"output\":{\"labels_file\":\"names.txt\"}}";
    static const char pbtxt[] = "max_batch_size: 4 output { name: \"y\" data_type: TYPE_FP32 dims: 2 label_filename: "
                                "\"names.txt\" }";
    folder_new(folder);
    snprintf(path, sizeof path, "%s/names.txt", folder);
    file_write(path, "cat\ndog\n", 8);
    snprintf(path, sizeof path, "%s/config.json", folder);
    file_write(path, json, sizeof json - 1);
    try_each("config.json with labels", read_folder, NULL);
    cr_assert_eq(unlink(path), 0);
    snprintf(path, sizeof path, "%s/config.pbtxt", folder);
    file_write(path, pbtxt, sizeof pbtxt - 1);
    try_each("config.pbtxt with labels", read_folder, NULL);
    folder_free(folder);
}

/* ---- answers ---- */

/* Boxes of 1 x 1 at (i, i), the better the later. */
static enum pen_status answer_whole(const char *text)
{
    static float boxes[BOXES][4], scores[BOXES], mask[64], points[BOXES][128];
    const struct pen_tensor given[] = {
        {.name = "b", .dtype = PEN_DTYPE_F32, .rank = 3, .dims = {1, BOXES, 4}, .data = boxes, .bytes = sizeof boxes},
        {.name = "s", .dtype = PEN_DTYPE_F32, .rank = 3, .dims = {1, BOXES, 1}, .data = scores, .bytes = sizeof scores},
        {.name = "m", .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 8, 8, 1}, .data = mask, .bytes = sizeof mask},
        {.name = "p",
         .dtype = PEN_DTYPE_F32,
         .rank = 3,
         .dims = {1, BOXES, 128},
         .data = points,
         .bytes = sizeof points}};
    const struct classes_quant quants[4] = {{.known = false}};
    const struct answer_model model = {
        .outputs = given, .outputs_count = 4, .quants = quants, .height = 64, .width = 64, .batched = true};
    const struct answer_job job = {.outputs = given, .count = 4, .rows = 1};
    struct pen_tensor results[ANSWER_OUTPUTS_MAX];
    struct answer *answer = NULL;
    struct answer_work *work = answer_work_new();
    for (size_t i = 0; i < BOXES; i++) {
        memcpy(boxes[i], (const float[]){(float)i, (float)i, (float)i + 1, (float)i + 1}, sizeof boxes[i]);
        scores[i] = 0.5f + (float)i / 2000;
    }
    enum pen_status status =
        work ? answer_new(text, &model, &answer, &error)
             : pen_error_set(&error, PEN_ERR_NO_MEMORY, "the caller says that there is no memory for answers");
    if (status == PEN_OK)
        status = answer_run(answer, work, &job, results, &error);
    cr_expect(status != PEN_OK || results[0].dtype == PEN_DTYPE_STRING || *(const int32_t *)results[0].data == BOXES,
              "%s", text);
    answer_free(answer);
    answer_work_free(work);
    return status;
}

Test(beginnings, an_answer_is_whole_or_none, .timeout = 120)
{
    try_each("objects", answer_whole, "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\"}}]}");
    try_each("objects with many points", answer_whole,
             "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\",\"points\":\"p\",\"points_at\":0,\"points_"
             "count\":64,\"candidates\":16384}}]}");
    try_each("objects beside each other", answer_whole,
             "{\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\"}},{\"nms\":{\"iou\":0.5,\"max\":900}}]}");
    try_each("objects and a mask as JSON", answer_whole,
             "{\"format\":\"json\",\"steps\":[{\"boxes\":{\"boxes\":\"b\",\"scores\":\"s\"}},{\"nms\":{\"iou\":0.5}},{"
             "\"mask\":{\"output\":\"m\",\"form\":\"threshold\"}}]}");
}

/* ---- queues ---- */

static enum pen_status none_of(const char *what)
{
    return pen_error_set(&error, PEN_ERR_NO_MEMORY, "no memory for %s", what);
}

static enum pen_status queues(const char *unused)
{
    struct handoff *handoff = handoff_new(0);
    struct outbox *outbox = handoff ? outbox_new() : NULL;
    struct inbox *inbox = outbox ? inbox_new() : NULL;
    struct reply *reply = inbox ? reply_new(2, 4) : NULL;
    (void)unused;
    if (reply) {
        outbox_push(outbox, reply);
        cr_expect(outbox_take_all(outbox) == reply && !outbox_take_all(outbox));
    }
    enum pen_status status = reply ? PEN_OK : none_of("the queues of a worker");
    reply_free(reply);
    inbox_free(inbox);
    outbox_free(outbox);
    handoff_free(handoff);
    return status;
}

Test(beginnings, queues_are_whole_or_none)
{
    try_each("queues", queues, NULL);
}
