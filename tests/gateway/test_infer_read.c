/* infer_read.h: bodies to inferences; inference_classify. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "infer_read.h"

static struct pen_error error;

static enum pen_status read_body(const char *json, const char *binary, size_t binary_bytes,
                                 struct inference **ret_inference)
{
    struct hold *hold = hold_new();
    size_t bytes = strlen(json);
    char *body = hold_take(hold, bytes + binary_bytes);
    memcpy(body, json, bytes);
    memcpy(body + bytes, binary, binary_bytes);
    error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = infer_read(&(struct infer_source){.model = "m",
                                                               .version = "",
                                                               .body = body,
                                                               .bytes = bytes + binary_bytes,
                                                               .json_bytes = bytes,
                                                               .hold = hold},
                                        ret_inference, &error);
    hold_release(hold);
    return status;
}

Test(infer_read, everything_in_a_request_is_found_in_any_order)
{
    struct inference *inference = NULL;
    cr_assert(
        read_body("{\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\",\"parameters\":{\"classification\":3,\"binary_data\":"
                  "false}}],"
                  "\"inputs\":[{\"data\":[[1,2]],\"datatype\":\"INT8\",\"shape\":[1,2],\"name\":\"a\"},"
                  "{\"parameters\":{\"binary_data_size\":4},\"shape\":[1],\"datatype\":\"FP32\",\"name\":\"b\"},"
                  "{\"name\":\"c\",\"shape\":[2],\"datatype\":\"BOOL\",\"parameters\":{\"binary_data_size\":2}}],"
                  "\"parameters\":{\"sequence_id\":7,\"sequence_start\":true,\"sequence_end\":true,\"priority\":3,"
                  "\"timeout\":9,\"binary_data_output\":true,\"penstock_require\":\"avx2;vk_device=a, b\","
                  "\"own\":\"x\",\"count\":-5,\"ratio\":0.5,\"on\":true},\"unknown\":{\"x\":[1,{}]},\"id\":\"i\"}",
                  "\0\0\200\077\1\0", 6, &inference) == PEN_OK,
        "%s", error.text);
    cr_assert_str_eq(inference->id, "i");
    cr_assert(inference->inputs_count == 3 && inference->outputs_count == 2 && inference->parameters_count == 4);
    cr_assert(inference->sequence_id == 7 && inference->sequence_start && inference->sequence_end &&
              inference->priority == 3 && inference->timeout_us == 9);
    cr_assert(inference->needs_count == 2 && strcmp(inference->needs[0], "avx2") == 0 &&
              strcmp(inference->needs[1], "vk_device=a, b") == 0);
    cr_assert(memcmp(inference->inputs[0].data, "\1\2", 2) == 0 && inference->inputs[1].bytes == 4 &&
              memcmp(inference->inputs[2].data, "\1\0", 2) == 0);
    cr_assert(inference->outputs[0].binary && !inference->outputs[1].binary && inference->outputs[1].classes == 3);
    cr_assert(inference->parameters[1].kind == PEN_PARAMETER_INTEGER && inference->parameters[1].value.integer == -5);
    cr_assert(inference->parameters[2].kind == PEN_PARAMETER_NUMBER && inference->parameters[3].value.flag);
    inference_free(inference);
    cr_assert_eq(hold_budget_used(), 0);
}

Test(infer_read, a_refusal_says_what_and_keeps_nothing)
{
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"", "object"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"FP32\"}]}", "either"},
        {"{\"inputs\":[{\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}", "no name"},
        {"{\"inputs\":[{\"name\":\"a\",\"datatype\":\"FP32\",\"data\":[1]}]}", "shape"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"data\":[1]}]}", "datatype"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}],\"outputs\":[{}]}", "name"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}],\"outputs\":[{\"name\":\"y\","
         "\"parameters\":{\"classification\":1001}}]}",
         "1000"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"FP32\",\"parameters\":{\"shared_memory_region\":"
         "\"r\",\"shared_memory_byte_size\":4}}]}",
         "this host"},
        {"{\"inputs\":[{\"name\":\"a\",\"shape\":[1],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":4}}]}",
         "unexpected size"},
        {"{\"parameters\":{\"penstock_require\":\"\"}}", "1 to 16 flags"},
        {"{\"parameters\":{\"penstock_require\":\"a;\"}}", "1 to 16 flags"},
        {"{\"parameters\":{\"penstock_require\":\"a;;b\"}}", "1 to 16 flags"},
        {"{\"parameters\":{\"penstock_require\":\"1;2;3;4;5;6;7;8;9;a;b;c;d;e;f;g;h\"}}", "1 to 16 flags"},
        {"{\"parameters\":{\"penstock_require\":1}}", "expected"},
        {"{\"parameters\":{\"sequence_id\":[1]}}", "number is expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct inference *inference = NULL;
        cr_assert(read_body(cases[i].json, "", 0, &inference) != PEN_OK && !inference, "%s", cases[i].json);
        cr_assert(strstr(error.text, cases[i].words), "%s: %s", cases[i].json, error.text);
        cr_assert_eq(hold_budget_used(), 0);
    }
}

Test(inference, classes_are_the_best_of_each_row)
{
    float scores[] = {1, 9, 5, 7, 7, 3};
    struct pen_tensor tensor = {.name = "y",
                                .dtype = PEN_DTYPE_F32,
                                .rank = 2,
                                .dims = {2, 3},
                                .data = scores,
                                .bytes = sizeof scores},
                      classes;
    const char *labels[] = {"zero", "one"};
    struct pen_model model = {.labels_count = 2, .labels = labels};
    struct hold *hold = hold_new();
    cr_assert(inference_classify(&tensor, 2, true, &model, hold, &classes, &error) == PEN_OK);
    cr_assert(classes.rank == 2 && classes.dims[0] == 2 && classes.dims[1] == 2 && classes.dtype == PEN_DTYPE_STRING);
    cr_assert(memcmp(classes.data,
                     "\x0e\0\0\0"
                     "9.000000:1:one\x0a\0\0\0"
                     "5.000000:2\x0f\0\0\0"
                     "7.000000:0:zero",
                     51) == 0);
    cr_assert(inference_classify(&tensor, 100, false, NULL, hold, &classes, &error) == PEN_OK && classes.rank == 1 &&
              classes.dims[0] == 6);
    tensor.dtype = PEN_DTYPE_STRING;
    cr_assert(inference_classify(&tensor, 2, true, NULL, hold, &classes, &error) == PEN_ERR_UNSUPPORTED);
    hold_release(hold);
}

/* The first text of what was classified. */
static const char *best_of(struct pen_tensor *tensor, const struct pen_model *model, struct hold *hold,
                           char place[1024])
{
    struct pen_tensor classes;
    uint32_t length = 0;
    cr_assert_eq(inference_classify(tensor, 1, false, model, hold, &classes, &error), PEN_OK, "%s", error.text);
    memcpy(&length, classes.data, sizeof length);
    cr_assert(length < 1024 && length + sizeof length == classes.bytes);
    memcpy(place, (const char *)classes.data + sizeof length, length);
    place[length] = '\0';
    return place;
}

Test(inference, classes_of_whole_numbers_are_exact)
{
    const int64_t wide[] = {9007199254740992, 9007199254740993, -9007199254740993};
    const uint64_t largest[] = {UINT64_MAX - 1, UINT64_MAX};
    const int8_t small[] = {-7, -3};
    struct pen_tensor tensor = {
        .name = "y", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {3}, .data = wide, .bytes = sizeof wide};
    struct hold *hold = hold_new();
    char place[1024];
    cr_assert_str_eq(best_of(&tensor, NULL, hold, place), "9007199254740993:1");
    tensor.data = wide + 2, tensor.dims[0] = 1, tensor.bytes = sizeof *wide;
    cr_assert_str_eq(best_of(&tensor, NULL, hold, place), "-9007199254740993:0");
    tensor = (struct pen_tensor){
        .name = "y", .dtype = PEN_DTYPE_U64, .rank = 1, .dims = {2}, .data = largest, .bytes = sizeof largest};
    cr_assert_str_eq(best_of(&tensor, NULL, hold, place), "18446744073709551615:1");
    tensor = (struct pen_tensor){
        .name = "y", .dtype = PEN_DTYPE_I8, .rank = 1, .dims = {2}, .data = small, .bytes = sizeof small};
    cr_assert_str_eq(best_of(&tensor, NULL, hold, place), "-3:1");
    hold_release(hold);
}

Test(inference, a_class_is_written_whole_however_long)
{
    const double largest = 1e308;
    char label[300], place[1024];
    memset(label, 'x', sizeof label);
    label[sizeof label - 1] = '\0';
    const char *labels[] = {label};
    struct pen_model model = {.labels_count = 1, .labels = labels};
    struct pen_tensor tensor = {
        .name = "y", .dtype = PEN_DTYPE_F64, .rank = 1, .dims = {1}, .data = &largest, .bytes = sizeof largest};
    struct hold *hold = hold_new();
    cr_assert_eq(strlen(best_of(&tensor, &model, hold, place)), 309 + 7 + 3 + sizeof label - 1);
    hold_release(hold);
}
