/* journal_record.c - the journal's records as bytes. */
#include <stdlib.h>
#include <string.h>

#include "digest.h"
#include "frame.h"
#include "journal.h"

#define MAGIC      0x314A4B50u /* "PKJ1" */
#define MAGIC_MASK 0x00FFFFFFu /* the digit is the form's number */
#define DIGEST_AT  40u

static void put_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void put_u64(uint8_t *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const uint8_t *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

static bool sign(const uint8_t *header, const uint8_t *payload, size_t bytes, struct digest *ret_digest)
{
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    if (!stream)
        return false;
    digest_update(stream, header, DIGEST_AT);
    digest_update(stream, payload, bytes);
    *ret_digest = digest_final(stream);
    digest_free(stream);
    return true;
}

bool journal_header(uint8_t header[JOURNAL_HEADER_BYTES], const struct journal_record *record)
{
    struct digest digest;
    memset(header, 0, JOURNAL_HEADER_BYTES);
    put_u32(header, MAGIC);
    header[4] = (uint8_t)record->type;
    put_u64(header + 8, record->id.client);
    put_u64(header + 16, record->id.sequence);
    put_u64(header + 24, record->expires_us);
    put_u64(header + 32, record->bytes);
    if (!sign(header, record->payload, record->bytes, &digest))
        return false;
    memcpy(header + DIGEST_AT, digest.bytes, sizeof digest.bytes);
    return true;
}

uint64_t journal_peek(const uint8_t header[JOURNAL_HEADER_BYTES], struct journal_record *ret_record)
{
    uint64_t size = get_u64(header + 32);
    if (get_u32(header) != MAGIC || header[4] < JOURNAL_ACCEPTED || header[4] > JOURNAL_GONE || size > SIZE_MAX / 2)
        return 0;
    *ret_record = (struct journal_record){.type = (enum journal_type)header[4],
                                          .id = {.client = get_u64(header + 8), .sequence = get_u64(header + 16)},
                                          .expires_us = get_u64(header + 24),
                                          .bytes = (size_t)size};
    return JOURNAL_HEADER_BYTES + size;
}

bool journal_begins(const uint8_t *bytes, size_t size)
{
    static const uint8_t zeros[JOURNAL_MAGIC_BYTES];
    uint8_t magic[JOURNAL_MAGIC_BYTES];
    put_u32(magic, MAGIC);
    return memcmp(bytes, magic, size) == 0 || memcmp(bytes, zeros, size) == 0;
}

size_t journal_read(const uint8_t *bytes, size_t left, struct journal_record *ret_record)
{
    struct digest digest;
    struct journal_record record;
    uint64_t size = left >= JOURNAL_HEADER_BYTES ? journal_peek(bytes, &record) : 0;
    if (size == 0 || size > left)
        return 0;
    record.payload = bytes + JOURNAL_HEADER_BYTES;
    if (!sign(bytes, record.payload, record.bytes, &digest) ||
        memcmp(digest.bytes, bytes + DIGEST_AT, sizeof digest.bytes) != 0)
        return 0;
    *ret_record = record;
    return (size_t)size;
}

/* Checks the parts of a header that every version has: any type, but a right digest. */
static bool signed_whole(const uint8_t *bytes, size_t left)
{
    struct digest digest;
    uint64_t size = left >= JOURNAL_HEADER_BYTES ? get_u64(bytes + 32) : UINT64_MAX;
    return left >= JOURNAL_HEADER_BYTES && size <= left - JOURNAL_HEADER_BYTES &&
           sign(bytes, bytes + JOURNAL_HEADER_BYTES, (size_t)size, &digest) &&
           memcmp(digest.bytes, bytes + DIGEST_AT, sizeof digest.bytes) == 0;
}

bool journal_newer(const uint8_t *bytes, size_t left)
{
    if (left < JOURNAL_MAGIC_BYTES || (get_u32(bytes) & MAGIC_MASK) != (MAGIC & MAGIC_MASK))
        return false;
    return get_u32(bytes) == MAGIC ? signed_whole(bytes, left) : bytes[3] > '1' && bytes[3] <= '9';
}

uint8_t *journal_pack(const char *text, uint32_t status, const struct shared_message *shared, size_t *ret_bytes)
{
    size_t length = strlen(text), size = 12 + length;
    for (uint32_t i = 0; i < shared->count; i++)
        size += 8 + zmq_msg_size(&shared->frames[i]);
    uint8_t *payload = malloc(size), *at = payload;
    if (!payload)
        return NULL;
    put_u32(at, status);
    put_u32(at + 4, (uint32_t)length);
    put_u32(at + 8, shared->count);
    memcpy(at + 12, text, length);
    at += 12 + length;
    for (uint32_t i = 0; i < shared->count; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&shared->frames[i];
        size_t bytes = zmq_msg_size(frame);
        put_u64(at, bytes);
        if (bytes)
            memcpy(at + 8, zmq_msg_data(frame), bytes);
        at += 8 + bytes;
    }
    *ret_bytes = size;
    return payload;
}

static bool unpack_frames(struct shared_message *shared, const uint8_t *at, size_t left)
{
    for (uint32_t i = 0; i < shared->count; i++) {
        uint64_t bytes = left >= 8 ? get_u64(at) : UINT64_MAX;
        uint8_t *to = left >= 8 && bytes <= left - 8 ? shared_message_make(shared, i, (size_t)bytes) : NULL;
        if (!to)
            return false;
        if (bytes)
            memcpy(to, at + 8, (size_t)bytes);
        at += 8 + bytes;
        left -= 8 + (size_t)bytes;
    }
    return left == 0;
}

struct shared_message *journal_unpack(const uint8_t *payload, size_t bytes, char *ret_text, size_t text_bytes,
                                      uint32_t *ret_status)
{
    if (bytes < 12)
        return NULL;
    size_t length = get_u32(payload + 4), count = get_u32(payload + 8);
    if (length >= text_bytes || length > bytes - 12 || count == 0 || count > 1u + FRAME_MAX_TENSORS)
        return NULL;
    struct shared_message *shared = shared_message_new(count);
    if (!shared || !unpack_frames(shared, payload + 12 + length, bytes - 12 - length)) {
        shared_message_release(shared);
        return NULL;
    }
    *ret_status = get_u32(payload);
    memcpy(ret_text, payload + 12, length);
    ret_text[length] = '\0';
    return shared;
}
