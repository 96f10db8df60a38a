#include "result_check.h"

#include "fleet.h"
#include "job.pb-c.h"
#include "meta_fields.h"
#include "wire_reader.h"

/* Bit n: output n of the signature is wanted. When the job names none, all are. A step names its own; *ret_crops: it has
   crop, so its outputs have a row for each object. */
static uint64_t asked_for(const struct signature *signature, const struct job *job, bool *ret_crops)
{
    struct envelope env;
    const uint8_t *meta;
    uint64_t all = signature->outputs_count < 64 ? (UINT64_C(1) << signature->outputs_count) - 1 : UINT64_MAX;
    uint64_t asked = 0;
    *ret_crops = false;
    if (!job->outputs || !shared_message_open(job->request, &env, &meta))
        return all; /* our own; it can be read */
    struct wire_reader reader = {meta, meta + env.meta_bytes};
    struct wire_field field;
    while (meta_next(&reader, &field)) {
        size_t at = field.number == JOB_META_OUTPUTS && field.data
                        ? signature_output(signature, (const char *)field.data, field.bytes)
                        : signature->outputs_count;
        *ret_crops |= field.number == JOB_META_CROP && job->owner == OWNER_STEP;
        if (at < signature->outputs_count)
            asked |= UINT64_C(1) << at;
    }
    return asked ? asked : all;
}

/* An output as it travels: the parts of its TensorDesc. */
struct desc {
    const uint8_t *name, *data;
    size_t name_bytes, data_bytes, rank;
    uint64_t dtype, bytes, frame;
    int64_t dims[PEN_MAX_RANK];
};

static void add_dim(struct desc *desc, uint64_t value)
{
    if (desc->rank < PEN_MAX_RANK)
        desc->dims[desc->rank] = (int64_t)value;
    desc->rank++;
}

/* Packed, as all writers do it. */
static bool add_dims(struct desc *desc, const uint8_t *at, size_t bytes)
{
    struct wire_reader reader = {at, at + bytes};
    uint64_t value;
    while (reader.at < reader.end) {
        if (!meta_varint(&reader, &value))
            return false;
        add_dim(desc, value);
    }
    return true;
}

static bool read_desc(const struct wire_field *output, struct desc *ret)
{
    struct wire_reader reader = {output->data, output->data + output->bytes};
    struct wire_field field;
    *ret = (struct desc){.name = NULL};
    while (reader.at < reader.end) {
        if (!meta_next(&reader, &field))
            return false;
        if (field.number == TENSOR_DESC_NAME) {
            ret->name = field.data;
            ret->name_bytes = field.bytes;
        } else if (field.number == TENSOR_DESC_DATA) {
            ret->data = field.data;
            ret->data_bytes = field.bytes;
        } else if (field.number == TENSOR_DESC_DIMS && field.data && !add_dims(ret, field.data, field.bytes)) {
            return false;
        } else if (field.number == TENSOR_DESC_DIMS && !field.data) {
            add_dim(ret, field.value);
        } else if (field.number == TENSOR_DESC_DTYPE) {
            ret->dtype = field.value;
        } else if (field.number == TENSOR_DESC_BYTES) {
            ret->bytes = field.value;
        } else if (field.number == TENSOR_DESC_FRAME) {
            ret->frame = field.value;
        }
    }
    return true;
}

/* Finds the bytes, and checks that all are there; bit n - 1 of `used` is set when raw frame n belongs to some
   output. */
static enum pen_status find_payload(const struct result_group *group, const struct desc *desc, const char *name,
                                    uint64_t *used, struct pen_tensor *tensor, struct pen_error *reterr)
{
    tensor->data = desc->data;
    tensor->bytes = desc->data_bytes;
    if (desc->frame != 0) {
        if (desc->frame > group->env.frames)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' says raw frame %llu, but %u came with it", name,
                                 (unsigned long long)desc->frame, group->env.frames);
        uint64_t bit = UINT64_C(1) << (desc->frame - 1);
        if ((*used & bit) || desc->data_bytes > 0)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' says raw frame %llu, which %s", name,
                                 (unsigned long long)desc->frame,
                                 *used & bit ? "another one has taken" : "it has inline data beside");
        *used |= bit;
        tensor->data = zmq_msg_data(&group->frames[desc->frame - 1]);
        tensor->bytes = zmq_msg_size(&group->frames[desc->frame - 1]);
    }
    if (tensor->bytes == desc->bytes)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' announces %llu bytes, but %zu came", name,
                         (unsigned long long)desc->bytes, tensor->bytes);
}

/* Reads type and dims from the descriptor; whether they are the model's is checked later. */
static enum pen_status read_type(const struct desc *desc, struct pen_tensor *tensor, struct pen_error *reterr)
{
    if (desc->dtype == PEN_DTYPE_NONE || desc->dtype >= PEN_DTYPE_COUNT)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' has the unknown element type %llu", tensor->name,
                             (unsigned long long)desc->dtype);
    if (desc->rank > PEN_MAX_RANK)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "output '%s' has shape of %zu dims; at most %d are allowed",
                             tensor->name, desc->rank, PEN_MAX_RANK);
    tensor->dtype = (enum pen_dtype)desc->dtype;
    tensor->rank = (uint32_t)desc->rank;
    for (size_t i = 0; i < desc->rank; i++)
        tensor->dims[i] = desc->dims[i];
    return PEN_OK;
}

static enum pen_status read_output(const struct signature *signature, const struct result_group *group,
                                   const struct wire_field *field, uint64_t *used, size_t *ret_at,
                                   struct pen_tensor *ret_tensor, struct pen_error *reterr)
{
    struct desc desc;
    if (!read_desc(field, &desc))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "an output's description is cut or garbled");
    size_t at =
        desc.name ? signature_output(signature, (const char *)desc.name, desc.name_bytes) : signature->outputs_count;
    if (at == signature->outputs_count)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "it has the output '%.*s', which was not asked for",
                             (int)(desc.name_bytes < 255 ? desc.name_bytes : 255),
                             desc.name ? (const char *)desc.name : "");
    *ret_at = at;
    ret_tensor->name = signature->outputs[at].name;
    enum pen_status status = read_type(&desc, ret_tensor, reterr);
    if (status == PEN_OK)
        status = find_payload(group, &desc, ret_tensor->name, used, ret_tensor, reterr);
    return status == PEN_OK ? pen_tensor_check(ret_tensor, reterr) : status;
}

/* Reading as many outputs as the model has is enough to find one that comes twice. */
enum pen_status result_check(const struct dispatch *dispatch, const struct job *job, const struct result_group *group,
                             struct pen_error *reterr)
{
    const struct signature *signature = dispatch->signature;
    bool crops = false;
    uint64_t asked = asked_for(signature, job, &crops), used = 0;
    struct wire_reader reader = {group->meta + group->facts.outputs, group->meta + group->facts.past_outputs};
    struct wire_field field;
    enum pen_status status = group->facts.nul ? result_check_texts(group, reterr) : PEN_OK; /* names: they must match */
    while (status == PEN_OK && meta_next(&reader, &field)) {
        struct pen_tensor tensor = {.name = NULL};
        size_t at = 0;
        if (field.number != RESULT_META_OUTPUTS || !field.data)
            continue;
        status = read_output(signature, group, &field, &used, &at, &tensor, reterr);
        if (status == PEN_OK)
            status = signature_check_output(signature, at, crops, &asked, &tensor, reterr);
    }
    if (status == PEN_OK)
        status = signature_check_all(signature, asked, reterr);
    if (status == PEN_OK && (unsigned)__builtin_popcountll(used) != group->env.frames)
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "%u raw frames came, but its outputs use %d of them",
                               group->env.frames, __builtin_popcountll(used));
    return status;
}

enum pen_status result_check_texts(const struct result_group *group, struct pen_error *reterr)
{
    const char *field = meta_nul(&penstock__result_meta__descriptor, group->meta, group->env.meta_bytes);
    return field ? pen_error_set(reterr, PEN_ERR_CORRUPT, "the text of its field '%s' has a NUL byte in it", field)
                 : PEN_OK;
}
