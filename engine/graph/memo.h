/*
 * memo.h - results of measurements that are kept beside a model, so that the next start need not measure again: the error of its answers, which of its layers
 * keep f32, and which kernels are the quickest.
 *
 * One file per folder, MEMO_FILE. Layout, all numbers little-endian: "PENMEMO1", u32 records, u32 bytes of the body, 16 bytes of a SHA-256 over the body; the body
 * is one record after the other: key (16 bytes), u32 kind, u32 bytes, that many bytes. The newest record is the first. A file that is not exactly so is as if it
 * were not there. A key is a digest of all that decides the result, the model's content and the engine's build included: what another build or model has
 * measured is never found. A file is written whole under another name and renamed; writers of one folder wait for each other.
 * Threads: any; each memo one-at-a-time.
 */
#ifndef MEMO_H
#define MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"

#define MEMO_FILE      ".penstock-measured"
#define MEMO_BYTES_MAX ((size_t)1 << 20)
#define MEMO_RECORDS   64u                 /* of a file; the oldest go */
#define MEMO_VALUE_MAX ((size_t)128 << 10) /* of a record */

enum memo_kind { MEMO_ERROR = 1, MEMO_STORAGE = 2, MEMO_KERNELS = 3 };

struct memo; /* where a model's results are kept */

/* content: gives the digest of the model, asked when it is first needed. NULL without memory. */
struct memo *memo_new(const char *folder, void (*content)(void *context, uint8_t ret_digest[16]), void *context);
void memo_free(struct memo *memo); /* NULL is fine */

/* A stream that has the model's content, the engine's build and the kind in it; the caller adds the rest and ends it. NULL without memory. */
struct digest_stream *memo_key(const struct memo *memo, enum memo_kind kind);

/* True: *ret_bytes of the value were written to `ret`. False: it is not there, broken, or larger than `room`. */
bool memo_find(const struct memo *memo, const struct digest *key, enum memo_kind kind, void *ret, size_t room,
               size_t *ret_bytes);
/* False: it could not be kept (a folder that may not be written, no room on the disk, too large). */
bool memo_put(const struct memo *memo, const struct digest *key, enum memo_kind kind, const void *value, size_t bytes);

/* The records of a file's bytes; 0 and false where they are not exactly as above. For memo.c and its fuzzer. */
struct memo_record {
    const uint8_t *key, *value;
    uint32_t kind, bytes;
};
bool memo_parse(const uint8_t *file, size_t bytes, struct memo_record ret_records[MEMO_RECORDS], size_t *ret_count);

/* Measurements that this process has made, and results that it found in files instead. */
void memo_count_made(void);
void memo_count_found(void);
void memo_counts(uint64_t *ret_made, uint64_t *ret_found);

#endif
