/* Triton's config.pbtxt: the text form, what becomes of each field, the page that says so, and folders that hold one. */
#include "config.h"
#include "looks.h"
#include "pbtxt.h"
#include "triton.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"
#define PAGE   PENSTOCK_SOURCE "/deploy/TRITON.md"

TestSuite(triton, .timeout = 30);
TestSuite(triton_folder, .init = looks_setup, .fini = looks_teardown, .timeout = 60);

/* ---- the text form --------------------------------------------------------------------------------------------------------------------- */

/* As compact JSON; freed by the caller. */
static char *json_of(const char *text)
{
    cJSON *message = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pbtxt_parse(text, strlen(text), &message, &error), PEN_OK, "%s: %s", text, error.text);
    char *json = cJSON_PrintUnformatted(message);
    cJSON_Delete(message);
    return json;
}

static void reads(const char *text, const char *expected)
{
    char *json = json_of(text);
    cr_expect_str_eq(json, expected, "%s became %s", text, json);
    free(json);
}

Test(triton, one_message_may_be_written_in_many_ways)
{
    static const char *const same[] = {"a: [1, 2] b { c: \"x\" }", "a: 1 a: 2 b: { c: 'x' }", "a:1,a:2;b<c:\"x\">",
                                       "# words\na: 1\na: 2 # more\nb: < c: \"\" 'x' >\n"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        reads(same[i], "{\"a\":[1,2],\"b\":[{\"c\":[\"x\"]}]}");
    reads("", "{}");
    reads("a: []", "{\"a\":[]}");
    reads("a: [ { b: 1 }, { b: -2 } ]", "{\"a\":[{\"b\":[1]},{\"b\":[-2]}]}");
    reads("a: TYPE_FP32 b: true c: false d: 1.5e3 e: 0x10 f: 010 g: 2f",
          "{\"a\":[\"TYPE_FP32\"],\"b\":[true],\"c\":[false],\"d\":[1500],\"e\":[16],\"f\":[8],\"g\":[2]}");
    reads("a: \"\\1234\\x414\\0601\\7\"", "{\"a\":[\"S4A401\\u0007\"]}"); /* at most 3 octal digits, 2 of base 16 */
    reads("a: \"\\x41\\102\\n\\\"\" [x.y/z]: 1", "{\"a\":[\"AB\\n\\\"\"],\"x.y/z\":[1]}");
}

static void refuses(const char *text, const char *part)
{
    cJSON *message = NULL;
    struct pen_error error = {0};
    cr_expect_neq(pbtxt_parse(text, strlen(text), &message, &error), PEN_OK, "%s was read", text);
    cr_expect(strstr(error.text, part), "'%s' gave: %s", text, error.text);
}

Test(triton, what_is_broken_is_told_with_its_line)
{
    refuses("a: 1\nb", "line 2: 'b' has no value");
    refuses("a {\nb: 1\n", "line 3: the block of line 1 is not closed by }");
    refuses("a: [1, 2", "not closed by ]");
    refuses("a: \"x", "no closing \"");
    refuses("a: \"\\q\"", "an escape that is none");
    refuses("a: \"\\0\"", "a NUL");
    refuses("a: 1x", "is no number");
    refuses("a: }", "a name or value is expected, not '}'");
    refuses("a: 1e999", "is no number");
    refuses("}", "a name or value is expected");
}

/* What lies behind the text is none of it, even where it would go on well. */
Test(triton, the_text_ends_where_its_length_says)
{
    static const char block[] = "a { b: 1 }";
    cJSON *message = NULL;
    struct pen_error error = {0};
    cr_assert_neq(pbtxt_parse(block, sizeof block - 2, &message, &error), PEN_OK);
    cr_expect(strstr(error.text, "the block of line 1 is not closed by }"), "%s", error.text);
    cr_assert_eq(pbtxt_parse(block, sizeof block - 1, &message, &error), PEN_OK, "%s", error.text);
    cJSON_Delete(message);
}

Test(triton, depth_values_and_bytes_are_bounded)
{
    static char deep[400], many[PBTXT_VALUES_MAX * 2 + 64], names[PBTXT_VALUES_MAX * 8];
    cJSON *message = NULL;
    struct pen_error error = {0};
    for (size_t i = 0; i < 100; i++)
        strcat(deep, "a{");
    refuses(deep, "nested more than 32 deep");
    strcpy(many, "a:[1");
    for (size_t i = 0, used = 4; i < PBTXT_VALUES_MAX; i++, used += 2)
        memcpy(many + used, ",1", 3);
    refuses(many, "more than 8192 names and values");
    for (size_t i = 0, used = 0; i <= PBTXT_VALUES_MAX; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "a%zx:[]", i);
    refuses(names, "more than 8192 names and values");
    char *large = calloc(1, PBTXT_BYTES_MAX + 1);
    memset(large, ' ', PBTXT_BYTES_MAX + 1);
    cr_expect_eq(pbtxt_parse(large, PBTXT_BYTES_MAX + 1, &message, &error), PEN_ERR_TOO_LARGE);
    cr_expect_eq(pbtxt_parse("a: \0", 4, &message, &error), PEN_ERR_INVALID, "a NUL in the text");
    free(large);
}

static size_t allocations, allocations_most;

static void *scarce_malloc(size_t bytes)
{
    return allocations++ < allocations_most ? malloc(bytes) : NULL;
}

/* Wherever memory is short, the text is refused with that reason, and nothing is left behind. */
Test(triton, a_text_without_memory_is_refused)
{
    static const char text[] = "a: 1 b { c: \"x\" c: true } d: [1, 2] [e.f]: name";
    cJSON_Hooks hooks = {.malloc_fn = scarce_malloc, .free_fn = free};
    cJSON *message = NULL;
    enum pen_status status = PEN_ERR_NO_MEMORY;
    cJSON_InitHooks(&hooks);
    for (allocations_most = 0; status != PEN_OK && allocations_most < 1000; allocations_most++) {
        struct pen_error error = {0};
        allocations = 0;
        status = pbtxt_parse(text, sizeof text - 1, &message, &error);
        cr_expect(status == PEN_OK || status == PEN_ERR_NO_MEMORY, "%zu: %s", allocations_most, error.text);
        cr_expect_eq(message != NULL, status == PEN_OK);
    }
    cr_expect_eq(allocations + 1, allocations_most, "it needs each of them");
    cr_expect_gt(allocations, 10);
    cJSON_Delete(message);
    cJSON_InitHooks(NULL);
}

/* ---- fields ---------------------------------------------------------------------------------------------------------------------------- */

static void config_of(const char *text, struct config *config)
{
    struct pen_error error = {0};
    config_init(config);
    cr_assert_eq(config_parse_pbtxt(text, strlen(text), config, &error), PEN_OK, "%s: %s", text, error.text);
}

Test(triton, fields_mean_what_they_mean_in_config_json)
{
    struct config c;
    config_of(
        "name: \"m\" backend: \"onnxruntime\" max_batch_size: 32\n"
        "input [{ name: \"x\" data_type: TYPE_FP16 dims: [3, -1] format: FORMAT_NCHW }]\n"
        "output { name: \"y\" data_type: TYPE_FP32 dims: 10 label_filename: \"names.txt\" }\n"
        "dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 priority_levels: 3\n"
        "  default_priority_level: 2 default_queue_policy { timeout_action: DELAY max_queue_size: 7 }\n"
        "  priority_queue_policy { key: 1 value { default_timeout_microseconds: 9 allow_timeout_override: true } } }\n"
        "instance_group [{ count: 2 kind: KIND_CPU }, { count: 3 kind: KIND_CPU gpus: [0] }]\n"
        "version_policy: { specific { versions: [1, 3] } }\n"
        "model_warmup { name: \"w\" batch_size: 8 inputs { key: \"x\" value: { dims: [3, 5] zero_data: true } } }\n"
        "response_cache { enable: false }",
        &c);
    cr_expect(c.pbtxt && strcmp(c.platform, "onnx") == 0 && c.max_batch_size == 32 && !c.cache_enable);
    cr_assert(c.declared && c.declared->inputs_count == 1 && c.declared->outputs_count == 1);
    cr_expect(c.declared->inputs[0].dtype == PEN_DTYPE_F16 && c.declared->inputs[0].rank == 2 &&
              c.declared->inputs[0].dims[1] == -1);
    cr_expect_str_eq(c.labels_file, "names.txt");
    cr_expect(c.preferred_count == 2 && c.preferred[1] == 8 && c.priority_levels == 3 && c.default_priority_level == 2);
    cr_expect(c.queue_policy.timeout_delays && c.queue_policy.max_queue_size == 7);
    cr_expect(c.level_policies_count == 1 && c.level_policies[0].level == 1 &&
              c.level_policies[0].default_timeout_us == 9);
    cr_expect(c.instance_count == 5 && c.instance_kind == CONFIG_KIND_CPU);
    cr_expect(c.policy == CONFIG_SPECIFIC && c.policy_count == 2 && c.policy_versions[1] == 3);
    cr_expect(c.warmups_count == 1 && c.warmups[0].batch_size == 8 && c.warmups[0].inputs[0].dims[1] == 5);
    cr_expect(strstr(c.ignored, "instance_group.gpus"), "%s", c.ignored);
    config_fini(&c);
}

Test(triton, a_sequence_keeps_its_states)
{
    struct config c;
    config_of("sequence_batching { max_sequence_idle_microseconds: 5000 oldest { max_candidate_sequences: 4 }\n"
              "state [{ input_name: \"h\" output_name: \"hN\" data_type: TYPE_FP32 dims: [2, 3]\n"
              "initial_state { name: \"zeros\" data_type: TYPE_FP32 dims: [2, 3] zero_data: true } }] }",
              &c);
    cr_expect(c.sequence.present && c.sequence.idle_us == 5000 && c.sequence.max_sequences == 4 &&
              c.sequence.states_count == 1);
    config_fini(&c);
}

Test(triton, what_has_no_effect_is_named_and_the_rest_counts)
{
    struct config c;
    config_of("max_batch_size: 4 optimization { cuda { graphs: true } } dynamic_batching { preserve_ordering: true }\n"
              "parameters { key: \"a\" value { string_value: \"b\" } } nonsense: 3 parameters { key: \"c\" value { } }",
              &c);
    cr_expect_eq(c.max_batch_size, 4);
    cr_expect_str_eq(c.ignored, "optimization, dynamic_batching.preserve_ordering, parameters, nonsense");
    config_fini(&c);
}

static void config_refuses(const char *text, const char *part)
{
    struct config c;
    struct pen_error error = {0};
    config_init(&c);
    cr_expect_neq(config_parse_pbtxt(text, strlen(text), &c, &error), PEN_OK, "%s was read", text);
    cr_expect(strstr(error.text, part), "'%s' gave: %s", text, error.text);
    config_fini(&c);
}

Test(triton, what_would_give_other_answers_is_refused_with_what_to_do)
{
    config_refuses("platform: \"tensorrt_plan\"", "export the model to ONNX");
    config_refuses("backend: \"python\"", "backend is 'python'");
    config_refuses("input { name: \"x\" data_type: TYPE_FP32 dims: 1 reshape { shape: [] } }", "input.reshape");
    config_refuses("sequence_batching { control_input [{ name: \"START\" }] }", "sequence_batching.state");
    config_refuses("default_model_filename: \"net.onnx\"", "rename it");
    config_refuses("batch_input { kind: BATCH_ELEMENT_COUNT }", "let clients send them");
    config_refuses("max_batch_size: \"many\"", "max_batch_size");
    config_refuses("dynamic_batching: 3", "must be a block");
    config_refuses("dynamic_batching { } dynamic_batching { }", "stands twice");
    config_refuses("version_policy { latest { num_versions: 1 } all { } }", "exactly one of");
    config_refuses("max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }", "above max_batch_size");
}

/* ---- the page -------------------------------------------------------------------------------------------------------------------------- */

static char *page_read(void)
{
    size_t bytes = 0;
    return file_read(PAGE, &bytes);
}

Test(triton, the_examples_of_the_page_are_read)
{
    char *page = page_read();
    size_t count = 0;
    for (char *at = page; (at = strstr(at, "```pbtxt\n")); count++) {
        struct config c;
        at += strlen("```pbtxt\n");
        char *end = strstr(at, "```");
        cr_assert_not_null(end);
        *end = '\0';
        config_of(at, &c);
        cr_expect_str_eq(c.ignored, "", "an example says what has no effect: %s", c.ignored);
        config_fini(&c);
        at = end + 1;
    }
    cr_expect_eq(count, 2);
    free(page);
}

/* Rows: | `a.b`, `c` | read | ... */
static size_t row_check(char *line)
{
    static const char *const words[] = {"read", "named", "refused"};
    static const enum triton_fate fates[] = {TRITON_READ, TRITON_NAMED, TRITON_REFUSED};
    size_t checked = 0;
    char *second = strchr(line + 1, '|'), *third = second ? strchr(second + 1, '|') : NULL;
    for (size_t i = 0; third && i < 3; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, " %s ", words[i]);
        if ((size_t)(third - second - 1) != strlen(cell) || strncmp(second + 1, cell, strlen(cell)) != 0)
            continue;
        *second = '\0';
        for (char *name = strtok(line, "|,` "); name; name = strtok(NULL, "|,` "), checked++)
            cr_expect_eq(triton_fate(name), fates[i], "%s is not %s", name, words[i]);
        break;
    }
    return checked;
}

Test(triton, the_page_says_of_each_field_what_is_done)
{
    char *page = page_read(), *rest = NULL;
    size_t checked = 0, lines = 0;
    for (char *c = page; *c; c++)
        lines += *c == '\n';
    cr_expect_leq(lines, 100);
    char *table = strstr(page, "## Field by field");
    cr_assert_not_null(table);
    for (char *line = strtok_r(table, "\n", &rest); line && strncmp(line, "An ensemble", 11) != 0;
         line = strtok_r(NULL, "\n", &rest)) {
        char copy[512];
        snprintf(copy, sizeof copy, "%s", line);
        if (line[0] == '|')
            checked += row_check(copy);
    }
    cr_expect_geq(checked, 40, "%zu fields", checked);
    free(page);
}

/* ---- folders --------------------------------------------------------------------------------------------------------------------------- */

static void put_digits(const char *folder)
{
    char path[96];
    size_t bytes = 0;
    char *model = file_read(DIGITS, &bytes);
    folder_make(looks_at(folder));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    file_write(looks_at(path), model, bytes);
    free(model);
}

#define TENSORS                                                                                                        \
    "input [{ name: \"image\" data_type: TYPE_FP32 dims: [1, 8, 8] }]\n"                                               \
    "output [{ name: \"probabilities\" data_type: TYPE_FP32 dims: [10] label_filename: \"names.txt\" }]\n"

Test(triton_folder, a_repository_of_triton_is_served)
{
    put_digits("d/1");
    looks_put_text("d/names.txt", "zero\none\n");
    looks_put_text("d/config.pbtxt", "platform: \"onnxruntime_onnx\" max_batch_size: 5 metric_tags { } " TENSORS);
    looks_start();
    looks_offers_are("a:1 d:1");
    const struct served *d = catalog_find(&looks_catalog, "d", 1);
    cr_expect(d->max_batch_size == 5 && d->config.labels_count == 2);
    LOGGED_ONCE("evt=config_ignored model=d version=1 file=config.pbtxt fields=metric_tags");
    cr_expect(!looks_again() && !looks_again());
    LOGGED_ONCE("evt=config_ignored");
    looks_put_text("d/config.pbtxt", "max_batch_size: 6 " TENSORS);
    cr_expect(!looks_again() && looks_again());
    cr_expect_eq(catalog_find(&looks_catalog, "d", 1)->max_batch_size, 6);
}

Test(triton_folder, config_json_counts_where_both_lie)
{
    looks_put_text("a/config.json", "{\"max_batch_size\": 3}");
    looks_put_text("a/config.pbtxt", "max_batch_size: 7");
    looks_start();
    cr_expect_eq(catalog_find(&looks_catalog, "a", 1)->max_batch_size, 3);
    LOGGED_ONCE("config.json lies beside it and counts alone");
}

static void fails(const char *config, const char *part)
{
    looks_put_text("d/config.pbtxt", config);
    cr_expect(!looks_again() && !looks_again());
    LOGGED_ONCE(part);
    looks_offers_are("a:1");
}

Test(triton_folder, tensors_that_the_file_does_not_have_are_told)
{
    looks_start();
    put_digits("d/1");
    fails("max_batch_size: 4 input { name: \"picture\" data_type: TYPE_FP32 dims: [1, 8, 8] }",
          "input names 'picture', which the model does not have: it has 'image'");
    fails("max_batch_size: 4 input { name: \"image\" data_type: TYPE_UINT8 dims: [1, 8, 8] }",
          "says that 'image' is u8");
    fails("max_batch_size: 4 input { name: \"image\" data_type: TYPE_FP32 dims: [3, 8, 8] }", "has dims 3x8x8");
    fails("max_batch_size: 0 input { name: \"image\" data_type: TYPE_FP32 dims: [1, 8, 8] }",
          "if dimension 0 is the batch, give max_batch_size");
    looks_put_text("d/config.pbtxt",
                   "max_batch_size: 4 input { name: \"image\" data_type: TYPE_FP32 dims: [1, 8, 8] }");
    cr_expect(!looks_again() && looks_again());
    looks_offers_are("a:1 d:1");
}

/* The list form of config.json is compared alike. */
Test(triton_folder, a_list_in_config_json_is_compared_with_the_file)
{
    looks_put_text("a/config.json", "{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 2]}], "
                                    "\"max_batch_size\": 0}");
    looks_start();
    looks_offers_are("a:1");
    looks_put_text("a/config.json", "{\"input\": [{\"name\": \"x\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, 3]}], "
                                    "\"max_batch_size\": 0}");
    cr_expect(!looks_again() && !looks_again());
    LOGGED_ONCE("has dims ?x3");
}

Test(triton_folder, an_ensemble_of_triton_stays)
{
    folder_make(looks_at("e/1"));
    looks_put_text("e/config.pbtxt",
                   "platform: \"ensemble\" max_batch_size: 0\n"
                   "input { name: \"p\" data_type: TYPE_FP32 dims: [-1, 2] }\n"
                   "output { name: \"q\" data_type: TYPE_FP32 dims: [-1, 2] }\n"
                   "ensemble_scheduling { step { model_name: \"a\" model_version: -1\n"
                   "input_map { key: \"x\" value: \"p\" } output_map { key: \"y\" value: \"q\" } } }");
    looks_put_text("a/config.json", "{\"max_batch_size\": 0}");
    looks_start();
    looks_offers_are("a:1 e:1");
    cr_expect(!looks_again() && !looks_again() && !looks_again());
    looks_offers_are("a:1 e:1");
}
