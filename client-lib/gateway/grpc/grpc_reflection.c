#include "grpc_reflection.h"

#include <string.h>

#include "descriptor_names.pb-c.h"
#include "reflection_v1.pb-c.h"
#include "transcode.h"

/* Read once, at the first question; as long as the process. */
static Penstock__Gateway__FileSet *all_files(void)
{
    static Penstock__Gateway__FileSet *files;
    if (!files)
        files = penstock__gateway__file_set__unpack(NULL, descriptor_set_bytes, descriptor_set);
    return files;
}

static Penstock__Gateway__FileNames *file_names(const ProtobufCBinaryData *file)
{
    return penstock__gateway__file_names__unpack(NULL, file->len, file->data);
}

/* ---- symbols ---- */

/* What is left of a symbol behind `name` and its dot; "" = nothing; NULL = it is another one. An empty name is before everything. */
static const char *behind(const char *symbol, const char *name)
{
    size_t length = strlen(name);
    if (length == 0)
        return symbol;
    if (strncmp(symbol, name, length) != 0 || (symbol[length] != '.' && symbol[length] != '\0'))
        return NULL;
    return symbol[length] ? symbol + length + 1 : symbol + length;
}

static bool has_name(Penstock__Gateway__TypeNames **types, size_t count, const char *symbol)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(types[i]->name, symbol) == 0)
            return true;
    return false;
}

static bool has_type(Penstock__Gateway__TypeNames **types, size_t count, const char *symbol)
{
    for (size_t i = 0; i < count; i++) {
        const char *rest = behind(symbol, types[i]->name);
        if (rest && (!*rest || has_type(types[i]->nested_type, types[i]->n_nested_type, rest) ||
                     has_name(types[i]->enum_type, types[i]->n_enum_type, rest)))
            return true;
    }
    return false;
}

static bool has_service(const Penstock__Gateway__FileNames *names, const char *symbol)
{
    for (size_t i = 0; i < names->n_service; i++) {
        const char *rest = behind(symbol, names->service[i]->name);
        for (size_t j = 0; rest && *rest && j < names->service[i]->n_method; j++)
            if (strcmp(names->service[i]->method[j]->name, rest) == 0)
                return true;
        if (rest && !*rest)
            return true;
    }
    return false;
}

static bool has_symbol(const Penstock__Gateway__FileNames *names, const char *symbol)
{
    const char *rest = behind(symbol, names->package);
    return rest && *rest &&
           (has_type(names->message_type, names->n_message_type, rest) ||
            has_name(names->enum_type, names->n_enum_type, rest) || has_service(names, rest));
}

static bool has_file_name(const Penstock__Gateway__FileNames *names, const char *name)
{
    return strcmp(names->name, name) == 0;
}

static bool is_service(const Penstock__Gateway__FileNames *names, const char *name)
{
    const char *rest = behind(name, names->package);
    return rest && *rest && !strchr(rest, '.') && has_service(names, rest);
}

/* The first file for which that holds; NULL = none. */
static const ProtobufCBinaryData *file_where(bool (*holds)(const Penstock__Gateway__FileNames *, const char *),
                                             const char *name)
{
    const Penstock__Gateway__FileSet *files = all_files();
    for (size_t i = 0; files && i < files->n_file; i++) {
        Penstock__Gateway__FileNames *names = file_names(&files->file[i]);
        bool found = names && holds(names, name);
        penstock__gateway__file_names__free_unpacked(names, NULL);
        if (found)
            return &files->file[i];
    }
    return NULL;
}

bool grpc_service_is_known(const char *name)
{
    return file_where(is_service, name) != NULL;
}

/* ---- answers ---- */

static void write_services_of(const Penstock__Gateway__FileNames *names, struct bytes *to)
{
    for (size_t i = 0; i < names->n_service; i++) {
        struct bytes name = {.data = NULL}, service = {.data = NULL};
        bytes_format(&name, "%s.%s", names->package, names->service[i]->name);
        wire_bytes(&service, 1, name.data, name.used);
        wire_bytes(to, 1, service.data, service.used);
        bytes_fini(&name);
        bytes_fini(&service);
    }
}

static void write_services(struct bytes *to)
{
    const Penstock__Gateway__FileSet *files = all_files();
    struct bytes list = {.data = NULL};
    for (size_t i = 0; files && i < files->n_file; i++) {
        Penstock__Gateway__FileNames *names = file_names(&files->file[i]);
        if (names)
            write_services_of(names, &list);
        penstock__gateway__file_names__free_unpacked(names, NULL);
    }
    wire_bytes(to, 6, list.data, list.used);
    to->failed |= list.failed;
    bytes_fini(&list);
}

static void write_error(enum grpc_code code, const char *text, struct bytes *to)
{
    struct bytes error = {.data = NULL};
    wire_number(&error, 1, (uint64_t)code);
    wire_text(&error, 2, text);
    wire_bytes(to, 7, error.data, error.used);
    bytes_fini(&error);
}

static void write_file(const ProtobufCBinaryData *file, struct bytes *to)
{
    struct bytes answer = {.data = NULL};
    if (!file) {
        write_error(GRPC_NOT_FOUND, "there is no such file or symbol", to);
        return;
    }
    wire_bytes(&answer, 1, file->data, file->len);
    wire_bytes(to, 4, answer.data, answer.used);
    bytes_fini(&answer);
}

static void write_reflection(const Grpc__Reflection__V1__ServerReflectionRequest *message, struct bytes *to)
{
    switch (message->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        write_services(to);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        write_file(file_where(has_file_name, message->file_by_filename), to);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        write_file(file_where(has_symbol, message->file_containing_symbol), to);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
        write_error(GRPC_INVALID_ARGUMENT, "the request asks for nothing", to);
        break;
    default:
        write_error(GRPC_NOT_FOUND, "no message here has extensions", to);
    }
}

/* The answer begins with what was asked. */
static void write_answer(const Grpc__Reflection__V1__ServerReflectionRequest *message, struct bytes *to)
{
    struct bytes asked = {.data = NULL};
    size_t bytes = grpc__reflection__v1__server_reflection_request__get_packed_size(message);
    if (bytes_reserve(&asked, bytes))
        asked.used = grpc__reflection__v1__server_reflection_request__pack(message, (uint8_t *)asked.data);
    wire_text(to, 1, message->host);
    wire_bytes(to, 2, asked.data, asked.used);
    to->failed |= asked.failed;
    bytes_fini(&asked);
    write_reflection(message, to);
}

void grpc_reflection_next(const struct grpc_who *who)
{
    struct grpc_request *request = who->request;
    struct grpc_answer answer = {.parts = NULL};
    struct pen_error error = {.status = PEN_OK};
    if (request->ended) {
        grpc_refuse(who->gateway, who->kind, request, GRPC_OK, "");
        return;
    }
    struct hold *hold = hold_new();
    const void *message =
        grpc_short_message(&grpc__reflection__v1__server_reflection_request__descriptor, request, hold, &error);
    if (message)
        write_answer(message, &answer.text);
    hold_release(hold);
    if (message)
        grpc_reply(who->gateway, who->kind, request, &answer, GRPC_NEXT);
    else
        grpc_refuse(who->gateway, who->kind, request, grpc_code_of(error.status), error.text);
}
