#include "bulk.h"

#include <inttypes.h>
#include <string.h>

#define ENVELOPE_MINOR_AT    3u
#define ENVELOPE_TRANSFER_AT 76u /* proto/PROTOCOL.md */

void bulk_init(struct bulk *bulk, uint32_t number)
{
    memset(bulk, 0, sizeof *bulk);
    bulk->number = number;
}

void bulk_add(struct bulk *bulk, uint64_t bytes)
{
    bulk->sizes[bulk->count++] = bytes;
    bulk->total += bytes;
}

static enum pen_status read_sizes(struct bulk *bulk, Penstock__TensorDesc *const *descs, size_t descs_count,
                                  size_t frames, uint64_t frame_bytes_max, struct pen_error *reterr)
{
    for (size_t i = 0; i < descs_count; i++) {
        const Penstock__TensorDesc *desc = descs[i];
        if (desc->frame == 0)
            continue;
        if (desc->frame > frames || bulk->sizes[desc->frame - 1] != 0 || desc->bytes == 0)
            return pen_error_set(reterr, PEN_ERR_CORRUPT,
                                 "an announced tensor names frame %u of %zu, which is empty, absent or taken",
                                 desc->frame, frames);
        if (frame_bytes_max && desc->bytes > frame_bytes_max)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                 "an announced tensor has %" PRIu64 " bytes, at most %" PRIu64 " are taken",
                                 (uint64_t)desc->bytes, frame_bytes_max);
        bulk->sizes[desc->frame - 1] = desc->bytes;
    }
    return PEN_OK;
}

enum pen_status bulk_expect(struct bulk *bulk, uint32_t number, Penstock__TensorDesc *const *descs, size_t descs_count,
                            size_t frames, uint64_t frame_bytes_max, uint64_t bytes_max, struct pen_error *reterr)
{
    bulk_init(bulk, number);
    if (frames == 0 || frames > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a payload of %zu frames is announced; it has 1 to %u", frames,
                             FRAME_MAX_TENSORS);
    enum pen_status status = read_sizes(bulk, descs, descs_count, frames, frame_bytes_max, reterr);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < frames; i++) {
        if (bulk->sizes[i] == 0)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "no announced tensor names frame %zu of %zu", i + 1, frames);
        if (bulk->sizes[i] > UINT64_MAX - bulk->total)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the announced tensors exceed 64 bits of bytes");
        bulk->total += bulk->sizes[i];
    }
    bulk->count = (uint32_t)frames;
    if (bytes_max && bulk->total > bytes_max)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "a payload of %" PRIu64 " bytes is announced, at most %" PRIu64 " are taken", bulk->total,
                             bytes_max);
    return PEN_OK;
}

bool bulk_credited(struct bulk *bulk, uint64_t until)
{
    if (until < bulk->granted || until > bulk->total)
        return false;
    bulk->granted = until;
    return true;
}

static void advance(struct bulk *bulk, size_t bytes, struct bulk_piece *ret_piece)
{
    *ret_piece = (struct bulk_piece){.frame = bulk->frame, .at = bulk->at, .bytes = bytes};
    bulk->moved += bytes;
    bulk->at += bytes;
    if (bulk->at == bulk->sizes[bulk->frame]) {
        bulk->frame++;
        bulk->at = 0;
    }
}

bool bulk_next(struct bulk *bulk, struct bulk_piece *ret_piece)
{
    if (bulk_done(bulk) || bulk->moved >= bulk->granted)
        return false;
    uint64_t bytes = bulk->sizes[bulk->frame] - bulk->at;
    if (bytes > BULK_CHUNK_BYTES)
        bytes = BULK_CHUNK_BYTES;
    if (bytes > bulk->granted - bulk->moved)
        bytes = bulk->granted - bulk->moved;
    advance(bulk, (size_t)bytes, ret_piece);
    return true;
}

void bulk_back(struct bulk *bulk, const struct bulk_piece *piece)
{
    bulk->moved -= piece->bytes;
    bulk->frame = piece->frame;
    bulk->at = piece->at;
}

bool bulk_accept(struct bulk *bulk, uint64_t offset, size_t bytes, struct bulk_piece *ret_piece)
{
    if (bytes == 0 || bulk_done(bulk) || offset != bulk->moved || bytes > bulk->granted - bulk->moved ||
        bytes > bulk->sizes[bulk->frame] - bulk->at)
        return false;
    advance(bulk, bytes, ret_piece);
    return true;
}

bool bulk_grant(struct bulk *bulk)
{
    if (bulk->granted == bulk->total || bulk->granted - bulk->moved > BULK_WINDOW_BYTES / 2)
        return false;
    uint64_t left = bulk->total - bulk->moved;
    bulk->granted = bulk->moved + (left < BULK_WINDOW_BYTES ? left : BULK_WINDOW_BYTES);
    return true;
}

bool bulk_done(const struct bulk *bulk)
{
    return bulk->moved == bulk->total;
}

struct envelope bulk_envelope(enum frame_type type, struct job_id id, uint32_t number, uint64_t offset)
{
    struct envelope env = envelope_make(type);
    env.job = id;
    env.transfer = number;
    env.offset = offset;
    env.frames = type == FRAME_CHUNK ? 1 : 0;
    return env;
}

void bulk_number_write(void *envelope_bytes, uint32_t number)
{
    uint8_t *to = (uint8_t *)envelope_bytes + ENVELOPE_TRANSFER_AT;
    uint8_t *minor = (uint8_t *)envelope_bytes + ENVELOPE_MINOR_AT;
    if (number != 0 && *minor == 0)
        *minor = FRAME_VERSION_MINOR; /* a stored header of a peer that spoke 1.0, where these bytes mean nothing */
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (8 * i));
}
