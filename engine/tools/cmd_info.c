#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tool.h"
#include "version.h"

#define MODELS_MAX 256

struct info_options {
    struct tool_options tool;
};

static const struct setting table[] = {TOOL_SETTINGS(struct info_options), {.name = NULL}};

static const struct settings_program program = {
    .name = "penstock-engine info",
    .usage = "penstock-engine info [options] [MODEL...]",
    .about = "Lists the backends of this build, what this host offers them, and the flags of the chosen one after its "
             "self-test. With model files: which backend runs how many of their nodes and multiply-adds.",
    .after = "JSON keys: version, chosen, backends[{name, priority, available, reason, device, library, "
             "precisions[]}], flags{name: value}; with model files models[{model, format, placement}].",
    .table = table,
    .variables = tool_variables,
};

static const char *const precision_names[] = {"any", "f32", "f16_storage", "f16_mma", "f16_math", "bf16", "int8"};

static void print_json(const struct pen_backend_info *infos, size_t count, const struct pen_engine *engine)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", version_build());
    cJSON_AddStringToObject(root, "chosen", pen_engine_backend(engine));
    cJSON *list = cJSON_AddArrayToObject(root, "backends");
    for (size_t i = 0; i < count; i++) {
        cJSON *b = cJSON_CreateObject();
        cJSON_AddStringToObject(b, "name", infos[i].name);
        cJSON_AddNumberToObject(b, "priority", infos[i].priority);
        cJSON_AddBoolToObject(b, "available", infos[i].available);
        cJSON_AddStringToObject(b, "reason", infos[i].reason);
        cJSON_AddStringToObject(b, "device", infos[i].device);
        cJSON_AddStringToObject(b, "library", infos[i].library);
        cJSON *precisions = cJSON_AddArrayToObject(b, "precisions");
        for (size_t p = 1; p < sizeof precision_names / sizeof precision_names[0]; p++) {
            if ((infos[i].precisions & (1u << p)) != 0) {
                cJSON_AddItemToArray(precisions, cJSON_CreateString(precision_names[p]));
            }
        }
        cJSON_AddItemToArray(list, b);
    }
    size_t flag_count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &flag_count);
    cJSON *object = cJSON_AddObjectToObject(root, "flags");
    for (size_t i = 0; i < flag_count; i++) {
        cJSON_AddStringToObject(object, flags[i].name, flags[i].value);
    }
    char *text = cJSON_PrintUnformatted(root);
    printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(root);
}

static void print_text(const struct pen_backend_info *infos, size_t count, const struct pen_engine *engine)
{
    printf("%s\n\nbackends, by priority:\n", version_build());
    for (size_t i = 0; i < count; i++) {
        printf("  %-10s %3d  %-11s %s%s%s%s\n", infos[i].name, infos[i].priority,
               infos[i].available ? "available" : "unavailable", infos[i].available ? infos[i].device : infos[i].reason,
               infos[i].library[0] != '\0' ? " (" : "", infos[i].library, infos[i].library[0] != '\0' ? ")" : "");
        printf("  %-10s      precisions:", "");
        for (size_t p = 1; p < sizeof precision_names / sizeof precision_names[0]; p++) {
            if ((infos[i].precisions & (1u << p)) != 0) {
                printf(" %s", precision_names[p]);
            }
        }
        printf("\n");
    }
    printf("\nchosen: %s\nflags:\n", pen_engine_backend(engine));
    size_t flag_count = 0;
    const struct pen_flag *flags = pen_engine_flags(engine, &flag_count);
    for (size_t i = 0; i < flag_count; i++) {
        printf("  %-24s %s\n", flags[i].name, flags[i].value);
    }
}

/* One line, or one object of the list, for each model. */
static int models_print(const char *const *paths, size_t count, struct pen_engine *engine, bool json)
{
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "models");
    int code = TOOL_OK;
    for (size_t i = 0; i < count; i++) {
        struct pen_error error = {0};
        struct pen_model *model = NULL;
        if (pen_model_load(engine, paths[i], &model, &error) != PEN_OK) {
            code = tool_fail(&error);
            continue;
        }
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "model", paths[i]);
        cJSON_AddStringToObject(item, "format", pen_model_format(model));
        cJSON_AddStringToObject(item, "placement", pen_model_placement(model));
        cJSON_AddItemToArray(list, item);
        if (!json) {
            printf("%s\t%s\t%s\n", paths[i], pen_model_format(model), pen_model_placement(model));
        }
        pen_model_free(model);
    }
    char *text = json ? cJSON_PrintUnformatted(root) : NULL;
    if (text != NULL) {
        printf("%s\n", text);
    }
    cJSON_free(text);
    cJSON_Delete(root);
    return code;
}

static int run(void *from, const char *const *paths, size_t count)
{
    const struct info_options *options = from;
    struct pen_engine *engine = NULL;
    int code = tool_engine(&options->tool, false, &engine);
    if (engine != NULL && count > 0) {
        code = models_print(paths, count, engine, options->tool.json);
    } else if (engine != NULL) {
        struct pen_backend_info infos[16];
        struct pen_engine_options engine_options;
        pen_engine_options_init(&engine_options);
        tool_vulkan(&options->tool, &engine_options.vulkan);
        size_t backends = pen_backends(&engine_options, infos, 16);
        (options->tool.json ? print_json : print_text)(infos, backends > 16 ? 16 : backends, engine);
    }
    pen_engine_free(engine);
    return code;
}

int cmd_info(int argc, char **argv)
{
    struct info_options options = {0};
    const struct tool_command command = {&program, &options, NULL, MODELS_MAX, run};
    return tool_run(&command, argc, argv);
}
