/* digest_request.c - the request digest: equal for two jobs that ask the same question. Byte order:
   proto/PROTOCOL.md, "Digests". */
#include "digest.h"
#include "digest_stream.h"

#include <string.h>

#define LIST_MAX 64 /* inputs, outputs and parameters of a job: proto/PROTOCOL.md, "Caps" */

/* A list of things that have a name. */
struct names {
    const void *first; /* address of the first name pointer */
    size_t stride, count;
};

static const char *name_at(struct names names, size_t i)
{
    const char *name;
    memcpy(&name, (const char *)names.first + i * names.stride, sizeof name);
    return name;
}

/*
 * Writes the indices of the list in ascending order of the names' bytes (insertion sort: lists are short).
 * PEN_ERR_INVALID when a name is missing, or occurs twice where each may occur once.
 */
static enum pen_status order_by_name(struct names names, bool twins_allowed, uint8_t order[LIST_MAX])
{
    for (size_t i = 0; i < names.count; i++) {
        const char *name = name_at(names, i);
        size_t at = i;
        int relation = -1;
        if (!name)
            return PEN_ERR_INVALID;
        while (at > 0 && (relation = strcmp(name_at(names, order[at - 1]), name)) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        if (at > 0 && relation == 0 && !twins_allowed)
            return PEN_ERR_INVALID;
        order[at] = (uint8_t)i;
    }
    return PEN_OK;
}

static enum pen_status add_inputs(struct digest_stream *stream, const struct pen_tensor *inputs, size_t count)
{
    uint8_t order[LIST_MAX];
    if (count > 0 && order_by_name((struct names){&inputs->name, sizeof *inputs, count}, false, order) != PEN_OK)
        return PEN_ERR_INVALID;
    digest_update_u64(stream, count);
    for (size_t i = 0; i < count; i++) {
        const struct pen_tensor *tensor = &inputs[order[i]];
        if (tensor->rank > PEN_MAX_RANK || (!tensor->data && tensor->bytes != 0))
            return PEN_ERR_INVALID;
        digest_update_text(stream, tensor->name);
        digest_update_u64(stream, (uint64_t)tensor->dtype);
        digest_update_u64(stream, tensor->rank);
        for (uint32_t d = 0; d < tensor->rank; d++)
            digest_update_u64(stream, (uint64_t)tensor->dims[d]);
        digest_update_u64(stream, tensor->bytes);
        digest_update(stream, tensor->data, tensor->bytes);
    }
    return PEN_OK;
}

static enum pen_status add_outputs(struct digest_stream *stream, const char *const *outputs, size_t count)
{
    uint8_t order[LIST_MAX];
    if (order_by_name((struct names){outputs, sizeof *outputs, count}, true, order) != PEN_OK)
        return PEN_ERR_INVALID;
    digest_update_u64(stream, count);
    for (size_t i = 0; i < count; i++)
        digest_update_text(stream, outputs[order[i]]);
    return PEN_OK;
}

static enum pen_status add_parameters(struct digest_stream *stream, const struct digest_parameter *parameters,
                                      size_t count)
{
    uint8_t order[LIST_MAX];
    if (count > 0 &&
        order_by_name((struct names){&parameters->name, sizeof *parameters, count}, false, order) != PEN_OK)
        return PEN_ERR_INVALID;
    digest_update_u64(stream, count);
    for (size_t i = 0; i < count; i++) {
        if (!parameters[order[i]].value)
            return PEN_ERR_INVALID;
        digest_update_text(stream, parameters[order[i]].name);
        digest_update_text(stream, parameters[order[i]].value);
    }
    return PEN_OK;
}

enum pen_status digest_request(enum digest_kind kind, const struct digest_asked *asked, struct digest *ret_digest)
{
    static const char domain[] = "penstock-request-1";
    struct digest_stream stream;
    if (asked->inputs_count > LIST_MAX || asked->outputs_count > LIST_MAX || asked->parameters_count > LIST_MAX)
        return PEN_ERR_TOO_LARGE;
    digest_stream_init(&stream, kind);
    digest_update(&stream, domain, sizeof domain - 1);
    enum pen_status status = add_inputs(&stream, asked->inputs, asked->inputs_count);
    if (status == PEN_OK)
        status = add_outputs(&stream, asked->outputs, asked->outputs_count);
    if (status == PEN_OK)
        status = add_parameters(&stream, asked->parameters, asked->parameters_count);
    if (status == PEN_OK && asked->top_k > 0)
        digest_update_u64(&stream, asked->top_k);
    if (status == PEN_OK)
        *ret_digest = digest_final(&stream);
    return status;
}
