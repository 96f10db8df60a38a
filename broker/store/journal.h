/*
 * journal.h - data that must survive the broker: an append-only file of records; a record is durable before anybody is
 * told so.
 *
 * The owner hands records over and goes on. A thread writes the records that have gathered, syncs them in one go
 * (fdatasync), and says which are durable. Each record has a digest of itself, so that a torn one is recognised.
 * Reading stops at the first record that is not whole and has no whole one behind it (a torn tail). When a batch cannot
 * be written (disk full), it is cut off again and reported as failed; the next batch is tried as usual.
 * Threads: owner, but for journal_work, which the journal's own thread runs; a journal without a thread is stepped by
 * its owner (tests).
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
#define JOURNAL_QUEUE_BYTES  (64u * 1024u * 1024u) /* bytes handed over and not yet durable */

/* One record; `payload` is borrowed. ACCEPTED: the tenant as text and the request; DONE: the status and the reply; GONE: nothing. */
struct journal_record {
    enum journal_type type;
    struct job_id id;
    uint64_t expires_us; /* wall clock, microseconds since 1970 */
    const uint8_t *payload;
    size_t bytes;
};

/* Reads one record. Returns its size, or 0 when the bytes do not begin with a whole record whose digest is right. */
size_t journal_read(const uint8_t *bytes, size_t left, struct journal_record *ret_record);

/*
 * Call it where journal_read found no record. True: a later version of the broker wrote what stands there, so it must
 * not be thrown away. False: it is what a power cut leaves of a record; nobody was told that it is durable.
 */
bool journal_newer(const uint8_t *bytes, size_t left);

/* Payloads. pack gives a buffer for free(3), NULL without memory; unpack gives a message, NULL when the payload is
   malformed. */
uint8_t *journal_pack(const char *text, uint32_t status, const struct shared_message *shared, size_t *ret_bytes);
struct shared_message *journal_unpack(const uint8_t *payload, size_t bytes, char *ret_text, size_t text_bytes,
                                      uint32_t *ret_status);

/* The file as function pointers: the tests' own file forgets what was not synced. Each returns 0 or an errno. */
struct journal_file {
    int (*write)(struct journal_file *file, const void *bytes, size_t size); /* appends all bytes */
    int (*sync)(struct journal_file *file);
    int (*cut)(struct journal_file *file, uint64_t size);
    int (*read)(struct journal_file *file, uint64_t at, void *bytes, size_t size); /* reads all bytes */
    /* Compaction: makes an empty file beside this one; puts that file, synced, in this one's place durably; or gives
       it up. */
    int (*fresh)(struct journal_file *file, struct journal_file **ret_fresh);
    int (*replace)(struct journal_file *file, struct journal_file *fresh);
    void (*abandon)(struct journal_file *file, struct journal_file *fresh);
    int fd;
    const char *path; /* borrowed */
    bool folder_due;  /* its name has not been made durable yet */
};

/* Writes the bytes that stand before a record's payload. False without memory. */
bool journal_header(uint8_t header[JOURNAL_HEADER_BYTES], const struct journal_record *record);
/* Reads only the header: the record's whole size, or 0 when it is no header. */
uint64_t journal_peek(const uint8_t header[JOURNAL_HEADER_BYTES], struct journal_record *ret_record);

/* May a journal begin with these first bytes (at most JOURNAL_MAGIC_BYTES)? Also true when a power cut has torn the
   first record or left zeros. */
bool journal_begins(const uint8_t *bytes, size_t size);

/*
 * Claims the journal for this process until *ret_lock is closed or the process ends. The lock is on PATH.lock, because
 * PATH itself is replaced. INVALID: a file is there that is no journal, and was left as it is; IO: another process has
 * the journal.
 */
enum pen_status journal_claim(const char *path, int *ret_lock, struct pen_error *reterr);

/* Makes the names in the file's folder durable: 0 or an errno. */
int journal_sync_folder(const char *path);

/* Opens a real file for appending behind its `size` good bytes; the caller closes its descriptor. */
enum pen_status journal_file_open(const char *path, uint64_t size, struct journal_file *ret_file,
                                  struct pen_error *reterr);

struct journal;
/* Opens the file for appending behind `size` good bytes; beyond bytes_max nothing is taken. */
enum pen_status journal_open(const char *path, uint64_t size, uint64_t bytes_max, struct journal **ret_journal,
                             struct pen_error *reterr);
/* The same for another journal_file, without a thread. `file` is borrowed. */
enum pen_status journal_open_file(struct journal_file *file, uint64_t size, uint64_t bytes_max,
                                  struct journal **ret_journal);
void journal_free(struct journal *journal); /* NULL is fine; writes what is left */

/* Hands a record over. *ret_ticket counts up from 1. BUSY: too much waits to be written, or the file has its largest
   size; TOO_LARGE: the record would not even fit into an empty file. */
enum pen_status journal_append(struct journal *journal, const struct journal_record *record, uint64_t *ret_ticket,
                               struct pen_error *reterr);
/* The next batch that is finished: tickets first..last; ok: they are durable. False: none. */
bool journal_poll(struct journal *journal, uint64_t *ret_first, uint64_t *ret_last, bool *ret_ok);
int journal_descriptor(const struct journal *journal); /* readable when journal_poll has something */
uint64_t journal_bytes(struct journal *journal);

/*
 * Writes the file anew without the records that do not count at `now_us` (wall clock): those that later records
 * replace, and those of jobs that are gone or too old. It works in small steps between batches, so that appending goes
 * on; the old file counts until the new one has taken its place. If it fails, nothing has changed.
 */
void journal_compact(struct journal *journal, uint64_t now_us);
bool journal_compacting(struct journal *journal);

/* Writes and syncs the records that have gathered, and does a step of the compaction. True: there was something to
   do. */
bool journal_work(struct journal *journal);

#endif
