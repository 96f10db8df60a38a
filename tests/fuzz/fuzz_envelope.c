/* Any bytes as a header frame: what decodes is inside the frame and encodes to the same fields. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct envelope env, again;
    struct pen_error error = {.status = PEN_OK};
    const uint8_t *meta;
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    enum pen_status status = envelope_decode(data, size, &env, &meta, &error);
    require(status == error.status && (status == PEN_OK) == (error.text[0] == '\0'));
    if (status != PEN_OK && status != PEN_ERR_TOO_LARGE)
        return 0;
    require(meta >= data + FRAME_ENVELOPE_BYTES && meta + env.meta_bytes == data + size);
    if (status != PEN_OK)
        return 0;
    require(env.frames <= FRAME_MAX_TENSORS && env.type < FRAME_TYPE_COUNT && env.status < PEN_STATUS_COUNT &&
            env.precision < PRECISION_COUNT);
    envelope_encode(&env, bytes);
    env.meta_bytes = 0;
    again = env;
    envelope_encode(&again, bytes);
    require(envelope_decode(bytes, sizeof bytes, &again, &meta, NULL) == PEN_OK);
    require(again.flags == env.flags && job_id_equal(again.job, env.job) && digest_equal(again.digest, env.digest));
    require(again.deadline_us == env.deadline_us && again.tenant_hash == env.tenant_hash &&
            again.sequence_id == env.sequence_id);
    return 0;
}
