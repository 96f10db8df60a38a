#include "journal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "assertion.h"
#include "journal_compact.h"
#include "logline.h"
#include "mutex.h"

struct batch {
    struct batch *next;
    uint64_t first, last;
    bool ok;
};

struct journal {
    struct journal_file own, *file;
    pthread_t thread;
    bool threaded, stop;
    pthread_mutex_t lock;
    pthread_cond_t more;
    uint8_t *queue;               /* records one behind the other */
    size_t queued, room, writing; /* writing: of the batch that the thread has */
    uint64_t ticket, taken;       /* handed over; given to a batch */
    uint64_t size, bytes_max;
    struct batch *done, **done_tail;
    int event;
    int error;                     /* of the last batch; 0 = it was written */
    struct compaction *compaction; /* the thread's; NULL = none is under way */
    bool compact;                  /* one is wanted or under way */
    uint64_t compact_us;
    char path[512];
};

/* ---- life ---- */

enum pen_status journal_open_file(struct journal_file *file, uint64_t size, uint64_t bytes_max,
                                  struct journal **ret_journal)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return PEN_ERR_NO_MEMORY;
    journal->file = file;
    journal->size = size;
    journal->bytes_max = bytes_max;
    journal->done_tail = &journal->done;
    journal->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    mutex_init(&journal->lock);
    pthread_cond_init(&journal->more, NULL);
    *ret_journal = journal;
    return PEN_OK;
}

static void *journal_main(void *arg)
{
    struct journal *journal = arg;
    mutex_take(&journal->lock);
    while (!journal->stop || journal->queued > 0) {
        if (journal->queued == 0 && !journal->compact) {
            pthread_cond_wait(&journal->more, &journal->lock);
            continue;
        }
        mutex_give(&journal->lock);
        journal_work(journal);
        mutex_take(&journal->lock);
    }
    mutex_give(&journal->lock);
    return NULL;
}

enum pen_status journal_open(const char *path, uint64_t size, uint64_t bytes_max, struct journal **ret_journal,
                             struct pen_error *reterr)
{
    struct journal *journal = NULL;
    struct journal_file file;
    enum pen_status status = journal_file_open(path, size, &file, reterr);
    if (status != PEN_OK)
        return status;
    if (journal_open_file(NULL, size, bytes_max, &journal) != PEN_OK) {
        close(file.fd);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the journal");
    }
    journal->own = file;
    snprintf(journal->path, sizeof journal->path, "%s", path);
    journal->own.path = journal->path;
    journal->file = &journal->own;
    journal->threaded = pthread_create(&journal->thread, NULL, journal_main, journal) == 0;
    if (!journal->threaded) {
        journal_free(journal);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the journal's thread");
    }
    *ret_journal = journal;
    return PEN_OK;
}

void journal_free(struct journal *journal)
{
    if (!journal)
        return;
    if (journal->threaded) {
        mutex_take(&journal->lock);
        journal->stop = true;
        pthread_cond_signal(&journal->more);
        mutex_give(&journal->lock);
        pthread_join(journal->thread, NULL);
    }
    compaction_free(journal->compaction);
    if (journal->file == &journal->own)
        close(journal->own.fd);
    while (journal->done) {
        struct batch *batch = journal->done;
        journal->done = batch->next;
        free(batch);
    }
    close(journal->event);
    mutex_fini(&journal->lock);
    pthread_cond_destroy(&journal->more);
    free(journal->queue);
    free(journal);
}

/* ---- in ---- */

static bool make_room(struct journal *journal, size_t size)
{
    if (journal->room - journal->queued >= size)
        return true;
    size_t room = journal->room ? journal->room : 65536;
    while (room - journal->queued < size)
        room *= 2;
    uint8_t *grown = realloc(journal->queue, room);
    if (!grown)
        return false;
    journal->queue = grown;
    journal->room = room;
    return true;
}

enum pen_status journal_append(struct journal *journal, const struct journal_record *record, uint64_t *ret_ticket,
                               struct pen_error *reterr)
{
    size_t size = JOURNAL_HEADER_BYTES + record->bytes;
    uint8_t header[JOURNAL_HEADER_BYTES];
    if (!journal_header(header, record))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    enum pen_status status = PEN_OK;
    mutex_take(&journal->lock);
    if (size > journal->bytes_max)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "it takes %zu bytes of the journal, which may have %" PRIu64 " in all (--journal-bytes)",
                               size, journal->bytes_max);
    else if (journal->size + journal->writing + journal->queued + size > journal->bytes_max)
        status = pen_error_set(reterr, PEN_ERR_BUSY, "the journal is as large as it may be (--journal-bytes)");
    else if (journal->queued > 0 && journal->queued + size > JOURNAL_QUEUE_BYTES)
        status = pen_error_set(reterr, PEN_ERR_BUSY, "the disk does not keep up with the journal; try again later");
    else if (!make_room(journal, size))
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a record of the journal");
    if (status == PEN_OK) {
        memcpy(journal->queue + journal->queued, header, sizeof header);
        if (record->bytes)
            memcpy(journal->queue + journal->queued + sizeof header, record->payload, record->bytes);
        journal->queued += size;
        PEN_ASSERT(journal->queued <= journal->room, "the journal's queue has room for its records");
        *ret_ticket = ++journal->ticket;
        pthread_cond_signal(&journal->more);
    }
    mutex_give(&journal->lock);
    return status;
}

/* ---- out ---- */

static int write_batch(struct journal *journal, const uint8_t *bytes, size_t size)
{
    int error = journal->file->write(journal->file, bytes, size);
    if (error == 0)
        error = journal->file->sync(journal->file);
    if (error != 0)
        journal->file->cut(journal->file, journal->size); /* half a batch must not stay in front of the next one */
    return error;
}

static void note_error(struct journal *journal, int error)
{
    if (error != 0 && journal->error == 0)
        log_event(LOG_ERROR, "journal_failed", "error=%s", strerror(error));
    else if (error == 0 && journal->error != 0)
        log_event(LOG_INFO, "journal_works", "bytes=%llu", (unsigned long long)journal->size);
    journal->error = error;
}

/* Takes the gathered records out of the queue; NULL: there are none, or no memory for them. */
static struct batch *take_batch(struct journal *journal, uint8_t **ret_bytes, size_t *ret_size)
{
    struct batch *batch = malloc(sizeof *batch);
    mutex_take(&journal->lock);
    *ret_bytes = journal->queue;
    *ret_size = journal->queued;
    if (journal->queued == 0 || !batch) {
        mutex_give(&journal->lock);
        free(batch);
        return NULL;
    }
    PEN_ASSERT(journal->taken < journal->ticket, "records that wait have tickets that no batch has");
    PEN_ASSERT(journal->writing == 0, "one batch is written at a time");
    *batch = (struct batch){.first = journal->taken + 1, .last = journal->ticket};
    journal->taken = journal->ticket;
    journal->queue = NULL;
    journal->writing = journal->queued;
    journal->queued = journal->room = 0;
    mutex_give(&journal->lock);
    return batch;
}

static bool write_queue(struct journal *journal)
{
    uint64_t one = 1;
    uint8_t *bytes;
    size_t size;
    struct batch *batch = take_batch(journal, &bytes, &size);
    if (!batch)
        return false;
    int error = write_batch(journal, bytes, size);
    free(bytes);
    mutex_take(&journal->lock);
    note_error(journal, error);
    PEN_ASSERT(journal->writing == size, "the batch that was written is the one that was taken");
    batch->ok = error == 0;
    journal->size += batch->ok ? size : 0;
    journal->writing = 0;
    *journal->done_tail = batch;
    journal->done_tail = &batch->next;
    mutex_give(&journal->lock);
    (void)!write(journal->event, &one, sizeof one); /* where it fails it is readable already */
    return true;
}

/* ---- compaction ---- */

void journal_compact(struct journal *journal, uint64_t now_us)
{
    mutex_take(&journal->lock);
    if (!journal->compact) {
        journal->compact = true;
        journal->compact_us = now_us;
        pthread_cond_signal(&journal->more);
    }
    mutex_give(&journal->lock);
}

bool journal_compacting(struct journal *journal)
{
    mutex_take(&journal->lock);
    bool compacting = journal->compact;
    mutex_give(&journal->lock);
    return compacting;
}

/* Does a step of the compaction; only this thread changes the file and its size. */
static bool compact_some(struct journal *journal)
{
    uint64_t size = journal->size;
    int error = 0;
    if (!journal_compacting(journal))
        return false;
    if (!journal->compaction)
        error = compaction_new(journal->file, size, journal->compact_us, &journal->compaction);
    bool done = error == 0 && compaction_step(journal->compaction, size, &size, &error);
    if (!done && error == 0)
        return true;
    log_event(error ? LOG_WARN : LOG_INFO, error ? "journal_not_compacted" : "journal_compacted",
              "bytes=%llu before=%llu error=%s", (unsigned long long)size, (unsigned long long)journal->size,
              error ? strerror(error) : "none");
    compaction_free(journal->compaction);
    journal->compaction = NULL;
    mutex_take(&journal->lock);
    PEN_ASSERT(journal->compact && journal->writing == 0, "a compaction that was wanted ends, between two batches");
    PEN_ASSERT(size <= journal->size, "a compaction never makes the file larger");
    journal->size = size;
    journal->compact = false;
    mutex_give(&journal->lock);
    return true;
}

bool journal_work(struct journal *journal)
{
    bool wrote = write_queue(journal);
    return compact_some(journal) || wrote;
}

/* Resets the descriptor first, so that whatever comes after this look makes it readable again. */
bool journal_poll(struct journal *journal, uint64_t *ret_first, uint64_t *ret_last, bool *ret_ok)
{
    uint64_t count;
    if (read(journal->event, &count, sizeof count) < 0 && errno != EAGAIN)
        return false;
    mutex_take(&journal->lock);
    struct batch *batch = journal->done;
    if (batch) {
        journal->done = batch->next;
        if (!journal->done)
            journal->done_tail = &journal->done;
    }
    mutex_give(&journal->lock);
    if (!batch)
        return false;
    PEN_ASSERT(batch->first <= batch->last, "a batch has at least one record");
    *ret_first = batch->first;
    *ret_last = batch->last;
    *ret_ok = batch->ok;
    free(batch);
    return true;
}

int journal_descriptor(const struct journal *journal)
{
    return journal->event;
}

uint64_t journal_bytes(struct journal *journal)
{
    mutex_take(&journal->lock);
    uint64_t size = journal->size;
    mutex_give(&journal->lock);
    return size;
}
