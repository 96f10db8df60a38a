#include "grpc_bodies.h"

#include <inttypes.h>
#include <string.h>

#include "grpc_service.pb-c.h"

void body_index(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__RepositoryIndexRequest *request = (const void *)message;
    bytes_format(to, "{\"ready\":%s}", request->ready ? "true" : "false");
}

void body_region(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__SystemSharedMemoryRegisterRequest *request = (const void *)message;
    bytes_text(to, "{\"key\":");
    bytes_json_text(to, request->key);
    bytes_format(to, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", request->offset, request->byte_size);
}

/* ---- load and unload ---- */

/* Files are not taken, whatever is in them: their contents need not be copied. */
static void write_parameter(const char *key, const Inference__ModelRepositoryParameter *value, bool first,
                            struct bytes *to)
{
    bytes_text(to, first ? "" : ",");
    bytes_json_text(to, key);
    bytes_text(to, ":");
    if (value && value->parameter_choice_case == INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM)
        bytes_text(to, value->bool_param ? "true" : "false");
    else
        bytes_text(to, "null");
}

void body_load(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__RepositoryModelLoadRequest *request = (const void *)message;
    bytes_text(to, "{\"parameters\":{");
    for (size_t i = 0; i < request->n_parameters; i++)
        write_parameter(request->parameters[i]->key, request->parameters[i]->value, i == 0, to);
    bytes_text(to, "}}");
}

void body_unload(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__RepositoryModelUnloadRequest *request = (const void *)message;
    bytes_text(to, "{\"parameters\":{");
    for (size_t i = 0; i < request->n_parameters; i++)
        write_parameter(request->parameters[i]->key, request->parameters[i]->value, i == 0, to);
    bytes_text(to, "}}");
}

/* ---- settings ---- */

static void write_setting(const Inference__TraceSettingRequest__SettingValue *value, bool list, struct bytes *to)
{
    if (!value || value->n_value == 0) {
        bytes_text(to, "null");
        return;
    }
    bytes_text(to, list ? "[" : "");
    for (size_t i = 0; i < (list ? value->n_value : 1); i++) {
        bytes_text(to, i ? "," : "");
        bytes_json_text(to, value->value[i]);
    }
    bytes_text(to, list ? "]" : "");
}

void body_trace(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__TraceSettingRequest *request = (const void *)message;
    for (size_t i = 0; i < request->n_settings; i++) {
        bytes_text(to, i ? "," : "{");
        bytes_json_text(to, request->settings[i]->key);
        bytes_text(to, ":");
        write_setting(request->settings[i]->value, strcmp(request->settings[i]->key, "trace_level") == 0, to);
    }
    bytes_text(to, request->n_settings ? "}" : "");
}

static void write_log_value(const Inference__LogSettingsRequest__SettingValue *value, struct bytes *to)
{
    switch (value ? value->parameter_choice_case
                  : INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE__NOT_SET) {
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM:
        bytes_text(to, value->bool_param ? "true" : "false");
        break;
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM:
        bytes_format(to, "%" PRIu32, value->uint32_param);
        break;
    case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM:
        bytes_json_text(to, value->string_param);
        break;
    default:
        bytes_text(to, "null");
    }
}

void body_log(const ProtobufCMessage *message, struct bytes *to)
{
    const Inference__LogSettingsRequest *request = (const void *)message;
    for (size_t i = 0; i < request->n_settings; i++) {
        bytes_text(to, i ? "," : "{");
        bytes_json_text(to, request->settings[i]->key);
        bytes_text(to, ":");
        write_log_value(request->settings[i]->value, to);
    }
    bytes_text(to, request->n_settings ? "}" : "");
}
