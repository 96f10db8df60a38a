#include "pack.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"

#define LENGTH_BYTES 4u
#define MORE         0x80000000u /* in a length: another frame of the same message follows */
#define ROOM_FIRST   8192u
#define LIMIT_MAX    (FRAME_ENVELOPE_BYTES + FRAME_PACK_BYTES_MAX)

_Static_assert(PACK_FRAME_BYTES_MAX < MORE && FRAME_PACK_BYTES_MAX < MORE, "a length leaves its highest bit free");
_Static_assert(PACK_SOON_BYTES < FRAME_PACK_BYTES_MAX && PACK_SOON_FRAMES < PACK_FRAMES_MAX,
               "a pack that is sent soon has room for one message more");

void pack_limit(struct pack_writer *writer, uint64_t frame_bytes)
{
    pack_clear(writer);
    writer->limit = frame_bytes < LIMIT_MAX ? (size_t)frame_bytes : LIMIT_MAX;
}

void pack_clear(struct pack_writer *writer)
{
    writer->used = writer->whole = 0;
    writer->messages = writer->frames = writer->frames_whole = 0;
}

void pack_fini(struct pack_writer *writer)
{
    free(writer->bytes);
    *writer = (struct pack_writer){0};
}

uint32_t pack_bytes_taken(uint64_t frame_bytes_max)
{
    return frame_bytes_max == 0 || frame_bytes_max > LIMIT_MAX ? LIMIT_MAX : (uint32_t)frame_bytes_max;
}

/* Memory for that many bytes in all. */
static bool grow(struct pack_writer *writer, size_t bytes)
{
    size_t room = writer->room ? writer->room : ROOM_FIRST;
    if (bytes <= writer->room)
        return true;
    while (room < bytes)
        room *= 2;
    uint8_t *larger = realloc(writer->bytes, room);
    if (!larger)
        return false;
    writer->bytes = larger;
    writer->room = room;
    return true;
}

static size_t begun(const struct pack_writer *writer)
{
    return writer->used ? writer->used : FRAME_ENVELOPE_BYTES;
}

enum pack_place pack_place(struct pack_writer *writer, size_t frames, size_t bytes, size_t largest)
{
    size_t wants = bytes + frames * LENGTH_BYTES;
    if (largest > PACK_FRAME_BYTES_MAX || frames > PACK_FRAMES_MAX || FRAME_ENVELOPE_BYTES + wants > writer->limit)
        return PACK_NEVER;
    if (writer->frames + frames > PACK_FRAMES_MAX || begun(writer) + wants > writer->limit)
        return PACK_LATER;
    return grow(writer, begun(writer) + wants) ? PACK_NOW : PACK_NEVER;
}

bool pack_fits(const struct pack_writer *writer, size_t bytes)
{
    return bytes <= PACK_FRAME_BYTES_MAX && FRAME_ENVELOPE_BYTES + LENGTH_BYTES + bytes <= writer->limit;
}

uint8_t *pack_frame(struct pack_writer *writer, size_t bytes, bool more)
{
    size_t at = begun(writer), end = at + LENGTH_BYTES + bytes;
    if (bytes > PACK_FRAME_BYTES_MAX || end > writer->limit || writer->frames == PACK_FRAMES_MAX || !grow(writer, end))
        return NULL;
    uint32_t length = htole32((uint32_t)bytes | (more ? MORE : 0));
    memcpy(writer->bytes + at, &length, sizeof length);
    if (writer->used == 0)
        writer->whole = at;
    writer->used = end;
    writer->frames++;
    if (!more) {
        writer->whole = end;
        writer->frames_whole = writer->frames;
        writer->messages++;
    }
    PEN_ASSERT(writer->whole <= writer->used && writer->used <= writer->room, "what is written has its place");
    return writer->bytes + at + LENGTH_BYTES;
}

bool pack_soon(const struct pack_writer *writer)
{
    return writer->whole >= PACK_SOON_BYTES || writer->frames_whole >= PACK_SOON_FRAMES;
}

size_t pack_seal(struct pack_writer *writer)
{
    struct envelope env = envelope_make(FRAME_PACK);
    PEN_ASSERT(writer->messages > 0 && writer->whole > FRAME_ENVELOPE_BYTES, "a pack has a message");
    env.meta_bytes = (uint32_t)(writer->whole - FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, writer->bytes);
    return writer->whole;
}

const uint8_t *pack_single(const struct pack_writer *writer, size_t *ret_bytes)
{
    if (writer->messages != 1 || writer->frames_whole != 1)
        return NULL;
    *ret_bytes = writer->whole - FRAME_ENVELOPE_BYTES - LENGTH_BYTES;
    return writer->bytes + FRAME_ENVELOPE_BYTES + LENGTH_BYTES;
}

bool pack_next(struct pack_reader *reader, struct pack_item *ret_item)
{
    uint32_t length;
    if ((size_t)(reader->end - reader->at) < LENGTH_BYTES)
        return false;
    memcpy(&length, reader->at, sizeof length);
    length = le32toh(length);
    size_t bytes = length & ~MORE;
    if (bytes > (size_t)(reader->end - reader->at) - LENGTH_BYTES)
        return false;
    *ret_item = (struct pack_item){reader->at + LENGTH_BYTES, bytes, (length & MORE) != 0};
    reader->at += LENGTH_BYTES + bytes;
    return true;
}

bool pack_is(const void *frame, size_t bytes)
{
    return bytes >= FRAME_ENVELOPE_BYTES && frame_type_of(frame) == FRAME_PACK;
}

enum pen_status pack_reader_open(struct pack_reader *reader, const uint8_t *meta, size_t bytes,
                                 struct pen_error *reterr)
{
    struct pack_reader look = {meta, meta + bytes};
    struct pack_item item = {.more = false};
    uint32_t frames = 0;
    bool first = true;
    for (; pack_next(&look, &item); frames++, first = !item.more) {
        if (first && pack_is(item.data, item.bytes))
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "a PACK has a PACK in it");
    }
    if (look.at != look.end || item.more)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a PACK of %zu bytes breaks off after %u frames", bytes, frames);
    if (frames == 0 || frames > PACK_FRAMES_MAX)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a PACK has %u frames; it must have 1 to %u", frames,
                             PACK_FRAMES_MAX);
    *reader = (struct pack_reader){meta, meta + bytes};
    return PEN_OK;
}
