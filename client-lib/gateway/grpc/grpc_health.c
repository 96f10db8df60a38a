#include "grpc_health.h"

#include <string.h>

#include "grpc_reflection.h"
#include "health.pb-c.h"
#include "transcode.h"

void grpc_health_check(const struct grpc_who *who)
{
    struct grpc_request *request = who->request;
    struct grpc_answer answer = {.parts = NULL};
    struct call call = {.gateway = who->gateway};
    struct hold *hold = hold_new();
    const Grpc__Health__V1__HealthCheckRequest *message =
        hold ? (const void *)grpc_unpack(&grpc__health__v1__health_check_request__descriptor, request->message,
                                         request->message_bytes, hold)
             : NULL;
    bool well = message != NULL;
    bool known = well && (!*message->service || grpc_service_is_known(message->service));
    hold_release(hold);
    if (!well) {
        grpc_refuse(who->gateway, who->kind, request, GRPC_INVALID_ARGUMENT, "the message is malformed");
    } else if (!known) {
        grpc_refuse(who->gateway, who->kind, request, GRPC_NOT_FOUND, "there is no such service");
    } else {
        bool ready = answer_ready(&call, NULL) == PEN_OK;
        wire_number(&answer.text, 1,
                    ready ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                          : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING);
        grpc_reply(who->gateway, who->kind, request, &answer, true);
    }
}

void grpc_health_watch(const struct grpc_who *who)
{
    grpc_refuse(who->gateway, who->kind, who->request, GRPC_UNIMPLEMENTED,
                "health is not watched here; ask Check now and then");
}
