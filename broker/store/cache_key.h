/*
 * cache_key.h - what two jobs must have in common to share a result: tenant, request digest, model digest, precision
 * class, contract. Plain data.
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
    uint32_t tenant;   /* serial of an interned tenant: each tenant has its own */
    uint8_t precision; /* enum precision that the job demands */
    uint64_t contract; /* contract_number of the job and its model: answers of unlike contracts are kept apart */
};

/* A bound on the error and whether equal bits are asked for, as one number: 0 = neither. */
static inline uint64_t contract_number(double error_max, bool exact)
{
    uint64_t bits = 0;
    if (error_max > 0.0)
        memcpy(&bits, &error_max, sizeof bits);
    return bits | (uint64_t)exact << 63; /* the sign, which a bound does not have */
}

static inline bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
    return a->tenant == b->tenant && a->precision == b->precision && a->contract == b->contract &&
           digest_equal(a->request, b->request) && digest_equal(a->model, b->model);
}

/* The request digest is uniform already; a table mixes its seed in. */
static inline uint64_t cache_key_half(const struct cache_key *key, size_t half)
{
    uint64_t value;
    memcpy(&value, key->request.bytes + 8 * half, sizeof value);
    return value ^ key->tenant;
}

#endif
