/* Any bytes as a header frame: what decodes is inside the frame and encodes to the same fields; so does a PACK. */
#include "frame.h"
#include "pack.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
    if (!truth)
        abort();
}

/* What is read of a PACK lies in it, frame behind frame, and is written again to the same bytes. */
static void read_pack(const uint8_t *meta, size_t bytes)
{
    struct pack_reader reader;
    struct pack_item item;
    struct pack_writer writer = {0};
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = pack_reader_open(&reader, meta, bytes, &error);
    bool small = true;
    require(status == error.status && (status == PEN_OK || status == PEN_ERR_CORRUPT));
    pack_limit(&writer, pack_bytes_taken(0));
    while (status == PEN_OK && pack_next(&reader, &item)) {
        require(item.data >= meta + 4 && item.data + item.bytes <= meta + bytes);
        uint8_t *to = small ? pack_frame(&writer, item.bytes, item.more) : NULL;
        small = to != NULL; /* ours has no larger frames */
        if (to && item.bytes)
            memcpy(to, item.data, item.bytes);
    }
    if (status == PEN_OK && small)
        require(pack_seal(&writer) == FRAME_ENVELOPE_BYTES + bytes &&
                memcmp(writer.bytes + FRAME_ENVELOPE_BYTES, meta, bytes) == 0);
    pack_fini(&writer);
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
    if (env.type == FRAME_PACK)
        read_pack(meta, env.meta_bytes);
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
