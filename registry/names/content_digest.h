/*
 * content_digest.h - SHA-256 of files and manifests, as 64 lower-case hex digits: the name under which a content is
 * kept.
 *
 * Threads: any; a hash is one-at-a-time.
 */
#ifndef CONTENT_DIGEST_H
#define CONTENT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sodium.h>

#define CONTENT_DIGEST_TEXT 65 /* 64 digits and the end */

struct content_digest {
    char hex[CONTENT_DIGEST_TEXT]; /* "" = none */
};

/* Of bytes that come one after another. */
struct content_hash {
    crypto_hash_sha256_state state;
};
void content_hash_begin(struct content_hash *hash);
void content_hash_add(struct content_hash *hash, const void *bytes, size_t count);
struct content_digest content_hash_end(struct content_hash *hash);

struct content_digest content_digest_of(const void *bytes, size_t count);
bool content_digest_equal(const struct content_digest *a, const struct content_digest *b);

/* Reads 64 lower-case hex digits that stand alone; false: they are none. */
bool content_digest_parse(const char *text, struct content_digest *ret_digest);

/* The whole file from its begin; false: errno. */
bool content_digest_of_fd(int fd, struct content_digest *ret_digest, uint64_t *ret_bytes);

#endif
