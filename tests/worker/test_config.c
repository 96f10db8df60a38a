/* config.json: what is read, and the sentence for each thing that cannot be. */
#include "config_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char whole[] =
    "{\"name\":\"digits\",\"signature\":\"decode+variables\",\"platform\":\"onnx\",\"max_batch_size\":16,\"dynamic_"
    "batching\":{\"preferred_batch_size\":["
    "4,8],"
    "\"max_queue_delay_microseconds\":500,\"priority_levels\":3,\"default_priority_level\":2,\"default_queue_policy\":{"
    "\"timeout_action\":\"REJECT\",\"default_timeout_microseconds\":7000,\"allow_timeout_override\":true,"
    "\"max_queue_size\":99}},\"instance_group\":[{\"count\":2,\"kind\":\"KIND_CPU\"}],\"version_policy\":{\"specific\":"
    "{"
    "\"versions\":[1,3]}},\"model_warmup\":[{\"batch_size\":1,\"inputs\":{\"image\":{\"dims\":[1,8,8]}}},{\"batch_"
    "size\":4}],"
    "\"response_cache\":{\"enable\":false},\"input\":{\"preprocess\":{\"input\":\"image\",\"layout\":\"NHWC\","
    "\"channels\":3,"
    "\"height\":8,\"width\":9,\"order\":\"BGR\",\"resize\":\"bilinear\",\"fit\":\"stretch\",\"invert\":true,"
    "\"mean\":[1,2,3],\"scale\":[0.5]}},\"output\":{\"labels\":[\"zero\",\"one\"],\"softmax\":true}}";

Test(config, every_key_is_read)
{
    struct config c;
    struct pen_error error;
    cr_assert(config_text_parse(whole, &c, &error) == PEN_OK, "%s", error.text);
    cr_expect(c.present && c.batch_given && c.max_batch_size == 16);
    cr_expect_str_eq(c.signature, "decode+variables");
    cr_expect(c.preferred_count == 2 && c.preferred[0] == 4 && c.preferred[1] == 8);
    cr_expect(c.max_queue_delay_us == 500 && c.priority_levels == 3 && c.default_priority_level == 2);
    cr_expect(c.queue_policy.default_timeout_us == 7000 && c.queue_policy.max_queue_size == 99);
    cr_expect(c.instance_count == 2 && c.instance_kind == CONFIG_KIND_CPU);
    cr_expect(c.policy == CONFIG_SPECIFIC && c.policy_count == 2 && c.policy_versions[1] == 3);
    cr_expect(c.warmups_count == 2 && c.warmups[0].inputs_count == 1 && c.warmups[0].inputs[0].rank == 3);
    cr_expect(strcmp(c.warmups[0].inputs[0].name, "image") == 0 && c.warmups[0].inputs[0].dims[1] == 8);
    cr_expect(c.warmups[1].batch_size == 4 && c.warmups[1].inputs_count == 0);
    cr_expect(!c.cache_enable && c.softmax && c.labels_count == 2 && strcmp(c.labels[1], "one") == 0);
    const struct config_preprocess *p = &c.preprocess;
    cr_expect(p->present && p->nhwc && p->bgr && p->invert && p->channels == 3 && p->height == 8 && p->width == 9);
    cr_expect(p->mean_count == 3 && p->mean[2] == 3.0f && p->scale_count == 1 && p->scale[0] == 0.5f);
    cr_expect(strstr(p->text, "\"resize\":\"bilinear\"") && p->text[0] == '{', "%s", p->text);
    config_fini(&c);
}

Test(config, empty_object_gives_the_defaults)
{
    struct config c;
    struct pen_error error;
    cr_assert(config_text_parse("{}", &c, &error) == PEN_OK, "%s", error.text);
    cr_expect(c.present && !c.batch_given && c.max_batch_size == 0 && c.cache_enable && !c.preprocess.present);
    cr_expect(c.policy == CONFIG_LATEST && c.policy_latest == 1 && c.instance_count == 0);
    config_fini(&c);
}

Test(config, unknown_keys_are_errors_with_the_nearest_name)
{
    config_text_refuses("{\"max_batch\":4}", PEN_ERR_INVALID, "did you mean 'max_batch_size'?");
    config_text_refuses("{\"max_batch_sise\":4}", PEN_ERR_INVALID, "unknown key 'max_batch_sise' in the top level");
    config_text_refuses("{\"dynamic_batching\":{\"prefered_batch_size\":[1]}}", PEN_ERR_INVALID,
                        "in dynamic_batching: did you mean 'preferred_batch_size'?");
    config_text_refuses("{\"input\":{\"preprocess\":{\"meen\":[0]}}}", PEN_ERR_INVALID,
                        "in input.preprocess: did you mean 'mean'?");
    config_text_refuses("{\"output\":{\"zzzzzzzzzz\":1}}", PEN_ERR_INVALID, "unknown key 'zzzzzzzzzz' in output");
    config_text_refuses("{\"softmax\":true,\"\":1}", PEN_ERR_INVALID, "unknown key 'softmax'");
    config_text_refuses("{\"max_batch_size\":1,\"max_batch_size\":2}", PEN_ERR_INVALID,
                        "max_batch_size is given twice");
}

Test(config, wrong_values_name_their_path)
{
    config_text_refuses("[1]", PEN_ERR_INVALID, "the document must be an object");
    config_text_refuses("{\"max_batch_size\":", PEN_ERR_INVALID, "not JSON");
    config_text_refuses("", PEN_ERR_INVALID, "not JSON");
    config_text_refuses("{\"platform\":\"tensorflow\"}", PEN_ERR_INVALID, "platform must be one of onnx");
    config_text_refuses("{\"max_batch_size\":-1}", PEN_ERR_INVALID,
                        "max_batch_size must be a whole number from 0 to 1024");
    config_text_refuses("{\"max_batch_size\":1.5}", PEN_ERR_INVALID, "max_batch_size must be a whole number");
    config_text_refuses("{\"max_batch_size\":1e300}", PEN_ERR_INVALID, "max_batch_size must be a whole number");
    config_text_refuses("{\"max_batch_size\":\"8\"}", PEN_ERR_INVALID, "max_batch_size must be a whole number");
    config_text_refuses("{\"dynamic_batching\":[]}", PEN_ERR_INVALID, "dynamic_batching must be an object");
    config_text_refuses("{\"dynamic_batching\":{\"preferred_batch_size\":4}}", PEN_ERR_INVALID,
                        "preferred_batch_size must be an array");
    config_text_refuses("{\"dynamic_batching\":{\"preferred_batch_size\":[0]}}", PEN_ERR_INVALID, "from 1 to 1024");
    config_text_refuses("{\"dynamic_batching\":{\"preferred_batch_size\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}",
                        PEN_ERR_TOO_LARGE, "17 entries, at most 16");
    config_text_refuses("{\"dynamic_batching\":{\"max_queue_delay_microseconds\":86400000001}}", PEN_ERR_INVALID,
                        "dynamic_batching.max_queue_delay_microseconds");
    config_text_refuses("{\"dynamic_batching\":{\"priority_levels\":256}}", PEN_ERR_INVALID, "priority_levels");
    config_text_refuses("{\"dynamic_batching\":{\"default_priority_level\":1}}", PEN_ERR_INVALID,
                        "above priority_levels 0");
    config_text_refuses("{\"instance_group\":[{\"count\":0}]}", PEN_ERR_INVALID, "instance_group.count");
    config_text_refuses("{\"instance_group\":[{\"kind\":\"KIND_TPU\"}]}", PEN_ERR_INVALID,
                        "KIND_AUTO|KIND_CPU|KIND_GPU");
    config_text_refuses("{\"instance_group\":[{},{}]}", PEN_ERR_TOO_LARGE, "instance_group has 2 entries");
    config_text_refuses("{\"version_policy\":{}}", PEN_ERR_INVALID, "exactly one of latest, all, specific");
    config_text_refuses("{\"version_policy\":{\"all\":{},\"latest\":{}}}", PEN_ERR_INVALID, "exactly one");
    config_text_refuses("{\"version_policy\":{\"specific\":{}}}", PEN_ERR_INVALID,
                        "version_policy.specific needs versions");
    config_text_refuses("{\"version_policy\":{\"specific\":{\"versions\":[]}}}", PEN_ERR_INVALID,
                        "at least one version");
    config_text_refuses("{\"version_policy\":{\"latest\":{\"num_versions\":0}}}", PEN_ERR_INVALID, "num_versions");
    config_text_refuses("{\"response_cache\":{\"enable\":1}}", PEN_ERR_INVALID,
                        "response_cache.enable must be true or false");
    config_text_refuses("{\"model_warmup\":[{\"batch_size\":2}]}", PEN_ERR_INVALID,
                        "batch_size 2 is above max_batch_size 0");
    config_text_refuses("{\"input\":{\"preprocess\":{\"normalisation\":\"file\"}}}", PEN_ERR_INVALID, "config|model");
    config_text_refuses("{\"input\":{\"preprocess\":{\"normalisation\":\"model\",\"mean\":[1]}}}", PEN_ERR_INVALID,
                        "leave one of them out");
    config_text_refuses("{\"model_warmup\":[{\"inputs\":[]}]}", PEN_ERR_INVALID,
                        "model_warmup.inputs must be an object");
    config_text_refuses("{\"model_warmup\":[{\"inputs\":{\"x\":{\"dims\":[0]}}}]}", PEN_ERR_INVALID,
                        "model_warmup.inputs.x.dims");
    config_text_refuses("{\"max_batch_size\":2,\"dynamic_batching\":{\"preferred_batch_size\":[4]}}", PEN_ERR_INVALID,
                        "preferred_batch_size 4 is above max_batch_size 2");
}

Test(config, preprocess_and_labels_are_checked)
{
    config_text_refuses("{\"input\":{\"preprocess\":{\"layout\":\"CHW\"}}}", PEN_ERR_INVALID,
                        "layout must be one of NCHW|NHWC");
    config_text_refuses("{\"input\":{\"preprocess\":{\"order\":\"GBR\"}}}", PEN_ERR_INVALID,
                        "order must be one of RGB|BGR");
    config_text_refuses("{\"input\":{\"preprocess\":{\"channels\":5}}}", PEN_ERR_INVALID,
                        "channels must be a whole number from 1 to 4");
    config_text_refuses("{\"input\":{\"preprocess\":{\"height\":0}}}", PEN_ERR_INVALID, "height");
    config_text_refuses("{\"input\":{\"preprocess\":{\"width\":65536}}}", PEN_ERR_INVALID, "width");
    config_text_refuses("{\"input\":{\"preprocess\":{\"resize\":\"magic\"}}}", PEN_ERR_INVALID,
                        "resize must be one of");
    config_text_refuses("{\"input\":{\"preprocess\":{\"fit\":\"magic\"}}}", PEN_ERR_INVALID, "fit must be one of");
    config_text_refuses("{\"input\":{\"preprocess\":{\"invert\":\"no\"}}}", PEN_ERR_INVALID,
                        "invert must be true or false");
    config_text_refuses("{\"input\":{\"preprocess\":{\"mean\":[]}}}", PEN_ERR_INVALID, "mean must have 1 to 4 numbers");
    config_text_refuses("{\"input\":{\"preprocess\":{\"scale\":[1e39]}}}", PEN_ERR_INVALID,
                        "scale[0] must be a finite number");
    config_text_refuses("{\"input\":{\"preprocess\":{\"scale\":[\"1\"]}}}", PEN_ERR_INVALID, "scale[0]");
    config_text_refuses("{\"input\":{\"preprocess\":{\"input\":\"\"}}}", PEN_ERR_INVALID,
                        "input must be a text of 1 to 255 bytes");
    config_text_refuses("{\"output\":{\"labels\":[1]}}", PEN_ERR_INVALID, "output.labels must be a text");
    config_text_refuses("{\"output\":{\"labels\":[\"a\"],\"labels_file\":\"b\"}}", PEN_ERR_INVALID, "keep one");
    config_text_refuses("{\"output\":{\"labels_file\":\"../b\"}}", PEN_ERR_INVALID, "without a '/'");
}

Test(config, what_is_not_honoured_is_refused)
{
    config_text_refuses("{\"dynamic_batching\":{\"default_queue_policy\":{\"timeout_action\":\"LATER\"}}}",
                        PEN_ERR_INVALID, "timeout_action");
}

Test(config, deep_nesting_is_an_error_and_no_crash)
{
    char *text = malloc(200001);
    cr_assert_not_null(text);
    memset(text, '[', 200000);
    text[200000] = '\0';
    config_text_refuses(text, PEN_ERR_INVALID, "not JSON");
    free(text);
}

Test(config, labels_are_lines)
{
    struct config c;
    struct pen_error error = {0};
    const char text[] = "cat\r\nbig dog\n\nlast\n\n";
    config_init(&c);
    cr_assert(config_labels_parse(text, sizeof text - 1, &c, &error) == PEN_OK);
    cr_expect(c.labels_count == 4, "%zu", c.labels_count);
    cr_expect(strcmp(c.labels[0], "cat") == 0 && strcmp(c.labels[1], "big dog") == 0 && c.labels[2][0] == '\0');
    config_fini(&c);
}

/* What power cuts and half-done copies leave, each behind a text that alone would be right. */
Test(config, damaged_files_are_refused)
{
    struct config c;
    struct pen_error error = {0};
    static const struct {
        const char *text;
        size_t bytes;
        const char *says;
    } cases[] = {{"\0\0\0\0", 4, "byte 0 is 0"},
                 {"{}\n\0\0\0", 6, "byte 3 is 0"},
                 {"{\"max_batch_size\":4}}", 21, "something follows at byte 20"},
                 {"{\"max_batch_size\":", 18, "not JSON"},
                 {"", 0, "not JSON"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config_init(&c);
        cr_expect_eq(config_parse(cases[i].text, cases[i].bytes, &c, &error), PEN_ERR_INVALID, "%zu", i);
        cr_expect_not_null(strstr(error.text, cases[i].says), "%zu: %s", i, error.text);
        config_fini(&c);
    }
    config_init(&c);
    cr_expect_eq(config_parse("{} \r\n", 5, &c, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(config_labels_parse("cat\n\0\0\n", 7, &c, &error), PEN_ERR_INVALID);
    cr_expect_not_null(strstr(error.text, "is 0"), "%s", error.text);
    config_fini(&c);
}

static void file_write(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void file_remove(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

Test(config, file_and_its_labels_file_are_read)
{
    struct config c;
    struct pen_error error = {0};
    char folder[] = "/tmp/penstock-config-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    config_init(&c);
    cr_expect(config_load(&(struct config_place){folder, NULL}, &c, &error) == PEN_OK && !c.present,
              "no file is no error");
    file_write(folder, "config.json", "{\"output\":{\"labels_file\":\"names.txt\"}}");
    cr_expect(config_load(&(struct config_place){folder, NULL}, &c, &error) == PEN_ERR_NOT_FOUND &&
                  strstr(error.text, "names.txt"),
              "%s", error.text);
    config_fini(&c);
    file_write(folder, "names.txt", "a\nb\n");
    cr_expect(config_load(&(struct config_place){folder, NULL}, &c, &error) == PEN_OK && c.labels_count == 2);
    config_fini(&c);
    file_write(folder, "config.json", "{\"outputs\":{}}");
    cr_expect(config_load(&(struct config_place){folder, NULL}, &c, &error) == PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "/config.json: unknown key 'outputs'"), "%s", error.text);
    config_fini(&c);
    file_remove(folder, "names.txt");
    file_remove(folder, "config.json");
    rmdir(folder);
}

#define ENSEMBLE(steps)                                                                                                \
    "{\"platform\":\"ensemble\",\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_FP32\",\"dims\":[4]}],\"output\":[{"   \
    "\"name\":\"z\",\"data_type\":\"TYPE_INT64\",\"dims\":[-1,2]}],\"ensemble_scheduling\":{\"step\":[" steps "]}}"
#define STEP(model, in, out)                                                                                           \
    "{\"model_name\":\"" model "\",\"input_map\":{\"x\":\"" in "\"},\"output_map\":{\"y\":\"" out "\"}}"

Test(config, steps_of_an_ensemble_are_put_in_order)
{
    struct config c;
    struct pen_error error;
    cr_assert(config_text_parse(ENSEMBLE(STEP("three", "c", "z") "," STEP("one", "a", "b") "," STEP("two", "b", "c")),
                                &c, &error) == PEN_OK,
              "%s", error.text);
    const struct ensemble_plan *r = c.plan;
    cr_assert(c.ensemble && r && r->steps_count == 3 && r->inputs_count == 1 && r->outputs_count == 1);
    cr_expect(strcmp(r->steps[0].model, "one") == 0 && r->steps[0].number == 2 && r->steps[0].version == 0);
    cr_expect(strcmp(r->steps[1].model, "two") == 0 && r->steps[1].number == 3);
    cr_expect(strcmp(r->steps[2].model, "three") == 0 && r->steps[2].number == 1);
    cr_expect(r->inputs[0].dtype == PEN_DTYPE_F32 && r->inputs[0].rank == 1 && r->inputs[0].dims[0] == 4);
    cr_expect(r->outputs[0].dtype == PEN_DTYPE_I64 && r->outputs[0].rank == 2 && r->outputs[0].dims[0] == -1);
    cr_expect(strcmp(r->tensors[r->steps[0].outputs[0].tensor], "b") == 0 &&
              strcmp(r->steps[0].outputs[0].port, "y") == 0);
    config_fini(&c);
}

Test(config, ensembles_that_cannot_run_get_a_sentence)
{
    config_text_refuses("{\"platform\":\"ensemble\"}", PEN_ERR_INVALID, "needs ensemble_scheduling");
    config_text_refuses(ENSEMBLE(""), PEN_ERR_INVALID, "at least one step");
    config_text_refuses(ENSEMBLE(STEP("m", "a", "b")), PEN_ERR_INVALID, "output 'z' is given by no step");
    config_text_refuses(ENSEMBLE(STEP("m", "a", "z") "," STEP("n", "q", "r")), PEN_ERR_INVALID,
                        "step 2 (model 'n') takes 'q', which no step gives");
    config_text_refuses(ENSEMBLE(STEP("m", "a", "z") "," STEP("n", "a", "z")), PEN_ERR_INVALID,
                        "step 2 (model 'n') gives 'z', which another output gives already");
    config_text_refuses(ENSEMBLE(STEP("m", "a", "z") "," STEP("n", "q", "r") "," STEP("o", "r", "q")), PEN_ERR_INVALID,
                        "steps 2, 3 take, directly or through each other, what they give themselves: a cycle");
    config_text_refuses(ENSEMBLE("{\"model_name\":\"m\"}"), PEN_ERR_INVALID,
                        "needs model_name, input_map and output_map");
    config_text_refuses(ENSEMBLE("{\"model_name\":\"m\",\"model_version\":0}"), PEN_ERR_INVALID,
                        "must be -1 (the latest)");
    config_text_refuses(ENSEMBLE("{\"model_name\":\"m\",\"input_map\":{}}"), PEN_ERR_INVALID,
                        "must name 1 to 64 tensors");
    config_text_refuses("{\"input\":[{\"name\":\"a\",\"data_type\":\"FP32\",\"dims\":[1]}]}", PEN_ERR_INVALID,
                        "must be a type such as TYPE_FP32");
    config_text_refuses("{\"input\":[{\"name\":\"a\",\"dims\":[1]}]}", PEN_ERR_INVALID,
                        "needs name, data_type and dims");
    config_text_refuses("{\"ensemble_scheduling\":{\"steps\":[]}}", PEN_ERR_INVALID, "did you mean 'step'");
}

Test(config, what_a_timeout_does_is_read)
{
    struct config c;
    struct pen_error error = {0};
    cr_assert(config_text_parse("{\"dynamic_batching\":{\"default_queue_policy\":{\"timeout_action\":\"DELAY\","
                                "\"allow_timeout_override\":false}}}",
                                &c, &error) == PEN_OK,
              "%s", error.text);
    cr_expect(c.queue_policy.timeout_delays && c.queue_policy.timeout_fixed);
    config_fini(&c);
    cr_assert(config_text_parse("{\"dynamic_batching\":{\"default_queue_policy\":{\"timeout_action\":\"REJECT\"}}}", &c,
                                &error) == PEN_OK);
    cr_expect(!c.queue_policy.timeout_delays && !c.queue_policy.timeout_fixed);
    config_fini(&c);
}

#define LABELS(map) "{\"version_labels\":" map "}"

Test(config, labels_of_versions_are_read)
{
    struct config c;
    struct pen_error error = {0};
    cr_assert(config_text_parse(LABELS("{\"stable\":1,\"canary\":{\"version\":2,\"share\":0.05}}"), &c, &error) ==
                  PEN_OK,
              "%s", error.text);
    cr_assert(c.version_labels_count == 2);
    cr_expect(strcmp(c.version_labels[0].label, "stable") == 0 && c.version_labels[0].version == 1 &&
              c.version_labels[0].share_ppm == 0);
    cr_expect(strcmp(c.version_labels[1].label, "canary") == 0 && c.version_labels[1].version == 2 &&
              c.version_labels[1].share_ppm == 50000);
    config_fini(&c);
}

Test(config, labels_that_are_none_are_refused)
{
    struct config c;
    struct pen_error error;
    config_text_refuses(LABELS("[]"), PEN_ERR_INVALID, "must be an object of labels");
    config_text_refuses(LABELS("{\"a b\":1}"), PEN_ERR_INVALID, "'a b' is no label");
    config_text_refuses(LABELS("{\"\":1}"), PEN_ERR_INVALID, "is no label");
    config_text_refuses(LABELS("{\"a\":1,\"a\":2}"), PEN_ERR_INVALID, "'a' stands twice");
    cr_assert_eq(config_text_parse(LABELS("{\"a\":{\"version\":1,\"share\":0.4},\"b\":{\"version\":2,\"share\":0.6}}"),
                                   &c, &error),
                 PEN_OK, "all jobs: %s", error.text);
    config_fini(&c);
    config_text_refuses(LABELS("{\"a\":{\"version\":1,\"share\":0.4},\"b\":{\"version\":2,\"share\":0.600001}}"),
                        PEN_ERR_INVALID, "share out more than all jobs");
    config_text_refuses(LABELS("{\"a\":0}"), PEN_ERR_INVALID, "version_labels.a");
    config_text_refuses(LABELS("{\"a\":{\"share\":0.5}}"), PEN_ERR_INVALID, "version_labels.a needs version");
    config_text_refuses(LABELS("{\"a\":{\"version\":1,\"share\":1.5}}"), PEN_ERR_INVALID,
                        "must be a number from 0 to 1");
    config_text_refuses(LABELS("{\"a\":{\"version\":1,\"shares\":0.5}}"), PEN_ERR_INVALID, "did you mean 'share'");
    config_text_refuses(LABELS("{\"a\":{\"version\":1,\"share\":0.6},\"b\":{\"version\":2,\"share\":0.6}}"),
                        PEN_ERR_INVALID, "share out more than all jobs");
}

#define LEVELS(map) "{\"dynamic_batching\":{\"priority_levels\":3,\"priority_queue_policy\":" map "}}"

Test(config, levels_may_have_queue_policies_of_their_own)
{
    struct config c;
    struct pen_error error = {0};
    cr_assert(config_text_parse(LEVELS("{\"1\":{\"max_queue_size\":4,\"default_timeout_microseconds\":5000},"
                                       "\"3\":{\"timeout_action\":\"DELAY\",\"allow_timeout_override\":false}}"),
                                &c, &error) == PEN_OK,
              "%s", error.text);
    cr_assert(c.level_policies_count == 2);
    const struct config_queue_policy *one = &c.level_policies[0], *three = &c.level_policies[1];
    cr_expect(one->level == 1 && one->max_queue_size == 4 && one->default_timeout_us == 5000);
    cr_expect(!one->timeout_delays && !one->timeout_fixed);
    cr_expect(three->level == 3 && three->max_queue_size == 0 && three->default_timeout_us == 0);
    cr_expect(three->timeout_delays && three->timeout_fixed);
    config_fini(&c);
}

Test(config, a_queue_policy_for_no_level_is_refused)
{
    config_text_refuses(LEVELS("[]"), PEN_ERR_INVALID, "must be an object of priority levels");
    config_text_refuses(LEVELS("{\"0\":{}}"), PEN_ERR_INVALID, "'0' is no priority level");
    config_text_refuses(LEVELS("{\"256\":{}}"), PEN_ERR_INVALID, "'256' is no priority level");
    config_text_refuses(LEVELS("{\"+1\":{}}"), PEN_ERR_INVALID, "'+1' is no priority level");
    config_text_refuses(LEVELS("{\"1x\":{}}"), PEN_ERR_INVALID, "'1x' is no priority level");
    config_text_refuses(LEVELS("{\"1\":{},\"1\":{}}"), PEN_ERR_INVALID, "'1' stands twice");
    config_text_refuses(LEVELS("{\"4\":{}}"), PEN_ERR_INVALID, "level 4, above priority_levels 3");
    config_text_refuses(LEVELS("{\"1\":{\"max_queue\":1}}"), PEN_ERR_INVALID, "did you mean 'max_queue_size'");
    config_text_refuses(LEVELS("{\"1\":{\"timeout_action\":\"LATER\"}}"), PEN_ERR_INVALID,
                        "priority_queue_policy.1.timeout_action");
}

#define SEQUENCE(more, states) "{\"sequence_batching\":{" more "\"state\":[" states "]}}"
#define KEPT(in, out, more)    "{\"input_name\":\"" in "\",\"output_name\":\"" out "\"" more "}"

Test(config, state_of_sequences_is_read)
{
    struct config c;
    struct pen_error error;
    cr_assert(config_text_parse(
                  SEQUENCE("\"max_sequence_idle_microseconds\":5000,\"oldest\":{\"max_candidate_sequences\":7},",
                           KEPT("h", "hn",
                                ",\"data_type\":\"TYPE_FP32\",\"dims\":[2,1,128],\"initial_state\":[{\"data_"
                                "file\":\"h.bin\"}]") "," KEPT("c", "cn", ",\"initial_state\":[{\"zero_data\":true}]")),
                  &c, &error) == PEN_OK,
              "%s", error.text);
    const struct config_sequence *s = &c.sequence;
    cr_assert(s->present && s->states_count == 2 && s->idle_us == 5000 && s->max_sequences == 7);
    cr_expect(strcmp(s->states[0].input, "h") == 0 && strcmp(s->states[0].output, "hn") == 0);
    cr_expect(s->states[0].dims_given && s->states[0].tensor.rank == 3 && s->states[0].tensor.dims[2] == 128);
    cr_expect(strcmp(s->states[0].file, "h.bin") == 0 && !s->states[1].file[0] && !s->states[1].dims_given);
    config_fini(&c);
}

Test(config, states_that_cannot_be_kept_get_a_sentence)
{
    config_text_refuses("{\"sequence_batching\":{}}", PEN_ERR_INVALID, "needs at least one state");
    config_text_refuses(SEQUENCE("", "{\"input_name\":\"h\"}"), PEN_ERR_INVALID, "needs input_name and output_name");
    config_text_refuses(SEQUENCE("", KEPT("h", "a", "") "," KEPT("h", "b", "")), PEN_ERR_INVALID, "is a state already");
    config_text_refuses(SEQUENCE("", KEPT("h", "a", ",\"initial_state\":[{\"zero_data\":false}]")), PEN_ERR_INVALID,
                        "must be true or left out");
    config_text_refuses(SEQUENCE("", KEPT("h", "a", ",\"initial_state\":[{\"data_file\":\"a/b\"}]")), PEN_ERR_INVALID,
                        "must be a file beside config.json");
    config_text_refuses(SEQUENCE("\"direct\":{},", KEPT("h", "a", "")), PEN_ERR_INVALID, "unknown key 'direct'");
    config_text_refuses(SEQUENCE("\"max_sequence_idle_microseconds\":1,", KEPT("h", "a", "")), PEN_ERR_INVALID,
                        "must be a whole number from 1000");
}

Test(config, a_nul_in_a_text_is_refused_and_what_only_looks_like_one_is_not)
{
    struct config config;
    config_init(&config);
    struct pen_error error;
    config_text_refuses("{\"platform\":\"onnx\\u0000evil\"}", PEN_ERR_INVALID, "NUL");
    config_text_refuses("{\"output\":{\"labels_file\":\"labels.txt\\u0000.png\"}}", PEN_ERR_INVALID, "NUL");
    config_text_refuses("{\"max_batch_size\\u0000x\":4}", PEN_ERR_INVALID, "NUL");
    static const char raw[] = "{\"platform\":\"onnx\0evil\"}";
    cr_expect_eq(config_parse(raw, sizeof raw - 1, &config, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "byte 17 is 0"), "%s", error.text);
    config_fini(&config);
    config_text_refuses("{\"platform\":\"on\\\\u0000nx\"}", PEN_ERR_INVALID, "platform");
}

Test(config, pictures_lose_their_alpha_unless_a_background_is_given)
{
    struct config c;
    struct pen_error error;
    cr_assert(config_text_parse("{\"picture\": {\"steps\": []}}", &c, &error) == PEN_OK, "%s", error.text);
    cr_expect(c.picture.steps->options.alpha_dropped);
    config_fini(&c);
}

Test(config, picture_is_read_and_unknown_steps_are_refused_with_the_list)
{
    struct config c;
    struct pen_error error;
    static const char text[] =
        "{\"picture\": {\"input\": \"x\", \"decode\": {\"alpha\": [1, 2, 3], \"orientation\": \"stored\", \"scaled\": "
        "true, "
        "\"max_pixels\": 1000, \"max_memory\": 2097152}, \"steps\": [{\"resize\": {\"short\": 256, \"filter\": "
        "\"cubic\"}}, "
        "{\"crop\": {\"width\": 224, \"height\": 200}}, {\"color\": \"grey\"}, {\"normalize\": {\"range\": [-1, 1]}}, "
        "{\"layout\": \"nchw\"}, {\"dtype\": {\"type\": \"int8\", \"scale\": 0.5, \"zero_point\": -3}}]}}";
    cr_assert(config_text_parse(text, &c, &error) == PEN_OK, "%s", error.text);
    const struct picture_steps *s = c.picture.steps;
    cr_expect(s->count == 2 && s->steps[0].kind == PICTURE_STEP_SHORT && s->steps[0].width == 256);
    cr_expect(s->steps[0].filter == SCALE_CUBIC && s->steps[1].kind == PICTURE_STEP_MIDDLE &&
              s->steps[1].height == 200);
    cr_expect(s->options.as_stored && !s->options.alpha_dropped && s->options.background[2] == 3 && s->scaled);
    cr_expect(s->limits.pixels == 1000 && s->limits.memory_bytes == 2097152 && s->nchw && c.picture.channels == 1);
    cr_expect_float_eq(255 * c.picture.numbers.scale - c.picture.numbers.mean[0], 1.0f, 1e-6);
    cr_expect(c.picture.numbers.dtype == PEN_DTYPE_I8 && c.picture.numbers.q_scale == 0.5f);
    cr_expect(c.picture.numbers.q_zero == -3 && strstr(c.picture.text, "\"steps\""));
    config_fini(&c);
    config_text_refuses(
        "{\"picture\":{\"steps\":[{\"blur\":{}}]}}", PEN_ERR_INVALID,
        "picture.steps[0]: there is no step 'blur'; the steps are resize, crop, color, normalize, layout, dtype");
    config_text_refuses("{\"picture\":{\"steps\":[{\"resize\":{\"size\":3}}]}}", PEN_ERR_INVALID,
                        "It may have width, height, short, filter, fit, color");
    config_text_refuses("{\"picture\":{\"stop\":[]}}", PEN_ERR_INVALID, "did you mean 'steps'");
    config_text_refuses("{\"picture\":{\"steps\":[{\"resize\":{\"width\":3}}]}}", PEN_ERR_INVALID,
                        "needs width and height, or short");
    config_text_refuses("{\"picture\":{\"steps\":[{\"layout\":\"nhwc\"},{\"color\":\"rgb\"}]}}", PEN_ERR_INVALID,
                        "comes too late");
    config_text_refuses("{\"picture\":{\"steps\":[{\"resize\":{\"width\":3,\"height\":3,\"filter\":\"lanczos\"}}]}}",
                        PEN_ERR_INVALID, "bilinear|area|cubic|nearest");
    config_text_refuses("{\"picture\":{\"steps\":[{\"normalize\":{\"std\":[0]}}]}}", PEN_ERR_INVALID, "divided by it");
}

/* ---- precision and calibration --------------------------------------------------------------------------------------- */

Test(config, what_answers_keep_and_what_they_are_measured_on_is_read)
{
    struct config c;
    struct pen_error error;
    cr_assert(
        config_text_parse(
            "{\"precision\":\"max_relative_error=1e-2\",\"calibration\":{\"sets\":[{\"x\":\"x1.npy\",\"y\":\"y1.npy\"},"
            "{\"x\":\"x2.npy\"}],\"ranges\":{\"x\":[-1,3]}}}",
            &c, &error) == PEN_OK,
        "%s", error.text);
    cr_expect(c.contract.error_max == 1e-2 && !c.contract.exact && c.contract.precision == PEN_PRECISION_ANY);
    cr_assert(c.calibration.sets == 2 && c.calibration.files_count == 3 && c.calibration.ranges_count == 1);
    cr_expect_str_eq(c.calibration.files[1].input, "y");
    cr_expect_str_eq(c.calibration.files[2].file, "x2.npy");
    cr_expect_eq(c.calibration.files[2].set, 1u);
    cr_expect(c.calibration.ranges[0].low == -1.0 && c.calibration.ranges[0].high == 3.0);
    config_fini(&c);
    cr_assert(config_text_parse("{\"precision\":\"f32-exact\"}", &c, &error) == PEN_OK);
    cr_expect(c.contract.exact && c.contract.precision == PEN_PRECISION_F32);
    config_fini(&c);
}

Test(config, a_precision_or_calibration_that_cannot_be_gets_a_sentence)
{
    config_text_refuses("{\"precision\":\"f33\"}", PEN_ERR_INVALID, "'f33' is no precision; there is any|f32|");
    config_text_refuses("{\"precision\":\"max_relative_error=0\"}", PEN_ERR_INVALID, "a number above 0");
    config_text_refuses("{\"precision\":\"max_relative_error=nan\"}", PEN_ERR_INVALID, "a number above 0");
    config_text_refuses("{\"precision\":2}", PEN_ERR_INVALID, "precision");
    config_text_refuses("{\"calibration\":{\"sets\":[{}]}}", PEN_ERR_INVALID,
                        "each set is an object of 1 to 64 inputs");
    config_text_refuses("{\"calibration\":{\"sets\":[{\"x\":\"../x.npy\"}]}}", PEN_ERR_INVALID, "without a '/'");
    config_text_refuses("{\"calibration\":{\"sets\":[{\"x\":1}]}}", PEN_ERR_INVALID, "calibration.sets");
    config_text_refuses("{\"calibration\":{\"ranges\":{\"x\":[1,0]}}}", PEN_ERR_INVALID, "the smaller one first");
    config_text_refuses("{\"calibration\":{\"ranges\":{\"x\":[1,1]}}}", PEN_ERR_INVALID, "the smaller one first");
    config_text_refuses("{\"calibration\":{\"ranges\":{\"x\":[1]}}}", PEN_ERR_INVALID, "a range is two numbers");
    config_text_refuses("{\"calibration\":{\"sets\":[{\"\":\"x.npy\"}]}}", PEN_ERR_INVALID, "a name of 1 to 255 bytes");
    config_text_refuses("{\"calibration\":{\"sets\":[{\"x\":\"\"}]}}", PEN_ERR_INVALID,
                        "must be a text of 1 to 255 bytes");
    for (int length = 255; length <= 256; length++) {
        char text[600];
        snprintf(text, sizeof text, "{\"calibration\":{\"sets\":[{\"%0*d\":\"%s\"}]}}", length, 7,
                 length == 255 ? "a/b" : "a.npy");
        config_text_refuses(text, PEN_ERR_INVALID, length == 255 ? "without a '/'" : "a name of 1 to 255 bytes");
    }
    config_text_refuses("{\"calibration\":{\"ranges\":[1]}}", PEN_ERR_INVALID, "is an object of at most 64 inputs");
    config_text_refuses("{\"calibration\":{\"files\":[]}}", PEN_ERR_INVALID, "unknown key 'files'");
}
