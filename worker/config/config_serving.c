/* config_serving.c - dynamic_batching, instance_group, version_policy, response_cache. */
#include "config_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_US_MAX 86400000000u /* a day: longer queue times are a slip of the unit */

/* ---- dynamic_batching ------------------------------------------------------------------------------------------------------------ */

static enum pen_status read_preferred(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0;
    enum pen_status status = json_array(value, path, CONFIG_PREFERRED_MAX, &count, reterr);
    size_t i = 0;
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_u32(item, path, 1, CONFIG_BATCH_MAX, &config->preferred[i++], reterr);
    if (status == PEN_OK)
        config->preferred_count = count;
    return status;
}

static enum pen_status read_delay(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 0, TIME_US_MAX, &((struct config *)target)->max_queue_delay_us, reterr);
}

static enum pen_status read_levels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, 255, &((struct config *)target)->priority_levels, reterr);
}

static enum pen_status read_default_level(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, 255, &((struct config *)target)->default_priority_level, reterr);
}

static enum pen_status read_timeout(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_queue_policy *policy = target;
    return json_u64(value, path, 0, TIME_US_MAX, &policy->default_timeout_us, reterr);
}

static enum pen_status read_queue_size(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_queue_policy *policy = target;
    return json_u32(value, path, 0, 100000000, &policy->max_queue_size, reterr);
}

static enum pen_status read_timeout_action(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_queue_policy *policy = target;
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "REJECT|DELAY", &index, reterr);
    if (status == PEN_OK)
        policy->timeout_delays = index == 1;
    return status;
}

static enum pen_status read_override(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_queue_policy *policy = target;
    bool allow = true;
    enum pen_status status = json_bool(value, path, &allow, reterr);
    if (status == PEN_OK)
        policy->timeout_fixed = !allow;
    return status;
}

static const struct json_field queue_policy_fields[] = {
    {"timeout_action", read_timeout_action},
    {"default_timeout_microseconds", read_timeout},
    {"allow_timeout_override", read_override},
    {"max_queue_size", read_queue_size},
    {NULL, NULL},
};

static enum pen_status read_queue_policy(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, queue_policy_fields, &((struct config *)target)->queue_policy, reterr);
}

/* A key of the map: 1..CONFIG_LEVELS_MAX, without sign or leading zeros, so that each level has one spelling. 0: the
   key is invalid. */
static uint32_t level_of(const char *key)
{
    uint32_t level = 0;
    if (key[0] < '1' || key[0] > '9' || strlen(key) > 3)
        return 0;
    for (; *key; key++) {
        if (*key < '0' || *key > '9')
            return 0;
        level = 10 * level + (uint32_t)(*key - '0');
    }
    return level <= CONFIG_LEVELS_MAX ? level : 0;
}

static bool has_level(const struct config *config, uint32_t level)
{
    for (size_t i = 0; i < config->level_policies_count; i++) {
        if (config->level_policies[i].level == level)
            return true;
    }
    return false;
}

/* A map of level -> policy; whether there are so many levels is checked when all keys have been read. */
static enum pen_status read_level_policies(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    if (!cJSON_IsObject(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object of priority levels, {\"1\": {...}}", path);
    config->level_policies = calloc(CONFIG_LEVELS_MAX, sizeof *config->level_policies);
    if (!config->level_policies)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %s", path);
    for (const cJSON *item = value->child; item; item = item->next) {
        char below[JSON_PATH_BYTES];
        uint32_t level = level_of(item->string);
        if (level == 0 || has_level(config, level))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%.16s' %s", path, item->string,
                                 level ? "stands twice" : "is no priority level from 1 to 255");
        snprintf(below, sizeof below, "%s.%s", path, item->string);
        struct config_queue_policy *policy = &config->level_policies[config->level_policies_count++];
        policy->level = level;
        enum pen_status status = json_object(item, below, queue_policy_fields, policy, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static const struct json_field batching_fields[] = {
    {"preferred_batch_size", read_preferred},
    {"max_queue_delay_microseconds", read_delay},
    {"priority_levels", read_levels},
    {"default_priority_level", read_default_level},
    {"default_queue_policy", read_queue_policy},
    {"priority_queue_policy", read_level_policies},
    {NULL, NULL},
};

enum pen_status config_read_batching(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, batching_fields, target, reterr);
}

/* ---- instance_group, version_policy, response_cache ------------------------------------------------------------------------------- */

static enum pen_status read_count(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, 64, &((struct config *)target)->instance_count, reterr);
}

static enum pen_status read_kind(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "KIND_AUTO|KIND_CPU|KIND_GPU", &index, reterr);
    if (status == PEN_OK)
        ((struct config *)target)->instance_kind = (enum config_kind)index;
    return status;
}

static const struct json_field instance_fields[] = {{"count", read_count}, {"kind", read_kind}, {NULL, NULL}};

enum pen_status config_read_instances(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    size_t count = 0;
    enum pen_status status = json_array(value, path, 1, &count, reterr);
    if (status != PEN_OK || count == 0)
        return status;
    return json_object(value->child, path, instance_fields, target, reterr);
}

static enum pen_status read_num_versions(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, CONFIG_VERSIONS_MAX, &((struct config *)target)->policy_latest, reterr);
}

static const struct json_field latest_fields[] = {{"num_versions", read_num_versions}, {NULL, NULL}};

static enum pen_status read_latest(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    ((struct config *)target)->policy = CONFIG_LATEST;
    return json_object(value, path, latest_fields, target, reterr);
}

static enum pen_status read_all(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    static const struct json_field no_fields[] = {{NULL, NULL}};
    ((struct config *)target)->policy = CONFIG_ALL;
    return json_object(value, path, no_fields, target, reterr);
}

static enum pen_status read_versions(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0, i = 0;
    enum pen_status status = json_array(value, path, CONFIG_VERSIONS_MAX, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_u64(item, path, 1, UINT32_MAX, &config->policy_versions[i++], reterr);
    if (status == PEN_OK && count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must name at least one version", path);
    if (status == PEN_OK)
        config->policy_count = count;
    return status;
}

static const struct json_field specific_fields[] = {{"versions", read_versions}, {NULL, NULL}};

static enum pen_status read_specific(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    config->policy = CONFIG_SPECIFIC;
    enum pen_status status = json_object(value, path, specific_fields, target, reterr);
    if (status == PEN_OK && config->policy_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs versions", path);
    return status;
}

static const struct json_field policy_fields[] = {
    {"latest", read_latest}, {"all", read_all}, {"specific", read_specific}, {NULL, NULL}};

enum pen_status config_read_policy(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    enum pen_status status = json_object(value, path, policy_fields, target, reterr);
    if (status == PEN_OK && (!value->child || value->child->next))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must hold exactly one of latest, all, specific", path);
    return status;
}

static enum pen_status read_cache_enable(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_bool(value, path, &((struct config *)target)->cache_enable, reterr);
}

static const struct json_field cache_fields[] = {{"enable", read_cache_enable}, {NULL, NULL}};

enum pen_status config_read_cache(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, cache_fields, target, reterr);
}
