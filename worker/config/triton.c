/* triton.c - one table for each message of Triton's ModelConfig; the kind of a field says what is done with it. */
#include "triton.h"

#include <stdio.h>
#include <string.h>

#include "pbtxt.h"

/* ---- tables -------------------------------------------------------------------------------------------------------------------------- */

enum kind {
    ONE,      /* the last of its values */
    LIST,     /* all of them */
    BLOCK,    /* a message */
    BLOCKS,   /* all its messages, as a list */
    WORDS,    /* a map of texts */
    MAP,      /* a map of messages */
    EMPTY,    /* a message whose presence is what counts */
    SILENT,   /* without effect here, and harmless */
    NAMED,    /* ignored, and listed as ignored */
    REFUSED,  /* `why` is the sentence */
    PLATFORM, /* platform and backend */
    FILE_NAME /* default_model_filename */
};

struct triton_rule {
    const char *name; /* NULL ends the table */
    enum kind kind;
    const struct triton_rule *below;
    const char *why;
};

#define TRANSFORM "transform it in the client, or export a model that takes the shape as it travels"

static const struct triton_rule latest_rules[] = {{.name = "num_versions", .kind = ONE}, {0}};
static const struct triton_rule specific_rules[] = {{.name = "versions", .kind = LIST}, {0}};
static const struct triton_rule policy_rules[] = {{.name = "latest", .kind = BLOCK, .below = latest_rules},
                                                  {.name = "all", .kind = EMPTY},
                                                  {.name = "specific", .kind = BLOCK, .below = specific_rules},
                                                  {0}};
static const struct triton_rule tensor_rules[] = {
    {.name = "name", .kind = ONE},
    {.name = "data_type", .kind = ONE},
    {.name = "dims", .kind = LIST},
    {.name = "label_filename", .kind = ONE},
    {.name = "format", .kind = SILENT},
    {.name = "optional", .kind = NAMED},
    {.name = "is_shape_tensor", .kind = NAMED},
    {.name = "is_non_linear_format_io", .kind = NAMED},
    {.name = "reshape", .kind = REFUSED, .why = "a reshape between client and model is not done here: " TRANSFORM},
    {.name = "allow_ragged_batch", .kind = NAMED},
    {0}};
static const struct triton_rule queue_rules[] = {{.name = "timeout_action", .kind = ONE},
                                                 {.name = "default_timeout_microseconds", .kind = ONE},
                                                 {.name = "allow_timeout_override", .kind = ONE},
                                                 {.name = "max_queue_size", .kind = ONE},
                                                 {0}};
static const struct triton_rule batching_rules[] = {
    {.name = "preferred_batch_size", .kind = LIST},
    {.name = "max_queue_delay_microseconds", .kind = ONE},
    {.name = "priority_levels", .kind = ONE},
    {.name = "default_priority_level", .kind = ONE},
    {.name = "default_queue_policy", .kind = BLOCK, .below = queue_rules},
    {.name = "priority_queue_policy", .kind = MAP, .below = queue_rules},
    {.name = "preserve_ordering", .kind = NAMED},
    {0}};
static const struct triton_rule instance_rules[] = {{.name = "count", .kind = ONE},
                                                    {.name = "kind", .kind = ONE},
                                                    {.name = "name", .kind = SILENT},
                                                    {.name = "gpus", .kind = NAMED},
                                                    {.name = "secondary_devices", .kind = NAMED},
                                                    {.name = "rate_limiter", .kind = NAMED},
                                                    {.name = "passive", .kind = NAMED},
                                                    {.name = "profile", .kind = NAMED},
                                                    {.name = "host_policy", .kind = NAMED},
                                                    {0}};
static const struct triton_rule warm_input_rules[] = {{.name = "dims", .kind = LIST},
                                                      {.name = "data_type", .kind = SILENT},
                                                      {.name = "zero_data", .kind = SILENT},
                                                      {.name = "random_data", .kind = SILENT},
                                                      {.name = "input_data_file", .kind = NAMED},
                                                      {0}};
static const struct triton_rule warmup_rules[] = {{.name = "batch_size", .kind = ONE},
                                                  {.name = "inputs", .kind = MAP, .below = warm_input_rules},
                                                  {.name = "name", .kind = SILENT},
                                                  {.name = "count", .kind = SILENT},
                                                  {0}};
static const struct triton_rule step_rules[] = {
    {.name = "model_name", .kind = ONE},        {.name = "model_version", .kind = ONE},
    {.name = "input_map", .kind = WORDS},       {.name = "output_map", .kind = WORDS},
    {.name = "model_namespace", .kind = NAMED}, {0}};
static const struct triton_rule ensemble_rules[] = {{.name = "step", .kind = BLOCKS, .below = step_rules}, {0}};
static const struct triton_rule initial_rules[] = {
    {.name = "name", .kind = ONE},      {.name = "data_type", .kind = ONE}, {.name = "dims", .kind = LIST},
    {.name = "zero_data", .kind = ONE}, {.name = "data_file", .kind = ONE}, {0}};
static const struct triton_rule state_rules[] = {{.name = "input_name", .kind = ONE},
                                                 {.name = "output_name", .kind = ONE},
                                                 {.name = "data_type", .kind = ONE},
                                                 {.name = "dims", .kind = LIST},
                                                 {.name = "initial_state", .kind = BLOCKS, .below = initial_rules},
                                                 {.name = "use_same_buffer_for_input_output", .kind = SILENT},
                                                 {.name = "use_growable_memory", .kind = NAMED},
                                                 {0}};
static const struct triton_rule oldest_rules[] = {{.name = "max_candidate_sequences", .kind = ONE},
                                                  {.name = "preferred_batch_size", .kind = NAMED},
                                                  {.name = "max_queue_delay_microseconds", .kind = NAMED},
                                                  {.name = "preserve_ordering", .kind = NAMED},
                                                  {0}};
static const struct triton_rule sequence_rules[] = {
    {.name = "max_sequence_idle_microseconds", .kind = ONE},
    {.name = "oldest", .kind = BLOCK, .below = oldest_rules},
    {.name = "state", .kind = BLOCKS, .below = state_rules},
    {.name = "direct", .kind = NAMED},
    {.name = "iterative_sequence", .kind = NAMED},
    {.name = "control_input",
     .kind = REFUSED,
     .why = "inputs that the server fills (START, READY, END, CORRID) are not "
            "made here: name the tensors that are kept in "
            "sequence_batching.state, with an initial_state for the first job"},
    {0}};
static const struct triton_rule cache_rules[] = {{.name = "enable", .kind = ONE}, {0}};
static const struct triton_rule top_rules[] = {
    {.name = "name", .kind = ONE},
    {.name = "platform", .kind = PLATFORM},
    {.name = "backend", .kind = PLATFORM},
    {.name = "max_batch_size", .kind = ONE},
    {.name = "input", .kind = BLOCKS, .below = tensor_rules},
    {.name = "output", .kind = BLOCKS, .below = tensor_rules},
    {.name = "version_policy", .kind = BLOCK, .below = policy_rules},
    {.name = "dynamic_batching", .kind = BLOCK, .below = batching_rules},
    {.name = "sequence_batching", .kind = BLOCK, .below = sequence_rules},
    {.name = "ensemble_scheduling", .kind = BLOCK, .below = ensemble_rules},
    {.name = "instance_group", .kind = BLOCKS, .below = instance_rules},
    {.name = "model_warmup", .kind = BLOCKS, .below = warmup_rules},
    {.name = "response_cache", .kind = BLOCK, .below = cache_rules},
    {.name = "default_model_filename", .kind = FILE_NAME},
    {.name = "batch_input",
     .kind = REFUSED,
     .why = "inputs that the server makes of a batch are not made here: let clients send them"},
    {.name = "batch_output", .kind = NAMED},
    {.name = "optimization", .kind = NAMED},
    {.name = "parameters", .kind = NAMED},
    {.name = "cc_model_filenames", .kind = NAMED},
    {.name = "metric_tags", .kind = NAMED},
    {.name = "model_metrics", .kind = NAMED},
    {.name = "model_operations", .kind = NAMED},
    {.name = "model_repository_agents", .kind = NAMED},
    {.name = "model_transaction_policy", .kind = NAMED},
    {.name = "runtime", .kind = NAMED},
    {0}};

static const struct triton_rule *rule_find(const struct triton_rule *rules, const char *name, size_t length)
{
    for (; rules && rules->name; rules++)
        if (strlen(rules->name) == length && strncmp(rules->name, name, length) == 0)
            return rules;
    return NULL;
}

enum triton_fate triton_fate(const char *path)
{
    const struct triton_rule *rules = top_rules, *rule = NULL;
    for (;;) {
        size_t length = strcspn(path, ".");
        rule = rule_find(rules, path, length);
        if (!rule)
            return TRITON_UNKNOWN;
        if (path[length] == '\0')
            return rule->kind == NAMED ? TRITON_NAMED : rule->kind == REFUSED ? TRITON_REFUSED : TRITON_READ;
        rules = rule->below;
        path += length + 1;
    }
}

/* ---- converting ---------------------------------------------------------------------------------------------------------------------- */

struct triton_work {
    char *ignored;
    struct pen_error *error;
};

#define PATH_BYTES 160

static void ignore(struct triton_work *w, const char *path)
{
    size_t used = strlen(w->ignored);
    char whole[PATH_BYTES + 4];
    const char *found = strstr(w->ignored, path);
    size_t length = strlen(path);
    if (found && (found[length] == ',' || found[length] == '\0'))
        return; /* once for all of a list */
    snprintf(whole, sizeof whole, "%s%s", used ? ", " : "", path);
    if (used + strlen(whole) < TRITON_IGNORED_BYTES)
        memcpy(w->ignored + used, whole, strlen(whole) + 1);
}

static enum pen_status no_memory(const struct triton_work *w)
{
    return pen_error_set(w->error, PEN_ERR_NO_MEMORY, "no memory for the model's settings");
}

/* Owns the item, NULL included. */
static enum pen_status put(const struct triton_work *w, cJSON *to, const char *name, cJSON *item)
{
    if (item && cJSON_AddItemToObject(to, name, item))
        return PEN_OK;
    cJSON_Delete(item);
    return no_memory(w);
}

static const cJSON *last_of(const cJSON *values)
{
    return values->child ? values->child->prev : NULL; /* the first one's `prev` is the last */
}

static enum pen_status block_convert(struct triton_work *w, const cJSON *from, const struct triton_rule *rules,
                                     const char *path, cJSON *to);

/* Gives *ret_block. */
static enum pen_status block_new(struct triton_work *w, const cJSON *from, const struct triton_rule *rules,
                                 const char *path, cJSON **ret_block)
{
    if (!cJSON_IsObject(from))
        return pen_error_set(w->error, PEN_ERR_INVALID, "%s must be a block, { ... }", path);
    cJSON *block = cJSON_CreateObject();
    enum pen_status status = block ? block_convert(w, from, rules, path, block) : no_memory(w);
    if (status == PEN_OK)
        *ret_block = block;
    else
        cJSON_Delete(block);
    return status;
}

/* The format would join several blocks of a message that may occur once; nobody writes that on purpose, so it is an
   error. */
static enum pen_status block_put(struct triton_work *w, const cJSON *values, const struct triton_rule *rule,
                                 const char *path, cJSON *to)
{
    cJSON *block = NULL;
    const cJSON *last = last_of(values);
    if (!last)
        return PEN_OK;
    if (last != values->child)
        return pen_error_set(w->error, PEN_ERR_INVALID, "%s stands twice: join the blocks", path);
    enum pen_status status = block_new(w, last, rule->below, path, &block);
    return status == PEN_OK ? put(w, to, rule->name, block) : status;
}

static enum pen_status blocks_put(struct triton_work *w, const cJSON *values, const struct triton_rule *rule,
                                  const char *path, cJSON *to)
{
    cJSON *list = cJSON_CreateArray();
    enum pen_status status = list ? PEN_OK : no_memory(w);
    for (const cJSON *item = values->child; item && status == PEN_OK; item = item->next) {
        cJSON *block = NULL;
        status = block_new(w, item, rule->below, path, &block);
        if (status == PEN_OK && !cJSON_AddItemToArray(list, block)) {
            cJSON_Delete(block);
            status = no_memory(w);
        }
    }
    if (status == PEN_OK)
        return put(w, to, rule->name, list);
    cJSON_Delete(list);
    return status;
}

/* An entry { key: "a" value: ... } of a map. */
static enum pen_status entry_read(struct triton_work *w, const cJSON *entry, const char *path, char ret_key[64],
                                  const cJSON **ret_value)
{
    const cJSON *keys = cJSON_GetObjectItemCaseSensitive(entry, "key");
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(entry, "value");
    const cJSON *key = keys ? last_of(keys) : NULL;
    *ret_value = values ? last_of(values) : NULL;
    if (!key || !*ret_value)
        return pen_error_set(w->error, PEN_ERR_INVALID, "%s: an entry of a map needs key and value", path);
    if (cJSON_IsNumber(key))
        snprintf(ret_key, 64, "%.0f", key->valuedouble);
    return PEN_OK;
}

static enum pen_status map_put(struct triton_work *w, const cJSON *values, const struct triton_rule *rule,
                               const char *path, cJSON *to)
{
    cJSON *map = cJSON_CreateObject();
    enum pen_status status = map ? PEN_OK : no_memory(w);
    for (const cJSON *entry = values->child; entry && status == PEN_OK; entry = entry->next) {
        char number[64] = "";
        const cJSON *value = NULL;
        cJSON *item = NULL;
        status = entry_read(w, entry, path, number, &value);
        if (status != PEN_OK)
            break;
        const cJSON *key = last_of(cJSON_GetObjectItemCaseSensitive(entry, "key"));
        if (rule->kind == MAP)
            status = block_new(w, value, rule->below, path, &item);
        else
            item = cJSON_Duplicate(value, true);
        if (status == PEN_OK)
            status = put(w, map, cJSON_IsString(key) ? key->valuestring : number, item);
    }
    if (status == PEN_OK)
        return put(w, to, rule->name, map);
    cJSON_Delete(map);
    return status;
}

static enum pen_status format_refuse(const struct triton_work *w, const char *path, const char *text)
{
    return pen_error_set(
        w->error, PEN_ERR_UNSUPPORTED,
        "%s is '%.64s': this worker runs ONNX, TFLite and TensorFlow.js models; export the model to ONNX "
        "(tf2onnx, torch.onnx) and say platform: \"onnxruntime_onnx\"",
        path, text);
}

/* When both are given, backend counts; they must mean the same. */
static enum pen_status platform_put(struct triton_work *w, const cJSON *values, const char *path, cJSON *to)
{
    static const struct {
        const char *triton, *ours;
    } known[] = {{"onnxruntime_onnx", "onnx"}, {"onnxruntime", "onnx"}, {"onnx", "onnx"},        {"tflite", "tflite"},
                 {"armnn_tflite", "tflite"},   {"tfjs", "tfjs"},        {"ensemble", "ensemble"}};
    const cJSON *last = last_of(values);
    const char *text = last && cJSON_IsString(last) ? last->valuestring : "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(text, known[i].triton) != 0)
            continue;
        cJSON_DeleteItemFromObjectCaseSensitive(to, "platform");
        return put(w, to, "platform", cJSON_CreateString(known[i].ours));
    }
    return text[0] ? format_refuse(w, path, text) : PEN_OK;
}

static enum pen_status file_check(const struct triton_work *w, const cJSON *values, const char *path)
{
    const cJSON *last = last_of(values);
    const char *text = last && cJSON_IsString(last) ? last->valuestring : "model.onnx";
    if (strcmp(text, "model.onnx") == 0 || strcmp(text, "model.tflite") == 0 || strcmp(text, "model.json") == 0)
        return PEN_OK;
    return pen_error_set(w->error, PEN_ERR_UNSUPPORTED,
                         "%s is '%.64s': the file must be called model.onnx, model.tflite or model.json; rename it",
                         path, text);
}

static enum pen_status field_convert(struct triton_work *w, const cJSON *values, const struct triton_rule *rule,
                                     const char *path, cJSON *to)
{
    const cJSON *last = last_of(values);
    switch (rule->kind) {
    case ONE:
        return last ? put(w, to, rule->name, cJSON_Duplicate(last, true)) : PEN_OK;
    case LIST:
        return put(w, to, rule->name, cJSON_Duplicate(values, true));
    case BLOCK:
        return block_put(w, values, rule, path, to);
    case BLOCKS:
        return blocks_put(w, values, rule, path, to);
    case WORDS:
    case MAP:
        return map_put(w, values, rule, path, to);
    case EMPTY:
        return put(w, to, rule->name, cJSON_CreateObject());
    case SILENT:
        return PEN_OK;
    case NAMED:
        ignore(w, path);
        return PEN_OK;
    case REFUSED:
        return pen_error_set(w->error, PEN_ERR_UNSUPPORTED, "%s: %s", path, rule->why);
    case PLATFORM:
        return platform_put(w, values, path, to);
    case FILE_NAME:
        return file_check(w, values, path);
    }
    return PEN_OK;
}

static enum pen_status block_convert(struct triton_work *w, const cJSON *from, const struct triton_rule *rules,
                                     const char *path, cJSON *to)
{
    enum pen_status status = PEN_OK;
    for (const cJSON *field = from->child; field && status == PEN_OK; field = field->next) {
        char below[PATH_BYTES];
        const struct triton_rule *rule = rule_find(rules, field->string, strlen(field->string));
        snprintf(below, sizeof below, "%.80s%s%.64s", path, path[0] ? "." : "", field->string);
        if (rule)
            status = field_convert(w, field, rule, below, to);
        else
            ignore(w, below);
    }
    return status;
}

/* ---- what the two forms say differently ------------------------------------------------------------------------------------------------ */

/* Several groups become one: with the sum of their instances, and the kind of the first. KIND_MODEL leaves the
   choice to the backend. */
static enum pen_status groups_join(struct triton_work *w, cJSON *config)
{
    cJSON *groups = cJSON_GetObjectItemCaseSensitive(config, "instance_group");
    cJSON *first = groups ? groups->child : NULL;
    double count = 0;
    for (cJSON *group = first; group; group = group->next) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(group, "count");
        count += cJSON_IsNumber(own) ? own->valuedouble : 1;
    }
    if (!first)
        return PEN_OK;
    while (first->next) {
        ignore(w, "instance_group (the second and on: their counts are added)");
        cJSON_DeleteItemFromArray(groups, 1);
    }
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(first, "kind");
    if (cJSON_IsString(kind) && strcmp(kind->valuestring, "KIND_MODEL") == 0)
        cJSON_DeleteItemFromObjectCaseSensitive(first, "kind");
    cJSON_DeleteItemFromObjectCaseSensitive(first, "count");
    return put(w, first, "count", cJSON_CreateNumber(count));
}

static enum pen_status whole_convert(struct triton_work *w, const cJSON *message, cJSON **ret_config)
{
    cJSON *config = NULL;
    enum pen_status status = block_new(w, message, top_rules, "", &config);
    if (status == PEN_OK && cJSON_GetObjectItemCaseSensitive(config, "ensemble_scheduling") &&
        !cJSON_GetObjectItemCaseSensitive(config, "platform"))
        status = put(w, config, "platform", cJSON_CreateString("ensemble"));
    if (status == PEN_OK)
        status = groups_join(w, config);
    if (status == PEN_OK)
        *ret_config = config;
    else
        cJSON_Delete(config);
    return status;
}

enum pen_status triton_convert(const char *text, size_t bytes, cJSON **ret_config, char ignored[TRITON_IGNORED_BYTES],
                               struct pen_error *reterr)
{
    cJSON *message = NULL;
    struct triton_work w = {.ignored = ignored, .error = reterr};
    ignored[0] = '\0';
    enum pen_status status = pbtxt_parse(text, bytes, &message, reterr);
    if (status == PEN_OK)
        status = whole_convert(&w, message, ret_config);
    cJSON_Delete(message);
    return status;
}
