/*
 * digest_stream.h - the struct of a stream, so that digest_request.c can have one on its stack and needs no allocation
 * per job.
 *
 * Only digest*.c include this. Threads: one-at-a-time per stream.
 */
#ifndef DIGEST_STREAM_H
#define DIGEST_STREAM_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sodium/crypto_hash_sha256.h>

#include "digest.h"

struct digest_stream {
    union {
        XXH3_state_t xxh3;
        crypto_hash_sha256_state sha256;
    } state;
    enum digest_kind kind;
};

#if defined(__x86_64__)
void digest_xxh3_update_avx2(XXH3_state_t *state, const void *data, size_t bytes);
#endif

void digest_stream_init(struct digest_stream *stream, enum digest_kind kind);

#endif
