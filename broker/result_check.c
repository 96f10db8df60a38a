#include "result_check.h"

#include "fleet.h"
#include "job.pb-c.h"
#include "wire_reader.h"

#define JOB_OUTPUTS 4u /* field of JobMeta in proto/job.proto */

/* Bit n: output n of the signature is wanted. Nothing named: all are. */
static uint64_t asked_for(const struct signature *signature, const struct job *job)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = &job->request->frames[0];
    uint64_t all = signature->outputs_count < 64 ? (UINT64_C(1) << signature->outputs_count) - 1 : UINT64_MAX;
    uint64_t asked = 0;
    if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK)
        return all; /* our own; it can be read */
    struct wire_reader reader = {meta, meta + env.meta_bytes};
    struct wire_field field;
    while (wire_next(&reader, &field)) {
        size_t at = field.number == JOB_OUTPUTS && field.data
                        ? signature_output(signature, (const char *)field.data, field.bytes)
                        : signature->outputs_count;
        if (at < signature->outputs_count)
            asked |= UINT64_C(1) << at;
    }
    return asked ? asked : all;
}

enum pen_status result_check(struct broker *broker, const struct dispatch *dispatch, const struct job *job,
                             const struct result_group *group, struct pen_error *reterr)
{
    meta_arena_reset(&broker->arena);
    Penstock__ResultMeta *meta =
        meta_unpack(&broker->arena, &penstock__result_meta__descriptor, group->meta, group->env.meta_bytes);
    if (!meta && broker->arena.starved)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "the broker has no memory to read the result");
    if (!meta)
        return meta_refusal(&broker->arena, "its meta is no ResultMeta (proto/job.proto)", reterr);
    for (uint32_t i = 0; i < group->env.frames; i++)
        broker->raws[i] =
            (struct raw_frame){.data = zmq_msg_data(&group->frames[i]), .bytes = zmq_msg_size(&group->frames[i])};
    enum pen_status status = tensors_decode(meta->outputs, meta->n_outputs, broker->raws, group->env.frames, "output",
                                            broker->tensors, reterr);
    if (status != PEN_OK)
        return status;
    return signature_check_result(dispatch->signature, asked_for(dispatch->signature, job), broker->tensors,
                                  meta->n_outputs, reterr);
}

enum pen_status result_check_texts(const struct result_group *group, struct pen_error *reterr)
{
    const char *field = meta_nul(&penstock__result_meta__descriptor, group->meta, group->env.meta_bytes);
    return field ? pen_error_set(reterr, PEN_ERR_CORRUPT, "the text of its field '%s' has a NUL byte in it", field)
                 : PEN_OK;
}
