/*
 * cache_key.h - what two jobs must have in common to share a result: tenant, request digest, model digest, precision
 * class. Plain data.
 * Threads: any.
 */
#ifndef CACHE_KEY_H
#define CACHE_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "digest.h"

struct cache_key {
    struct digest request, model;
    uint32_t tenant;   /* number of an interned tenant: each tenant has its own */
    uint8_t precision; /* enum precision that the job demands */
};

static inline bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
    return a->tenant == b->tenant && a->precision == b->precision && digest_equal(a->request, b->request) &&
           digest_equal(a->model, b->model);
}

/* The request digest is uniform already; a table mixes its seed in. */
static inline uint64_t cache_key_half(const struct cache_key *key, size_t half)
{
    uint64_t value;
    memcpy(&value, key->request.bytes + 8 * half, sizeof value);
    return value ^ key->tenant;
}

#endif
