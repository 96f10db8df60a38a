/* cmd_fetch.c - `penstock fetch`: the result of a detached job. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "inputs.h"
#include "job_id.h"
#include "penstock/dtype.h"
#include "show.h"
#include "words.h"

#define TOP_UNASKED 3 /* classes of a job that asked for none */

struct options {
    struct common common;
    int64_t wait_us;
    const char *output_dir;
    bool state;
};

/* clang-format off */
static const struct setting settings[] = {
    COMMON_SETTINGS(struct options),
    {.name = "wait", .type = SETTING_DURATION, .offset = offsetof(struct options, wait_us), .def = "10s", .min = 1000, .max = 86400000000,
     .help = "how long to wait for a job that is not done"},
    {.name = "state", .type = SETTING_FLAG, .offset = offsetof(struct options, state), .def = "false",
     .help = "say at once what becomes of the job, without its result"},
    {.name = "output-dir", .type = SETTING_TEXT, .offset = offsetof(struct options, output_dir), .def = "",
     .help = "write every output there as <job>.<output>.npy"},
    {.name = NULL}};
/* clang-format on */

static const struct settings_program program = {
    .name = "penstock fetch",
    .usage = "penstock fetch JOB [options]",
    .about =
        "Fetches the result of a job that was submitted with --detach, waiting for it if need be. It stays at the "
        "broker until "
        "its time is over. A broker with a journal of its own knows only the jobs that it took itself; those in Redis "
        "every broker knows.\n`penstock cancel JOB` cancels it, `penstock explain JOB` says where it is.",
    .after = "JSON: {job, status, model, version, worker, backend, labels: [{label, index, score, row}], outputs: "
             "[{name, dtype, dims, "
             "bytes}]}; with --state: {job, state, status (of one that is done), attempts, age_us, "
             "left_us}\n\n" EXIT_CODES_TEXT,
    .table = settings,
};

/* As `penstock submit` does: the classes that the job asked for; of one that did not ask, or of an old worker, those that the model has names for. */
static struct show show_of(pen_client *client, const struct common *common, const pen_result *result,
                           struct pen_model_list **ret_models)
{
    struct show show = {.top = pen_result_annotations(result) ? SHOW_TOP_MAX : TOP_UNASKED};
    const struct pen_result_info *info = pen_result_info(result);
    if (pen_result_annotations(result) || pen_client_models(client, common->timeout_us, ret_models, NULL) != PEN_OK) {
        return show;
    }
    const struct pen_model *model = model_find(*ret_models, info->model, info->version);
    show.names = model ? (struct label_names){model->labels, model->labels_count, false} : show.names;
    return show;
}

static cJSON *output_json(const struct pen_tensor *output)
{
    cJSON *json = cJSON_CreateObject(), *dims;
    cJSON_AddStringToObject(json, "name", output->name);
    cJSON_AddStringToObject(json, "dtype", pen_dtype_name(output->dtype));
    dims = cJSON_AddArrayToObject(json, "dims");
    for (uint32_t d = 0; d < output->rank; d++) {
        cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)output->dims[d]));
    }
    cJSON_AddNumberToObject(json, "bytes", (double)output->bytes);
    return json;
}

static int print_json(const char *job, const struct show *show, const pen_result *result)
{
    const struct pen_result_info *info = pen_result_info(result);
    cJSON *json = cJSON_CreateObject(), *outputs;
    cJSON_AddStringToObject(json, "job", job);
    cJSON_AddStringToObject(json, "status", pen_status_name(pen_result_status(result)));
    cJSON_AddStringToObject(json, "model", info->model);
    cJSON_AddNumberToObject(json, "version", (double)info->version);
    cJSON_AddStringToObject(json, "worker", info->worker);
    cJSON_AddStringToObject(json, "backend", info->backend);
    cJSON_AddItemToObject(json, "labels", show_labels_json(show, result));
    outputs = cJSON_AddArrayToObject(json, "outputs");
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        cJSON_AddItemToArray(outputs, output_json(pen_result_output(result, i)));
    }
    return command_print(json);
}

static void print_text(const char *job, const struct show *show, const pen_result *result)
{
    const struct pen_result_info *info = pen_result_info(result);
    printf("%s  done by %s (%s), model %s:%" PRIu64 "\n", job, info->worker, info->backend, info->model, info->version);
    show_labels(show, result);
    for (size_t i = 0; i < pen_result_outputs(result); i++) {
        const struct pen_tensor *output = pen_result_output(result, i);
        printf("  %s %s [", output->name, pen_dtype_name(output->dtype));
        for (uint32_t d = 0; d < output->rank; d++) {
            printf("%s%" PRId64, d ? "," : "", output->dims[d]);
        }
        printf("] %zu bytes\n", (size_t)output->bytes);
    }
}

/* As `penstock submit` writes them: the folder is made, a name with a slash is no path. */
static bool write_outputs(const char *folder, const char *job, const pen_result *result, struct pen_error *reterr)
{
    return !*folder || show_save(&(struct show){.output_dir = folder}, job, result, reterr) == PEN_OK;
}

static int print_state(const struct common *common, const char *job, const struct pen_result_info *info)
{
    bool done = strcmp(info->detached_state, "done") == 0;
    if (common->json) {
        cJSON *json = cJSON_CreateObject();
        cJSON_AddStringToObject(json, "job", job);
        cJSON_AddStringToObject(json, "state", info->detached_state);
        cJSON_AddStringToObject(json, "status", done ? pen_status_name(info->detached_status) : "");
        cJSON_AddNumberToObject(json, "attempts", info->detached_attempts);
        cJSON_AddNumberToObject(json, "age_us", (double)info->detached_age_us);
        cJSON_AddNumberToObject(json, "left_us", (double)info->detached_left_us);
        return command_print(json);
    }
    if (done) {
        printf("%s  done: %s, %.0f s left\n", job, pen_status_name(info->detached_status),
               (double)info->detached_left_us / 1e6);
    } else {
        printf("%s  %s for %.1f s, begun %" PRIu32 " %s, %.0f s left\n", job, info->detached_state,
               (double)info->detached_age_us / 1e6, info->detached_attempts,
               words_plural(info->detached_attempts, "time", "times"), (double)info->detached_left_us / 1e6);
    }
    return EXIT_OK;
}

static int fetch(const void *options_given, const char *job)
{
    const struct options *o = options_given;
    struct pen_job_options options;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    pen_result *result = NULL;
    int code = EXIT_OK;
    struct job_id id;
    if (job_id_parse(job, &id) != 0) { /* asked here, for a job may have ended INVALID too */
        pen_error_set(&error, PEN_ERR_INVALID, "\"%.100s\" " JOB_ID_REFUSED ".", job);
        command_fail(&o->common, &error);
        return EXIT_USAGE;
    }
    pen_client *client = command_connect(&o->common, program.name, &code);
    if (!client) {
        return code;
    }
    pen_job_options_init(&options, sizeof options);
    options.detached = job;
    options.detached_state = o->state;
    options.flags = PEN_JOB_NO_CACHE;
    options.deadline_us = (uint64_t)o->wait_us;
    if (pen_client_run(client, &options, &result, &error) != PEN_OK ||
        !write_outputs(o->output_dir, job, result, &error)) {
        code = command_fail(&o->common, &error);
    } else if (o->state) {
        code = print_state(&o->common, job, pen_result_info(result));
    } else {
        struct pen_model_list *models = NULL;
        const struct show show = show_of(client, &o->common, result, &models);
        if (o->common.json) {
            code = print_json(job, &show, result);
        } else {
            print_text(job, &show, result);
        }
        pen_client_models_free(models);
    }
    pen_result_free(result);
    pen_client_free(client);
    return code;
}

int command_fetch(int argc, char **argv)
{
    struct options options;
    return command_of_job(&program, argc, argv, &options, fetch);
}
