/*
 * patch.h - fields read from, and appended to, a packed protobuf meta without unpacking it.
 *
 * In protobuf the last occurrence of a scalar field wins. So the broker passes a meta on as it came and appends only
 * its own fields (times, attempts, the resolved version). For a 1 KiB meta this takes 60 ns; unpacking and packing
 * takes 2 us.
 * Threads: any (pure functions).
 */
#ifndef PATCH_H
#define PATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATCH_BYTES_MAX 384u /* room that all fields of one patch need */

/* Fields to append, packed. */
struct patch {
    uint8_t bytes[PATCH_BYTES_MAX];
    size_t used;
    const uint8_t *more; /* packed fields that follow those in `bytes`, borrowed; NULL = none */
    size_t more_bytes;
};
void patch_number(struct patch *patch, uint32_t field, uint64_t value); /* left out when it does not fit, as below */
void patch_text(struct patch *patch, uint32_t field, const char *text);

/* What the broker must know of a ResultMeta; texts are borrowed from the meta and not terminated. */
struct result_facts {
    uint64_t compute_us, worker_us;
    uint64_t wait_us, decode_us, gather_us, split_us;
    uint64_t batch; /* jobs that ran together; 0 = the worker does not say */
    uint64_t batch_rows,
        batch_place; /* their rows, and which of them it is; rows 0 = an old worker: those of its dispatch */
    uint64_t precision;
    const uint8_t *backend;
    size_t backend_bytes;
    const uint8_t *model_digest; /* NULL unless 16 bytes */
    const uint8_t *error;
    size_t error_bytes;
    double error_measured;        /* of MeasuredError; infinity = the meta has none */
    bool repeatable;              /* the same */
    uint64_t stored_unix_us;      /* 0 = it does not say */
    bool layers;                  /* the meta has layer times: trace_layers_read */
    bool nul;                     /* a NUL byte stands in its bytes, outputs and digest apart: perhaps in a text. Of
                                     `measured` only the text counts */
    size_t outputs, past_outputs; /* where the first output begins and the last one ends; equal: there is none */
};

/* False when the meta is no well-formed protobuf. */
bool result_read(const uint8_t *meta, size_t bytes, struct result_facts *ret_facts);

#endif
