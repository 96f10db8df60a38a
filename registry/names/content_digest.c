/* content_digest.c - SHA-256 by libsodium. */
#include "content_digest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES (256u * 1024u)

void content_hash_begin(struct content_hash *hash)
{
    crypto_hash_sha256_init(&hash->state);
}

void content_hash_add(struct content_hash *hash, const void *bytes, size_t count)
{
    crypto_hash_sha256_update(&hash->state, bytes, count);
}

struct content_digest content_hash_end(struct content_hash *hash)
{
    unsigned char raw[crypto_hash_sha256_BYTES];
    struct content_digest digest;
    crypto_hash_sha256_final(&hash->state, raw);
    sodium_bin2hex(digest.hex, sizeof digest.hex, raw, sizeof raw);
    return digest;
}

struct content_digest content_digest_of(const void *bytes, size_t count)
{
    struct content_hash hash;
    content_hash_begin(&hash);
    content_hash_add(&hash, bytes, count);
    return content_hash_end(&hash);
}

bool content_digest_equal(const struct content_digest *a, const struct content_digest *b)
{
    return strcmp(a->hex, b->hex) == 0;
}

bool content_digest_parse(const char *text, struct content_digest *ret_digest)
{
    if (strlen(text) != CONTENT_DIGEST_TEXT - 1 || strspn(text, "0123456789abcdef") != CONTENT_DIGEST_TEXT - 1)
        return false;
    memcpy(ret_digest->hex, text, CONTENT_DIGEST_TEXT);
    return true;
}

bool content_digest_of_fd(int fd, struct content_digest *ret_digest, uint64_t *ret_bytes)
{
    struct content_hash hash;
    uint64_t at = 0;
    ssize_t got = 0;
    unsigned char *block = malloc(BLOCK_BYTES);
    if (!block)
        return false;
    content_hash_begin(&hash);
    while ((got = pread(fd, block, BLOCK_BYTES, (off_t)at)) > 0 || (got < 0 && errno == EINTR)) {
        content_hash_add(&hash, block, got > 0 ? (size_t)got : 0);
        at += got > 0 ? (uint64_t)got : 0;
    }
    free(block);
    *ret_digest = content_hash_end(&hash);
    *ret_bytes = at;
    return got == 0;
}
