/* own_settings.c - settings of the gateway itself that the protocol may change: traces and the log. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "json_read.h"
#include "logline.h"

static enum pen_status may_set(const struct call *call, struct pen_error *reterr)
{
    return call->may_set
               ? PEN_OK
               : pen_error_set(
                     reterr, PEN_ERR_DENIED,
                     "this token may not change the gateway's settings; its line in --tokens needs the word settings");
}

static enum pen_status bad_json(const struct json *json, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "the request's JSON is wrong at byte %zu: %s", json_where(json),
                         json->why);
}

/* ---- traces ---- */

static void write_rule(struct call *call)
{
    struct trace_rule rule = trace_rules_get(call->gateway->traces, call->model);
    bytes_format(&call->text,
                 "{\"trace_level\":[\"%s\"],\"trace_rate\":\"%" PRIu32 "\",\"trace_count\":\"%" PRId64
                 "\",\"log_frequency\":\"0\",\"trace_file\":\"\",\"trace_mode\":\"triton\"}",
                 rule.on ? "TIMESTAMPS" : "OFF", rule.rate, rule.left);
}

static bool read_level(struct json *json, bool *ret_on)
{
    char level[32] = "";
    bool list = json_peek(json) == JSON_ARRAY, first = true;
    *ret_on = false;
    if (list)
        json_open(json, '[');
    while (list ? json_element(json, &first) : !*level) {
        if (!json_string(json, level, sizeof level))
            return false;
        if (strcmp(level, "OFF") != 0 && strcmp(level, "TIMESTAMPS") != 0)
            return json_fail(json, "trace_level is OFF or TIMESTAMPS: tensors are not traced");
        *ret_on |= strcmp(level, "TIMESTAMPS") == 0;
    }
    return !json->why;
}

/* Numbers come as texts from some clients. */
static bool read_count(struct json *json, int64_t min, int64_t max, int64_t *ret_value)
{
    char text[32], *end = text;
    if (json_peek(json) != JSON_STRING) {
        if (!json_i64(json, ret_value))
            return false;
    } else if (!json_string(json, text, sizeof text)) {
        return false;
    } else {
        *ret_value = strtoll(text, &end, 10);
        if (!*text || *end)
            return json_fail(json, "a number is expected");
    }
    return (*ret_value >= min && *ret_value <= max) || json_fail(json, "that number is out of range");
}

static bool read_rule(struct json *json, struct trace_rule *rule, bool *ret_cleared)
{
    char member[32];
    bool first = true;
    int64_t number;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        bool level = strcmp(member, "trace_level") == 0, rate = strcmp(member, "trace_rate") == 0,
             count = strcmp(member, "trace_count") == 0;
        if (!level && !rate && !count)
            return json_fail(json, "only trace_level, trace_rate and trace_count can be set: the broker keeps the "
                                   "traces (penstock trace)");
        if (json_word(json, "null")) {
            *ret_cleared |= level;
            if (rate)
                rule->rate = 1000;
            if (count)
                rule->left = -1;
        } else if (level) {
            read_level(json, &rule->on);
        } else if (rate && read_count(json, 1, UINT32_MAX, &number)) {
            rule->rate = (uint32_t)number;
        } else if (count && read_count(json, -1, INT64_MAX, &number)) {
            rule->left = number;
        }
    }
    return json_finish(json);
}

enum pen_status answer_trace_get(struct call *call, struct pen_error *reterr)
{
    (void)reterr;
    write_rule(call);
    return PEN_OK;
}

enum pen_status answer_trace_set(struct call *call, struct pen_error *reterr)
{
    struct trace_rule rule = trace_rules_get(call->gateway->traces, call->model);
    bool cleared = false;
    struct json json;
    enum pen_status status = may_set(call, reterr);
    if (status != PEN_OK)
        return status;
    json_init(&json, call->body, call->body_bytes);
    if (!read_rule(&json, &rule, &cleared))
        return bad_json(&json, reterr);
    if (!trace_rules_set(call->gateway->traces, call->model, cleared ? NULL : &rule))
        return pen_error_set(reterr, PEN_ERR_BUSY, "256 models have a trace setting of their own already");
    write_rule(call);
    return PEN_OK;
}

/* ---- the log ---- */

static void write_log(struct bytes *to)
{
    enum log_level level = log_level_now();
    bytes_format(to,
                 "{\"log_file\":\"\",\"log_info\":%s,\"log_warning\":%s,\"log_error\":true,\"log_verbose_level\":%d,"
                 "\"log_format\":\"default\"}",
                 level <= LOG_INFO ? "true" : "false", level <= LOG_WARN ? "true" : "false", level == LOG_DEBUG);
}

struct log_wish {
    bool info, warning;
    int64_t verbose;
};

static bool read_log(struct json *json, struct log_wish *wish)
{
    char member[32];
    bool first = true, error = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "log_info") == 0)
            json_flag(json, &wish->info);
        else if (strcmp(member, "log_warning") == 0)
            json_flag(json, &wish->warning);
        else if (strcmp(member, "log_verbose_level") == 0)
            read_count(json, 0, INT32_MAX, &wish->verbose);
        else if (strcmp(member, "log_error") == 0)
            json_flag(json, &error);
        else
            return json_fail(json, "only log_info, log_warning, log_error and log_verbose_level can be set: the log "
                                   "goes to stderr in the form of --log-format");
        if (!error)
            return json_fail(json, "errors are always logged");
    }
    return json_finish(json);
}

enum pen_status answer_logging_get(struct call *call, struct pen_error *reterr)
{
    (void)reterr;
    write_log(&call->text);
    return PEN_OK;
}

enum pen_status answer_logging_set(struct call *call, struct pen_error *reterr)
{
    enum log_level level = log_level_now();
    struct log_wish wish = {.info = level <= LOG_INFO, .warning = level <= LOG_WARN, .verbose = level == LOG_DEBUG};
    struct json json;
    enum pen_status status = may_set(call, reterr);
    if (status != PEN_OK)
        return status;
    json_init(&json, call->body, call->body_bytes);
    if (!read_log(&json, &wish))
        return bad_json(&json, reterr);
    log_level_set(wish.verbose > 0 ? LOG_DEBUG : wish.info ? LOG_INFO : wish.warning ? LOG_WARN : LOG_ERROR);
    write_log(&call->text);
    return PEN_OK;
}
