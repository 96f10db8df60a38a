/* repository.c - which models there are, and orders to load and unload them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "json_read.h"

/* ---- the index ---- */

static void write_row(const char *name, uint64_t version, const char *state, const char *reason, bool *first,
                      struct bytes *to)
{
    bytes_text(to, *first ? "{\"name\":" : ",{\"name\":");
    *first = false;
    bytes_json_text(to, name);
    if (version)
        bytes_format(to, ",\"version\":\"%" PRIu64 "\"", version);
    bytes_format(to, ",\"state\":\"%s\",\"reason\":", state);
    bytes_json_text(to, reason);
    bytes_text(to, "}");
}

static bool is_listed(const struct pen_model_list *models, const char *name, uint64_t version)
{
    for (size_t i = 0; i < models->count; i++)
        if (models->models[i]->version == version && strcmp(models->models[i]->name, name) == 0)
            return true;
    return false;
}

static void write_index(const struct pen_model_list *models, bool only_ready, struct bytes *to)
{
    bool first = true;
    bytes_text(to, "[");
    for (size_t i = 0; i < models->count; i++) {
        const struct pen_model *model = models->models[i];
        bool ready = model_is_ready(model);
        if (ready || !only_ready)
            write_row(model->name, model->version,
                      ready                 ? "READY"
                      : model->offers_count ? "LOADING"
                                            : "UNAVAILABLE",
                      ready || model->offers_count ? "" : "no worker serves it", &first, to);
    }
    for (size_t i = 0; i < models->failures_count && !only_ready; i++) {
        const struct pen_failed_model *failed = &models->failures[i];
        if (!is_listed(models, failed->name, failed->version))
            write_row(failed->name, failed->version, "UNAVAILABLE", failed->error, &first, to);
    }
    bytes_text(to, "]");
}

static bool read_ready(struct json *json, bool *ret_ready)
{
    char member[32];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "ready") == 0)
            json_flag(json, ret_ready);
        else
            json_skip(json);
    }
    return json_finish(json);
}

static enum pen_status bad_json(const struct json *json, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "the request's JSON is wrong at byte %zu: %s", json_where(json),
                         json->why);
}

enum pen_status answer_index(struct call *call, struct pen_error *reterr)
{
    const struct listing *listing = NULL;
    bool only_ready = false;
    struct json json;
    json_init(&json, call->body, call->body_bytes);
    if (call->body_bytes && !read_ready(&json, &only_ready))
        return bad_json(&json, reterr);
    enum pen_status status = directory_get(call->session->directory, 0, &listing, reterr);
    if (status == PEN_OK)
        write_index(listing->models, only_ready, &call->text);
    listing_release(listing);
    return status;
}

/* ---- load and unload ---- */

/* What a pool cannot do is refused: its workers have their own folders. */
static bool read_order_parameters(struct json *json, bool *ret_dependents)
{
    char member[CALL_NAME_BYTES];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "unload_dependents") == 0)
            json_flag(json, ret_dependents);
        else
            return json_fail(json, "workers load models from their own folders, with the config.json there: config and "
                                   "file: parameters are not taken");
    }
    return !json->why;
}

static enum pen_status read_order(struct call *call, bool *ret_dependents, struct pen_error *reterr)
{
    struct json json;
    char member[32];
    bool first = true;
    if (call->body_bytes == 0)
        return PEN_OK;
    json_init(&json, call->body, call->body_bytes);
    json_open(&json, '{');
    while (json_member(&json, &first, member, sizeof member)) {
        if (strcmp(member, "parameters") == 0)
            read_order_parameters(&json, ret_dependents);
        else
            json_skip(&json);
    }
    return json_finish(&json) ? PEN_OK : bad_json(&json, reterr);
}

/* The rest of the gateway sees at once what the order did. */
static void look_again(struct call *call)
{
    const struct listing *listing = NULL;
    directory_get(call->session->directory, 0, &listing, NULL);
    listing_release(listing);
}

enum pen_status answer_load(struct call *call, struct pen_error *reterr)
{
    bool dependents = false;
    enum pen_status status = read_order(call, &dependents, reterr);
    if (status != PEN_OK)
        return status;
    status = pen_client_model_load(call->session->client, call->model, call->gateway->order_us, NULL, reterr);
    look_again(call);
    return status;
}

enum pen_status answer_unload(struct call *call, struct pen_error *reterr)
{
    bool dependents = false;
    enum pen_status status = read_order(call, &dependents, reterr);
    if (status == PEN_OK && dependents)
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                               "unload_dependents: unload the models that an ensemble is made of by their own names");
    if (status != PEN_OK)
        return status;
    status = pen_client_model_unload(call->session->client, call->model, call->gateway->order_us, NULL, reterr);
    look_again(call);
    return status;
}
