#include "grpc_routes.h"

#include <string.h>

#include "grpc_calls.h"
#include "grpc_health.h"
#include "grpc_infer.h"
#include "grpc_reflection.h"
#include "grpc_service.pb-c.h"

#define OIP "/inference.GRPCInferenceService/"

#define TAKES(name) .takes = &inference__##name##_request__descriptor
#define GIVES(name) .gives = &inference__##name##_response__descriptor

static const struct grpc_method methods[] = {
    {OIP "ServerLive", "live", answer_live, .open = true, TAKES(server_live), .form = FORM_FLAG, GIVES(server_live)},
    {OIP "ServerReady", "ready", answer_ready, .open = true, TAKES(server_ready), .form = FORM_FLAG,
     GIVES(server_ready)},
    {OIP "ModelReady", "model_ready", answer_model_ready, .place = ON_QUESTION, TAKES(model_ready), .model = "name",
     .form = FORM_FLAG, GIVES(model_ready)},
    {OIP "ServerMetadata", "server", answer_server, TAKES(server_metadata), .form = FORM_MESSAGE,
     GIVES(server_metadata)},
    {OIP "ModelMetadata", "metadata", answer_model, .place = ON_QUESTION, TAKES(model_metadata), .model = "name",
     .form = FORM_MESSAGE, GIVES(model_metadata)},
    {OIP "ModelConfig", "config", answer_config, .place = ON_QUESTION, TAKES(model_config), .model = "name",
     .form = FORM_INNER, GIVES(model_config)},
    {OIP "ModelStatistics", "statistics", answer_statistics, TAKES(model_statistics), .model = "name",
     .form = FORM_MESSAGE, GIVES(model_statistics)},
    {OIP "RepositoryIndex", "index", answer_index, .place = ON_QUESTION, TAKES(repository_index), .body = body_index,
     .form = FORM_ROWS, GIVES(repository_index), .field = "models"},
    {OIP "RepositoryModelLoad", "load", answer_load, .place = ON_ORDER, TAKES(repository_model_load),
     .model = "model_name", .body = body_load, .form = FORM_EMPTY, GIVES(repository_model_load)},
    {OIP "RepositoryModelUnload", "unload", answer_unload, .place = ON_ORDER, TAKES(repository_model_unload),
     .model = "model_name", .body = body_unload, .form = FORM_EMPTY, GIVES(repository_model_unload)},
    {OIP "SystemSharedMemoryStatus", "shared_memory", answer_region_status, TAKES(system_shared_memory_status),
     .region = "name", .form = FORM_NAMED, GIVES(system_shared_memory_status), .field = "regions"},
    {OIP "SystemSharedMemoryRegister", "shared_memory", answer_region_register, TAKES(system_shared_memory_register),
     .region = "name", .body = body_region, .form = FORM_EMPTY, GIVES(system_shared_memory_register)},
    {OIP "SystemSharedMemoryUnregister", "shared_memory", answer_region_unregister,
     TAKES(system_shared_memory_unregister), .region = "name", .form = FORM_EMPTY,
     GIVES(system_shared_memory_unregister)},
    {OIP "CudaSharedMemoryStatus", "cuda_shared_memory", answer_cuda_status, TAKES(cuda_shared_memory_status),
     .form = FORM_NAMED, GIVES(cuda_shared_memory_status), .field = "regions"},
    {OIP "CudaSharedMemoryRegister", "cuda_shared_memory", answer_cuda_register, TAKES(cuda_shared_memory_register),
     .form = FORM_EMPTY, GIVES(cuda_shared_memory_register)},
    {OIP "CudaSharedMemoryUnregister", "cuda_shared_memory", answer_cuda_unregister,
     TAKES(cuda_shared_memory_unregister), .form = FORM_EMPTY, GIVES(cuda_shared_memory_unregister)},
    {OIP "TraceSetting", "trace_setting", answer_trace_set, answer_trace_get, TAKES(trace_setting),
     .model = "model_name", .body = body_trace, .form = FORM_SETTINGS, GIVES(trace_setting)},
    {OIP "LogSettings", "logging", answer_logging_set, answer_logging_get, TAKES(log_settings), .body = body_log,
     .form = FORM_SETTINGS, GIVES(log_settings)},
};

#define METHODS_COUNT (sizeof methods / sizeof *methods)

/* What is answered by functions of its own. */
static const struct special {
    const char *path, *kind;
    void (*take)(const struct grpc_who *who);
    bool streams, open;
} specials[] = {
    {OIP "ModelInfer", "infer", grpc_infer_begin, false, false},
    {OIP "ModelStreamInfer", "stream_infer", grpc_infer_next, true, false},
    {"/grpc.health.v1.Health/Check", "health", grpc_health_check, false, true},
    {"/grpc.health.v1.Health/Watch", "health_watch", grpc_health_watch, false, true},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "reflection", grpc_reflection_next, true, false},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "reflection", grpc_reflection_next, true, false},
};

#define SPECIALS_COUNT (sizeof specials / sizeof *specials)

static const struct special *special_find(const char *path)
{
    for (size_t i = 0; i < SPECIALS_COUNT; i++)
        if (strcmp(specials[i].path, path) == 0)
            return &specials[i];
    return NULL;
}

static const struct grpc_method *method_find(const char *path)
{
    for (size_t i = 0; i < METHODS_COUNT; i++)
        if (strcmp(methods[i].path, path) == 0)
            return &methods[i];
    return NULL;
}

bool grpc_routes_stream(void *gateway, const char *path)
{
    const struct special *special = special_find(path);
    (void)gateway;
    return special && special->streams;
}

/* What stays open needs a place of its own. */
static bool lasts(const struct special *special)
{
    return special && special->take == grpc_health_watch;
}

/* NULL: go on; else why not now. */
static const char *objection(const struct gateway *gateway, const struct grpc_request *request, bool open)
{
    if (open)
        return NULL;
    return request->spare      ? "all connections are taken; come back later"
           : gateway->draining ? "the gateway is ending"
                               : NULL;
}

void grpc_routes_take(void *context, struct grpc_request *request)
{
    struct gateway *gateway = context;
    const struct special *special = special_find(request->path);
    const struct grpc_method *method = special ? NULL : method_find(request->path);
    const char *kind = special ? special->kind : method ? method->kind : "other";
    bool open = special ? special->open : method && method->open;
    struct grpc_who who = {.gateway = gateway, .request = request, .session = gateway->own, .kind = call_kind(kind)};
    const char *why = objection(gateway, request, open && !lasts(special));
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status =
        open ? PEN_OK : gateway_find_session(gateway, request->authorization, &who.session, &who.may_set, &error);
    if (why)
        grpc_refuse(gateway, who.kind, request, GRPC_UNAVAILABLE, why);
    else if (!special && !method)
        grpc_refuse(gateway, who.kind, request, GRPC_UNIMPLEMENTED,
                    "there is no such method; reflection (grpc.reflection.v1) lists what there is");
    else if (status != PEN_OK)
        grpc_refuse(gateway, who.kind, request, status == PEN_ERR_DENIED ? GRPC_UNAUTHENTICATED : GRPC_UNAVAILABLE,
                    error.text);
    else if (special)
        special->take(&who);
    else
        grpc_call_begin(&who, method);
}
