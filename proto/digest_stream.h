/*
 * digest_stream.h - the stream's insides, so that digest_request.c can keep one on its stack: no allocation per job.
 *
 * Only digest.c and digest_request.c include this. Threads: one-at-a-time per stream.
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

void digest_stream_init(struct digest_stream *stream, enum digest_kind kind);

#endif
