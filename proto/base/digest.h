/*
 * digest.h - 128-bit content hashes: of a request, for cache and single-flight, and of a model, for the cache key.
 *
 * XXH3-128 (18 GB/s) where all clients trust each other; SHA-256 cut to 128 bits where they do not, because XXH3 is not
 * collision-resistant.
 * Threads: a stream is one-at-a-time; the rest any.
 */
#ifndef DIGEST_H
#define DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"
#include "penstock/tensor.h"

enum digest_kind { DIGEST_XXH3 = 0, DIGEST_SHA256 = 1 };

struct digest {
    uint8_t bytes[16];
};

#define DIGEST_TEXT_BYTES 33

struct digest_stream;
struct digest_stream *digest_new(enum digest_kind kind); /* NULL without memory */
void digest_free(struct digest_stream *stream);          /* NULL is fine */
void digest_update(struct digest_stream *stream, const void *data, size_t bytes);
void digest_update_text(struct digest_stream *stream,
                        const char *text); /* length-prefixed, so that fields cannot run together */
void digest_update_u64(struct digest_stream *stream, uint64_t value); /* little-endian */
struct digest digest_final(struct digest_stream *stream);

/* A parameter in the form that is hashed: its name and an unambiguous text of its value. */
struct digest_parameter {
    const char *name;
    const char *value;
};

/* The content of a request, without model and tenant: see below. Lists of length 0 may be NULL. */
struct digest_asked {
    const struct pen_tensor *inputs;
    size_t inputs_count;
    const char *const *outputs;
    size_t outputs_count;
    const struct digest_parameter *parameters;
    size_t parameters_count;
    uint32_t top_k;
};

/*
 * The request digest, over: sorted inputs (name, dtype, dims, bytes), sorted requested outputs, sorted parameters, each
 * list with its count first; then top_k, unless it is 0. Model, version, tenant and precision are not in it: the broker
 * adds them to the cache key. Exact byte order: proto/PROTOCOL.md.
 */
enum pen_status digest_request(enum digest_kind kind, const struct digest_asked *asked, struct digest *ret_digest);

bool digest_equal(struct digest a, struct digest b);
const char *digest_text(struct digest d, char text[DIGEST_TEXT_BYTES]); /* 32 lower-case hex digits */

#endif
