#include "grpc_health.h"

#include <stdlib.h>

#include "grpc_reflection.h"
#include "health.pb-c.h"
#include "transcode.h"

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;
#define SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define UNKNOWN     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

/* A peer that is told of every change. */
struct grpc_watch {
    struct grpc_watch *previous, *next;
    struct gateway *gateway;
    struct grpc_request *request;
    unsigned kind;
    bool known; /* the service is one of ours */
    serving_status told;
};

static serving_status status_of(struct gateway *gateway, bool known)
{
    struct call call = {.gateway = gateway};
    return !known ? UNKNOWN : answer_ready(&call, NULL) == PEN_OK ? SERVING : NOT_SERVING;
}

/* False: the message is none, and the request refused. */
static bool read_service(const struct grpc_who *who, bool *ret_known)
{
    struct pen_error error = {.status = PEN_OK};
    struct hold *hold = hold_new();
    const Grpc__Health__V1__HealthCheckRequest *message = (const void *)grpc_short_message(
        &grpc__health__v1__health_check_request__descriptor, who->request, hold, &error);
    *ret_known = message && (!*message->service || grpc_service_is_known(message->service));
    hold_release(hold);
    if (!message)
        grpc_refuse(who->gateway, who->kind, who->request, grpc_code_of(error.status), error.text);
    return message != NULL;
}

static void tell(struct gateway *gateway, unsigned kind, struct grpc_request *request, serving_status status,
                 enum grpc_then then)
{
    struct grpc_answer answer = {.parts = NULL};
    wire_number(&answer.text, 1, status);
    grpc_reply(gateway, kind, request, &answer, then);
}

void grpc_health_check(const struct grpc_who *who)
{
    bool known;
    if (!read_service(who, &known))
        return;
    if (known)
        tell(who->gateway, who->kind, who->request, status_of(who->gateway, true), GRPC_LAST);
    else
        grpc_refuse(who->gateway, who->kind, who->request, GRPC_NOT_FOUND, "there is no such service");
}

/* ---- watchers ---- */

static void watch_free(struct grpc_watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        watch->gateway->watches = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
    free(watch);
}

static void on_watcher_gone(void *arg)
{
    watch_free(arg);
}

static void watch_add(struct grpc_watch *watch)
{
    watch->next = watch->gateway->watches;
    if (watch->next)
        watch->next->previous = watch;
    watch->gateway->watches = watch;
    watch->request->waiter = watch;
    watch->request->gone = on_watcher_gone;
}

void grpc_health_watch(const struct grpc_who *who)
{
    bool known;
    if (!read_service(who, &known))
        return;
    struct grpc_watch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        grpc_refuse(who->gateway, who->kind, who->request, GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return;
    }
    *watch = (struct grpc_watch){.gateway = who->gateway, .request = who->request, .kind = who->kind, .known = known};
    watch->told = status_of(who->gateway, known);
    watch_add(watch);
    tell(who->gateway, who->kind, who->request, watch->told, GRPC_MORE);
}

static void end_all(struct gateway *gateway)
{
    while (gateway->watches) {
        struct grpc_watch watch = *gateway->watches;
        watch_free(gateway->watches);
        grpc_refuse(gateway, watch.kind, watch.request, GRPC_UNAVAILABLE, "the gateway is ending");
    }
}

/* Telling one may end its connection, and with it the watches of others: from the front again after each. */
static struct grpc_watch *changed(struct gateway *gateway, serving_status status)
{
    struct grpc_watch *at = gateway->watches;
    while (at && (!at->known || at->told == status))
        at = at->next;
    return at;
}

void grpc_health_look(struct gateway *gateway)
{
    struct grpc_watch *watch;
    if (!gateway->watches)
        return;
    if (gateway->draining) {
        end_all(gateway);
        return;
    }
    serving_status status = status_of(gateway, true);
    while ((watch = changed(gateway, status))) {
        watch->told = status;
        tell(gateway, watch->kind, watch->request, status, GRPC_MORE);
    }
}
