/* digest.c - the two hashes behind one stream. XXH3 is compiled in (XXH_INLINE_ALL): faster than the shared library's and one dependency less. */
#include "digest.h"
#include "digest_stream.h"

#include <stdlib.h>
#include <string.h>

void digest_stream_init(struct digest_stream *stream, enum digest_kind kind)
{
    stream->kind = kind;
    if (kind == DIGEST_SHA256)
        crypto_hash_sha256_init(&stream->state.sha256);
    else
        XXH3_128bits_reset(&stream->state.xxh3);
}

struct digest_stream *digest_new(enum digest_kind kind)
{
    /* XXH3's state wants 64 bytes of alignment; the size of an aligned struct is a multiple of it. */
    struct digest_stream *stream = aligned_alloc(_Alignof(struct digest_stream), sizeof *stream);
    if (stream)
        digest_stream_init(stream, kind);
    return stream;
}

void digest_free(struct digest_stream *stream)
{
    free(stream);
}

/* Below this, choosing the wide loop costs more than it gains. */
#define WIDE_BYTES_MIN 2048u

static void xxh3_update(XXH3_state_t *state, const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (bytes >= WIDE_BYTES_MIN && __builtin_cpu_supports("avx2")) {
        digest_xxh3_update_avx2(state, data, bytes);
        return;
    }
#endif
    XXH3_128bits_update(state, data, bytes);
}

void digest_update(struct digest_stream *stream, const void *data, size_t bytes)
{
    if (bytes == 0)
        return;
    if (stream->kind == DIGEST_SHA256)
        crypto_hash_sha256_update(&stream->state.sha256, data, bytes);
    else
        xxh3_update(&stream->state.xxh3, data, bytes);
}

void digest_update_u64(struct digest_stream *stream, uint64_t value)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    digest_update(stream, bytes, sizeof bytes);
}

void digest_update_text(struct digest_stream *stream, const char *text)
{
    size_t length = strlen(text);
    digest_update_u64(stream, length);
    digest_update(stream, text, length);
}

struct digest digest_final(struct digest_stream *stream)
{
    struct digest digest;
    if (stream->kind == DIGEST_SHA256) {
        uint8_t full[crypto_hash_sha256_BYTES];
        crypto_hash_sha256_final(&stream->state.sha256, full);
        memcpy(digest.bytes, full, sizeof digest.bytes);
    } else {
        XXH128_canonical_t canonical;
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&stream->state.xxh3));
        memcpy(digest.bytes, canonical.digest, sizeof digest.bytes);
    }
    return digest;
}

bool digest_equal(struct digest a, struct digest b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

const char *digest_text(struct digest d, char text[DIGEST_TEXT_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    for (unsigned i = 0; i < sizeof d.bytes; i++) {
        text[2 * i] = hex[d.bytes[i] >> 4];
        text[2 * i + 1] = hex[d.bytes[i] & 15];
    }
    text[2 * sizeof d.bytes] = '\0';
    return text;
}
