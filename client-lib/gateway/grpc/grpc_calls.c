#include "grpc_calls.h"

#include <stdlib.h>
#include <string.h>

#include "transcode.h"

struct grpc_call {
    struct call call;             /* the first member; its request stays NULL */
    struct grpc_request *request; /* NULL: the peer has gone */
    const struct grpc_method *method;
    struct bytes body;
};

void grpc_reply(struct gateway *gateway, unsigned kind, struct grpc_request *request, struct grpc_answer *answer,
                enum grpc_then then)
{
    gateway->grpc_answers[kind][GRPC_OK]++;
    grpc_send(request, answer, then);
}

void grpc_refuse(struct gateway *gateway, unsigned kind, struct grpc_request *request, enum grpc_code code,
                 const char *text)
{
    gateway->grpc_answers[kind][code]++;
    grpc_end(request, code, text);
}

/* ---- messages ---- */

struct unpack_memory {
    struct hold *hold;
    bool short_of;
};

static void *take_memory(void *arg, size_t bytes)
{
    struct unpack_memory *memory = arg;
    void *taken = hold_take(memory->hold, bytes ? bytes : 1);
    memory->short_of |= !taken;
    return taken;
}

static void leave_memory(void *arg, void *taken)
{
    (void)arg;
    (void)taken;
}

static enum pen_status no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                         "no memory is left for the message; send it again later, or raise --body-memory");
}

const ProtobufCMessage *grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *data, size_t bytes,
                                    struct hold *hold, struct pen_error *reterr)
{
    struct unpack_memory memory = {.hold = hold};
    ProtobufCAllocator allocator = {.alloc = take_memory, .free = leave_memory, .allocator_data = &memory};
    const ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, bytes, (const uint8_t *)data);
    if (!message && memory.short_of)
        no_memory(reterr);
    else if (!message)
        pen_error_set(reterr, PEN_ERR_INVALID, "the message is no %s", descriptor->short_name);
    return message;
}

enum pen_status grpc_inflate(enum content_coding packed, const char **data, size_t *bytes, size_t bytes_max,
                             struct hold *hold, struct pen_error *reterr)
{
    char *to = NULL;
    if (packed == CODING_NONE)
        return PEN_OK;
    enum pen_status status = content_unpack(packed, *data, *bytes, bytes_max, hold, &to, bytes, NULL);
    if (status == PEN_ERR_NO_MEMORY)
        return no_memory(reterr);
    if (status == PEN_ERR_TOO_LARGE)
        return pen_error_set(reterr, status,
                             "the compressed message unpacks to more than %zu bytes, which is too large", bytes_max);
    if (status != PEN_OK)
        return pen_error_set(reterr, PEN_ERR_INTERNAL,
                             "the message is not compressed as grpc-encoding (%s) says, or is cut",
                             content_coding_name(packed));
    *data = to;
    return PEN_OK;
}

const ProtobufCMessage *grpc_short_message(const ProtobufCMessageDescriptor *descriptor,
                                           const struct grpc_request *request, struct hold *hold,
                                           struct pen_error *reterr)
{
    const char *data = request->message;
    size_t bytes = request->message_bytes;
    if (!hold) {
        no_memory(reterr);
        return NULL;
    }
    enum pen_status status = grpc_inflate(request->packed, &data, &bytes, GRPC_SHORT_BYTES, hold, reterr);
    return status == PEN_OK ? grpc_unpack(descriptor, data, bytes, hold, reterr) : NULL;
}

/* ---- answers ---- */

static bool transcode(const struct grpc_method *method, struct json *json, struct bytes *to)
{
    const ProtobufCFieldDescriptor *inner = protobuf_c_message_descriptor_get_field(method->gives, 1);
    struct bytes object = {.data = NULL};
    bool well;
    switch (method->form) {
    case FORM_MESSAGE:
        return transcode_object(json, method->gives, to);
    case FORM_INNER:
        well = transcode_object(json, inner->descriptor, &object);
        wire_bytes(to, 1, object.data, object.used);
        to->failed |= object.failed;
        bytes_fini(&object);
        return well;
    case FORM_ROWS:
        return transcode_list(json, method->gives, method->field, to);
    case FORM_NAMED:
        return transcode_named(json, method->gives, method->field, to);
    case FORM_SETTINGS:
        return transcode_settings(json, method->gives, to);
    default:
        return true;
    }
}

static enum pen_status write_answer(struct grpc_call *call, struct bytes *to)
{
    struct json json;
    bool flag = call->method->form == FORM_FLAG;
    if (flag && (call->call.status == PEN_ERR_INVALID || call->call.status == PEN_ERR_NOT_FOUND))
        return PEN_OK; /* false, as fields are by default */
    if (call->call.status != PEN_OK)
        return call->call.status;
    if (flag)
        wire_number(to, 1, 1);
    json_init(&json, call->call.text.data, call->call.text.used);
    if (!transcode(call->method, &json, to))
        return pen_error_set(&call->call.error, PEN_ERR_INTERNAL, "the answer does not fit its message: %s",
                             json.why ? json.why : "");
    if (to->failed || call->call.text.failed)
        return pen_error_set(&call->call.error, PEN_ERR_NO_MEMORY, "no memory for the answer");
    return PEN_OK;
}

static void call_free(struct grpc_call *call)
{
    bytes_fini(&call->call.text);
    bytes_fini(&call->body);
    hold_release(call->call.hold);
    free(call);
}

static void call_finish(struct offload_task *task)
{
    struct grpc_call *call = (struct grpc_call *)task;
    struct grpc_answer answer = {.parts = NULL};
    if (call->request) {
        enum pen_status status = write_answer(call, &answer.text);
        if (status == PEN_OK) {
            grpc_reply(call->call.gateway, call->call.kind, call->request, &answer, GRPC_LAST);
        } else {
            bytes_fini(&answer.text);
            grpc_refuse(call->call.gateway, call->call.kind, call->request, grpc_code_of(status),
                        call->call.error.text);
        }
    }
    call_free(call);
}

static void call_work(struct offload_task *task)
{
    struct grpc_call *call = (struct grpc_call *)task;
    call->call.status = call->call.answer(&call->call, &call->call.error);
}

static void on_call_gone(void *arg)
{
    struct grpc_call *call = arg;
    call->request = NULL;
    call->call.gateway->cancelled++;
}

/* ---- requests ---- */

static bool keep_text(const ProtobufCMessage *message, const char *field, char *to, size_t room)
{
    const char *text = field ? message_text(message, field) : "";
    if (strlen(text) >= room || !utf8_valid(text, strlen(text)))
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static enum pen_status take_message(struct grpc_call *call, struct pen_error *reterr)
{
    const struct grpc_method *method = call->method;
    call->call.hold = hold_new();
    const ProtobufCMessage *message = grpc_short_message(method->takes, call->request, call->call.hold, reterr);
    if (!message)
        return reterr->status;
    if (!keep_text(message, method->model, call->call.model, sizeof call->call.model) ||
        !keep_text(message, method->model ? "version" : NULL, call->call.version, sizeof call->call.version) ||
        !keep_text(message, method->region, call->call.region, sizeof call->call.region))
        return pen_error_set(reterr, PEN_ERR_INVALID, "a name is UTF-8 of at most 255 bytes, a version of 63");
    if (method->body)
        method->body(message, &call->body);
    call->call.body = call->body.data;
    call->call.body_bytes = call->body.used;
    call->call.answer = method->look && call->body.used == 0 ? method->look : method->answer;
    return call->body.failed ? no_memory(reterr) : PEN_OK;
}

void grpc_call_begin(const struct grpc_who *who, const struct grpc_method *method)
{
    struct grpc_call *call = calloc(1, sizeof *call);
    if (!call) {
        grpc_refuse(who->gateway, who->kind, who->request, GRPC_RESOURCE_EXHAUSTED, "no memory for the request");
        return;
    }
    call->call.gateway = who->gateway;
    call->call.session = who->session;
    call->call.may_set = who->may_set;
    call->call.local = who->request->local;
    call->call.kind = who->kind;
    call->request = who->request;
    call->method = method;
    struct pen_error error = {.status = PEN_OK};
    if (take_message(call, &error) != PEN_OK) {
        grpc_refuse(who->gateway, who->kind, who->request, grpc_code_of(error.status), error.text);
        call_free(call);
        return;
    }
    call->call.task = (struct offload_task){.work = call_work, .done = call_finish};
    if (method->place == ON_LOOP) {
        call_work(&call->call.task);
        call_finish(&call->call.task);
        return;
    }
    who->request->waiter = call;
    who->request->gone = on_call_gone;
    offload_add(method->place == ON_ORDER ? who->gateway->orders : who->gateway->questions, &call->call.task);
}
