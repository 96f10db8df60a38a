#include "routes.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "infer.h"
#include "local_host.h"

/* {m} a model, {v} a version, {r} a region of shared memory. */
static const struct route {
    const char *name, *method, *path;
    call_answer *answer; /* NULL: infer */
    enum call_place place;
    bool open; /* to those without a token, and on spare connections */
} routes[] = {
    {"infer", "POST", "v2/models/{m}/infer", NULL, ON_LOOP, false},
    {"infer", "POST", "v2/models/{m}/versions/{v}/infer", NULL, ON_LOOP, false},
    {"live", "GET", "v2/health/live", answer_live, ON_LOOP, true},
    {"ready", "GET", "v2/health/ready", answer_ready, ON_LOOP, true},
    {"server", "GET", "v2", answer_server, ON_LOOP, false},
    {"statistics", "GET", "v2/models/stats", answer_statistics, ON_LOOP, false},
    {"statistics", "GET", "v2/models/{m}/stats", answer_statistics, ON_LOOP, false},
    {"statistics", "GET", "v2/models/{m}/versions/{v}/stats", answer_statistics, ON_LOOP, false},
    {"metadata", "GET", "v2/models/{m}", answer_model, ON_QUESTION, false},
    {"metadata", "GET", "v2/models/{m}/versions/{v}", answer_model, ON_QUESTION, false},
    {"model_ready", "GET", "v2/models/{m}/ready", answer_model_ready, ON_QUESTION, false},
    {"model_ready", "GET", "v2/models/{m}/versions/{v}/ready", answer_model_ready, ON_QUESTION, false},
    {"config", "GET", "v2/models/{m}/config", answer_config, ON_QUESTION, false},
    {"config", "GET", "v2/models/{m}/versions/{v}/config", answer_config, ON_QUESTION, false},
    {"index", "POST", "v2/repository/index", answer_index, ON_QUESTION, false},
    {"load", "POST", "v2/repository/models/{m}/load", answer_load, ON_ORDER, false},
    {"unload", "POST", "v2/repository/models/{m}/unload", answer_unload, ON_ORDER, false},
    {"shared_memory", "GET", "v2/systemsharedmemory/status", answer_region_status, ON_LOOP, false},
    {"shared_memory", "GET", "v2/systemsharedmemory/region/{r}/status", answer_region_status, ON_LOOP, false},
    {"shared_memory", "POST", "v2/systemsharedmemory/region/{r}/register", answer_region_register, ON_LOOP, false},
    {"shared_memory", "POST", "v2/systemsharedmemory/region/{r}/unregister", answer_region_unregister, ON_LOOP, false},
    {"shared_memory", "POST", "v2/systemsharedmemory/unregister", answer_region_unregister, ON_LOOP, false},
    {"cuda_shared_memory", "GET", "v2/cudasharedmemory/status", answer_cuda_status, ON_LOOP, false},
    {"cuda_shared_memory", "GET", "v2/cudasharedmemory/region/{r}/status", answer_cuda_status, ON_LOOP, false},
    {"cuda_shared_memory", "POST", "v2/cudasharedmemory/region/{r}/register", answer_cuda_register, ON_LOOP, false},
    {"cuda_shared_memory", "POST", "v2/cudasharedmemory/region/{r}/unregister", answer_cuda_unregister, ON_LOOP, false},
    {"cuda_shared_memory", "POST", "v2/cudasharedmemory/unregister", answer_cuda_unregister, ON_LOOP, false},
    {"trace_setting", "GET", "v2/trace/setting", answer_trace_get, ON_LOOP, false},
    {"trace_setting", "POST", "v2/trace/setting", answer_trace_set, ON_LOOP, false},
    {"trace_setting", "GET", "v2/models/{m}/trace/setting", answer_trace_get, ON_LOOP, false},
    {"trace_setting", "POST", "v2/models/{m}/trace/setting", answer_trace_set, ON_LOOP, false},
    {"logging", "GET", "v2/logging", answer_logging_get, ON_LOOP, false},
    {"logging", "POST", "v2/logging", answer_logging_set, ON_LOOP, false},
    {"metrics", "GET", "metrics", answer_metrics, ON_LOOP, false},
    {"try", "GET", "try", answer_try, ON_LOOP, true},
    {"try", "GET", "try/{r}", answer_try, ON_LOOP, true},
};

#define ROUTES_COUNT (sizeof routes / sizeof *routes)

static const char *const names[] = {
    "infer",   "live",    "ready",        "server", "statistics",    "metadata",           "model_ready",
    "config",  "index",   "load",         "unload", "shared_memory", "cuda_shared_memory", "trace_setting",
    "logging", "metrics", "stream_infer", "health", "health_watch",  "reflection",         "try",
    "other"};
#define KIND_OTHER (sizeof names / sizeof *names - 1)
_Static_assert(sizeof names / sizeof *names <= CALL_KINDS, "each call has its row of counts");

const char *call_name(unsigned kind)
{
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

unsigned call_kind(const char *name)
{
    unsigned kind = 0;
    while (kind < KIND_OTHER && strcmp(names[kind], name) != 0)
        kind++;
    return kind;
}

/* ---- paths ---- */

/* A part of the path, decoded. False: it is too long, empty, or no text. */
static bool take_name(const char *part, size_t bytes, char *to, size_t room)
{
    if (bytes == 0 || bytes >= 3 * room || bytes >= 3 * CALL_NAME_BYTES)
        return false;
    char text[3 * CALL_NAME_BYTES];
    memcpy(text, part, bytes);
    text[bytes] = '\0';
    if (!http_decode(text) || strlen(text) >= room || !utf8_valid(text, strlen(text)))
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static bool take_part(const char *pattern, size_t length, const char *part, size_t bytes, struct call *call)
{
    if (length != 3 || *pattern != '{')
        return length == bytes && memcmp(pattern, part, bytes) == 0;
    if (pattern[1] == 'm')
        return take_name(part, bytes, call->model, sizeof call->model);
    return pattern[1] == 'v' ? take_name(part, bytes, call->version, sizeof call->version)
                             : take_name(part, bytes, call->region, sizeof call->region);
}

static bool path_fits(const char *pattern, const char *path, struct call *call)
{
    call->model[0] = call->version[0] = call->region[0] = '\0';
    for (path += *path == '/';; pattern++, path++) {
        size_t length = strcspn(pattern, "/"), bytes = strcspn(path, "/");
        if (!take_part(pattern, length, path, bytes, call))
            return false;
        pattern += length;
        path += bytes;
        if (!*pattern || !*path)
            return !*pattern && (!*path || strcmp(path, "/") == 0);
    }
}

/* HEAD is GET whose content is not sent. *ret_methods: those that the path has, for a 405. */
static const struct route *route_find(const struct http_head *head, struct call *call, const char **ret_allowed)
{
    const char *method = strcmp(head->method, "HEAD") == 0 ? "GET" : head->method;
    *ret_allowed = NULL;
    for (size_t i = 0; i < ROUTES_COUNT; i++) {
        if (!path_fits(routes[i].path, head->path, call))
            continue;
        if (strcmp(routes[i].method, method) == 0)
            return &routes[i];
        *ret_allowed = *ret_allowed                           ? "Allow: GET, HEAD, POST\r\n"
                       : strcmp(routes[i].method, "GET") == 0 ? "Allow: GET, HEAD\r\n"
                                                              : "Allow: POST\r\n";
    }
    return NULL;
}

/* ---- who asks ---- */

/* The session that the request's token stands for. False: it was answered. */
static bool find_session(struct call *call)
{
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = gateway_find_session(call->gateway, http_head_find(&call->request->head, "Authorization"),
                                                  &call->session, &call->may_set, &error);
    if (status != PEN_OK)
        gateway_fail(call->gateway, call->kind, call->request, status == PEN_ERR_DENIED ? 401 : 503, error.text);
    return status == PEN_OK;
}

/* ---- calls that are answered with a text ---- */

static void call_free(struct call *call)
{
    bytes_fini(&call->text);
    hold_release(call->hold);
    free(call);
}

static void call_finish(struct call *call)
{
    struct http_answer answer = {
        .status = 200, .type = call->text.used ? call->type : NULL, .text = call->text, .headers = call->headers};
    if (call->status == PEN_OK && call->text.failed)
        call->status = pen_error_set(&call->error, PEN_ERR_NO_MEMORY, "no memory for the answer");
    if (call->request && call->status != PEN_OK) {
        call->request->gone = NULL;
        gateway_fail(call->gateway, call->kind, call->request, http_status_of(call->status), call->error.text);
    } else if (call->request) {
        call->text = (struct bytes){.data = NULL};
        gateway_answer(call->gateway, call->kind, call->request, &answer);
    }
    call_free(call);
}

static void work_call(struct offload_task *task)
{
    struct call *call = (struct call *)task;
    call->status = call->answer(call, &call->error);
}

static void done_call(struct offload_task *task)
{
    call_finish((struct call *)task);
}

static void on_gone(void *arg)
{
    struct call *call = arg;
    call->request = NULL;
    call->gateway->cancelled++;
}

static void call_begin(const struct call *from, const struct route *route)
{
    struct call *call = malloc(sizeof *call);
    if (!call) {
        gateway_fail(from->gateway, from->kind, from->request, 503, "no memory for the request");
        return;
    }
    *call = *from;
    call->answer = route->answer;
    call->hold = call->request->hold;
    call->body = call->request->body;
    call->body_bytes = call->request->body_bytes;
    call->request->hold = NULL;
    call->type = "application/json";
    call->task = (struct offload_task){.work = work_call, .done = done_call};
    if (route->place == ON_LOOP) {
        work_call(&call->task);
        call_finish(call);
        return;
    }
    call->request->waiter = call;
    call->request->gone = on_gone;
    offload_add(route->place == ON_ORDER ? call->gateway->orders : call->gateway->questions, &call->task);
}

/* ---- requests ---- */

/* A browser asks before it sends what it would not send of its own accord. */
static void answer_preflight(struct gateway *gateway, struct http_request *request)
{
    struct http_answer answer = {.status = 204,
                                 .headers = "Access-Control-Allow-Methods: GET, POST\r\n"
                                            "Access-Control-Allow-Headers: Authorization, Content-Type, "
                                            "Content-Encoding, Inference-Header-Content-Length, traceparent\r\n"
                                            "Access-Control-Max-Age: 600\r\n"};
    gateway_answer(gateway, KIND_OTHER, request, &answer);
}

static void refuse_method(struct gateway *gateway, struct http_request *request, const char *allowed)
{
    struct http_answer answer = {.status = 405, .type = "application/json", .headers = allowed};
    bytes_text(&answer.text, "{\"error\":\"this path is not asked in that way\"}");
    gateway_answer(gateway, KIND_OTHER, request, &answer);
}

/* NULL: go on; else why not, and the status. */
static const char *objection(const struct gateway *gateway, const struct http_request *request, bool open,
                             unsigned *ret_status)
{
    const char *host = http_head_find(&request->head, "Host");
    *ret_status = 421;
    if (gateway->local_only && host && *host && !host_is_local(host))
        return "the Host header names another machine; ask 127.0.0.1 or localhost";
    *ret_status = 503;
    if (request->spare && !open)
        return "all connections are taken; come back later";
    if (gateway->draining && !open)
        return "the gateway is ending";
    return NULL;
}

void routes_take(void *context, struct http_request *request)
{
    struct gateway *gateway = context;
    struct call call = {.gateway = gateway, .request = request, .local = request->local, .kind = KIND_OTHER};
    const char *allowed = NULL;
    unsigned status = 0;
    const struct route *route = route_find(&request->head, &call, &allowed);
    call.kind = route ? call_kind(route->name) : (unsigned)KIND_OTHER;
    const char *why = objection(gateway, request, route && route->open, &status);
    if (why)
        gateway_fail(gateway, call.kind, request, status, why);
    else if (*gateway->cors && strcmp(request->head.method, "OPTIONS") == 0)
        answer_preflight(gateway, request);
    else if (!route && allowed)
        refuse_method(gateway, request, allowed);
    else if (!route)
        gateway_fail(
            gateway, KIND_OTHER, request, 404,
            "there is no such path; the Open Inference Protocol's begin with /v2, and there are /metrics and /try");
    else if (!route->open && !find_session(&call))
        return;
    else if (!route->answer)
        infer_begin(&call);
    else
        call_begin(&call, route);
}

/* ---- health ---- */

struct refresh {
    struct offload_task task; /* the first member */
    struct gateway *gateway;
};

static void work_refresh(struct offload_task *task)
{
    struct gateway *gateway = ((struct refresh *)task)->gateway;
    const struct listing *listing = NULL;
    directory_get(gateway->own->directory, gateway->refresh_us, &listing, NULL);
    listing_release(listing);
}

static void done_refresh(struct offload_task *task)
{
    ((struct refresh *)task)->gateway->refreshing = false;
    free(task);
}

void routes_refresh(struct gateway *gateway)
{
    struct refresh *refresh = gateway->refreshing ? NULL : calloc(1, sizeof *refresh);
    if (!refresh)
        return;
    *refresh = (struct refresh){.task = {.work = work_refresh, .done = done_refresh}, .gateway = gateway};
    gateway->refreshing = true;
    offload_add(gateway->questions, &refresh->task);
}
