#include <criterion/criterion.h>
#include <string.h>

#include "grpc_service.pb-c.h"
#include "transcode.h"

static struct json reader_of(const char *text)
{
    struct json json;
    json_init(&json, text, strlen(text));
    return json;
}

Test(transcode, an_object_becomes_the_message_of_its_names)
{
    struct json json = reader_of("{\"name\":\"m\",\"max_batch_size\":8,\"unknown\":[{}],\"input\":[{\"name\":\"x\","
                                 "\"data_type\":\"TYPE_BF16\",\"dims\":[-1,3],"
                                 "\"optional\":true}],\"dynamic_batching\":{},\"version_policy\":{\"specific\":{"
                                 "\"versions\":[9223372036854775807]}},\"parameters\":{\"pictures\":{"
                                 "\"string_value\":\"x\"},\"other\":{}}}");
    struct bytes bytes = {.data = NULL};
    cr_assert(transcode_object(&json, &inference__model_config__descriptor, &bytes), "%s", json.why);
    Inference__ModelConfig *config = inference__model_config__unpack(NULL, bytes.used, (const uint8_t *)bytes.data);
    cr_assert_not_null(config);
    cr_assert_str_eq(config->name, "m");
    cr_assert(config->max_batch_size == 8 && config->n_input == 1 && config->input[0]->optional);
    cr_assert_eq(config->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_BF16);
    cr_assert(config->input[0]->n_dims == 2 && config->input[0]->dims[0] == -1 && config->input[0]->dims[1] == 3);
    cr_assert_eq(config->scheduling_choice_case, INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
    cr_assert_eq(config->version_policy->specific->versions[0], INT64_MAX);
    cr_assert_eq(config->n_parameters, 2u);
    cr_assert_str_eq(config->parameters[0]->key, "pictures");
    cr_assert_str_eq(config->parameters[0]->value->string_value, "x");
    cr_assert_str_eq(config->parameters[1]->key, "other");
    inference__model_config__free_unpacked(config, NULL);
    bytes_fini(&bytes);
}

Test(transcode, a_map_has_an_entry_for_each_member)
{
    const ProtobufCMessageDescriptor *descriptor = &inference__model_ensembling__step__descriptor;
    struct json json = reader_of("{\"model_name\":\"m\",\"input_map\":{\"a\":\"b\",\"c\":\"d\"},\"output_map\":{}}");
    struct json wrong = reader_of("{\"input_map\":{\"a\":1}}"), open = reader_of("{\"input_map\":{\"a\":\"b\"");
    struct bytes bytes = {.data = NULL}, none = {.data = NULL};
    cr_assert(transcode_object(&json, descriptor, &bytes), "%s", json.why);
    Inference__ModelEnsembling__Step *step = (Inference__ModelEnsembling__Step *)protobuf_c_message_unpack(
        descriptor, NULL, bytes.used, (const uint8_t *)bytes.data);
    cr_assert_not_null(step);
    cr_assert(step->n_input_map == 2 && step->n_output_map == 0);
    cr_assert_str_eq(step->input_map[0]->key, "a");
    cr_assert_str_eq(step->input_map[1]->value, "d");
    protobuf_c_message_free_unpacked(&step->base, NULL);
    bytes_fini(&bytes);
    cr_assert(!transcode_object(&wrong, descriptor, &none) && wrong.why, "a value of another type");
    cr_assert(!transcode_object(&open, descriptor, &none) && open.why, "a map that does not end");
    bytes_fini(&none);
}

Test(transcode, whole_numbers_keep_all_64_bits)
{
    struct json json = reader_of("{\"count\":18446744073709551615,\"ns\":1}");
    struct bytes bytes = {.data = NULL};
    cr_assert(transcode_object(&json, &inference__statistic_duration__descriptor, &bytes), "%s", json.why);
    Inference__StatisticDuration *found =
        inference__statistic_duration__unpack(NULL, bytes.used, (const uint8_t *)bytes.data);
    cr_assert(found && found->count == UINT64_MAX && found->ns == 1);
    inference__statistic_duration__free_unpacked(found, NULL);
    bytes_fini(&bytes);
}

Test(transcode, a_value_that_does_not_fit_is_a_fault)
{
    const char *const bad[] = {"{\"max_batch_size\":\"8\"}", "{\"name\":8}",
                               "{\"input\":[{\"data_type\":\"TYPE_NONE\"}]}", "{\"name\":", "[]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct json json = reader_of(bad[i]);
        struct bytes bytes = {.data = NULL};
        cr_assert_not(transcode_object(&json, &inference__model_config__descriptor, &bytes), "%s", bad[i]);
        bytes_fini(&bytes);
    }
}

Test(transcode, rows_with_names_become_a_map)
{
    struct json json = reader_of("[{\"key\":\"/k\",\"name\":\"a\",\"offset\":1,\"byte_size\":2},{\"name\":\"b\"}]");
    struct bytes bytes = {.data = NULL};
    cr_assert(transcode_named(&json, &inference__system_shared_memory_status_response__descriptor, "regions", &bytes));
    Inference__SystemSharedMemoryStatusResponse *found =
        inference__system_shared_memory_status_response__unpack(NULL, bytes.used, (const uint8_t *)bytes.data);
    cr_assert(found && found->n_regions == 2);
    cr_assert_str_eq(found->regions[0]->key, "a");
    cr_assert_str_eq(found->regions[0]->value->key, "/k");
    cr_assert(found->regions[0]->value->byte_size == 2 && strcmp(found->regions[1]->value->name, "b") == 0);
    inference__system_shared_memory_status_response__free_unpacked(found, NULL);
    bytes_fini(&bytes);
}

Test(transcode, settings_have_the_type_of_their_value)
{
    struct json json = reader_of("{\"log_file\":\"f\",\"log_info\":true,\"log_verbose_level\":3}");
    struct bytes bytes = {.data = NULL};
    cr_assert(transcode_settings(&json, &inference__log_settings_response__descriptor, &bytes));
    Inference__LogSettingsResponse *found =
        inference__log_settings_response__unpack(NULL, bytes.used, (const uint8_t *)bytes.data);
    cr_assert(found && found->n_settings == 3);
    cr_assert_str_eq(found->settings[0]->value->string_param, "f");
    cr_assert(found->settings[1]->value->bool_param && found->settings[2]->value->uint32_param == 3);
    inference__log_settings_response__free_unpacked(found, NULL);
    bytes_fini(&bytes);
}
