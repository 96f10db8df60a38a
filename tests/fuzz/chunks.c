#include "chunks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

static uint64_t frames;
static bool telling;

static void frames_tell(void)
{
    fprintf(stderr, "frames: %" PRIu64 "\n", frames);
}

bool chunk_next(const uint8_t **data, size_t *size, struct chunk *ret_chunk)
{
    struct chunk *chunk = ret_chunk;
    chunk->count = chunk->used = 0;
    if (!telling) {
        telling = true;
        atexit(frames_tell);
    }
    do {
        if (*size < 3)
            break;
        const uint8_t *at = *data;
        size_t length = (size_t)(at[1] | at[2] << 8) % (CHUNK_BYTES_MAX + 1);
        length = length < *size - 3 ? length : *size - 3;
        chunk->head = at[0];
        memcpy(chunk->bytes + chunk->used, at + 3, length);
        chunk->used += length;
        chunk->sizes[chunk->count++] = length;
        *data += 3 + length;
        *size -= 3 + length;
    } while ((chunk->head & 0x80) && chunk->count < CHUNK_FRAMES_MAX);
    frames += chunk->count;
    return chunk->count > 0;
}

bool chunk_send(const struct chunk *chunk, void *socket)
{
    const uint8_t *at = chunk->bytes;
    for (size_t i = 0; i < chunk->count; at += chunk->sizes[i], i++)
        if (zmq_send(socket, at, chunk->sizes[i], ZMQ_DONTWAIT | (i + 1 < chunk->count ? ZMQ_SNDMORE : 0)) < 0)
            return false;
    return true;
}
