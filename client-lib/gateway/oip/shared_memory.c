/* shared_memory.c - registering shared memory of this host; of CUDA only what clients ask to be sure that none is left. */
#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "json_read.h"

static void write_region(void *context, const struct region_info *info)
{
    struct bytes *to = context;
    bytes_text(to, to->used > 1 ? ",{\"name\":" : "{\"name\":");
    bytes_json_text(to, info->name);
    bytes_text(to, ",\"key\":");
    bytes_json_text(to, info->key);
    bytes_format(to, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", info->offset, info->bytes);
}

static enum pen_status check_local(const struct call *call, struct pen_error *reterr)
{
    return call->local ? PEN_OK : pen_error_set(reterr, PEN_ERR_DENIED, "shared memory is for clients on this host");
}

enum pen_status answer_region_status(struct call *call, struct pen_error *reterr)
{
    const char *name = *call->region ? call->region : NULL;
    enum pen_status status = check_local(call, reterr);
    if (status != PEN_OK)
        return status;
    bytes_text(&call->text, "[");
    if (!regions_each(call->session->regions, name, write_region, &call->text))
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "Unable to find system shared memory region: '%s'",
                             call->region);
    bytes_text(&call->text, "]");
    return PEN_OK;
}

static bool read_region(struct json *json, char key[CALL_NAME_BYTES], struct region_info *info)
{
    char member[32];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "key") == 0)
            json_string(json, key, CALL_NAME_BYTES);
        else if (strcmp(member, "offset") == 0)
            json_u64(json, &info->offset);
        else if (strcmp(member, "byte_size") == 0)
            json_u64(json, &info->bytes);
        else
            json_skip(json);
    }
    return json_finish(json);
}

enum pen_status answer_region_register(struct call *call, struct pen_error *reterr)
{
    char key[CALL_NAME_BYTES] = "";
    struct region_info info = {.name = call->region, .key = key};
    struct json json;
    enum pen_status status = check_local(call, reterr);
    if (status != PEN_OK)
        return status;
    json_init(&json, call->body, call->body_bytes);
    if (!read_region(&json, key, &info))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the request's JSON is wrong at byte %zu: %s", json_where(&json),
                             json.why);
    return regions_register(call->session->regions, &info, reterr);
}

enum pen_status answer_region_unregister(struct call *call, struct pen_error *reterr)
{
    enum pen_status status = check_local(call, reterr);
    if (status == PEN_OK)
        regions_unregister(call->session->regions, *call->region ? call->region : NULL);
    return status;
}

enum pen_status answer_cuda_status(struct call *call, struct pen_error *reterr)
{
    (void)reterr;
    bytes_text(&call->text, "[]");
    return PEN_OK;
}

enum pen_status answer_cuda_register(struct call *call, struct pen_error *reterr)
{
    (void)call;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "there is no CUDA here; register system shared memory instead");
}

enum pen_status answer_cuda_unregister(struct call *call, struct pen_error *reterr)
{
    (void)call;
    (void)reterr;
    return PEN_OK; /* none is registered afterwards */
}
