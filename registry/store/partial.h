/*
 * partial.h - a content on its way into a store: its parts come in any order, and those that came stay for the next
 * process when this one dies.
 *
 *   partial/DIGEST         the bytes
 *   partial/DIGEST.parts   one byte for each part of PARTIAL_PART_BYTES: '1' = it is there
 *
 * The marks are a hint: the content is compared with its digest before it becomes a blob.
 * Ownership: a lock on the file. Threads: part functions any; the rest one-at-a-time.
 */
#ifndef PARTIAL_H
#define PARTIAL_H

#include "store.h"

#define PARTIAL_PART_BYTES (UINT64_C(8) << 20)

struct partial {
    const struct store *store;
    struct content_digest digest;
    uint64_t bytes;
    size_t parts;
    unsigned char *marks; /* [parts] of '0' and '1' */
    int fd, marks_fd;
    char path[DISK_PATH_BYTES];
};

/*
 * Waits for the lock while another process fetches the same content; stop (may be NULL) ends that. *ret_partial is NULL
 * when the content came meanwhile.
 */
enum pen_status partial_open(const struct store *store, const struct content_digest *digest, uint64_t bytes,
                             bool (*stop)(void), struct partial **ret_partial, struct pen_error *reterr);
/* Gives the lock back; what came stays. NULL is fine. */
void partial_close(struct partial *partial);

uint64_t partial_part_end(const struct partial *partial, size_t part);
bool partial_write(struct partial *partial, const void *bytes, size_t count, uint64_t at); /* false: errno */
void partial_mark(struct partial *partial, size_t part);
/* Begins anew: what came was not what the digest says. */
void partial_forget(struct partial *partial);
/* The content is in the store by another way: what is left of the transfer goes. */
void partial_drop(struct partial *partial);
/* The content is whole and right: it becomes a blob. sync: it was written here, and must last. */
enum pen_status partial_finish(struct partial *partial, bool sync, struct pen_error *reterr);

#endif
