/*
 * journal.h - what must survive the broker: an append-only file of records, durable before anybody is told so.
 *
 * The owner hands over records and goes on; a thread writes what has gathered and syncs it in one go (fdatasync), then says which are durable.
 * A record is whole or not there: each carries a digest of itself, and reading stops at the first that is not whole and has no whole one behind it (a torn tail).
 * A batch that cannot be written (disk full) is cut off again and told as failed; the next one is tried afresh.
 * Threads: owner, but for journal_work, which the journal's own thread runs; a journal without a thread is stepped by its owner (tests).
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job_id.h"
#include "shared_message.h"
#include "penstock/status.h"

enum journal_type { JOURNAL_ACCEPTED = 1, JOURNAL_DONE = 2, JOURNAL_GONE = 3 };

#define JOURNAL_HEADER_BYTES 56u
#define JOURNAL_MAGIC_BYTES  4u
#define JOURNAL_QUEUE_BYTES  (64u * 1024u * 1024u) /* handed over and not yet durable */

/* One record; `payload` is borrowed. ACCEPTED: the tenant as text and the request; DONE: the status and the reply; GONE: nothing. */
struct journal_record {
    enum journal_type type;
    struct job_id id;
    uint64_t expires_us; /* wall clock, microseconds since 1970 */
    const uint8_t *payload;
    size_t bytes;
};

/* Reads one record: its size, or 0 when these bytes hold no whole and right one. */
size_t journal_read(const uint8_t *bytes, size_t left, struct journal_record *ret_record);

/*
 * Whether a whole record, or a form of them, that only a later version writes stands where journal_read found none: not ours to throw away. False: what a loss
 * of power leaves; nobody was told of it.
 */
bool journal_newer(const uint8_t *bytes, size_t left);

/* Payloads. pack gives a buffer for free(3), NULL without memory; unpack gives a message, NULL when the payload is malformed. */
uint8_t *journal_pack(const char *text, uint32_t status, const struct shared_message *shared, size_t *ret_bytes);
struct shared_message *journal_unpack(const uint8_t *payload, size_t bytes, char *ret_text, size_t text_bytes,
                                      uint32_t *ret_status);

/* The file, as a seam: a test's own forgets what was not synced. Each returns 0 or an errno. */
struct journal_file {
    int (*write)(struct journal_file *file, const void *bytes, size_t size); /* all of it, at the end */
    int (*sync)(struct journal_file *file);
    int (*cut)(struct journal_file *file, uint64_t size);
    int (*read)(struct journal_file *file, uint64_t at, void *bytes, size_t size); /* all of it */
    /* Compaction: an empty file beside it; that one, synced, takes its place durably and is gone; or is given up. */
    int (*fresh)(struct journal_file *file, struct journal_file **ret_fresh);
    int (*replace)(struct journal_file *file, struct journal_file *fresh);
    void (*abandon)(struct journal_file *file, struct journal_file *fresh);
    int fd;
    const char *path; /* borrowed */
    bool folder_due;  /* its name is not durable yet */
};

/* The bytes that stand before a record's payload. False without memory. */
bool journal_header(uint8_t header[JOURNAL_HEADER_BYTES], const struct journal_record *record);
/* What a header says, without a look at the payload: the record's whole size, or 0 when it is none. */
uint64_t journal_peek(const uint8_t header[JOURNAL_HEADER_BYTES], struct journal_record *ret_record);

/* May a journal begin with these first bytes (at most JOURNAL_MAGIC_BYTES)? Also one whose first record a power cut has torn or left as zeros. */
bool journal_begins(const uint8_t *bytes, size_t size);

/*
 * This process's own until *ret_lock is closed, or the process ends: a lock on PATH.lock, because PATH itself is replaced. INVALID: something is there
 * that is no journal, and was left as it is; IO: another process has it.
 */
enum pen_status journal_claim(const char *path, int *ret_lock, struct pen_error *reterr);

/* Makes the names in the file's folder durable: 0 or an errno. */
int journal_sync_folder(const char *path);

/* A real file behind its `size` good bytes; the caller closes its descriptor. */
enum pen_status journal_file_open(const char *path, uint64_t size, struct journal_file *ret_file,
                                  struct pen_error *reterr);

struct journal;
/* Opens the file for appending behind `size` good bytes; bytes_max: beyond it nothing is taken. */
enum pen_status journal_open(const char *path, uint64_t size, uint64_t bytes_max, struct journal **ret_journal,
                             struct pen_error *reterr);
/* The same over a seam, without a thread. `file` is borrowed. */
enum pen_status journal_open_file(struct journal_file *file, uint64_t size, uint64_t bytes_max,
                                  struct journal **ret_journal);
void journal_free(struct journal *journal); /* NULL is fine; writes what is left */

/* Hands a record over. *ret_ticket counts up from 1. BUSY: too much is on its way, or the file is as large as it may be; TOO_LARGE: it would
 * not fit into an empty one. */
enum pen_status journal_append(struct journal *journal, const struct journal_record *record, uint64_t *ret_ticket,
                               struct pen_error *reterr);
/* The next batch that was dealt with: tickets first..last; ok: they are durable. False: none. */
bool journal_poll(struct journal *journal, uint64_t *ret_first, uint64_t *ret_last, bool *ret_ok);
int journal_descriptor(const struct journal *journal); /* readable when journal_poll has something */
uint64_t journal_bytes(struct journal *journal);

/*
 * Writes the file anew without what does not count at `now_us` (wall clock): records that later ones have made void, of jobs that are gone or too old. In small
 * steps between batches, so that appending goes on; the old file counts until the new one has taken its place. When that fails nothing has changed.
 */
void journal_compact(struct journal *journal, uint64_t now_us);
bool journal_compacting(struct journal *journal);

/* Writes and syncs what has gathered, and does a step of the compaction. True: there was something. */
bool journal_work(struct journal *journal);

#endif
