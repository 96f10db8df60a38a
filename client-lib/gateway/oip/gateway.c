#include "gateway.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "logline.h"

unsigned http_status_of(enum pen_status status)
{
    switch (status) {
    case PEN_OK:
        return 200;
    case PEN_ERR_NOT_FOUND:
        return 404;
    case PEN_ERR_DENIED:
        return 403;
    case PEN_ERR_UNSUPPORTED:
        return 501;
    case PEN_ERR_DEADLINE:
    case PEN_ERR_TIMEOUT:
        return 504;
    case PEN_ERR_BUSY:
    case PEN_ERR_UNAVAILABLE:
    case PEN_ERR_WORKER_LOST:
    case PEN_ERR_DEVICE_LOST:
    case PEN_ERR_NO_MEMORY:
        return 503;
    case PEN_ERR_INTERNAL:
    case PEN_ERR_IO:
        return 500;
    default:
        return 400;
    }
}

enum pen_status gateway_find_session(struct gateway *gateway, const char *authorization,
                                     struct gateway_session **ret_session, bool *ret_may_set, struct pen_error *reterr)
{
    struct pen_error error = {.status = PEN_OK};
    *ret_session = gateway->own;
    *ret_may_set = true;
    if (!gateway->tokens)
        return PEN_OK;
    bool bearer = authorization && strncasecmp(authorization, "Bearer ", 7) == 0;
    const char *token = bearer ? authorization + 7 + strspn(authorization + 7, " ") : "";
    const struct token_owner *owner = *token ? tokens_find(gateway->tokens, token, strlen(token)) : NULL;
    if (!owner)
        return pen_error_set(reterr, PEN_ERR_DENIED,
                             bearer ? "nobody has this token" : "send a token: Authorization: Bearer TOKEN");
    *ret_may_set = owner->settings;
    if (session_pool_get(gateway->sessions, owner->key_file, ret_session, &error) == PEN_OK)
        return PEN_OK;
    log_event(LOG_WARN, "session_failed", "name=%s reason=%s", owner->name, error.text);
    return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                         "the gateway cannot reach the broker with the key of this token; its log says why");
}

static void count(struct gateway *gateway, unsigned kind, unsigned status)
{
    gateway->answers[kind < CALL_KINDS ? kind : CALL_KINDS - 1][status / 100 < 6 ? status / 100 : 5]++;
}

#define CORS_BYTES 512

static void write_cors(const struct gateway *gateway, char text[CORS_BYTES])
{
    text[0] = '\0';
    if (*gateway->cors)
        snprintf(text, CORS_BYTES,
                 "Access-Control-Allow-Origin: %.250s\r\n%sAccess-Control-Expose-Headers: "
                 "Inference-Header-Content-Length, Retry-After, traceparent\r\n",
                 gateway->cors, strcmp(gateway->cors, "*") == 0 ? "" : "Vary: Origin\r\n");
}

void gateway_answer(struct gateway *gateway, unsigned kind, struct http_request *request, struct http_answer *answer)
{
    char headers[CORS_BYTES + 512];
    if (*gateway->cors) {
        char cors[CORS_BYTES];
        write_cors(gateway, cors);
        snprintf(headers, sizeof headers, "%s%.500s", cors, answer->headers ? answer->headers : "");
        answer->headers = headers;
    }
    count(gateway, kind, answer->status);
    http_answer(request, answer);
}

void gateway_fail(struct gateway *gateway, unsigned kind, struct http_request *request, unsigned status,
                  const char *text)
{
    char headers[CORS_BYTES + 64], cors[CORS_BYTES];
    write_cors(gateway, cors);
    snprintf(headers, sizeof headers, "%s%s", cors,
             status == 503   ? "Retry-After: 1\r\n"
             : status == 401 ? "WWW-Authenticate: Bearer\r\n"
                             : "");
    count(gateway, kind, status);
    http_answer_error(request, status, headers, text);
}

enum pen_status call_listing(struct call *call, const struct listing **ret_listing, struct pen_error *reterr)
{
    return directory_get(call->session->directory, call->gateway->refresh_us, ret_listing, reterr);
}

enum pen_status call_model(const struct call *call, const struct listing *listing, const struct pen_model **ret_model,
                           struct pen_error *reterr)
{
    *ret_model = listing_find(listing, call->model, call->version);
    if (*ret_model)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                         "Request for unknown model: '%s'%s%s is not found; /v2/repository/index lists what there is",
                         call->model, *call->version ? " version " : "", call->version);
}
