/*
 * chunks.h - an input of the message fuzzers, cut into messages: per frame a byte that says who sends it and what happens next, a length (two bytes,
 * little-endian), and that many bytes. Bit 7 of the first byte joins the next frame to the same message.
 *
 * The number of frames that a process has given out is printed when it ends ("frames: N"), for run.sh to add up.
 * Threads: one-at-a-time.
 */
#ifndef FUZZ_CHUNKS_H
#define FUZZ_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_FRAMES_MAX 8u
#define CHUNK_BYTES_MAX  1024u /* of one frame */

/* A message: its frames stand one behind the other in `bytes`. */
struct chunk {
    uint8_t head; /* of its last frame */
    size_t count, used;
    size_t sizes[CHUNK_FRAMES_MAX];
    uint8_t bytes[CHUNK_FRAMES_MAX * CHUNK_BYTES_MAX];
};

/* Takes the next message from the input; false at its end. */
bool chunk_next(const uint8_t **data, size_t *size, struct chunk *ret_chunk);

/* Sends it on a ZeroMQ socket without waiting; false when it takes no more. */
bool chunk_send(const struct chunk *chunk, void *socket);

#endif
